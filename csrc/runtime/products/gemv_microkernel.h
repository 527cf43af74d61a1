// The kernels for products of a vector, written once over a vector type. Included by one source file for each
// instruction set, after its `#pragma GCC target` and gemm_microkernel.h.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>  // in the AVX files it has been included before the target changes
#endif

#include <cstdint>

#include "runtime/products/gemm_kernels.h"

namespace mt::gemm_detail {
namespace {

// S is a type as for the matrix kernels, and has kColumns (dot products that are computed at once) and fold, which adds
// up the lanes of a sum by halving down to 128 bits.

#if defined(__x86_64__)
/// The last halvings, of several sums at once.
inline void finish(const __m128 (&low)[4], float* out) {
    const __m128 first = _mm_add_ps(_mm_movelh_ps(low[0], low[1]), _mm_movehl_ps(low[1], low[0]));
    const __m128 second = _mm_add_ps(_mm_movelh_ps(low[2], low[3]), _mm_movehl_ps(low[3], low[2]));
    _mm_storeu_ps(out, _mm_add_ps(_mm_shuffle_ps(first, second, 0x88), _mm_shuffle_ps(first, second, 0xdd)));
}

template <int kCount>
inline void finish(const __m128d (&low)[kCount], double* out) {
    for (int j = 0; j < kCount; j += 2) {
        _mm_storeu_pd(out + j, _mm_add_pd(_mm_unpacklo_pd(low[j], low[j + 1]), _mm_unpackhi_pd(low[j], low[j + 1])));
    }
}
#endif

inline void finish(const float (&low)[1], float* out) { *out = low[0]; }
inline void finish(const double (&low)[1], double* out) { *out = low[0]; }

template <class S>
void vector_dots(int64_t kc, int64_t cols, const typename S::T* a, int64_t a_step, const typename S::T* b,
                 int64_t b_step, typename S::T* c, int64_t c_step, bool accumulate) {
    using T = typename S::T;
    using V = typename S::V;
    constexpr int kLanes = S::kLanes, kVectors = kVectorLanes / kLanes, kColumns = S::kColumns;
    const int64_t whole = kc / kVectorLanes * kVectorLanes;
    const int64_t rest = kc - whole;
    // The last vector that is not empty is loaded with a mask, which fills with zeros; those after it are zero.
    const int partial = rest > 0 ? static_cast<int>((rest - 1) / kLanes) : 0;
    const auto mask = S::mask(rest > 0 ? static_cast<int>(rest - partial * kLanes) : kLanes);
    for (int64_t j = 0; j < cols; j += kColumns) {
        const int64_t count = cols - j < kColumns ? cols - j : kColumns;
        const T *x[kColumns], *y[kColumns];
        V sum[kColumns][kVectors];
#pragma GCC unroll 4
        for (int i = 0; i < kColumns; ++i) {
            const int64_t column = j + (i < count ? i : count - 1);
            x[i] = a + column * a_step;
            y[i] = b + column * b_step;
#pragma GCC unroll 16
            for (int v = 0; v < kVectors; ++v) sum[i][v] = S::zero();
        }
        const auto step = [&](int i, int64_t p) __attribute__((always_inline)) {
#pragma GCC unroll 16
            for (int v = 0; v < kVectors; ++v) {
                sum[i][v] = S::muladd(S::load(x[i] + p + v * kLanes), S::load(y[i] + p + v * kLanes), sum[i][v]);
            }
        };
        if (a_step != 0) {  // neighbouring blocks: one after the other, as memory is read best
#pragma GCC unroll 4
            for (int i = 0; i < kColumns; ++i) {
                for (int64_t p = 0; p < whole; p += kVectorLanes) step(i, p);
            }
        } else {
            for (int64_t p = 0; p < whole; p += kVectorLanes) {
#pragma GCC unroll 4
                for (int i = 0; i < kColumns; ++i) step(i, p);
            }
        }
        if (rest > 0) {
#pragma GCC unroll 4
            for (int i = 0; i < kColumns; ++i) {
#pragma GCC unroll 16
                for (int v = 0; v < kVectors; ++v) {
                    const T *px = x[i] + whole + v * kLanes, *py = y[i] + whole + v * kLanes;
                    const V vx = v < partial ? S::load(px) : v == partial ? S::load(px, mask) : S::zero();
                    const V vy = v < partial ? S::load(py) : v == partial ? S::load(py, mask) : S::zero();
                    sum[i][v] = S::muladd(vx, vy, sum[i][v]);
                }
            }
        }
        typename S::Low low[kColumns];
#pragma GCC unroll 4
        for (int i = 0; i < kColumns; ++i) low[i] = S::fold(sum[i]);
        T* out = c + j * c_step;
        if (c_step == 1 && count == kColumns && !accumulate) {
            finish(low, out);
            continue;
        }
        T result[kColumns];
        finish(low, result);
        for (int i = 0; i < count; ++i, out += c_step) *out = accumulate ? *out + result[i] : result[i];
    }
}

/// Adds the products of kCount rows of B, kVectorLanes rows apart, to one lane of `width` columns; sends for the rows
/// of the next lane, which are `next` elements away.
template <class S, int kCount>
__attribute__((always_inline)) inline void add_to_lane(const typename S::T* a, const typename S::T* b, int64_t b_rs,
                                                       int64_t width, bool first, int64_t next, typename S::T* lane) {
    using T = typename S::T;
    using V = typename S::V;
    constexpr int kLanes = S::kLanes;
    constexpr int64_t kLine = 64 / sizeof(T);
    V x[kCount];
    const T* row[kCount];
#pragma GCC unroll 4
    for (int i = 0; i < kCount; ++i) {
        x[i] = S::broadcast(a + i * kVectorLanes);
        row[i] = b + i * kVectorLanes * b_rs;
    }
    const auto add = [&](int64_t j, auto... mask) __attribute__((always_inline)) {
        V sum = first ? S::zero() : S::load(lane + j);
#pragma GCC unroll 4
        for (int i = 0; i < kCount; ++i) sum = S::muladd(x[i], S::load(row[i] + j, mask...), sum);
        S::store(lane + j, sum);
    };
    int64_t j = 0;
    for (; j + kLine <= width; j += kLine) {
#pragma GCC unroll 4
        for (int i = 0; i < kCount; ++i) __builtin_prefetch(row[i] + next + j);
#pragma GCC unroll 16
        for (int64_t v = 0; v < kLine; v += kLanes) add(j + v);
    }
    for (; j + kLanes <= width; j += kLanes) add(j);
    if (j < width) add(j, S::mask(static_cast<int>(width - j)));
}

/// The lanes are in the first caches, so that rows are read to their ends or nearly so, as memory is read best.
template <class S>
void vector_rows(int64_t kc, int64_t cols, const typename S::T* a, const typename S::T* b, int64_t b_rs,
                 typename S::T* c, bool accumulate) {
    using T = typename S::T;
    using V = typename S::V;
    constexpr int kLanes = S::kLanes;
    constexpr int64_t kWidth = kVectorStrip<T>, kRows = 4;
    alignas(64) T lane[kVectorLanes][kWidth];
    for (int64_t j0 = 0; j0 < cols; j0 += kWidth, b += kWidth, c += kWidth) {
        const int64_t width = cols - j0 < kWidth ? cols - j0 : kWidth;
        for (int64_t p0 = 0; p0 < kc; p0 += kRows * kVectorLanes) {
            for (int64_t l = 0; l < kVectorLanes; ++l) {
                const int64_t p = p0 + l, count = (kc - p + kVectorLanes - 1) / kVectorLanes;
                const auto add = count >= 4   ? add_to_lane<S, 4>
                                 : count == 3 ? add_to_lane<S, 3>
                                 : count == 2 ? add_to_lane<S, 2>
                                              : add_to_lane<S, 1>;
                const int64_t next = l + 1 < kVectorLanes ? b_rs : ((kRows - 1) * kVectorLanes + 1) * b_rs;
                if (p < kc) add(a + p, b + p * b_rs, b_rs, width, p0 == 0, next, lane[l]);
            }
        }
        const int64_t rest = kc % kVectorLanes;
        for (int64_t j = 0; j < width; j += kLanes) {
            V sum[kVectorLanes];
#pragma GCC unroll 16
            for (int l = 0; l < kVectorLanes; ++l) {
                sum[l] = l < kc ? S::load(lane[l] + j) : S::zero();
                // The padding: it matters for a sum that is -0.
                if (rest > 0 && l >= rest) sum[l] = S::add(sum[l], S::zero());
            }
#pragma GCC unroll 4
            for (int w = kVectorLanes / 2; w > 0; w /= 2) {
#pragma GCC unroll 16
                for (int l = 0; l < w; ++l) sum[l] = S::add(sum[l], sum[l + w]);
            }
            if (j + kLanes <= width) {
                S::store(c + j, accumulate ? S::add(S::load(c + j), sum[0]) : sum[0]);
            } else {
                const auto mask = S::mask(static_cast<int>(width - j));
                S::store(c + j, accumulate ? S::add(S::load(c + j, mask), sum[0]) : sum[0], mask);
            }
        }
    }
}

template <class S>
constexpr VectorKernels<typename S::T> make_vector_kernels() {
    return {vector_dots<S>, vector_rows<S>};
}

}  // namespace
}  // namespace mt::gemm_detail
