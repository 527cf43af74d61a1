// Inference of the reductions and of the softmax family.
#pragma once

#include "dispatch/op.h"

namespace mt {

// The dimensions that `dim` (Int, Ints, or None and an empty list: all) names, one bit each. Throws as PyTorch does.
uint64_t reduced_dims(const Value& dim, size_t rank);
// The same for any and all, for which an empty list means none.
uint64_t logical_dims(const Value& dim, size_t rank);

// Parameters: dim (Int, Ints or None), keepdim, and for sum, prod and mean dtype (Type or None).
void infer_sum(Call& call);
void infer_prod(Call& call);
void infer_mean(Call& call);
void infer_amax(Call& call);
void infer_amin(Call& call);
void infer_any_all(Call& call);
// dim (Int or None), keepdim.
void infer_argmax(Call& call);
void infer_argmin(Call& call);
// dim (Int), keepdim; results: values and indices.
void infer_max_dim(Call& call);
void infer_min_dim(Call& call);
void infer_nansum(Call& call);
void infer_norm(Call& call);
// dim (Int, Ints or None), correction (Float), keepdim.
void infer_var(Call& call);
// dim, dtype (Type or None).
void infer_softmax(Call& call);
void infer_log_softmax(Call& call);
// dim (Int), keepdim; of floating-point numbers.
void infer_softmax_gradient(Call& call);
void infer_prod_backward(Call& call);  // grad, input; dim
void infer_logsumexp(Call& call);
// input [N, C], target [N].
void infer_nll_loss(Call& call);
// grad [N], target [N]; classes (Int).
void infer_nll_loss_backward(Call& call);
// input [N, C], target [N]; ignore_index. The result has no dimensions.
void infer_nll_loss_mean(Call& call);
// grad without dimensions, target [N]; classes, ignore_index.
void infer_nll_loss_mean_backward(Call& call);

}  // namespace mt
