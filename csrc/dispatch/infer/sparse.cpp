#include "dispatch/infer/sparse.h"

#include <string>

#include "core/error.h"
#include "dispatch/infer/elementwise.h"

namespace mt {

namespace {

std::string name_of(const Call& call) { return std::string(op_name(call)); }

const Tensor& operand(const Call& call, size_t i, size_t rank) {
    if (i >= call.operand_count || !call.operands[i].tensor)
        fail_type(name_of(call) + "(): argument " + std::to_string(i + 1) + " must be Tensor");
    const Tensor& t = call.in(i);
    if (t.ndim() != rank)
        fail(name_of(call) + "(): argument " + std::to_string(i + 1) + " must have " + std::to_string(rank) +
             " dimensions, got " + to_string(t.sizes));
    return t;
}

// The compressed rows: how many rows and elements there are.
std::pair<int64_t, int64_t> rows_of(const Call& call) {
    const Tensor &crow = operand(call, 0, 1), &col = operand(call, 1, 1);
    if (crow.dtype != DType::I64 || col.dtype != DType::I64) fail(name_of(call) + "(): indices must be int64");
    if (crow.sizes[0] < 1) fail(name_of(call) + "(): there must be one compressed index more than rows");
    return {crow.sizes[0] - 1, col.sizes[0]};
}

void same_dtype(const Call& call, const Tensor& a, const Tensor& b) {
    if (a.dtype != b.dtype)
        fail(name_of(call) + "(): expected operands of one dtype, but got " + info(a.dtype).name + " and " +
             info(b.dtype).name);
    if (!is_floating(a.dtype))
        throw Error(ErrorKind::NotImplemented,
                    "\"" + name_of(call) + "\" not implemented for '" + torch_type_name(a.dtype) + "'");
}

void set_result(Call& call, DType dtype, Dims sizes) {
    call.result_count = 1;
    call.results[0].dtype = dtype;
    call.results[0].sizes = std::move(sizes);
    call.compute = dtype;
}

}  // namespace

void infer_csr_matmul(Call& call) {
    const auto [rows, count] = rows_of(call);
    const Tensor &values = operand(call, 2, 1), &dense = operand(call, 3, 2);
    if (values.sizes[0] != count)
        fail(name_of(call) + "(): there are " + std::to_string(count) + " column indices, but values of shape " +
             to_string(values.sizes));
    same_dtype(call, values, dense);
    set_result(call, dense.dtype, {rows, dense.sizes[1]});
}

void infer_csr_sampled(Call& call) {
    const auto [rows, count] = rows_of(call);
    const Tensor &a = operand(call, 2, 2), &b = operand(call, 3, 2);
    if (a.sizes[0] != rows || a.sizes[1] != b.sizes[1])
        fail(name_of(call) + "(): " + to_string(a.sizes) + " and " + to_string(b.sizes) + " don't fit " +
             std::to_string(rows) + " rows");
    same_dtype(call, a, b);
    set_result(call, a.dtype, {count});
}

}  // namespace mt
