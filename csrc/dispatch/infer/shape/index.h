// Inference of the ops that choose elements by an index tensor, and of cat, tril and triu.
#pragma once

#include "dispatch/op.h"

namespace mt {

void infer_gather(Call& call);        // input, index; dim
void infer_scatter_add(Call& call);   // input, index, src; dim
void infer_index_select(Call& call);  // input, index of any shape; dim
void infer_index_add(Call& call);     // input, index, src; dim
void infer_index_copy(Call& call);    // input, index, src; dim
void infer_index(Call& call);         // input, index; dims, checked
void infer_index_put(Call& call);     // input, index, values; dims, checked, accumulate
void infer_flat_index(Call& call);    // indices; sizes, dims
void infer_scatter(Call& call);       // input, index, src; dim
void infer_cat(Call& call);           // tensors; dim
void infer_tril(Call& call);          // input; diagonal
void infer_triu(Call& call);

// The shape of input[..., index, ...] with the index in place of `dims`: there if they are neighbours, otherwise first.
Dims indexed_sizes(const Tensor& t, const Tensor& index, const Dims& dims);

// PyTorch's rule of long standing: cat skips one-dimensional tensors without elements.
inline bool cat_skips(const Tensor& t) { return t.ndim() == 1 && t.sizes[0] == 0; }

}  // namespace mt
