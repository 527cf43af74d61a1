// The gradient of a convolution's weight: products of the output's gradient with blocks of patches, added up in runs.
#include <algorithm>
#include <cstring>
#include <optional>

#include "dispatch/infer/nn/convolution.h"
#include "kernels/cpu/conv/depthwise.h"
#include "kernels/cpu/conv/direct.h"
#include "kernels/cpu/conv/geometry.h"
#include "kernels/cpu/conv/patch_products.h"
#include "kernels/cpu/movement/strided_copy.h"

namespace mt::cpu {

namespace {

thread_local mt::Scratch t_gathered;

template <class T>
void backward_weight(const ConvGeometry& g, const T* grad, const T* x, T* gw) {
    constexpr int64_t kRun = kGemmBlockK<T>;  // output positions of a product
    int64_t k = g.patch(), taps = g.taps(), pixels = g.out_plane(), image = g.channels * g.in_plane();
    int64_t result = g.filters * pixels, total = g.groups * g.filters * k;
    if (g.batch * pixels == 0) {
        std::fill_n(gw, total, T(0));
        return;
    }
    // A run is a block of one image, or some small images together.
    int64_t images = std::min(std::max<int64_t>(kRun / pixels, 1), g.batch);
    int64_t block = images > 1 ? pixels : part_of(pixels, kRun, 1), blocks = ceil_div(pixels, block);
    int64_t runs = ceil_div(g.batch, images) * blocks, length = images * block;
    int64_t across = part_of(g.channels,
                             std::max<int64_t>(kBlockBytes / static_cast<int64_t>(sizeof(T)) / length / taps, 1), 1);
    int64_t parts = ceil_div(g.channels, across), rows = across * taps;
    int64_t chunks = std::clamp<int64_t>(kTasks / (g.groups * parts), 1, runs);
    WeightRuns cut{images, block, blocks};
    std::optional<DirectWeight<T>> direct;
    if (DirectWeight<T>::suits(g, cut)) direct.emplace(g, cut);
    cpu::Scratch memory;
    T* partial = chunks > 1 ? static_cast<T*>(memory.reserve(static_cast<size_t>(chunks * total) * sizeof(T))) : gw;
    parallel_for(g.groups * parts * chunks, 1, [&](int64_t begin, int64_t end) {
        T* col = direct ? nullptr : scratch<T>(patches_scratch(), rows * length);
        T* product = scratch<T>(product_scratch(), g.filters * rows);
        T* gathered = images > 1 ? scratch<T>(t_gathered, g.filters * length) : nullptr;
        for (int64_t i = begin; i < end; ++i) {
            int64_t group = i / chunks / parts, c0 = i / chunks % parts * across, chunk = i % chunks;
            int64_t c1 = std::min(g.channels, c0 + across), width = (c1 - c0) * taps;
            T* to = partial + chunk * total + group * g.filters * k + c0 * taps;
            int64_t first = runs * chunk / chunks, last = runs * (chunk + 1) / chunks;
            if (direct) {
                direct->add(grad, x, group, c0, c1, first, last, to, k);
                continue;
            }
            for (int64_t run = first; run < last; ++run) {
                int64_t n0 = run / blocks * images, p = run % blocks * block;
                int64_t count = std::min(images, g.batch - n0), cols = std::min(block, pixels - p);
                for (int64_t n = 0; n < count; ++n)
                    g.gather(col + n * pixels, length, x + ((n0 + n) * g.groups + group) * image, c0, c1, p, p + cols);
                const T* from = grad + (n0 * g.groups + group) * result + p;
                int64_t from_ld = pixels;
                if (images > 1) {
                    for (int64_t o = 0; o < g.filters; ++o)
                        for (int64_t n = 0; n < count; ++n)
                            std::memcpy(gathered + o * length + n * pixels, from + n * g.groups * result + o * pixels,
                                        static_cast<size_t>(pixels) * sizeof(T));
                    from = gathered;
                    from_ld = length;
                    cols = count * pixels;
                }
                bool start = run == first;
                T* out = start ? to : product;
                multiply<T>(g.filters, width, cols, from, from_ld, 1, col, 1, length, out, start ? k : width);
                if (!start)
                    for (int64_t o = 0; o < g.filters; ++o)
                        for (int64_t j = 0; j < width; ++j) to[o * k + j] += product[o * width + j];
            }
        }
    });
    if (chunks == 1) return;
    parallel_for(total, kGrain, [&](int64_t begin, int64_t end) {
        for (int64_t j = begin; j < end; ++j) gw[j] = partial[j];
        for (int64_t c = 1; c < chunks; ++c)
            for (int64_t j = begin; j < end; ++j) gw[j] += partial[c * total + j];
    });
}

void convolution_backward_weight_kernel(Call& call) {
    const Tensor &grad = call.in(0), &x = call.in(1);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    ConvGeometry g(x.sizes, out.sizes, grad.sizes, call.param(1).ints, call.param(2).ints, call.param(3).ints,
                   call.param(4).as_int());
    with_float(grad.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        Packed gradient(grad, type), image(x, type);
        ContiguousOut target(out, type);
        if (is_depthwise(g)) depthwise_backward_weight<T>(g, gradient.as<T>(), image.as<T>(), target.as<T>());
        else backward_weight<T>(g, gradient.as<T>(), image.as<T>(), target.as<T>());
        target.store();
    });
}

const RegisterNative registered{
    {"convolution_backward_weight", infer_convolution_backward_weight, convolution_backward_weight_kernel},
};

}  // namespace

}  // namespace mt::cpu
