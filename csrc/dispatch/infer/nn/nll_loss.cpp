#include "dispatch/infer/nn/nll_loss.h"

#include <string>

#include "core/error.h"

namespace mt {

namespace {

const Tensor& input_of(const Call& call, size_t i) {
    if (i >= call.operand_count || !call.operands[i].tensor)
        fail_type("argument " + std::to_string(i + 1) + " must be Tensor");
    return call.in(i);
}

void check_loss_dtype(const Tensor& t) {
    if (!is_floating(t.dtype))
        throw Error(ErrorKind::NotImplemented,
                    std::string("\"nll_loss_out_frame\" not implemented for '") + torch_type_name(t.dtype) + "'");
}

void check_target(const Tensor& target) {
    if (target.dtype != DType::I64)
        fail(std::string("expected target dtype to be Long or Byte, but got ") + torch_type_name(target.dtype));
    if (target.ndim() != 1)
        fail("nll_loss: the target must have one dimension [N], but has shape " + to_string(target.sizes));
}

}  // namespace

void infer_nll_loss(Call& call) {
    const Tensor &t = input_of(call, 0), &target = input_of(call, 1);
    if (t.ndim() != 2) fail("nll_loss: the input must have two dimensions [N, C], but has shape " + to_string(t.sizes));
    check_target(target);
    if (t.sizes[0] != target.sizes[0])
        fail_value("Expected input batch_size (" + std::to_string(t.sizes[0]) + ") to match target batch_size (" +
                   std::to_string(target.sizes[0]) + ").");
    check_loss_dtype(t);
    call.result_count = 1;
    call.results[0].dtype = t.dtype;
    call.results[0].sizes = target.sizes;
}

void infer_nll_loss_backward(Call& call) {
    const Tensor &grad = input_of(call, 0), &target = input_of(call, 1);
    check_target(target);
    check_loss_dtype(grad);
    if (!(grad.sizes == target.sizes))
        fail_value("nll_loss_backward: expected a gradient of shape " + to_string(target.sizes) + ", but got " +
                   to_string(grad.sizes));
    int64_t classes = call.param(0).as_int();
    if (classes < 0) fail_value("nll_loss_backward: classes must not be negative, but is " + std::to_string(classes));
    call.result_count = 1;
    call.results[0].dtype = grad.dtype;
    call.results[0].sizes.clear();
    call.results[0].sizes.push_back(target.sizes[0]);
    call.results[0].sizes.push_back(classes);
}

void infer_nll_loss_mean(Call& call) {
    infer_nll_loss(call);
    call.results[0].sizes.clear();
}

void infer_nll_loss_mean_backward(Call& call) {
    const Tensor &grad = input_of(call, 0), &target = input_of(call, 1);
    check_target(target);
    check_loss_dtype(grad);
    if (grad.ndim() != 0) fail_value("nll_loss_mean_backward: expected a gradient without dimensions");
    int64_t classes = call.param(0).as_int();
    if (classes < 0) fail_value("nll_loss_mean_backward: classes must not be negative");
    call.result_count = 1;
    call.results[0].dtype = grad.dtype;
    call.results[0].sizes = {target.sizes[0], classes};
}

}  // namespace mt
