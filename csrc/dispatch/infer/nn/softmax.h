// Inference of softmax, log_softmax and their gradients.
#pragma once

#include "dispatch/op.h"

namespace mt {

// dim (Int), dtype (Type or None).
void infer_softmax(Call& call);
void infer_log_softmax(Call& call);
// grad and result, of the same shape and dtype; dim.
void infer_softmax_gradient(Call& call);

}  // namespace mt
