// Convolution and its two gradients as matrix products with blocks of patches that stay in the cache. How the work is
// cut depends on shapes only, so results do not depend on the number of threads.
#include <optional>
#include <type_traits>

#include "dispatch/infer/nn/convolution.h"
#include "kernels/cpu/conv/depthwise.h"
#include "kernels/cpu/conv/direct.h"
#include "kernels/cpu/conv/finish.h"
#include "kernels/cpu/conv/geometry.h"
#include "kernels/cpu/movement/strided_copy.h"
#include "runtime/products/gemm.h"
#include "runtime/scratch.h"

namespace mt::cpu {

namespace {

constexpr int64_t kBlockBytes = 512 << 10;  // of patches: about half a second-level cache
constexpr int64_t kPanel = 64;              // columns that suit the product
constexpr int64_t kTasks = 16;              // enough for the threads of most machines

thread_local mt::Scratch t_patches, t_product, t_gathered;

template <class T>
T* scratch(mt::Scratch& memory, int64_t count) {
    return static_cast<T*>(memory.get(static_cast<size_t>(count > 0 ? count : 1) * sizeof(T)));
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// n in equal parts of about `wanted`, which are multiples of `unit`.
int64_t part_of(int64_t n, int64_t wanted, int64_t unit) {
    int64_t parts = ceil_div(n, std::max(wanted, unit));
    return std::max<int64_t>(ceil_div(ceil_div(n, parts), unit) * unit, 1);
}

template <class T>
struct FinishedTiles;

// c[m, n] = a[m, k] b[k, n]
template <class T>
void multiply(int64_t m, int64_t n, int64_t k, const T* a, int64_t a_rs, int64_t a_cs, const T* b, int64_t b_rs,
              int64_t b_cs, T* c, int64_t c_rs, FinishedTiles<T>* tiles = nullptr) {
    MtGemm g{};
    g.m = m;
    g.n = n;
    g.k = k;
    g.batch = 1;
    g.a = a;
    g.a_rs = a_rs;
    g.a_cs = a_cs;
    g.b = b;
    g.b_rs = b_rs;
    g.b_cs = b_cs;
    g.c = c;
    g.c_rs = c_rs;
    g.c_cs = 1;
    if (tiles) {
        g.epilogue = FinishedTiles<T>::run;
        g.epilogue_ctx = tiles;
    }
    gemm<T>(&g);
}

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
                            finish.epilogue ? &tiles : nullptr);
                if (!finish.epilogue) add_bias(y + i * result, added, g.filters, pixels, pixels);
            }
        });
        return;
    }
    int64_t wanted = std::max(kBlockBytes / static_cast<int64_t>(sizeof(T)) / k / kPanel * kPanel, 2 * kPanel);
    if (pixels >= 2 * kPanel || g.batch == 1) {
        int64_t block = part_of(pixels, wanted, kPanel), blocks = ceil_div(pixels, block);
        parallel_for(g.batch * g.groups * blocks, grain_of(k * g.filters * block), [&](int64_t begin, int64_t end) {
            T* col = scratch<T>(t_patches, k * block);
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
        T* col = scratch<T>(t_patches, k * ld);
        T* product = scratch<T>(t_product, g.filters * ld);
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
        T* col = scratch<T>(t_patches, rows * block);
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
        T* col = direct ? nullptr : scratch<T>(t_patches, rows * length);
        T* product = scratch<T>(t_product, g.filters * rows);
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

// Smaller types are computed in float32.
template <class F>
void with_float(DType dtype, F body) {
    if (dtype == DType::F64) body(double());
    else body(float());
}

template <class F>
void with_type(DType dtype, F body) {
    if (dtype == DType::I64) body(int64_t());
    else with_float(dtype, body);
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

const bool installed = (convolution_hook = convolution_with_epilogue, true);

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
    {"convolution", infer_convolution, convolution_kernel},
    {"convolution_backward_input", infer_convolution_backward_input, convolution_backward_input_kernel},
    {"convolution_backward_weight", infer_convolution_backward_weight, convolution_backward_weight_kernel},
};

}  // namespace

}  // namespace mt::cpu
