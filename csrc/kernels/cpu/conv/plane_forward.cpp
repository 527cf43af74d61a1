// Convolutions whose output positions are the lanes of vectors, for a few filters at a time. Sums are those of the
// matrix product with the matrix of patches, in the same order.
#include <algorithm>
#include <vector>

#include "kernels/cpu/conv/direct.h"
#include "kernels/cpu/movement/strided_copy.h"
#include "runtime/products/gemm.h"
#include "runtime/products/gemm_kernels.h"
#include "runtime/scratch.h"

namespace mt::cpu {

namespace {

constexpr int64_t kTasks = 16;  // enough for the threads of most machines
constexpr int64_t kCacheBytes = 24 << 10;  // of results, until they are finished

thread_local mt::Scratch t_image;

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

template <class T>
bool suits_plane_forward(const ConvGeometry& g) {
    static const auto& with = gemm_detail::best_kernels<T>();
    if (!with.planes || !g.in_runs() || g.pointwise()) return false;
    if (g.patch() == 0 || !has_offsets(g, 1)) return false;
    // A row's last vector is computed again in part; that is to be little.
    return g.out[2] >= with.lanes && 4 * g.out[2] >= 3 * ceil_div(g.out[2], with.lanes) * with.lanes;
}

template <class T>
void plane_forward(const ConvGeometry& g, const T* x, const T* w, const T* bias, T* y, const Finish& finish) {
    static const auto& with = gemm_detail::best_kernels<T>();
    int64_t k = g.patch(), lanes = with.lanes, pixels = g.out_plane(), row = g.out[2];
    int64_t width = g.in[2] + 2 * g.padding[2], plane = (g.in[1] + 2 * g.padding[1]) * width;
    bool padded = g.padding[1] || g.padding[2];
    std::vector<int32_t> offsets = patch_offsets(g);
    int64_t filters_at_once = ceil_div(g.filters, ceil_div(g.filters, gemm_detail::kMostPlaneFilters));
    int64_t at_once = std::clamp<int64_t>(kCacheBytes / static_cast<int64_t>(sizeof(T)) / g.filters / row, 1, g.out[1]);
    int64_t units = g.batch * g.groups, steps = ceil_div(g.out[1], at_once);
    int64_t parts = std::clamp<int64_t>(kTasks / units, 1, steps);
    parallel_for(units * parts, grain_of(k * g.filters * pixels / parts), [&](int64_t begin, int64_t end) {
        T* copy = padded ? static_cast<T*>(t_image.get(static_cast<size_t>(g.channels * plane) * sizeof(T))) : nullptr;
        for (int64_t task = begin; task < end; ++task) {
            int64_t unit = task / parts, first_filter = unit % g.groups * g.filters;
            int64_t first = task % parts * steps / parts * at_once;
            int64_t last = std::min((task % parts + 1) * steps / parts * at_once, g.out[1]);
            if (first == last) continue;
            const T* image = x + unit * g.channels * g.in_plane();
            if (padded) {
                copy_padded(g, copy, image, g.channels, first * g.stride[1],
                            (last - 1) * g.stride[1] + (g.kernel[1] - 1) * g.dilation[1] + 1);
                image = copy;
            }
            T* out = y + unit * g.filters * pixels;
            for (int64_t h0 = first; h0 < last; h0 += at_once) {
                int64_t h1 = std::min(h0 + at_once, last);
                for (int64_t f = 0; f < g.filters; f += filters_at_once) {
                    int64_t filters = std::min(filters_at_once, g.filters - f);
                    const auto kernel = with.planes[filters - 1];
                    const T* weights = w + (first_filter + f) * k;
                    const T* added = bias ? bias + first_filter + f : nullptr;
                    const T* from = nullptr;  // a vector that waits for a second one
                    T* to = nullptr;
                    const auto pair = [&](const T* second, T* second_to) {
                        // Vectors may overlap those of a call before, so each has all of its sum in turn.
                        for (int64_t p = 0; p < k; p += kGemmBlockK<T>) {
                            const int64_t kc = std::min(kGemmBlockK<T>, k - p);
                            kernel(kc, weights + p, k, from, second - from, offsets.data() + p, to, pixels,
                                   second_to - to, p + kc == k ? added : nullptr, p > 0);
                        }
                        from = nullptr;
                    };
                    for (int64_t h = h0; h < h1; ++h)
                        for (int64_t j = 0; j < row; j += lanes) {
                            int64_t at = std::min(j, row - lanes);
                            const T* here = image + h * g.stride[1] * width + at;
                            T* here_to = out + f * pixels + h * row + at;
                            if (from) {
                                pair(here, here_to);
                            } else {
                                from = here;
                                to = here_to;
                            }
                        }
                    if (from) pair(from, to);
                }
                finish(unit / g.groups, first_filter, g.filters, h0 * row, (h1 - h0) * row);
            }
        }
    });
}

template bool suits_plane_forward<float>(const ConvGeometry&);
template bool suits_plane_forward<double>(const ConvGeometry&);
template void plane_forward<float>(const ConvGeometry&, const float*, const float*, const float*, float*,
                                   const Finish&);
template void plane_forward<double>(const ConvGeometry&, const double*, const double*, const double*, double*,
                                    const Finish&);

}  // namespace mt::cpu
