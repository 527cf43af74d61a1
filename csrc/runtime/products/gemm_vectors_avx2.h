// Vectors of floating-point numbers for AVX2 with FMA, and how blocks of them are transposed. Included by files for
// that target, after their `#pragma GCC target`.
#pragma once

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

}  // namespace
}  // namespace mt::gemm_detail
