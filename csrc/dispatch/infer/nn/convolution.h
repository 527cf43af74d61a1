// Inference of the convolutions and of the moves between images and their patches.
#pragma once

#include "dispatch/op.h"

namespace mt {

// input [N, C, ...], weight [O, C / groups, ...], bias [O] or none; stride, padding, dilation (Ints), groups.
void infer_convolution(Call& call);
// grad [N, O, ...], weight; input_size (Ints), stride, padding, dilation, groups.
void infer_convolution_backward_input(Call& call);
// grad, input; weight_size (Ints), stride, padding, dilation, groups.
void infer_convolution_backward_weight(Call& call);
// input [N, C, H, W]; kernel_size, dilation, padding, stride (Ints).
void infer_im2col(Call& call);
// input [N, C * taps, L]; output_size, kernel_size, dilation, padding, stride.
void infer_col2im(Call& call);

// The number of output positions along a dimension.
inline int64_t conv_output_size(int64_t in, int64_t kernel, int64_t stride, int64_t padding, int64_t dilation) {
    int64_t room = in + 2 * padding - dilation * (kernel - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
}

}  // namespace mt
