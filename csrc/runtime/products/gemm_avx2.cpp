// Kernels for AVX2 with FMA. The target applies to this file only, from the pragma on: standard headers come before it.
#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <utility>

#include "runtime/products/gemm_kernels.h"

#pragma GCC target("avx2,fma")

#include "runtime/products/gemm_microkernel.h"
#include "runtime/products/gemm_vectors_avx2.h"
#include "runtime/products/gemv_microkernel.h"

namespace mt::gemm_detail {
namespace {

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

// 6 x 2 accumulators, 2 vectors of B and 1 of A fill the 16 registers but one.
constexpr auto kF32 = make_float_kernels<F32, 12, 6, 2>(dots_avx2);
constexpr auto kF64 = make_float_kernels<F64, 12, 6, 2>(dots_avx2);
constexpr auto kS32 = make_kernels<S32, 6, 4, 2>();
constexpr auto kS64 = make_kernels<S64, 4, 4, 1>();
constexpr auto kU8 = make_kernels<U8, 4, 4, 1>();

struct VectorF32 : F32 {
    using Low = __m128;
    static constexpr int kColumns = 4;
    static Low fold(const V (&sum)[2]) {
        const V v = add(sum[0], sum[1]);
        return _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    }
};

struct VectorF64 : F64 {
    using Low = __m128d;
    static constexpr int kColumns = 2;
    static Low fold(const V (&sum)[4]) {
        const V v = add(add(sum[0], sum[2]), add(sum[1], sum[3]));
        return _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
    }
};

constexpr auto kVectorF32 = make_vector_kernels<VectorF32>();
constexpr auto kVectorF64 = make_vector_kernels<VectorF64>();

}  // namespace

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
