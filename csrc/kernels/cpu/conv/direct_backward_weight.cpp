// The gradient of a convolution's weight without the matrix of patches: the filters' gradients are transposed, and each
// tap's sums read the image where it lies. Sums are those of the products of runs, in the same order.
#include <algorithm>

#include "kernels/cpu/conv/direct.h"
#include "kernels/cpu/movement/transpose.h"
#include "runtime/products/gemm_kernels.h"
#include "runtime/scratch.h"

namespace mt::cpu {

namespace {

thread_local mt::Scratch t_grad, t_sums, t_image;

template <class T>
const gemm_detail::Kernels<T>& kernels() {
    static const auto& best = gemm_detail::best_kernels<T>();
    return best;
}

template <class T>
T* scratch(mt::Scratch& memory, int64_t count) {
    return static_cast<T*>(memory.get(static_cast<size_t>(count) * sizeof(T)));
}

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

template <class T>
bool DirectWeight<T>::suits(const ConvGeometry& g, const WeightRuns& runs) {
    if (!kernels<T>().taps || g.in[0] != 1 || g.kernel[0] != 1 || g.out[0] != 1) return false;
    if (g.kernel[2] < 3 || g.dilation[2] != 1 || !has_offsets(g, runs.images)) return false;
    // Of few filters, lanes may be idle.
    int64_t lanes = kernels<T>().lanes, vectors = ceil_div(g.filters, lanes);
    return 4 * g.filters >= 3 * vectors * lanes;
}

template <class T>
DirectWeight<T>::DirectWeight(const ConvGeometry& geometry, const WeightRuns& cut)
    : g(geometry), runs(cut), lanes(kernels<T>().lanes), vectors(ceil_div(g.filters, lanes)),
      width(g.in[2] + 2 * g.padding[2]), plane((g.in[1] + 2 * g.padding[1]) * width) {
    // Padded images are copied side by side, the channels of one after those of another.
    bool padded = g.padding[1] || g.padding[2];
    int64_t image = padded ? g.channels * plane : g.groups * g.channels * plane;
    for (int64_t n = 0; n < runs.images; ++n)
        for (int64_t h = 0; h < g.out[1]; ++h)
            for (int64_t j = 0; j < g.out[2]; ++j)
                offsets.push_back(static_cast<int32_t>(n * image + h * g.stride[1] * width + j * g.stride[2]));
}

template <class T>
void DirectWeight<T>::add(const T* grad, const T* x, int64_t group, int64_t c0, int64_t c1, int64_t first, int64_t last,
                          T* to, int64_t ld) const {
    int64_t pixels = g.out_plane(), row = vectors * lanes, rows = (c1 - c0) * g.taps();
    int64_t most_vectors = std::min<int64_t>(vectors, gemm_detail::kMostTapVectors), most_lanes = most_vectors * lanes;
    T* b = scratch<T>(t_grad, runs.images * runs.block * most_lanes);
    T* sums = scratch<T>(t_sums, rows * row);
    bool padded = g.padding[1] || g.padding[2];
    T* copy = padded ? scratch<T>(t_image, runs.images * g.channels * plane) : nullptr;
    int64_t parts = ceil_div(g.kernel[2], gemm_detail::kMostTaps), most = ceil_div(g.kernel[2], parts);
    for (int64_t run = first; run < last; ++run) {
        int64_t n0 = run / runs.blocks * runs.images, p = run % runs.blocks * runs.block;
        int64_t count = std::min(runs.images, g.batch - n0), cols = std::min(runs.block, pixels - p);
        int64_t h0 = p / g.out[2], h1 = (p + cols - 1) / g.out[2];
        for (int64_t n = 0; n < count && padded; ++n)
            copy_padded(g, copy + n * g.channels * plane,
                        x + (((n0 + n) * g.groups + group) * g.channels + c0) * g.in_plane(), c1 - c0, h0 * g.stride[1],
                        h1 * g.stride[1] + (g.kernel[1] - 1) * g.dilation[1] + 1);
        const T* image = padded ? copy : x + ((n0 * g.groups + group) * g.channels + c0) * plane;
        int64_t length = count > 1 ? count * pixels : cols;
        T* out = sums;
        for (int64_t o = 0; o < g.filters; o += most_lanes) {
            int64_t filters = std::min(most_lanes, g.filters - o), here = ceil_div(filters, lanes);
            if (filters < here * lanes) std::fill_n(b, length * here * lanes, T(0));
            for (int64_t n = 0; n < count; ++n)
                transpose_plane(b + n * pixels * here * lanes, here * lanes,
                                grad + (((n0 + n) * g.groups + group) * g.filters + o) * pixels + p, pixels, cols,
                                filters);
            const auto* table = kernels<T>().taps + (here - 1) * gemm_detail::kMostTapLines * gemm_detail::kMostTaps;
            for (int64_t c = 0; c < c1 - c0; ++c)
                for (int64_t kw = 0; kw < g.kernel[2]; kw += most) {
                    int64_t taps = std::min(most, g.kernel[2] - kw), line = g.dilation[1] * width;
                    int64_t at_once = std::min<int64_t>(gemm_detail::kMostTapLines,
                                                        gemm_detail::kMostTapSums / (taps * here));
                    for (int64_t kh = 0; kh < g.kernel[1]; kh += at_once) {
                        int64_t lines = std::min(at_once, g.kernel[1] - kh);
                        table[(lines - 1) * gemm_detail::kMostTaps + taps - 1](
                            length, image + c * plane + kh * line + kw, line, offsets.data() + p, b, out, run > first);
                        out += lines * taps * here * lanes;
                    }
                }
        }
    }
    // The sums are in the order in which they were computed.
    const T* from = sums;
    for (int64_t o = 0; o < g.filters; o += most_lanes) {
        int64_t filters = std::min(most_lanes, g.filters - o), step = ceil_div(filters, lanes) * lanes;
        for (int64_t c = 0; c < c1 - c0; ++c)
            for (int64_t kw = 0; kw < g.kernel[2]; kw += most) {
                int64_t taps = std::min(most, g.kernel[2] - kw);
                for (int64_t kh = 0; kh < g.kernel[1]; ++kh, from += taps * step)
                    for (int64_t t = 0; t < taps; ++t)
                        for (int64_t f = 0; f < filters; ++f)
                            to[(o + f) * ld + (c * g.kernel[1] + kh) * g.kernel[2] + kw + t] = from[t * step + f];
            }
    }
}

template class DirectWeight<float>;
template class DirectWeight<double>;

}  // namespace mt::cpu
