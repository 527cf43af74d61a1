// The random loops for one instruction set. Included by random_{baseline,avx2,avx512}.cpp after every other header,
// with MT_ISA_NS and MT_VECTOR_BYTES defined. All functions have internal linkage.
#pragma once

#include "kernels/cpu/math.h"

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

}  // namespace

extern constinit const RandomTable random_table = {philox,     uniform_f32, uniform_f64, normal_f32,
                                                   normal_f64, integer_32,  integer_64};

}  // namespace mt::cpu::MT_ISA_NS
