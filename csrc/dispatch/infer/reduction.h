// Inference of the reductions.
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
void infer_prod_backward(Call& call);  // grad, input; dim
// dim (Int), keepdim; of floating-point numbers.
void infer_logsumexp(Call& call);

}  // namespace mt
