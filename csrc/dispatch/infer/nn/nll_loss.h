// Inference of the negative log likelihood.
#pragma once

#include "dispatch/op.h"

namespace mt {

// input [N, C], target [N].
void infer_nll_loss(Call& call);
// grad [N], target [N]; classes (Int).
void infer_nll_loss_backward(Call& call);
// input [N, C], target [N]; ignore_index. The result has no dimensions.
void infer_nll_loss_mean(Call& call);
// grad without dimensions, target [N]; classes, ignore_index.
void infer_nll_loss_mean_backward(Call& call);

}  // namespace mt
