// Convolution: which of its ways a call takes, and the one by matrix products with blocks of patches.
#include <type_traits>

#include "dispatch/infer/nn/convolution.h"
#include "kernels/cpu/conv/depthwise.h"
#include "kernels/cpu/conv/direct.h"
#include "kernels/cpu/conv/finish.h"
#include "kernels/cpu/conv/geometry.h"
#include "kernels/cpu/conv/patch_products.h"
#include "kernels/cpu/movement/strided_copy.h"
#include "runtime/epilogue_kernel.h"

namespace mt::cpu {

mt::Scratch& patches_scratch() {
    static thread_local mt::Scratch memory;
    return memory;
}

mt::Scratch& product_scratch() {
    static thread_local mt::Scratch memory;
    return memory;
}

namespace {

template <class T>
void add_bias(T* y, const T* bias, int64_t rows, int64_t cols, int64_t ld) {
    if (!bias) return;
    for (int64_t i = 0; i < rows; ++i)
        for (int64_t j = 0; j < cols; ++j) y[i * ld + j] = sum_of(y[i * ld + j], bias[i]);
}

// A product whose tiles get their bias, and are finished, while they are in the cache.
template <class T>
struct FinishedTiles {
    const Finish& finish;
    const T* bias;  // of the product's rows
    T* y;           // the product
    int64_t ld, image, first;

    static void run(void* self, int64_t, int64_t row0, int64_t rows, int64_t col0, int64_t cols) {
        const auto& with = *static_cast<const FinishedTiles*>(self);
        add_bias(with.y + row0 * with.ld + col0, with.bias ? with.bias + row0 : nullptr, rows, cols, with.ld);
        with.finish(with.image, with.first + row0, rows, col0, cols);
    }
};

template <class T>
void forward(const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y, const Finish& finish) {
    int64_t k = g.patch(), pixels = g.out_plane(), image = g.channels * g.in_plane(), result = g.filters * pixels;
    if (g.pointwise()) {
        parallel_for(g.batch * g.groups, grain_of(k * result), [&](int64_t begin, int64_t end) {
            for (int64_t i = begin; i < end; ++i) {
                int64_t first = i % g.groups * g.filters;
                const T* added = bias ? bias + first : nullptr;
                FinishedTiles<T> tiles{finish, added, y + i * result, pixels, i / g.groups, first};
                multiply<T>(g.filters, pixels, k, w + first * k, k, 1, x + i * image, pixels, 1, y + i * result, pixels,
                            finish.epilogue ? FinishedTiles<T>::run : nullptr, &tiles);
                if (!finish.epilogue) add_bias(y + i * result, added, g.filters, pixels, pixels);
            }
        });
        return;
    }
    int64_t wanted = std::max(kBlockBytes / static_cast<int64_t>(sizeof(T)) / k / kPanel * kPanel, 2 * kPanel);
    if (pixels >= 2 * kPanel || g.batch == 1) {
        int64_t block = part_of(pixels, wanted, kPanel), blocks = ceil_div(pixels, block);
        parallel_for(g.batch * g.groups * blocks, grain_of(k * g.filters * block), [&](int64_t begin, int64_t end) {
            T* col = scratch<T>(patches_scratch(), k * block);
            for (int64_t i = begin; i < end; ++i) {
                int64_t unit = i / blocks, p = i % blocks * block, cols = std::min(block, pixels - p);
                int64_t first = unit % g.groups * g.filters;
                T* out = y + unit * result + p;
                g.gather(col, block, x + unit * image, 0, g.channels, p, p + cols);
                multiply<T>(g.filters, cols, k, w + first * k, k, 1, col, block, 1, out, pixels);
                add_bias(out, bias ? bias + first : nullptr, g.filters, cols, pixels);
                finish(unit / g.groups, first, g.filters, p, cols);
            }
        });
        return;
    }
    // Small images: several together.
    int64_t images = part_of(g.batch, std::max<int64_t>(wanted / pixels, 1), 1), blocks = ceil_div(g.batch, images);
    parallel_for(g.groups * blocks, 1, [&](int64_t begin, int64_t end) {
        int64_t ld = images * pixels;
        T* col = scratch<T>(patches_scratch(), k * ld);
        T* product = scratch<T>(product_scratch(), g.filters * ld);
        for (int64_t i = begin; i < end; ++i) {
            int64_t group = i % g.groups, n0 = i / g.groups * images, count = std::min(images, g.batch - n0);
            for (int64_t n = 0; n < count; ++n)
                g.gather(col + n * pixels, ld, x + ((n0 + n) * g.groups + group) * image, 0, g.channels, 0, pixels);
            multiply<T>(g.filters, count * pixels, k, w + group * g.filters * k, k, 1, col, ld, 1, product, ld);
            for (int64_t n = 0; n < count; ++n) {
                T* out = y + ((n0 + n) * g.groups + group) * result;
                for (int64_t o = 0; o < g.filters; ++o)
                    for (int64_t p = 0; p < pixels; ++p)
                        out[o * pixels + p] = bias ? sum_of(product[o * ld + n * pixels + p],
                                                            bias[group * g.filters + o])
                                                   : product[o * ld + n * pixels + p];
                finish(n0 + n, group * g.filters, g.filters, 0, pixels);
            }
        }
    });
}

void convolve(Call& call, const Finish& finish) {
    const Tensor &x = call.in(0), &w = call.in(1);
    Tensor& out = *call.outputs[0];
    if (out.numel == 0) return;
    ConvGeometry g(x.sizes, w.sizes, out.sizes, call.param(0).ints, call.param(1).ints, call.param(2).ints,
                   call.param(3).as_int());
    with_type(x.dtype, [&](auto zero) {
        using T = decltype(zero);
        constexpr DType type = DTypeOf<T>::value;
        Packed image(x, type), weight(w, type);
        ContiguousOut target(out, type);
        bool biased = call.operand_count > 2 && call.operands[2].tensor;
        cpu::Scratch memory;
        const T* bias = nullptr;
        if (biased) {
            pack(memory.reserve(static_cast<size_t>(call.in(2).numel) * sizeof(T)), type, call.in(2));
            bias = memory.as<T>();
        }
        if constexpr (!std::is_integral_v<T>) {
            if (is_depthwise(g)) {
                depthwise_forward<T>(g, image.as<T>(), weight.as<T>(), bias, target.as<T>(), finish);
                target.store();
                return;
            }
        }
        if constexpr (!std::is_integral_v<T>) {
            if (suits_plane_forward<T>(g)) {
                plane_forward<T>(g, image.as<T>(), weight.as<T>(), bias, target.as<T>(), finish);
                target.store();
                return;
            }
            if (suits_direct_forward<T>(g)) {
                direct_forward<T>(g, image.as<T>(), weight.as<T>(), bias, target.as<T>(), finish);
                target.store();
                return;
            }
        }
        if (g.patch() == 0) {
            std::fill_n(target.as<T>(), out.numel, T(0));
            for (int64_t n = 0; n < g.batch; ++n) {
                add_bias(target.as<T>() + n * (out.numel / g.batch), bias, out.sizes[1], g.out_plane(), g.out_plane());
                finish(n, 0, out.sizes[1], 0, g.out_plane());
            }
        } else forward<T>(g, image.as<T>(), weight.as<T>(), bias, target.as<T>(), finish);
        target.store();
    });
}

void convolution_kernel(Call& call) { convolve(call, {}); }

// Compiled code's results are in the order that the epilogue expects, so that nothing is stored elsewhere afterwards.
void convolution_with_epilogue(Call& call, const Epilogue& epilogue) { convolve(call, {&epilogue}); }

const RegisterNative registered{{"convolution", infer_convolution, convolution_kernel}};
const RegisterEpilogueKernel with_epilogue{{"convolution", convolution_with_epilogue, {DType::F32, DType::F64}}};

}  // namespace

}  // namespace mt::cpu
