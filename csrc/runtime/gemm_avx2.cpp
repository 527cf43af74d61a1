// Kernels for AVX2 with FMA. The target applies to this file only, from the pragma on: standard headers come before it.
#if defined(__x86_64__)

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "runtime/gemm_kernels.h"

#pragma GCC target("avx2,fma")

#include "runtime/gemm_microkernel.h"
#include "runtime/gemv_microkernel.h"

namespace mt::gemm_detail {
namespace {

/// Four elements of each of eight columns, as four rows. The 128-bit loads place column 4 * h + j in half h of register
/// j, so that a 4 x 4 transpose within the halves finishes the work.
__attribute__((always_inline)) inline void transpose(const float* const (&column)[8], __m256 (&row)[4]) {
    __m256 r[4];
#pragma GCC unroll 4
    for (int j = 0; j < 4; ++j) {
        r[j] = _mm256_castps128_ps256(_mm_loadu_ps(column[j]));
        r[j] = _mm256_insertf128_ps(r[j], _mm_loadu_ps(column[4 + j]), 1);
    }
    const __m256d lo01 = _mm256_castps_pd(_mm256_unpacklo_ps(r[0], r[1]));
    const __m256d hi01 = _mm256_castps_pd(_mm256_unpackhi_ps(r[0], r[1]));
    const __m256d lo23 = _mm256_castps_pd(_mm256_unpacklo_ps(r[2], r[3]));
    const __m256d hi23 = _mm256_castps_pd(_mm256_unpackhi_ps(r[2], r[3]));
    row[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(lo01, lo23));
    row[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(lo01, lo23));
    row[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(hi01, hi23));
    row[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(hi01, hi23));
}

/// Two elements of each of four columns, as two rows.
__attribute__((always_inline)) inline void transpose(const double* const (&column)[4], __m256d (&row)[2]) {
    __m256d r[2];
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
        r[j] = _mm256_castpd128_pd256(_mm_loadu_pd(column[j]));
        r[j] = _mm256_insertf128_pd(r[j], _mm_loadu_pd(column[2 + j]), 1);
    }
    row[0] = _mm256_unpacklo_pd(r[0], r[1]);
    row[1] = _mm256_unpackhi_pd(r[0], r[1]);
}

/// Packs groups of 8 columns, four k at a time.
void pack_transposed_32(int64_t kc, int64_t cols, const float* src, int64_t src_cs, float* dst, int64_t dst_rs) {
    for (int64_t j0 = 0; j0 < cols; j0 += 8) {
        const float* column[8];
        for (int64_t j = 0; j < 8; ++j) column[j] = src + (j0 + j < cols ? j0 + j : cols - 1) * src_cs;
        int64_t p = 0;
        float* out = dst + j0;
        for (; p + 4 <= kc; p += 4, out += 4 * dst_rs) {
            const float* at[8];
#pragma GCC unroll 8
            for (int j = 0; j < 8; ++j) at[j] = column[j] + p;
            __m256 row[4];
            transpose(at, row);
#pragma GCC unroll 4
            for (int i = 0; i < 4; ++i) _mm256_storeu_ps(out + i * dst_rs, row[i]);
        }
        for (; p < kc; ++p, out += dst_rs) {
            for (int j = 0; j < 8; ++j) out[j] = column[j][p];
        }
    }
}

/// The same for groups of 4 columns of 64 bits, two k at a time.
void pack_transposed_64(int64_t kc, int64_t cols, const double* src, int64_t src_cs, double* dst, int64_t dst_rs) {
    for (int64_t j0 = 0; j0 < cols; j0 += 4) {
        const double* column[4];
        for (int64_t j = 0; j < 4; ++j) column[j] = src + (j0 + j < cols ? j0 + j : cols - 1) * src_cs;
        int64_t p = 0;
        double* out = dst + j0;
        for (; p + 2 <= kc; p += 2, out += 2 * dst_rs) {
            const double* at[4];
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) at[j] = column[j] + p;
            __m256d row[2];
            transpose(at, row);
            _mm256_storeu_pd(out, row[0]);
            _mm256_storeu_pd(out + dst_rs, row[1]);
        }
        for (; p < kc; ++p, out += dst_rs) {
            for (int j = 0; j < 4; ++j) out[j] = column[j][p];
        }
    }
}

// A mask of n lanes is the window at 8 - n (4 - n) of these.
alignas(32) constexpr int32_t kMask32[16] = {-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0};
alignas(32) constexpr int64_t kMask64[8] = {-1, -1, -1, -1, 0, 0, 0, 0};

inline __m256i load_si256(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }

struct F32 {
    using T = float;
    using V = __m256;
    using Mask = __m256i;
    static constexpr int kLanes = 8;
    static constexpr bool kCheapMask = false;
    static V zero() { return _mm256_setzero_ps(); }
    static V broadcast(const T* p) { return _mm256_broadcast_ss(p); }
    static Mask mask(int n) { return load_si256(kMask32 + 8 - n); }
    static V load(const T* p) { return _mm256_loadu_ps(p); }
    static V load(const T* p, Mask m) { return _mm256_maskload_ps(p, m); }
    static void store(T* p, V v) { _mm256_storeu_ps(p, v); }
    static void store(T* p, V v, Mask m) { _mm256_maskstore_ps(p, m, v); }
    static V muladd(V a, V b, V c) { return _mm256_fmadd_ps(a, b, c); }
    static V add(V a, V b) { return _mm256_add_ps(a, b); }
    static constexpr PackTransposed<T> pack_transposed = pack_transposed_32;
};

struct F64 {
    using T = double;
    using V = __m256d;
    using Mask = __m256i;
    static constexpr int kLanes = 4;
    static constexpr bool kCheapMask = false;
    static V zero() { return _mm256_setzero_pd(); }
    static V broadcast(const T* p) { return _mm256_broadcast_sd(p); }
    static Mask mask(int n) { return load_si256(kMask64 + 4 - n); }
    static V load(const T* p) { return _mm256_loadu_pd(p); }
    static V load(const T* p, Mask m) { return _mm256_maskload_pd(p, m); }
    static void store(T* p, V v) { _mm256_storeu_pd(p, v); }
    static void store(T* p, V v, Mask m) { _mm256_maskstore_pd(p, m, v); }
    static V muladd(V a, V b, V c) { return _mm256_fmadd_pd(a, b, c); }
    static V add(V a, V b) { return _mm256_add_pd(a, b); }
    static constexpr PackTransposed<T> pack_transposed = pack_transposed_64;
};

struct S32 {
    using T = int32_t;
    using V = __m256i;
    using Mask = __m256i;
    static constexpr int kLanes = 8;
    static constexpr bool kCheapMask = false;
    static V zero() { return _mm256_setzero_si256(); }
    static V broadcast(const T* p) { return _mm256_set1_epi32(*p); }
    static Mask mask(int n) { return load_si256(kMask32 + 8 - n); }
    static V load(const T* p) { return load_si256(p); }
    static V load(const T* p, Mask m) { return _mm256_maskload_epi32(p, m); }
    static void store(T* p, V v) { _mm256_storeu_si256(reinterpret_cast<V*>(p), v); }
    static void store(T* p, V v, Mask m) { _mm256_maskstore_epi32(p, m, v); }
    static V muladd(V a, V b, V c) { return _mm256_add_epi32(_mm256_mullo_epi32(a, b), c); }
    static V add(V a, V b) { return _mm256_add_epi32(a, b); }
    static void pack_transposed(int64_t kc, int64_t cols, const T* src, int64_t src_cs, T* dst, int64_t dst_rs) {
        pack_transposed_32(kc, cols, reinterpret_cast<const float*>(src), src_cs, reinterpret_cast<float*>(dst),
                           dst_rs);
    }
};

struct S64 {
    using T = int64_t;
    using V = __m256i;
    using Mask = __m256i;
    static constexpr int kLanes = 4;
    static constexpr bool kCheapMask = false;
    static V zero() { return _mm256_setzero_si256(); }
    static V broadcast(const T* p) { return _mm256_set1_epi64x(*p); }
    static Mask mask(int n) { return load_si256(kMask64 + 4 - n); }
    static V load(const T* p) { return load_si256(p); }
    static V load(const T* p, Mask m) { return _mm256_maskload_epi64(reinterpret_cast<const long long*>(p), m); }
    static void store(T* p, V v) { _mm256_storeu_si256(reinterpret_cast<V*>(p), v); }
    static void store(T* p, V v, Mask m) { _mm256_maskstore_epi64(reinterpret_cast<long long*>(p), m, v); }
    static V muladd(V a, V b, V c) {
        // There is no 64-bit product: low * low in full, and the low halves of the two cross products.
        const V cross = _mm256_mullo_epi32(a, _mm256_shuffle_epi32(b, 0xb1));
        const V high = _mm256_slli_epi64(_mm256_add_epi32(cross, _mm256_srli_epi64(cross, 32)), 32);
        return _mm256_add_epi64(_mm256_add_epi64(_mm256_mul_epu32(a, b), high), c);
    }
    static V add(V a, V b) { return _mm256_add_epi64(a, b); }
    static void pack_transposed(int64_t kc, int64_t cols, const T* src, int64_t src_cs, T* dst, int64_t dst_rs) {
        pack_transposed_64(kc, cols, reinterpret_cast<const double*>(src), src_cs, reinterpret_cast<double*>(dst),
                           dst_rs);
    }
};

struct U8 {
    using T = uint8_t;
    using V = __m256i;
    using Mask = int;  // no masked bytes in AVX2: the number of lanes, copied through memory
    static constexpr int kLanes = 32;
    static constexpr bool kCheapMask = false;
    static V zero() { return _mm256_setzero_si256(); }
    static V broadcast(const T* p) { return _mm256_set1_epi8(static_cast<char>(*p)); }
    static Mask mask(int n) { return n; }
    static V load(const T* p) { return load_si256(p); }
    static V load(const T* p, Mask n) {
        alignas(32) T lanes[32] = {};
        std::memcpy(lanes, p, static_cast<size_t>(n));
        return load_si256(lanes);
    }
    static void store(T* p, V v) { _mm256_storeu_si256(reinterpret_cast<V*>(p), v); }
    static void store(T* p, V v, Mask n) {
        alignas(32) T lanes[32];
        store(lanes, v);
        std::memcpy(p, lanes, static_cast<size_t>(n));
    }
    static V muladd(V a, V b, V c) {
        // There is no 8-bit product: even and odd bytes go through 16-bit ones, whose low halves are right.
        const V even = _mm256_and_si256(_mm256_mullo_epi16(a, b), _mm256_set1_epi16(0xff));
        const V odd = _mm256_slli_epi16(_mm256_mullo_epi16(_mm256_srli_epi16(a, 8), _mm256_srli_epi16(b, 8)), 8);
        return _mm256_add_epi8(_mm256_or_si256(even, odd), c);
    }
    static V add(V a, V b) { return _mm256_add_epi8(a, b); }
    static void pack_transposed(int64_t kc, int64_t cols, const T* src, int64_t src_cs, T* dst, int64_t dst_rs) {
        for (int64_t j = 0; j < cols; ++j) {
            for (int64_t p = 0; p < kc; ++p) dst[p * dst_rs + j] = src[j * src_cs + p];
        }
    }
};

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

// 6 x 2 accumulators, 2 vectors of B and 1 of A fill the 16 registers but one.
constexpr auto kF32 = make_float_kernels<F32, 12, 6, 2>(dots_avx2);
constexpr auto kF64 = make_float_kernels<F64, 12, 6, 2>(dots_avx2);
constexpr auto kS32 = make_kernels<S32, 6, 4, 2>();
constexpr auto kS64 = make_kernels<S64, 4, 4, 1>();
constexpr auto kU8 = make_kernels<U8, 4, 4, 1>();

struct VectorF32 : F32 {
    using Low = __m128;
    static constexpr int kStrip = 8;
    static constexpr int kColumns = 4;
    static Low fold(const V (&sum)[2]) {
        const V v = add(sum[0], sum[1]);
        return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    }
};

struct VectorF64 : F64 {
    using Low = __m128d;
    static constexpr int kStrip = 8;
    static constexpr int kColumns = 2;
    static Low fold(const V (&sum)[4]) {
        const V v = add(add(sum[0], sum[2]), add(sum[1], sum[3]));
        return _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    }
};

constexpr auto kVectorF32 = make_vector_kernels<VectorF32>();
constexpr auto kVectorF64 = make_vector_kernels<VectorF64>();

}  // namespace

void dots_avx2(int64_t kc, int64_t cols, const float* a, int64_t a_cs, const float* b, int64_t b_cs, float* c,
               bool accumulate) {
    dot_all_columns<F32>(kc, cols, a, a_cs, b, b_cs, c, accumulate);
}

void dots_avx2(int64_t kc, int64_t cols, const double* a, int64_t a_cs, const double* b, int64_t b_cs, double* c,
               bool accumulate) {
    dot_all_columns<F64>(kc, cols, a, a_cs, b, b_cs, c, accumulate);
}

template <>
const Kernels<float>& avx2_kernels<float>() {
    return kF32;
}
template <>
const Kernels<double>& avx2_kernels<double>() {
    return kF64;
}
template <>
const VectorKernels<float>& avx2_vector_kernels<float>() {
    return kVectorF32;
}
template <>
const VectorKernels<double>& avx2_vector_kernels<double>() {
    return kVectorF64;
}
template <>
const Kernels<int32_t>& avx2_kernels<int32_t>() {
    return kS32;
}
template <>
const Kernels<int64_t>& avx2_kernels<int64_t>() {
    return kS64;
}
template <>
const Kernels<uint8_t>& avx2_kernels<uint8_t>() {
    return kU8;
}

}  // namespace mt::gemm_detail

#endif
