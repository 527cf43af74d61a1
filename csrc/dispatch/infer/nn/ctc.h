// Inference for the loss of connectionist temporal classification.
#pragma once

#include "dispatch/op.h"

namespace mt {

// The loss of each example: log_probs [T, N, classes], targets [N, S] or one after the other, and both lengths [N].
void infer_ctc_loss(Call& call);
// The gradient of log_probs: that of the losses [N] comes first.
void infer_ctc_loss_backward(Call& call);

}  // namespace mt
