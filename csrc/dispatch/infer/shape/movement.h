// Inference of flip, roll, constant_pad_nd, masked_fill and masked_scatter.
#pragma once

#include "dispatch/op.h"

namespace mt {

void infer_flip(Call& call);           // input; dims
void infer_roll(Call& call);           // input; shifts, dims
void infer_pad(Call& call);            // input; pad, value
void infer_masked_fill(Call& call);    // input, mask, value
void infer_masked_scatter(Call& call); // input, mask, source
template <bool lower> void infer_triangle_indices(Call& call);  // row, col, offset, dtype, device

// How many indices tril_indices gives: of the places at or below the diagonal. Those of triu_indices are the others,
// for the diagonal before.
int64_t lower_triangle_size(int64_t rows, int64_t cols, int64_t offset);

}  // namespace mt
