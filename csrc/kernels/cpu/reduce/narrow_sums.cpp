// narrow_sums.h for AVX-512 and AVX2.
#include "kernels/cpu/reduce/narrow_sums.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "core/isa.h"
#include "core/numbers.h"

#if defined(__x86_64__)
#pragma GCC push_options
#pragma GCC target("avx512f,avx512vl,avx512dq,avx512bw,avx2,fma,f16c,prefer-vector-width=512")
namespace mt::cpu::narrow512 {
namespace {

using Vector = __m512;
constexpr int kWidth = 16;

// With a mask, since the header of the other makes the compiler warn of an undefined value.
inline Vector load_half(const uint16_t* x) {
    return _mm512_maskz_cvtph_ps(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
}
inline Vector load_bfloat16(const uint16_t* x) {
    __m512i bits = _mm512_maskz_cvtepu16_epi32(0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)));
    return _mm512_castsi512_ps(_mm512_maskz_slli_epi32(0xFFFF, bits, 16));
}

}  // namespace
}  // namespace mt::cpu::narrow512
#define MT_NARROW_NS narrow512
#include "kernels/cpu/reduce/narrow_sums_loops.h"
#undef MT_NARROW_NS
#pragma GCC pop_options

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
namespace mt::cpu::narrow256 {
namespace {

using Vector = __m256;
constexpr int kWidth = 8;

inline Vector load_half(const uint16_t* x) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
}
inline Vector load_bfloat16(const uint16_t* x) {
    __m256i bits = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x)));
    return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
}

}  // namespace
}  // namespace mt::cpu::narrow256
#define MT_NARROW_NS narrow256
#include "kernels/cpu/reduce/narrow_sums_loops.h"
#undef MT_NARROW_NS
#pragma GCC pop_options
#endif

namespace mt::cpu {

const NarrowSums* narrow_sums([[maybe_unused]] DType dtype) {
#if defined(__x86_64__)
    if (dtype != DType::F16 && dtype != DType::BF16) return nullptr;
    bool half = dtype == DType::F16;
    switch (isa()) {
        case Isa::Avx512: return half ? &narrow512::kHalf : &narrow512::kBfloat16;
        case Isa::Avx2: return half ? &narrow256::kHalf : &narrow256::kBfloat16;
        default: break;
    }
#endif
    return nullptr;
}

}  // namespace mt::cpu
