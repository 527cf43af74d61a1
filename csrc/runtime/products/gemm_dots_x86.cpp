// Dot products with columns that lie in memory one after the other, for CPUs with AVX2 and FMA. The kernels for AVX-512
// use them too.
#include <immintrin.h>

#include <cstdint>

#include "runtime/products/gemm_kernels.h"

// Up to the end of the file.
#pragma GCC target("avx2,fma")

#include "runtime/products/gemm_vectors_avx2.h"

namespace mt::gemm_detail {
namespace {

/// kGroups vectors of neighbouring columns. If these are not all there, those beyond `cols` repeat the last one and are
/// not stored.
template <class S, int kGroups, bool kWhole>
void dot_columns(int64_t kc, int64_t cols, const typename S::T* a, int64_t a_cs, const typename S::T* b, int64_t b_cs,
                 typename S::T* c, bool accumulate) {
    using T = typename S::T;
    constexpr int kLanes = S::kLanes;
    constexpr int kSteps = kLanes / 2;  // values of k that one transposition gives
    auto column = [=](int64_t j) { return b + (kWhole || j < cols ? j : cols - 1) * b_cs; };

    typename S::V acc[kGroups];
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) acc[g] = S::zero();
    int64_t p = 0;
    for (; p + kSteps <= kc; p += kSteps) {
#pragma GCC unroll 4
        for (int g = 0; g < kGroups; ++g) {
            const T* at[kLanes];
#pragma GCC unroll 8
            for (int j = 0; j < kLanes; ++j) at[j] = column(g * kLanes + j) + p;
            typename S::V row[kSteps];
            transpose(at, row);
#pragma GCC unroll 4
            for (int i = 0; i < kSteps; ++i) acc[g] = S::muladd(S::broadcast(a + (p + i) * a_cs), row[i], acc[g]);
        }
    }
    for (; p < kc; ++p) {
        for (int g = 0; g < kGroups; ++g) {
            T row[kLanes];
            for (int j = 0; j < kLanes; ++j) row[j] = column(g * kLanes + j)[p];
            acc[g] = S::muladd(S::broadcast(a + p * a_cs), S::load(row), acc[g]);
        }
    }
#pragma GCC unroll 4
    for (int g = 0; g < kGroups; ++g) {
        T* out = c + g * kLanes;
        if (kWhole) {
            S::store(out, accumulate ? S::add(S::load(out), acc[g]) : acc[g]);
        } else if (g * kLanes < cols) {
            const int left = static_cast<int>(cols - g * kLanes);
            const auto mask = S::mask(left < kLanes ? left : kLanes);
            S::store(out, accumulate ? S::add(S::load(out, mask), acc[g]) : acc[g], mask);
        }
    }
}

template <class S>
void dot_all_columns(int64_t kc, int64_t cols, const typename S::T* a, int64_t a_cs, const typename S::T* b,
                     int64_t b_cs, typename S::T* c, bool accumulate) {
    // Columns at this distance compete for one set of the first-level cache, which has room for eight lines or more.
    const bool crowded = b_cs * static_cast<int64_t>(sizeof(*b)) % 4096 == 0;
    const int64_t widest = crowded ? 8 / S::kLanes : 4;
    for (int64_t j = 0; j < cols;) {
        const int64_t left = cols - j;
        const int64_t groups = left >= 4 * S::kLanes ? widest : left > S::kLanes && widest >= 2 ? 2 : 1;
        const bool whole = left >= groups * S::kLanes;
        const auto kernel = groups == 4   ? dot_columns<S, 4, true>
                            : groups == 2 ? (whole ? dot_columns<S, 2, true> : dot_columns<S, 2, false>)
                                          : (whole ? dot_columns<S, 1, true> : dot_columns<S, 1, false>);
        kernel(kc, left, a, a_cs, b + j * b_cs, b_cs, c + j, accumulate);
        j += groups * S::kLanes;
    }
}

}  // namespace

void dots_avx2(int64_t kc, int64_t cols, const float* a, int64_t a_cs, const float* b, int64_t b_cs, float* c,
               bool accumulate) {
    dot_all_columns<F32>(kc, cols, a, a_cs, b, b_cs, c, accumulate);
}

void dots_avx2(int64_t kc, int64_t cols, const double* a, int64_t a_cs, const double* b, int64_t b_cs, double* c,
               bool accumulate) {
    dot_all_columns<F64>(kc, cols, a, a_cs, b, b_cs, c, accumulate);
}

}  // namespace mt::gemm_detail
