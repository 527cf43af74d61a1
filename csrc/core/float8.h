// Floating-point numbers of eight bits: how PyTorch 2.13 rounds float32 to them on the CPU, and what their codes mean.
// They are stored and converted, not computed with.
#pragma once

#include <array>
#include <cstdint>

#include "core/numbers.h"

namespace mt {

// What is too large for a format: the largest number, infinity, or NaN in the place of a negative zero.
enum class Float8Excess : uint8_t { Saturates, Infinity, NegativeZero };

template <int mantissa_bits, int exponent_bias, Float8Excess excess_is>
struct Float8Format {
    static constexpr int mantissa = mantissa_bits, bias = exponent_bias;
    static constexpr Float8Excess excess = excess_is;
};

template <class T>
struct Float8FormatOf;
template <>
struct Float8FormatOf<float8_e4m3fn> {
    using type = Float8Format<3, 7, Float8Excess::Saturates>;
};
template <>
struct Float8FormatOf<float8_e4m3fnuz> {
    using type = Float8Format<3, 8, Float8Excess::NegativeZero>;
};
template <>
struct Float8FormatOf<float8_e5m2> {
    using type = Float8Format<2, 15, Float8Excess::Infinity>;
};
template <>
struct Float8FormatOf<float8_e5m2fnuz> {
    using type = Float8Format<2, 16, Float8Excess::NegativeZero>;
};

// To nearest even. NaN gets all bits but the sign, or the code of a negative zero.
template <class T>
constexpr uint8_t float8_bits(float value) {
    using F = typename Float8FormatOf<T>::type;
    constexpr int shift = 23 - F::mantissa;
    constexpr uint32_t normal_from = uint32_t(128 - F::bias) << 23;
    // Adding what has its last bit leaves the rounded multiple of the smallest number in the lowest bits.
    constexpr uint32_t magic = uint32_t(151 - F::bias - F::mantissa) << 23;
    constexpr bool no_negative_zero = F::excess == Float8Excess::NegativeZero;
    // The first code that is no finite number.
    constexpr uint32_t end = no_negative_zero                       ? 0x80
                             : F::excess == Float8Excess::Saturates ? 0x7F
                                                                    : 0x80 - (1 << F::mantissa);
    constexpr uint32_t excess = end - (F::excess == Float8Excess::Saturates);
    uint32_t x = __builtin_bit_cast(uint32_t, value), sign = x >> 24 & 0x80, a = x & 0x7FFFFFFF;
    float sum = __builtin_bit_cast(float, a < normal_from ? a : 0) + __builtin_bit_cast(float, magic);
    uint32_t tiny = __builtin_bit_cast(uint32_t, sum) - magic;
    uint32_t normal = ((a + ((1u << (shift - 1)) - 1) + (a >> shift & 1)) >> shift) -
                      (uint32_t(127 - F::bias) << F::mantissa);
    uint32_t code = a < normal_from ? tiny : normal;
    code = code < end ? code : excess;
    if (!no_negative_zero) code = a > 0x7F800000 ? 0x7F : code;
    if (no_negative_zero) sign = code == 0 ? 0 : sign;
    return static_cast<uint8_t>(code | sign);
}
// A power of two: half of the way rounds up, of the way to the smallest normal float32 down. The sign is dropped.
template <>
constexpr uint8_t float8_bits<float8_e8m0fnu>(float value) {
    uint32_t a = __builtin_bit_cast(uint32_t, value) & 0x7FFFFFFF;
    uint32_t code = (a + (a < 1u << 23 ? 0x3FFFFF : 0x400000)) >> 23;
    return static_cast<uint8_t>(code < 255 ? code : 255);
}

template <class T>
constexpr float float_of_float8(uint8_t bits) {
    using F = typename Float8FormatOf<T>::type;
    uint32_t sign = uint32_t(bits & 0x80) << 24, size = bits & 0x7F;
    if (F::excess == Float8Excess::NegativeZero && bits == 0x80) return __builtin_bit_cast(float, 0x7FC00000u);
    if (F::excess == Float8Excess::Saturates && size == 0x7F) return __builtin_bit_cast(float, sign | 0x7FC00000u);
    if (F::excess == Float8Excess::Infinity && size >= 0x80 - (1 << F::mantissa))
        return __builtin_bit_cast(float, sign | 0x7F800000u | (size > 0x80 - (1 << F::mantissa) ? 0x400000u : 0u));
    // As a float its exponent is short; the product is exact, for denormals too.
    float scale = __builtin_bit_cast(float, uint32_t(254 - F::bias) << 23);
    float number = __builtin_bit_cast(float, size << (23 - F::mantissa)) * scale;
    return __builtin_bit_cast(float, sign | __builtin_bit_cast(uint32_t, number));
}
template <>
constexpr float float_of_float8<float8_e8m0fnu>(uint8_t bits) {
    return __builtin_bit_cast(float, bits == 255 ? 0x7FC00000u : bits ? uint32_t{bits} << 23 : 1u << 22);
}

// What each code means.
template <class T>
inline constexpr std::array<float, 256> kFloat8Values = [] {
    std::array<float, 256> values{};
    for (int code = 0; code < 256; ++code)
        values[static_cast<size_t>(code)] = float_of_float8<T>(static_cast<uint8_t>(code));
    return values;
}();

}  // namespace mt
