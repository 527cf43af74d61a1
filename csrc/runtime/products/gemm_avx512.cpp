// Kernels for AVX-512. The target applies to this file only, from the pragma on: standard headers come before it.
#include <immintrin.h>

#include <cstdint>
#include <utility>

#include "runtime/products/gemm_kernels.h"

// GCC 12 warns of its own "undefined" vectors in immintrin.h.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#pragma GCC target("avx2,fma,avx512f,avx512vl,avx512dq,avx512bw,prefer-vector-width=512")

#include "runtime/products/gemm_microkernel.h"
#include "runtime/products/gemv_microkernel.h"

namespace mt::gemm_detail {
namespace {

/// Packs groups of 16 columns, four k at a time: the 128-bit loads place column 4 * q + j in quarter q of register j,
/// so that a 4 x 4 transpose within the quarters finishes the work.
void pack_transposed_32(int64_t kc, int64_t cols, const float* src, int64_t src_cs, float* dst, int64_t dst_rs) {
    for (int64_t j0 = 0; j0 < cols; j0 += 16) {
        const float* column[16];
        for (int64_t j = 0; j < 16; ++j) column[j] = src + (j0 + j < cols ? j0 + j : cols - 1) * src_cs;
        int64_t p = 0;
        float* out = dst + j0;
        for (; p + 4 <= kc; p += 4, out += 4 * dst_rs) {
            __m512 r[4];
#pragma GCC unroll 4
            for (int j = 0; j < 4; ++j) {
                r[j] = _mm512_broadcast_f32x4(_mm_loadu_ps(column[j] + p));
                r[j] = _mm512_mask_broadcast_f32x4(r[j], 0x00f0, _mm_loadu_ps(column[4 + j] + p));
                r[j] = _mm512_mask_broadcast_f32x4(r[j], 0x0f00, _mm_loadu_ps(column[8 + j] + p));
                r[j] = _mm512_mask_broadcast_f32x4(r[j], 0xf000, _mm_loadu_ps(column[12 + j] + p));
            }
            const __m512d lo01 = _mm512_castps_pd(_mm512_unpacklo_ps(r[0], r[1]));
            const __m512d hi01 = _mm512_castps_pd(_mm512_unpackhi_ps(r[0], r[1]));
            const __m512d lo23 = _mm512_castps_pd(_mm512_unpacklo_ps(r[2], r[3]));
            const __m512d hi23 = _mm512_castps_pd(_mm512_unpackhi_ps(r[2], r[3]));
            _mm512_storeu_pd(out, _mm512_unpacklo_pd(lo01, lo23));
            _mm512_storeu_pd(out + dst_rs, _mm512_unpackhi_pd(lo01, lo23));
            _mm512_storeu_pd(out + 2 * dst_rs, _mm512_unpacklo_pd(hi01, hi23));
            _mm512_storeu_pd(out + 3 * dst_rs, _mm512_unpackhi_pd(hi01, hi23));
        }
        for (; p < kc; ++p, out += dst_rs) {
            for (int j = 0; j < 16; ++j) out[j] = column[j][p];
        }
    }
}

/// The same for groups of 8 columns of 64 bits, two k at a time.
void pack_transposed_64(int64_t kc, int64_t cols, const double* src, int64_t src_cs, double* dst, int64_t dst_rs) {
    for (int64_t j0 = 0; j0 < cols; j0 += 8) {
        const double* column[8];
        for (int64_t j = 0; j < 8; ++j) column[j] = src + (j0 + j < cols ? j0 + j : cols - 1) * src_cs;
        int64_t p = 0;
        double* out = dst + j0;
        for (; p + 2 <= kc; p += 2, out += 2 * dst_rs) {
            __m512d r[2];
#pragma GCC unroll 2
            for (int j = 0; j < 2; ++j) {
                r[j] = _mm512_broadcast_f64x2(_mm_loadu_pd(column[j] + p));
                r[j] = _mm512_mask_broadcast_f64x2(r[j], 0x0c, _mm_loadu_pd(column[2 + j] + p));
                r[j] = _mm512_mask_broadcast_f64x2(r[j], 0x30, _mm_loadu_pd(column[4 + j] + p));
                r[j] = _mm512_mask_broadcast_f64x2(r[j], 0xc0, _mm_loadu_pd(column[6 + j] + p));
            }
            _mm512_storeu_pd(out, _mm512_unpacklo_pd(r[0], r[1]));
            _mm512_storeu_pd(out + dst_rs, _mm512_unpackhi_pd(r[0], r[1]));
        }
        for (; p < kc; ++p, out += dst_rs) {
            for (int j = 0; j < 8; ++j) out[j] = column[j][p];
        }
    }
}

struct F32 {
    using T = float;
    using V = __m512;
    using Mask = __mmask16;
    static constexpr int kLanes = 16;
    static constexpr bool kCheapMask = true;
    static V zero() { return _mm512_setzero_ps(); }
    static V broadcast(const T* p) { return _mm512_set1_ps(*p); }
    static Mask mask(int n) { return static_cast<Mask>((1u << n) - 1); }
    static V load(const T* p) { return _mm512_loadu_ps(p); }
    static V load(const T* p, Mask m) { return _mm512_maskz_loadu_ps(m, p); }
    static void store(T* p, V v) { _mm512_storeu_ps(p, v); }
    static void store(T* p, V v, Mask m) { _mm512_mask_storeu_ps(p, m, v); }
    static V muladd(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
    static V add(V a, V b) { return _mm512_add_ps(a, b); }
    static constexpr PackTransposed<T> pack_transposed = pack_transposed_32;
};

struct F64 {
    using T = double;
    using V = __m512d;
    using Mask = __mmask8;
    static constexpr int kLanes = 8;
    static constexpr bool kCheapMask = true;
    static V zero() { return _mm512_setzero_pd(); }
    static V broadcast(const T* p) { return _mm512_set1_pd(*p); }
    static Mask mask(int n) { return static_cast<Mask>((1u << n) - 1); }
    static V load(const T* p) { return _mm512_loadu_pd(p); }
    static V load(const T* p, Mask m) { return _mm512_maskz_loadu_pd(m, p); }
    static void store(T* p, V v) { _mm512_storeu_pd(p, v); }
    static void store(T* p, V v, Mask m) { _mm512_mask_storeu_pd(p, m, v); }
    static V muladd(V a, V b, V c) { return _mm512_fmadd_pd(a, b, c); }
    static V add(V a, V b) { return _mm512_add_pd(a, b); }
    static constexpr PackTransposed<T> pack_transposed = pack_transposed_64;
};

struct S32 {
    using T = int32_t;
    using V = __m512i;
    using Mask = __mmask16;
    static constexpr int kLanes = 16;
    static constexpr bool kCheapMask = true;
    static V zero() { return _mm512_setzero_si512(); }
    static V broadcast(const T* p) { return _mm512_set1_epi32(*p); }
    static Mask mask(int n) { return static_cast<Mask>((1u << n) - 1); }
    static V load(const T* p) { return _mm512_loadu_si512(p); }
    static V load(const T* p, Mask m) { return _mm512_maskz_loadu_epi32(m, p); }
    static void store(T* p, V v) { _mm512_storeu_si512(p, v); }
    static void store(T* p, V v, Mask m) { _mm512_mask_storeu_epi32(p, m, v); }
    static V muladd(V a, V b, V c) { return _mm512_add_epi32(_mm512_mullo_epi32(a, b), c); }
    static V add(V a, V b) { return _mm512_add_epi32(a, b); }
    static void pack_transposed(int64_t kc, int64_t cols, const T* src, int64_t src_cs, T* dst, int64_t dst_rs) {
        pack_transposed_32(kc, cols, reinterpret_cast<const float*>(src), src_cs, reinterpret_cast<float*>(dst),
                           dst_rs);
    }
};

struct S64 {
    using T = int64_t;
    using V = __m512i;
    using Mask = __mmask8;
    static constexpr int kLanes = 8;
    static constexpr bool kCheapMask = true;
    static V zero() { return _mm512_setzero_si512(); }
    static V broadcast(const T* p) { return _mm512_set1_epi64(*p); }
    static Mask mask(int n) { return static_cast<Mask>((1u << n) - 1); }
    static V load(const T* p) { return _mm512_loadu_si512(p); }
    static V load(const T* p, Mask m) { return _mm512_maskz_loadu_epi64(m, p); }
    static void store(T* p, V v) { _mm512_storeu_si512(p, v); }
    static void store(T* p, V v, Mask m) { _mm512_mask_storeu_epi64(p, m, v); }
    static V muladd(V a, V b, V c) { return _mm512_add_epi64(_mm512_mullo_epi64(a, b), c); }
    static V add(V a, V b) { return _mm512_add_epi64(a, b); }
    static void pack_transposed(int64_t kc, int64_t cols, const T* src, int64_t src_cs, T* dst, int64_t dst_rs) {
        pack_transposed_64(kc, cols, reinterpret_cast<const double*>(src), src_cs, reinterpret_cast<double*>(dst),
                           dst_rs);
    }
};

struct U8 {
    using T = uint8_t;
    using V = __m512i;
    using Mask = __mmask64;
    static constexpr int kLanes = 64;
    static constexpr bool kCheapMask = true;
    static V zero() { return _mm512_setzero_si512(); }
    static V broadcast(const T* p) { return _mm512_set1_epi8(static_cast<char>(*p)); }
    static Mask mask(int n) { return n == 64 ? ~Mask{0} : (Mask{1} << n) - 1; }
    static V load(const T* p) { return _mm512_loadu_si512(p); }
    static V load(const T* p, Mask m) { return _mm512_maskz_loadu_epi8(m, p); }
    static void store(T* p, V v) { _mm512_storeu_si512(p, v); }
    static void store(T* p, V v, Mask m) { _mm512_mask_storeu_epi8(p, m, v); }
    static V muladd(V a, V b, V c) {
        // There is no 8-bit product: even and odd bytes go through 16-bit ones, whose low halves are right.
        const V even = _mm512_mullo_epi16(a, b);
        const V odd = _mm512_slli_epi16(_mm512_mullo_epi16(_mm512_srli_epi16(a, 8), _mm512_srli_epi16(b, 8)), 8);
        return _mm512_add_epi8(_mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaaull, even, odd), c);
    }
    static V add(V a, V b) { return _mm512_add_epi8(a, b); }
    static void pack_transposed(int64_t kc, int64_t cols, const T* src, int64_t src_cs, T* dst, int64_t dst_rs) {
        for (int64_t j = 0; j < cols; ++j) {
            for (int64_t p = 0; p < kc; ++p) dst[p * dst_rs + j] = src[j * src_cs + p];
        }
    }
};

// 14 x 2 accumulators, 2 vectors of B and 1 of A fill the 32 registers but one.
constexpr auto kF32 = make_float_kernels<F32, 14, 14, 6>(dots_avx2);
constexpr auto kF64 = make_float_kernels<F64, 14, 14, 6>(dots_avx2);
constexpr auto kS32 = make_kernels<S32, 8, 8, 4>();
constexpr auto kS64 = make_kernels<S64, 8, 8, 4>();
constexpr auto kU8 = make_kernels<U8, 8, 8, 2>();

struct VectorF32 : F32 {
    using Low = __m128;
    static constexpr int kColumns = 4;
    static Low fold(const V (&sum)[1]) {
        const __m256 v = _mm256_add_ps(_mm512_castps512_ps256(sum[0]), _mm512_extractf32x8_ps(sum[0], 1));
        return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    }
};

struct VectorF64 : F64 {
    using Low = __m128d;
    static constexpr int kColumns = 4;
    static Low fold(const V (&sum)[2]) {
        const V both = add(sum[0], sum[1]);
        const __m256d v = _mm256_add_pd(_mm512_castpd512_pd256(both), _mm512_extractf64x4_pd(both, 1));
        return _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    }
};

constexpr auto kVectorF32 = make_vector_kernels<VectorF32>();
constexpr auto kVectorF64 = make_vector_kernels<VectorF64>();

}  // namespace

template <>
const Kernels<float>& avx512_kernels<float>() {
    return kF32;
}
template <>
const Kernels<double>& avx512_kernels<double>() {
    return kF64;
}
template <>
const VectorKernels<float>& avx512_vector_kernels<float>() {
    return kVectorF32;
}
template <>
const VectorKernels<double>& avx512_vector_kernels<double>() {
    return kVectorF64;
}
template <>
const Kernels<int32_t>& avx512_kernels<int32_t>() {
    return kS32;
}
template <>
const Kernels<int64_t>& avx512_kernels<int64_t>() {
    return kS64;
}
template <>
const Kernels<uint8_t>& avx512_kernels<uint8_t>() {
    return kU8;
}

}  // namespace mt::gemm_detail
