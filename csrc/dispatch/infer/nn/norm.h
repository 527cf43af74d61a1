// Inference of the normalisations.
#pragma once

#include "dispatch/op.h"

namespace mt {

// input [N, C, ...], weight [C] or none, bias [C] or none; groups, eps, centered.
void infer_group_norm(Call& call);
// grad, input, weight; groups, eps, centered, affine. Results: gradients of input, weight and bias.
void infer_group_norm_backward(Call& call);
// input [N, C, ...]; eps. Results [C]: mean, variance, 1 / sqrt(variance + eps).
void infer_batch_norm_stats(Call& call);
// input, weight, bias, mean [C], rstd [C]; training.
void infer_batch_norm(Call& call);
// grad, input, weight, mean, rstd; training. Results: gradients of input, weight and bias.
void infer_batch_norm_backward(Call& call);

}  // namespace mt
