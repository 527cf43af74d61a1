#include "dispatch/infer/nn/ctc.h"

#include <string>

#include "core/error.h"

namespace mt {

namespace {

// Checks the operands from log_probs on, which is number `first`, and returns log_probs.
const Tensor& check(const Call& call, size_t first) {
    for (size_t i = 0; i < first + 4; ++i)
        if (i >= call.operand_count || !call.operands[i].tensor)
            fail_type("ctc_loss(): argument " + std::to_string(i + 1) + " must be Tensor");
    const Tensor &t = call.in(first), &targets = call.in(first + 1);
    if (t.dtype != DType::F32 && t.dtype != DType::F64)
        throw Error(ErrorKind::NotImplemented,
                    std::string("\"ctc_loss_cpu\" not implemented for '") + torch_type_name(t.dtype) + "'");
    if (t.ndim() != 3) fail("ctc_loss: log_probs must have three dimensions [T, N, classes]");
    if (targets.ndim() != 1 && targets.ndim() != 2) fail("ctc_loss: targets must have one or two dimensions");
    if (targets.ndim() == 2 && targets.sizes[0] != t.sizes[1])
        fail("Expected tensor to have size " + std::to_string(t.sizes[1]) + " at dimension 0, but got size " +
             std::to_string(targets.sizes[0]) + " for argument #2 'targets' (while checking arguments for ctc_loss)");
    const char* names[] = {"input_lengths", "target_lengths"};
    for (size_t i = 0; i < 2; ++i) {
        const Tensor& lengths = call.in(first + 2 + i);
        if (lengths.ndim() != 1 || lengths.sizes[0] != t.sizes[1])
            fail(std::string(names[i]) + " must be of size batch_size");
    }
    for (size_t i = 1; i < 4; ++i)
        if (call.in(first + i).dtype != DType::I64) fail("ctc_loss: targets and lengths must have type Long");
    int64_t blank = call.param(0).as_int();
    if (blank < 0 || blank >= t.sizes[2]) fail("blank must be in label range");
    return t;
}

}  // namespace

void infer_ctc_loss(Call& call) {
    const Tensor& t = check(call, 0);
    call.result_count = 1;
    call.results[0].dtype = t.dtype;
    call.results[0].sizes = {t.sizes[1]};
}

void infer_ctc_loss_backward(Call& call) {
    const Tensor& t = check(call, 1);
    if (call.in(0).ndim() != 1 || call.in(0).sizes[0] != t.sizes[1])
        fail_value("ctc_loss_backward: expected a gradient for each example");
    call.result_count = 1;
    call.results[0].dtype = t.dtype;
    call.results[0].sizes = t.sizes;
}

}  // namespace mt
