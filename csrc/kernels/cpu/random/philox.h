// Philox4x32-10, the counter-based generator (Salmon et al., SC 2011), many blocks at a time. For files that are
// compiled once for each instruction set: included after kernels/cpu/loops/target.h.
#pragma once

#include <cstdint>

namespace mt::cpu::MT_ISA_NS {
namespace {

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

// Four words for each of `count` blocks from block `first` on.
inline void philox(uint64_t seed, uint64_t offset, uint64_t first, int64_t count, uint32_t* words) {
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

}  // namespace
}  // namespace mt::cpu::MT_ISA_NS
