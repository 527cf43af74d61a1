// The loops of the random ops, compiled once for each instruction set.
#include <limits>

#include "kernels/cpu/random/random.h"
// What comes after it is for one instruction set.
#include "kernels/cpu/loops/target.h"
// Which the distributions need.
#include "kernels/cpu/math/functions.h"

namespace mt::cpu::MT_ISA_NS {
namespace {

namespace math = mt::MT_ISA_NS::math;

typedef uint64_t Lanes __attribute__((vector_size(MT_VECTOR_BYTES)));
typedef int64_t LaneIndex __attribute__((vector_size(MT_VECTOR_BYTES)));
constexpr int kLanes = MT_VECTOR_BYTES / 8;

// Product of the low halves.
inline Lanes multiply(Lanes a, Lanes b) {
#if MT_VECTOR_BYTES == 64
    // The form with a mask, of which nothing remains: gcc 12 warns of the other one.
    return reinterpret_cast<Lanes>(
        _mm512_maskz_mul_epu32(0xff, reinterpret_cast<__m512i>(a), reinterpret_cast<__m512i>(b)));
#elif MT_VECTOR_BYTES == 32
    return reinterpret_cast<Lanes>(_mm256_mul_epu32(reinterpret_cast<__m256i>(a), reinterpret_cast<__m256i>(b)));
#elif defined(__SSE2__)
    return reinterpret_cast<Lanes>(_mm_mul_epu32(reinterpret_cast<__m128i>(a), reinterpret_cast<__m128i>(b)));
#else
    return (a & 0xffffffff) * (b & 0xffffffff);
#endif
}

inline Lanes splat(uint64_t value) { return value - Lanes{}; }

// Several vectors of blocks at a time hide the multiplier's latency. A word is the low half of a lane; what is above it
// is never read.
constexpr int kStreams = 4;

void philox(uint64_t seed, uint64_t offset, uint64_t first, int64_t count, uint32_t* words) {
    constexpr int64_t step = kStreams * kLanes;
    const Lanes multiplier0 = splat(0xD2511F53), multiplier1 = splat(0xCD9E8D57);
    LaneIndex lane, low_order, high_order;
    for (int i = 0; i < kLanes; ++i) {
        lane[i] = i;
        low_order[i] = i / 2 + (i % 2) * kLanes;
        high_order[i] = low_order[i] + kLanes / 2;
    }
    for (int64_t done = 0; done < count; done += step) {
        Lanes x0[kStreams], x1[kStreams], x2[kStreams], x3[kStreams];
        for (int s = 0; s < kStreams; ++s) {
            x0[s] = splat(first + static_cast<uint64_t>(done + s * kLanes)) + reinterpret_cast<Lanes>(lane);
            x1[s] = x0[s] >> 32;
            x2[s] = splat(offset);
            x3[s] = splat(offset >> 32);
        }
        auto key0 = static_cast<uint32_t>(seed), key1 = static_cast<uint32_t>(seed >> 32);
        for (int round = 0; round < 10; ++round) {
            const Lanes k0 = splat(key0), k1 = splat(key1);
#pragma GCC unroll 4
            for (int s = 0; s < kStreams; ++s) {
                Lanes product0 = multiply(x0[s], multiplier0), product1 = multiply(x2[s], multiplier1);
                x0[s] = (product1 >> 32) ^ x1[s] ^ k0;
                x1[s] = product1;
                x2[s] = (product0 >> 32) ^ x3[s] ^ k1;
                x3[s] = product0;
            }
            key0 += 0x9E3779B9;
            key1 += 0xBB67AE85;
        }
        Lanes result[2 * kStreams];
        for (int s = 0; s < kStreams; ++s) {
            Lanes a = (x0[s] & 0xffffffff) | x1[s] << 32, b = (x2[s] & 0xffffffff) | x3[s] << 32;
            result[2 * s] = __builtin_shuffle(a, b, low_order);
            result[2 * s + 1] = __builtin_shuffle(a, b, high_order);
        }
        int64_t blocks = count - done < step ? count - done : step;
        __builtin_memcpy(words + done * 4, result, static_cast<size_t>(blocks) * 16);
    }
}

inline float unit_f32(uint32_t word) { return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24f; }
inline double unit_f64(uint64_t word) { return static_cast<double>(static_cast<int64_t>(word >> 11)) * 0x1p-53; }
// Little-endian: the low half comes first.
inline uint64_t word_64(const uint32_t* words, int64_t i) {
    return words[2 * i] | static_cast<uint64_t>(words[2 * i + 1]) << 32;
}

void uniform_f32(const uint32_t* words, int64_t n, float low, float range, float* out) {
    for (int64_t i = 0; i < n; ++i) out[i] = unit_f32(words[i]) * range + low;
}

void uniform_f64(const uint32_t* words, int64_t n, double low, double range, double* out) {
    for (int64_t i = 0; i < n; ++i) out[i] = unit_f64(word_64(words, i)) * range + low;
}

// Box and Muller's pair of one pair of numbers in [0, 1).
template <class T> inline void normal_pair(T u1, T u2, T mean, T std_dev, T* out) {
    T radius = sizeof(T) == 4 ? T(__builtin_sqrtf(float(T(-2) * math::log(T(1) - u1))))
                              : T(__builtin_sqrt(double(T(-2) * math::log(T(1) - u1))));
    auto [sine, cosine] = math::sincospi2(u2);
    out[0] = radius * cosine * std_dev + mean;
    out[1] = radius * sine * std_dev + mean;
}

void normal_f32(const uint32_t* words, int64_t n, float mean, float std_dev, float* out) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n / 2; ++i)
        normal_pair(unit_f32(words[2 * i]), unit_f32(words[2 * i + 1]), mean, std_dev, out + 2 * i);
}

void normal_f64(const uint32_t* words, int64_t n, double mean, double std_dev, double* out) {
#pragma GCC ivdep
    for (int64_t i = 0; i < n / 2; ++i)
        normal_pair(unit_f64(word_64(words, 2 * i)), unit_f64(word_64(words, 2 * i + 1)), mean, std_dev, out + 2 * i);
}

void integer_32(const uint32_t* words, int64_t n, int64_t low, uint64_t range, int64_t* out) {
    // The range is at most 2^32: in two parts, since the product of 2^32 does not fit the vector multiplication's
    // operand.
    if (range == uint64_t(1) << 32) {
        for (int64_t i = 0; i < n; ++i) out[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + words[i]);
        return;
    }
    auto narrow = static_cast<uint32_t>(range);
    for (int64_t i = 0; i < n; ++i)
        out[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + (static_cast<uint64_t>(words[i]) * narrow >> 32));
}

void integer_64(const uint32_t* words, int64_t n, int64_t low, uint64_t range, int64_t* out) {
    for (int64_t i = 0; i < n; ++i) {
        auto product = static_cast<unsigned __int128>(word_64(words, i)) * range;
        out[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + static_cast<uint64_t>(product >> 64));
    }
}

inline float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

void torch_uniform(const uint32_t* words, int64_t n, float low, float range, float* out) {
    constexpr uint32_t mask = (uint32_t{1} << 24) - 1;
    constexpr float unit = 0x1p-24f;
    for (int64_t i = 0; i < n; ++i)
        out[i] = fused(static_cast<float>(static_cast<int32_t>(words[i] & mask)) * unit, range, low);
}

// The logarithm, and sine and cosine, by the polynomials of the Cephes library (Moshier, single precision), with the
// roundings that PyTorch's vectors have: where a product is only added to something, both are one operation.
inline float cephes_log(float x) {
    const auto bits = __builtin_bit_cast(int32_t, x);
    float m = __builtin_bit_cast(float, (bits & 0x007fffff) | 0x3f000000);
    float e = static_cast<float>((bits >> 23) - 126);
    const bool low = m < 0.707106781186547524f;
    const float added = low ? m : 0.0f;
    e -= low ? 1.0f : 0.0f;
    m = m - 1.0f + added;
    const float square = m * m;
    float y = fused(7.0376836292e-2f, m, -1.1514610310e-1f);
    y = fused(y, m, 1.1676998740e-1f);
    y = fused(y, m, -1.2420140846e-1f);
    y = fused(y, m, 1.4249322787e-1f);
    y = fused(y, m, -1.6668057665e-1f);
    y = fused(y, m, 2.0000714765e-1f);
    y = fused(y, m, -2.4999993993e-1f);
    y = fused(y, m, 3.3333331174e-1f);
    y = fused(y * m, square, e * -2.12194440e-4f);
    y = fused(-square, 0.5f, y);
    return fused(e, 0.693359375f, m + y);
}

struct CephesAngle {
    float sine, cosine;
};

// Of x >= 0.
inline CephesAngle cephes_sincos(float x) {
    const int32_t octant = (static_cast<int32_t>(x * 1.27323954473516f) + 1) & ~1;
    const float turns = static_cast<float>(octant);
    x = fused(turns, -0.78515625f, x);
    x = fused(turns, -2.4187564849853515625e-4f, x);
    x = fused(turns, -3.77489497744594108e-8f, x);
    const float square = x * x;
    float even = fused(2.443315711809948e-5f, square, -1.388731625493765e-3f);
    even = fused(even, square, 4.166664568298827e-2f);
    even = fused(even * square, square, -(square * 0.5f)) + 1.0f;
    float odd = fused(-1.9515295891e-4f, square, 8.3321608736e-3f);
    odd = fused(odd, square, -1.6666654611e-1f);
    odd = fused(odd * square, x, x);
    const bool swapped = octant & 2;
    const int32_t sine_sign = static_cast<int32_t>(static_cast<uint32_t>(octant & 4) << 29);
    const int32_t cosine_sign = static_cast<int32_t>(static_cast<uint32_t>(~(octant - 2) & 4) << 29);
    return {__builtin_bit_cast(float, __builtin_bit_cast(int32_t, swapped ? even : odd) ^ sine_sign),
            __builtin_bit_cast(float, __builtin_bit_cast(int32_t, swapped ? odd : even) ^ cosine_sign)};
}

void torch_normal(float* data, int64_t groups, float mean, float std_dev) {
    for (int64_t g = 0; g < groups; ++g, data += 16) {
#pragma GCC ivdep
        for (int i = 0; i < 8; ++i) {
            const float radius = __builtin_sqrtf(-2.0f * cephes_log(1.0f - data[i]));
            const CephesAngle angle = cephes_sincos(6.283185307179586f * data[i + 8]);
            data[i] = fused(radius * angle.cosine, std_dev, mean);
            data[i + 8] = fused(radius * angle.sine, std_dev, mean);
        }
    }
}

}  // namespace

extern constinit const RandomTable random_table = {philox,     uniform_f32, uniform_f64,   normal_f32,  normal_f64,
                                                   integer_32, integer_64,  torch_uniform, torch_normal};

}  // namespace mt::cpu::MT_ISA_NS
