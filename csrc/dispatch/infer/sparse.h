// Inference of products with matrices in compressed rows.
#pragma once

#include "dispatch/op.h"

namespace mt {

// crow [M + 1], col [E] and values [E] of a matrix [M, K], dense [K, N]. Result [M, N].
void infer_csr_matmul(Call& call);
// crow [M + 1], col [E], a [M, N], b [K, N]. Result [E]: of each place the sum of a's row times b's.
void infer_csr_sampled(Call& call);

}  // namespace mt
