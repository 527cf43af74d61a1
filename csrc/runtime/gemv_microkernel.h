// The kernels for products of a vector, written once over a vector type. Included by one source file for each
// instruction set, after its `#pragma GCC target` and gemm_microkernel.h.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>  // in the AVX files it has been included before the target changes
#endif

#include <cstdint>

#include "runtime/gemm_kernels.h"

namespace mt::gemm_detail {
namespace {

// S is a type as for the matrix kernels, and has kStrip (vectors that are summed in registers beside one of B),
// kColumns (dot products that are computed at once) and fold, which adds up the lanes of a sum by halving down to 128
// bits.

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

/// The sums of one lane for kVectors vectors of columns, over `count` rows of B.
template <class S, int kVectors>
__attribute__((always_inline)) inline void sum_lane(int64_t count, const typename S::T* a, const typename S::T* b,
                                                    int64_t b_step, typename S::Mask mask, bool tail,
                                                    typename S::V* out) {
    constexpr int kLanes = S::kLanes;
    typename S::V sum[kVectors];
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) sum[v] = S::zero();
    for (int64_t i = 0; i < count; ++i, a += kVectorLanes, b += b_step) {
        const typename S::V x = S::broadcast(a);
#pragma GCC unroll 16
        for (int v = 0; v < kVectors; ++v) {
            const typename S::T* at = b + v * kLanes;
            sum[v] = S::muladd(x, v == kVectors - 1 && tail ? S::load(at, mask) : S::load(at), sum[v]);
        }
    }
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; ++v) out[v] = sum[v];
}

/// One strip of at most kVectors vectors of columns; with `tail`, its last vector is in part outside.
template <class S, int kVectors>
void sum_strip(int64_t kc, int64_t cols, const typename S::T* a, const typename S::T* b, int64_t b_rs, typename S::T* c,
               bool accumulate) {
    using V = typename S::V;
    constexpr int kLanes = S::kLanes;
    const int64_t in_last = cols - (kVectors - 1) * kLanes;
    const bool tail = in_last < kLanes;
    const auto mask = S::mask(static_cast<int>(in_last));
    V lane[kVectorLanes][kVectors];
    for (int64_t l = 0; l < kVectorLanes; ++l) {
        const int64_t count = (kc - l + kVectorLanes - 1) / kVectorLanes;
        if (tail) {
            sum_lane<S, kVectors>(count, a + l, b + l * b_rs, b_rs * kVectorLanes, mask, true, lane[l]);
        } else {
            sum_lane<S, kVectors>(count, a + l, b + l * b_rs, b_rs * kVectorLanes, mask, false, lane[l]);
        }
    }
    if (const int64_t rest = kc % kVectorLanes; rest > 0) {  // the padding: it matters for a sum that is -0
        for (int64_t l = rest; l < kVectorLanes; ++l) {
            for (int v = 0; v < kVectors; ++v) lane[l][v] = S::add(lane[l][v], S::zero());
        }
    }
    for (int v = 0; v < kVectors; ++v) {
        V sum[kVectorLanes];
#pragma GCC unroll 16
        for (int l = 0; l < kVectorLanes / 2; ++l) sum[l] = S::add(lane[l][v], lane[l + kVectorLanes / 2][v]);
#pragma GCC unroll 4
        for (int w = kVectorLanes / 4; w > 0; w /= 2) {
#pragma GCC unroll 16
            for (int l = 0; l < w; ++l) sum[l] = S::add(sum[l], sum[l + w]);
        }
        typename S::T* out = c + v * kLanes;
        if (v == kVectors - 1 && tail) {
            S::store(out, accumulate ? S::add(S::load(out, mask), sum[0]) : sum[0], mask);
        } else {
            S::store(out, accumulate ? S::add(S::load(out), sum[0]) : sum[0]);
        }
    }
}

template <class S>
void vector_rows(int64_t kc, int64_t cols, const typename S::T* a, const typename S::T* b, int64_t b_rs,
                 typename S::T* c, bool accumulate) {
    for (int64_t j = 0; j < cols;) {
        const int64_t left = cols - j, vectors = (left + S::kLanes - 1) / S::kLanes;
        const auto strip = vectors >= S::kStrip ? sum_strip<S, S::kStrip>
                           : vectors >= 4       ? sum_strip<S, 4>
                           : vectors >= 2       ? sum_strip<S, 2>
                                                : sum_strip<S, 1>;
        const int64_t taken = vectors >= S::kStrip ? S::kStrip : vectors >= 4 ? 4 : vectors >= 2 ? 2 : 1;
        const int64_t width = left < taken * S::kLanes ? left : taken * S::kLanes;
        strip(kc, width, a, b + j, b_rs, c + j, accumulate);
        j += width;
    }
}

template <class S>
constexpr VectorKernels<typename S::T> make_vector_kernels() {
    return {vector_dots<S>, vector_rows<S>};
}

}  // namespace
}  // namespace mt::gemm_detail
