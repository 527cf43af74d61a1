// Inference of the view ops, which are inference alone: sizes, strides and the absolute offset of the result.
#pragma once

#include "dispatch/op.h"

namespace mt {

// The strides with which a tensor can be seen as `new_sizes` without a copy; false if there are none. Both shapes have
// the same number of elements.
bool compute_view_strides(const Dims& sizes, const Dims& strides, const Dims& new_sizes, Dims& out_strides);
// Replaces the one -1 of `size` by what makes it fit `numel` elements; throws if it can't.
void infer_minus_one(Dims& size, int64_t numel);

void infer_view(Call& call);        // size
void infer_expand(Call& call);      // size
void infer_permute(Call& call);     // dims
void infer_transpose(Call& call);   // dim0, dim1
void infer_squeeze(Call& call);     // dim: Int, Ints or None
void infer_unsqueeze(Call& call);   // dim
void infer_select(Call& call);      // dim, index
void infer_slice(Call& call);       // dim, start, end, step
void infer_as_strided(Call& call);  // size, stride, storage_offset
void infer_alias(Call& call);
void infer_diagonal(Call& call);    // offset, dim1, dim2
void infer_unfold(Call& call);      // dim, size, step

}  // namespace mt
