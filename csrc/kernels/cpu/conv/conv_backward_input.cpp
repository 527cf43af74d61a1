// The gradient of a convolution's input: matrix products give blocks of patches, which are added up to the image.
#include <algorithm>
#include <type_traits>

#include "dispatch/infer/nn/convolution.h"
#include "kernels/cpu/conv/depthwise.h"
#include "kernels/cpu/conv/geometry.h"
#include "kernels/cpu/conv/patch_products.h"
#include "kernels/cpu/movement/strided_copy.h"

namespace mt::cpu {

namespace {

template <class T>
void backward_input(const ConvGeometry& g, const T* grad, const T* w, T* gx) {
    int64_t k = g.patch(), taps = g.taps(), pixels = g.out_plane(), plane = g.in_plane();
    int64_t image = g.channels * plane, result = g.filters * pixels;
    if (g.pointwise()) {
        parallel_for(g.batch * g.groups, grain_of(k * result), [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i)
                multiply<T>(k, pixels, g.filters, w + i % g.groups * g.filters * k, 1, k, grad + i * result, pixels, 1,
                            gx + i * image, pixels);
        });
        return;
    }
    int64_t across = part_of(g.channels, g.channels * g.batch * g.groups / kTasks, 1);
    int64_t parts = ceil_div(g.channels, across), rows = across * taps;
    int64_t block = part_of(
        pixels, std::max(kBlockBytes / static_cast<int64_t>(sizeof(T)) / rows / kPanel * kPanel, 2 * kPanel), kPanel);
    parallel_for(g.batch * g.groups * parts, grain_of(rows * result), [&](int64_t begin, int64_t end) {
        T* col = scratch<T>(patches_scratch(), rows * block);
        for (int64_t i = begin; i < end; ++i) {
            int64_t unit = i / parts, c0 = i % parts * across, c1 = std::min(g.channels, c0 + across);
            const T* weights = w + unit % g.groups * g.filters * k + c0 * taps;
            std::fill_n(gx + unit * image + c0 * plane, (c1 - c0) * plane, T(0));
            for (int64_t p = 0; p < pixels; p += block) {
                int64_t cols = std::min(block, pixels - p);
                multiply<T>((c1 - c0) * taps, cols, g.filters, weights, 1, k, grad + unit * result + p, pixels, 1, col,
                            block);
                g.scatter(gx + unit * image, col, block, c0, c1, p, p + cols);
            }
        }
    });
}

void convolution_backward_input_kernel(Call& call) {
    const Tensor &grad = call.in(0), &w = call.in(1);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    ConvGeometry g(out.sizes, w.sizes, grad.sizes, call.param(1).ints, call.param(2).ints, call.param(3).ints,
                   call.param(4).as_int());
    with_type(grad.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        Packed gradient(grad, type), weight(w, type);
        ContiguousOut target(out, type);
        if constexpr (!std::is_integral_v<T>) {
            if (is_depthwise(g)) {
                depthwise_backward_input<T>(g, gradient.as<T>(), weight.as<T>(), target.as<T>());
                target.store();
                return;
            }
        }
        backward_input<T>(g, gradient.as<T>(), weight.as<T>(), target.as<T>());
        target.store();
    });
}

const RegisterNative registered{
    {"convolution_backward_input", infer_convolution_backward_input, convolution_backward_input_kernel},
};

}  // namespace

}  // namespace mt::cpu
