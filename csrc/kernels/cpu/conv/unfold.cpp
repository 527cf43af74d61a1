// im2col and col2im: the matrix of patches as a tensor, and back (`unfold`, `fold`).
#include "dispatch/infer/nn/convolution.h"
#include "kernels/cpu/conv/geometry.h"
#include "kernels/cpu/movement/strided_copy.h"

namespace mt::cpu {

namespace {

// Smaller types are computed in float32.
template <class F>
void with_float(DType dtype, F body) {
    if (dtype == DType::F64) body(double());
    else body(float());
}

// The geometry that belongs to an unfolding of `image` [N, C, H, W].
ConvGeometry unfolding(const Dims& image, const Dims& kernel, const Dims& dilation, const Dims& padding,
                       const Dims& stride) {
    Dims weight{1, image[1], kernel[0], kernel[1]}, out{image[0], 1, 0, 0};
    for (size_t d = 0; d < 2; ++d)
        out[2 + d] = conv_output_size(image[2 + d], kernel[d], stride[d], padding[d], dilation[d]);
    return {image, weight, out, stride, padding, dilation, 1};
}

void im2col_kernel(Call& call) {
    const Tensor& x = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    ConvGeometry g = unfolding(x.sizes, call.param(0).ints, call.param(1).ints, call.param(2).ints, call.param(3).ints);
    with_float(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        Packed image(x, type);
        ContiguousOut target(out, type);
        int64_t rows = g.taps(), pixels = g.out_plane();
        parallel_for(g.batch * g.channels, grain_of(rows * pixels), [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i)
                g.gather(target.as<T>() + i * rows * pixels, pixels, image.as<T>() + i * g.in_plane(), 0, 1, 0, pixels);
        });
        target.store();
    });
}

void col2im_kernel(Call& call) {
    const Tensor& x = call.in(0);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    ConvGeometry g = unfolding(out.sizes, call.param(1).ints, call.param(2).ints, call.param(3).ints,
                               call.param(4).ints);
    with_float(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        Packed columns(x, type);
        ContiguousOut target(out, type);
        int64_t rows = g.taps(), pixels = g.out_plane(), plane = g.in_plane();
        parallel_for(g.batch * g.channels, grain_of(rows * pixels), [&](int64_t begin, int64_t end) {
            std::fill_n(target.as<T>() + begin * plane, (end - begin) * plane, T(0));
            for (int64_t i = begin; i < end; ++i)
                g.scatter(target.as<T>() + i * plane, columns.as<T>() + i * rows * pixels, pixels, 0, 1, 0, pixels);
        });
        target.store();
    });
}

const RegisterNative registered{
    {"im2col", infer_im2col, im2col_kernel},
    {"col2im", infer_col2im, col2im_kernel},
};

}  // namespace

}  // namespace mt::cpu
