// Inference of embedding: rows of a weight by their indices.
#pragma once

#include "dispatch/op.h"

namespace mt {

// weight [K, D], indices of any shape; padding_idx, scale_grad_by_freq.
void infer_embedding(Call& call);
// grad [..., D], indices [...]; num_weights, padding_idx, scale_grad_by_freq.
void infer_embedding_backward(Call& call);

}  // namespace mt
