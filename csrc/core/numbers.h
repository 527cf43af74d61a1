// The element types that C++ has no name for: half, bfloat16 and complex numbers, with their conversions to float32,
// and floats of eight bits, whose conversions are in float8.h.
#pragma once

#include <cstdint>

namespace mt {

struct half {
    uint16_t bits;
};
struct bfloat16 {
    uint16_t bits;
};
struct float8_e4m3fn {
    uint8_t bits;
};
struct float8_e4m3fnuz {
    uint8_t bits;
};
struct float8_e5m2 {
    uint8_t bits;
};
struct float8_e5m2fnuz {
    uint8_t bits;
};
struct float8_e8m0fnu {
    uint8_t bits;
};
struct complex64 {
    float re, im;
    bool operator==(const complex64&) const = default;
};
struct complex128 {
    double re, im;
    bool operator==(const complex128&) const = default;
};

// Round to nearest even; NaN stays NaN, made quiet, with the upper bits of its payload: what the F16C instructions do.
static inline constexpr uint16_t half_bits(float value) {
    uint32_t x = __builtin_bit_cast(uint32_t, value), sign = x >> 16 & 0x8000, a = x & 0x7FFFFFFF;
    // Below the smallest normal half, adding 0.5 leaves the rounded multiple of 2^-24 in the lowest bits.
    uint32_t tiny = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, a < 0x38800000 ? a : 0) + 0.5f) - 0x3F000000;
    uint32_t normal = (a + 0xC8000FFF + (a >> 13 & 1)) >> 13;
    uint32_t special = a > 0x7F800000 ? 0x7E00 | (a >> 13 & 0x3FF) : 0x7C00;
    return static_cast<uint16_t>(sign | (a >= 0x477FF000 ? special : a < 0x38800000 ? tiny : normal));
}
static inline constexpr float float_of_half(uint16_t h) {
    uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, a = static_cast<uint32_t>(h & 0x7FFF) << 13;
    // As a float its exponent is short by 112; the product is exact, for denormals too.
    uint32_t number = __builtin_bit_cast(uint32_t, __builtin_bit_cast(float, a) * 0x1p112f);
    uint32_t special = a | 0x7F800000 | (a & 0x7FFFFF ? 0x400000 : 0);
    return __builtin_bit_cast(float, sign | (a >= 0x0F800000 ? special : number));
}
// Round to nearest even; any NaN becomes the one quiet NaN.
static inline constexpr uint16_t bfloat16_bits(float value) {
    uint32_t x = __builtin_bit_cast(uint32_t, value);
    return static_cast<uint16_t>((x & 0x7FFFFFFF) > 0x7F800000 ? 0x7FC0 : (x + 0x7FFF + (x >> 16 & 1)) >> 16);
}
static inline constexpr float float_of_bfloat16(uint16_t b) {
    return __builtin_bit_cast(float, static_cast<uint32_t>(b) << 16);
}

}  // namespace mt
