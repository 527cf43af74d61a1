#include "dispatch/infer/nn/softmax.h"

#include <string>

#include "core/error.h"

namespace mt {

namespace {

const Tensor& input_of(const Call& call, size_t i) {
    if (i >= call.operand_count || !call.operands[i].tensor)
        fail_type("argument " + std::to_string(i + 1) + " must be Tensor");
    return call.in(i);
}

void infer_softmax_like(Call& call, const char* name) {
    const Tensor& t = input_of(call, 0);
    int64_t dim = normalize_dim(call.param(0).as_int(), t.ndim());
    DType dtype = call.param_count > 1 && !call.param(1).is_none() ? call.param(1).dtype : t.dtype;
    bool last = static_cast<size_t>(dim) + 1 >= t.ndim();
    if (!is_floating(dtype))
        throw Error(ErrorKind::NotImplemented, std::string("\"") + name +
                                                   (last ? "_lastdim_kernel_impl" : "_kernel_impl") +
                                                   "\" not implemented for '" + torch_type_name(dtype) + "'");
    call.result_count = 1;
    call.results[0].dtype = dtype;
    call.results[0].sizes = t.sizes;
}

}  // namespace

void infer_softmax(Call& call) { infer_softmax_like(call, "softmax"); }
void infer_log_softmax(Call& call) { infer_softmax_like(call, "log_softmax"); }

void infer_softmax_gradient(Call& call) {
    const Tensor &grad = input_of(call, 0), &result = input_of(call, 1);
    if (grad.sizes != result.sizes || grad.dtype != result.dtype || !is_floating(grad.dtype) || !grad.ndim())
        fail("the gradient of softmax takes two floating-point tensors of the same shape and dtype");
    call.result_count = 1;
    call.results[0].dtype = grad.dtype;
    call.results[0].sizes = grad.sizes;
}

}  // namespace mt
