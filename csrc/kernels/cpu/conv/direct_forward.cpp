// Filters are the lanes of vectors here, and the image is read where it lies, one element for all of them; padded
// images are copied first. Nothing is as large as the matrix of patches, whose making takes a good part of the other
// way's time where filters are few or rows short. Sums are those of the matrix product, in the same order.
#include "kernels/cpu/conv/direct.h"

#include <vector>

#include "kernels/cpu/movement/strided_copy.h"
#include "kernels/cpu/movement/transpose.h"
#include "runtime/products/gemm.h"
#include "runtime/products/gemm_kernels.h"
#include "runtime/scratch.h"

namespace mt::cpu {

namespace {

using gemm_detail::Kernels;

constexpr int64_t kLeastRow = 4;    // output positions in a row, which keep the arithmetic units busy
constexpr int64_t kLeastPatch = 4;  // elements: each result has to be worth its transposition
constexpr int64_t kTasks = 16;       // enough for the threads of most machines
constexpr int64_t kCacheBytes = 24 << 10;  // of results at a time, between the product and their transposition

thread_local mt::Scratch t_image, t_results;

template <class T>
const Kernels<T>& kernels() {
    static const Kernels<T>& best = gemm_detail::best_kernels<T>();
    return best;
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

template <class T>
bool suits_direct_forward(const ConvGeometry& g) {
    if (!kernels<T>().patches || g.stride[2] != 1 || g.out[2] < kLeastRow || g.patch() < kLeastPatch) return false;
    if (g.pointwise() || g.in[0] != 1 || g.kernel[0] != 1 || g.out[0] != 1) return false;
    // Few lanes may be idle, and the weights, which are transposed at every call, must be used often enough.
    int64_t lanes = kernels<T>().lanes, vectors = ceil_div(g.filters, lanes);
    if (8 * g.filters < 7 * vectors * lanes || g.filters > 4 * g.batch * g.out_plane()) return false;
    return g.channels * (g.in[1] + 2 * g.padding[1]) * (g.in[2] + 2 * g.padding[2]) < INT32_MAX;
}

template <class T>
void direct_forward(const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y, const Finish& finish) {
    const Kernels<T>& with = kernels<T>();
    int64_t k = g.patch(), lanes = with.lanes, vectors = ceil_div(g.filters, lanes), pixels = g.out_plane();
    int64_t height = g.in[1] + 2 * g.padding[1], width = g.in[2] + 2 * g.padding[2], plane = height * width;
    bool padded = g.padding[1] || g.padding[2];
    // For each vector of filters their weights.
    std::vector<int32_t> offsets = patch_offsets(g);
    cpu::Scratch memory;
    T* weights = static_cast<T*>(memory.reserve(static_cast<size_t>(g.groups * vectors * lanes * k) * sizeof(T)));
    for (int64_t group = 0; group < g.groups; ++group)
        for (int64_t v = 0; v < vectors; ++v) {
            T* to = weights + (group * vectors + v) * lanes * k;
            int64_t first = v * lanes, count = std::min(lanes, g.filters - first);
            if (count < lanes) std::fill_n(to, lanes * k, T(0));
            transpose_plane(to, lanes, w + (group * g.filters + first) * k, k, k, count);
        }
    // Rows of results are cut into equal tiles. A step is one vector of filters for so many rows that stay in the
    // cache.
    int64_t across = ceil_div(g.out[2], with.max_rows[0]), tile = ceil_div(g.out[2], across);
    int64_t at_once = std::clamp<int64_t>(kCacheBytes / static_cast<int64_t>(sizeof(T)) / lanes / g.out[2], 1,
                                          g.out[1]);
    int64_t units = g.batch * g.groups, steps = ceil_div(g.out[1], at_once) * vectors;
    int64_t parts = std::clamp<int64_t>(kTasks / units, 1, steps);
    parallel_for(units * parts, grain_of(k * g.filters * pixels / parts), [&](int64_t begin, int64_t end) {
        T* results = static_cast<T*>(t_results.get(static_cast<size_t>(at_once * g.out[2] * lanes) * sizeof(T)));
        T* copy = padded ? static_cast<T*>(t_image.get(static_cast<size_t>(g.channels * plane) * sizeof(T))) : nullptr;
        for (int64_t task = begin; task < end; ++task) {
            int64_t unit = task / parts, group = unit % g.groups;
            int64_t first_step = task % parts * steps / parts, last_step = (task % parts + 1) * steps / parts;
            const T* image = x + unit * g.channels * g.in_plane();
            if (padded) {
                int64_t first = first_step / vectors * at_once;
                int64_t last = std::min(((last_step - 1) / vectors + 1) * at_once, g.out[1]) - 1;
                copy_padded(g, copy, image, g.channels, first * g.stride[1],
                            last * g.stride[1] + (g.kernel[1] - 1) * g.dilation[1] + 1);
                image = copy;
            }
            for (int64_t step = first_step; step < last_step; ++step) {
                int64_t v = step % vectors, h0 = step / vectors * at_once, h1 = std::min(h0 + at_once, g.out[1]);
                const T* b = weights + (group * vectors + v) * lanes * k;
                for (int64_t k0 = 0; k0 < k; k0 += kGemmBlockK<T>) {
                    int64_t kc = std::min(kGemmBlockK<T>, k - k0);
                    for (int64_t h = h0; h < h1; ++h)
                        for (int64_t j = 0; j < g.out[2]; j += tile) {
                            int64_t count = std::min(tile, g.out[2] - j);
                            with.patches[count - 1](kc, image + h * g.stride[1] * width + j, offsets.data() + k0,
                                                    b + k0 * lanes, results + ((h - h0) * g.out[2] + j) * lanes,
                                                    k0 > 0);
                        }
                }
                int64_t first = v * lanes, filters = std::min(lanes, g.filters - first), count = (h1 - h0) * g.out[2];
                T* out = y + (unit * g.filters + first) * pixels + h0 * g.out[2];
                transpose_plane(out, pixels, results, lanes, filters, count);
                for (int64_t f = 0; bias && f < filters; ++f) {
                    T added = bias[group * g.filters + first + f];
                    for (int64_t j = 0; j < count; ++j) out[f * pixels + j] += added;
                }
                finish(unit / g.groups, group * g.filters + first, filters, h0 * g.out[2], count);
            }
        }
    });
}

template bool suits_direct_forward<float>(const ConvGeometry&);
template bool suits_direct_forward<double>(const ConvGeometry&);
template void direct_forward<float>(const ConvGeometry&, const float*, const float*, const float*, float*,
                                    const Finish&);
template void direct_forward<double>(const ConvGeometry&, const double*, const double*, const double*, double*,
                                     const Finish&);

}  // namespace mt::cpu
