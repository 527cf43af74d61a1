// Inference of attention and of embedding.
#pragma once

#include "dispatch/op.h"

namespace mt {

// query [B, L, E], key [B, S, E], value [B, S, V], mask that broadcasts to [B, L, S] or none; scale, causal.
void infer_attention(Call& call);
// grad [B, L, V], and the same. Results: the gradients of query, key and value.
void infer_attention_backward(Call& call);
// weight [K, D], indices of any shape; padding_idx, scale_grad_by_freq.
void infer_embedding(Call& call);
// grad [..., D], indices [...]; num_weights, padding_idx, scale_grad_by_freq.
void infer_embedding_backward(Call& call);

}  // namespace mt
