// Inference of scaled dot-product attention.
#pragma once

#include "dispatch/op.h"

namespace mt {

// query [B, L, E], key [B, S, E], value [B, S, V], mask that broadcasts to [B, L, S] or none; scale, causal.
void infer_attention(Call& call);
// grad [B, L, V], and the same. Results: the gradients of query, key and value.
void infer_attention_backward(Call& call);

}  // namespace mt
