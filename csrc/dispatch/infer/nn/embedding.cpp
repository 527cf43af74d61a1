#include "dispatch/infer/nn/embedding.h"

#include <string>

#include "core/error.h"

namespace mt {

namespace {

const Tensor& tensor_at(const Call& call, size_t i, const char* what) {
    if (i >= call.operand_count || !call.operands[i].tensor)
        fail_type(std::string(op_name(call)) + "(): argument '" + what + "' must be Tensor");
    return call.in(i);
}

void add_result(Call& call, size_t i, DType dtype, const Dims& sizes) {
    call.results[i].dtype = dtype;
    call.results[i].sizes = sizes;
}

void check_indices(const Tensor& indices) {
    if (indices.dtype != DType::I64 && indices.dtype != DType::I32)
        fail(std::string("Expected tensor for argument #1 'indices' to have one of the following scalar types: Long, "
                         "Int; but got minitensor.") +
             torch_type_name(indices.dtype) + "Tensor instead (while checking arguments for embedding)");
}

}  // namespace

void infer_embedding(Call& call) {
    const Tensor &w = tensor_at(call, 0, "weight"), &indices = tensor_at(call, 1, "indices");
    if (w.ndim() != 2) fail("'weight' must be 2-D");
    check_indices(indices);
    call.result_count = 1;
    add_result(call, 0, w.dtype, indices.sizes);
    call.results[0].sizes.push_back(w.sizes[1]);
}

void infer_embedding_backward(Call& call) {
    const Tensor &g = tensor_at(call, 0, "grad"), &indices = tensor_at(call, 1, "indices");
    check_indices(indices);
    if (!is_floating(g.dtype))
        throw Error(ErrorKind::NotImplemented,
                    std::string("\"embedding_backward\" not implemented for '") + torch_type_name(g.dtype) + "'");
    if (g.ndim() != indices.ndim() + 1) fail("embedding_backward: the gradient must have one dimension more");
    call.result_count = 1;
    add_result(call, 0, g.dtype, {call.param(0).as_int(), g.sizes.back()});
}

}  // namespace mt
