// The loops of the random ops, compiled once for each instruction set.
#include <limits>

#include "kernels/cpu/random/random.h"
// What comes after it is for one instruction set.
#include "kernels/cpu/loops/target.h"
// Which the numbers and the distributions need.
#include "kernels/cpu/math/functions.h"
#include "kernels/cpu/random/philox.h"

namespace mt::cpu::MT_ISA_NS {
namespace {

namespace math = mt::MT_ISA_NS::math;

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
