// Inference of the pooling rows. Inputs are [N, C, ...] with one to three spatial dimensions.
#pragma once

#include "dispatch/op.h"

namespace mt {

// kernel_size, stride, padding, dilation (Ints), ceil_mode. Result: the values.
void infer_max_pool(Call& call);
// The same. Result: where in its plane each largest element lies.
void infer_max_pool_indices(Call& call);
// output_size (Ints).
void infer_adaptive_max_pool_indices(Call& call);
// kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override.
void infer_avg_pool(Call& call);
// grad; input_size, and the same.
void infer_avg_pool_backward(Call& call);
// output_size (Ints).
void infer_adaptive_avg_pool(Call& call);
// grad; input_size (Ints).
void infer_adaptive_avg_pool_backward(Call& call);
// input, indices [N, C, ...].
void infer_plane_gather(Call& call);
// src, indices; size (Ints): the spatial sizes of the result.
void infer_plane_scatter(Call& call);

// The number of windows along a dimension.
int64_t pool_output_size(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation, bool ceil_mode);

}  // namespace mt
