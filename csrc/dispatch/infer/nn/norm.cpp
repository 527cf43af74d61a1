#include "dispatch/infer/nn/norm.h"

#include <string>

#include "core/error.h"
#include "dispatch/infer/elementwise.h"

namespace mt {

namespace {

const Tensor& tensor_at(const Call& call, size_t i, const char* what) {
    if (i >= call.operand_count || !call.operands[i].tensor)
        fail_type(std::string(op_name(call)) + "(): argument '" + what + "' must be Tensor");
    return call.in(i);
}

const Tensor& image_at(const Call& call, size_t i) {
    const Tensor& t = tensor_at(call, i, "input");
    if (!is_floating(t.dtype))
        throw Error(ErrorKind::NotImplemented,
                    "\"" + std::string(op_name(call)) + "\" not implemented for '" + torch_type_name(t.dtype) + "'");
    if (t.ndim() < 2)
        fail(std::string(op_name(call)) + ": expected an input of 2 dimensions or more, but got " + to_string(t.sizes));
    return t;
}

void check_channels(const Call& call, size_t i, const Tensor& t, const char* what) {
    if (i >= call.operand_count || !call.operands[i].tensor) return;
    const Tensor& w = call.in(i);
    if (w.ndim() != 1 || w.sizes[0] != t.sizes[1])
        fail("Expected " + std::string(what) +
             " to be a vector of size equal to the number of channels in input, but got " + what + " of shape " +
             to_string(w.sizes) + " and input of shape " + to_string(t.sizes));
    if (!is_floating(w.dtype)) fail(std::string(op_name(call)) + ": expected a floating " + what);
}

void add_result(Call& call, size_t i, DType dtype, const Dims& sizes) {
    call.results[i].dtype = dtype;
    call.results[i].sizes = sizes;
}

void gradients(Call& call, const Tensor& g, const Tensor& t, size_t weight) {
    if (!(g.sizes == t.sizes)) fail(std::string(op_name(call)) + ": the gradient must have the input's shape");
    DType dtype = call.operands[weight].tensor ? call.in(weight).dtype : t.dtype;
    call.result_count = 3;
    add_result(call, 0, t.dtype, t.sizes);
    add_result(call, 1, dtype, {t.sizes[1]});
    add_result(call, 2, dtype, {t.sizes[1]});
}

}  // namespace

void infer_group_norm(Call& call) {
    const Tensor& t = image_at(call, 0);
    check_channels(call, 1, t, "weight");
    check_channels(call, 2, t, "bias");
    int64_t groups = call.param(0).as_int();
    if (groups <= 0 || t.sizes[1] % groups)
        fail("Expected number of channels in input to be divisible by num_groups, but got input of shape " +
             to_string(t.sizes) + " and num_groups=" + std::to_string(groups));
    call.result_count = 1;
    add_result(call, 0, t.dtype, t.sizes);
}

void infer_group_norm_backward(Call& call) {
    const Tensor& t = image_at(call, 1);
    check_channels(call, 2, t, "weight");
    gradients(call, tensor_at(call, 0, "grad"), t, 2);
}

void infer_batch_norm_stats(Call& call) {
    const Tensor& t = image_at(call, 0);
    call.result_count = 3;
    DType dtype = t.dtype == DType::F64 ? DType::F64 : DType::F32;
    for (size_t i = 0; i < 3; ++i) add_result(call, i, dtype, {t.sizes[1]});
}

void infer_batch_norm(Call& call) {
    const Tensor& t = image_at(call, 0);
    check_channels(call, 1, t, "weight");
    check_channels(call, 2, t, "bias");
    tensor_at(call, 3, "mean");
    tensor_at(call, 4, "rstd");
    check_channels(call, 3, t, "running_mean");
    check_channels(call, 4, t, "running_var");
    call.result_count = 1;
    add_result(call, 0, t.dtype, t.sizes);
}

void infer_batch_norm_backward(Call& call) {
    const Tensor& t = image_at(call, 1);
    check_channels(call, 2, t, "weight");
    tensor_at(call, 3, "mean");
    tensor_at(call, 4, "rstd");
    gradients(call, tensor_at(call, 0, "grad"), t, 2);
}

}  // namespace mt
