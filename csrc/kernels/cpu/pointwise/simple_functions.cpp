// Pointwise functions of a few instructions, or of a call of the C library: compiled once, for every instruction set.
#include <cmath>
#include <limits>
#include <string_view>
#include <type_traits>

#include "core/error.h"
#include "dispatch/infer/elementwise.h"
#include "dispatch/infer/pointwise.h"
#include "kernels/cpu/loops/strided_loop.h"
#include "kernels/cpu/pointwise/pointwise.h"

// Lets selects become vector blends; the values are the same.
#pragma GCC optimize("no-trapping-math")
#define MT_LOOPS_NS simple
#include "kernels/cpu/pointwise/formula_loops.h"

namespace mt::cpu {
namespace {

using simple::binary_loop;
using simple::ternary_loop;
using simple::unary_loop;

template <class T> constexpr bool kFloat = std::is_floating_point_v<T>;

// ---- tests

struct SignBit {
    template <class T> static uint8_t apply(T x) {
        if constexpr (kFloat<T>) return __builtin_signbit(x) != 0;
        else return x < T(0);
    }
};
template <bool positive> struct IsInfinity {
    template <class T> static uint8_t apply(T x) {
        if constexpr (kFloat<T>) return x == (positive ? 1 : -1) * std::numeric_limits<T>::infinity();
        else return 0;
    }
};

// ---- two operands

struct Copysign {
    template <class T> static T apply(T x, T y) { return std::copysign(x, y); }
};
struct Nextafter {
    template <class T> static T apply(T x, T y) { return std::nextafter(x, y); }
};
struct ReluBackward {
    template <class T> static T apply(T g, T y) { return y <= T(0) ? T(0) : g; }
};
struct Heaviside {
    template <class T> static T apply(T x, T y) {
        if constexpr (kFloat<T>)
            if (x != x) return T(0);
        return x == T(0) ? y : x > T(0) ? T(1) : T(0);
    }
};
struct Fmax {
    template <class T> static T apply(T x, T y) {
        if constexpr (kFloat<T>) {
            T larger = x > y ? x : y;  // y if either is NaN
            return y != y ? x : larger;
        } else {
            return x > y ? x : y;
        }
    }
};
struct Fmin {
    template <class T> static T apply(T x, T y) {
        if constexpr (kFloat<T>) {
            T smaller = x < y ? x : y;
            return y != y ? x : smaller;
        } else {
            return x < y ? x : y;
        }
    }
};
template <class T> using Unsigned = std::make_unsigned_t<T>;
template <class T> Unsigned<T> magnitude(T x) {
    auto u = static_cast<Unsigned<T>>(x);
    return x < T(0) ? static_cast<Unsigned<T>>(Unsigned<T>(0) - u) : u;
}
struct Gcd {
    template <class T> static T apply(T x, T y) {
        Unsigned<T> a = magnitude(x), b = magnitude(y);
        while (b) {
            Unsigned<T> rest = static_cast<Unsigned<T>>(a % b);
            a = b;
            b = rest;
        }
        return static_cast<T>(a);
    }
};
struct Lcm {
    template <class T> static T apply(T x, T y) {
        auto g = static_cast<Unsigned<T>>(Gcd::apply(x, y));
        if (g == 0) return T(0);
        return static_cast<T>(magnitude(static_cast<T>(magnitude(x) / g * magnitude(y))));
    }
};
// Shifts by no place that a number has: everything is shifted out.
struct LeftShift {
    template <class T> static T apply(T x, T y) {
        constexpr auto bits = static_cast<T>(sizeof(T) * 8);
        bool outside = y < T(0) || y >= bits;
        return outside ? T(0) : static_cast<T>(static_cast<Unsigned<T>>(x) << (outside ? T(0) : y));
    }
};
struct RightShift {
    template <class T> static T apply(T x, T y) {
        constexpr auto bits = static_cast<T>(sizeof(T) * 8);
        bool outside = y < T(0) || y >= bits;
        T gone = std::is_signed_v<T> && x < T(0) ? static_cast<T>(-1) : T(0);
        return outside ? gone : static_cast<T>(x >> (outside ? T(0) : y));
    }
};
// The remainder with the sign of the dividend; of integers, zero and an error where the divisor is zero.
struct AnyMod {
    template <class T> static T apply(T a, T b) {
        if constexpr (kFloat<T>) return std::fmod(a, b);
        else return b == T(0) || (std::is_signed_v<T> && b == static_cast<T>(-1)) ? T(0) : static_cast<T>(a % b);
    }
};
template <class Op, class T> bool mod_loop(void* out, const void* a, const void* b, int64_t n, unsigned scalars) {
    auto* r = static_cast<T*>(out);
    auto *x = static_cast<const T*>(a), *y = static_cast<const T*>(b);
    int64_t step_x = !(scalars & 1), step_y = !(scalars & 2);
    bool by_zero = false;
    for (int64_t i = 0; i < n; ++i) {
        const T divisor = y[i * step_y];
        if constexpr (!kFloat<T>) by_zero |= divisor == T(0);
        r[i] = Op::apply(x[i * step_x], divisor);
    }
    return !by_zero;
}

// ---- with numbers

struct ClampTensor {
    template <class T> static T apply(T x, T low, T high) {
        if constexpr (kFloat<T>) {
            T a = x < low ? low : x, b = a > high ? high : a;
            b = high != high ? high : b;
            b = low != low ? low : b;
            return x != x ? x : b;
        } else {
            T a = x < low ? low : x;
            return a > high ? high : a;
        }
    }
};

// ---- parts of a number x = mantissa 2^exponent, with the mantissa in [1/2, 1)

struct Mantissa {
    template <class T> static T apply(T x) {
        int exponent;
        return std::frexp(x, &exponent);
    }
};
struct Exponent {
    template <class T> static T apply(T x) {
        int exponent = 0;
        std::frexp(x, &exponent);
        return std::isfinite(x) ? static_cast<T>(exponent) : T(0);
    }
};

// The neighbours of 16-bit numbers are those among 16-bit numbers.
uint16_t next_of_16(uint16_t x, uint16_t y, bool x_nan, bool y_nan, uint16_t nan) {
    if (x_nan || y_nan) return nan;
    auto ordered = [](uint16_t b) { return b & 0x8000 ? -static_cast<int>(b & 0x7fff) : static_cast<int>(b); };
    int from = ordered(x), to = ordered(y);
    if (from == to) return y;
    from += to > from ? 1 : -1;
    if (from == 0) return x & 0x8000;  // a zero with the sign it was reached from
    return static_cast<uint16_t>(from < 0 ? 0x8000 | -from : from);
}

void nextafter_16(Call& call) {
    struct Context {
        uint16_t infinity, nan;
    } context = call.compute == DType::F16 ? Context{0x7c00, 0x7e00} : Context{0x7f80, 0x7fc0};
    LoopOperand operands[2] = {operand_of(call.in(0), call.compute, true), operand_of(call.in(1), call.compute, true)};
    run_elementwise(
        operand_of(*call.outputs[0], call.compute, true), operands, 2,
        [](void* opaque, void* out, const void* const* in, int64_t n, unsigned scalars) {
            auto [infinity, nan] = *static_cast<Context*>(opaque);
            auto* r = static_cast<uint16_t*>(out);
            auto *x = static_cast<const uint16_t*>(in[0]), *y = static_cast<const uint16_t*>(in[1]);
            int64_t step_x = !(scalars & 1), step_y = !(scalars & 2);
            for (int64_t i = 0; i < n; ++i) {
                uint16_t a = x[i * step_x], b = y[i * step_y];
                r[i] = next_of_16(a, b, (a & 0x7fff) > infinity, (b & 0x7fff) > infinity, nan);
            }
        },
        &context);
}

void nextafter(Call& call) {
    if (call.compute == DType::F16 || call.compute == DType::BF16) nextafter_16(call);
    else run_pointwise(call);
}

void infer_heaviside(Call& call) {
    if (call.in(0).dtype != call.in(1).dtype)
        fail("heaviside is not yet implemented for tensors with different dtypes.");
    infer_same(call);
}

template <class Op> constexpr bool is_test = requires { requires std::is_same_v<decltype(Op::apply(1.0f)), uint8_t>; };

// Columns: bool, uint8, int32, int64, float32, float64, uint64.
#define MT_FLOATS(loop, Op) {false, nullptr, nullptr, nullptr, nullptr, loop<Op, float>, loop<Op, double>}
#define MT_INTEGERS(loop, Op) \
    {false, nullptr, loop<Op, uint8_t>, loop<Op, int32_t>, loop<Op, int64_t>, nullptr, nullptr, loop<Op, uint64_t>}
#define MT_NUMBERS(loop, Op)                                                                     \
    {false,           nullptr,          loop<Op, uint8_t>, loop<Op, int32_t>, loop<Op, int64_t>, \
     loop<Op, float>, loop<Op, double>, loop<Op, uint64_t>}
#define MT_ALL(loop, Op)                                                         \
    {is_test<Op>,       loop<Op, uint8_t>, loop<Op, uint8_t>, loop<Op, int32_t>, \
     loop<Op, int64_t>, loop<Op, float>,   loop<Op, double>,  loop<Op, uint64_t>}

// A line for each function: the op (without an inference there is none, only the loop) and its loops.
constexpr PointwiseRow rows[] = {
    {"signbit", infer_test, MT_ALL(unary_loop, SignBit)},
    {"isposinf", infer_test, MT_ALL(unary_loop, IsInfinity<true>)},
    {"isneginf", infer_test, MT_ALL(unary_loop, IsInfinity<false>)},
    {"copysign", infer_promoted, MT_FLOATS(binary_loop, Copysign)},
    {"_relu_backward", infer_floats, MT_FLOATS(binary_loop, ReluBackward)},
    {"nextafter", infer_floats, MT_FLOATS(binary_loop, Nextafter), ComplexFunction::None, nextafter},
    {"heaviside", infer_heaviside, MT_ALL(binary_loop, Heaviside)},
    {"fmax", infer_same, MT_ALL(binary_loop, Fmax)},
    {"fmin", infer_same, MT_ALL(binary_loop, Fmin)},
    {"gcd", infer_integers, MT_INTEGERS(binary_loop, Gcd)},
    {"lcm", infer_integers, MT_INTEGERS(binary_loop, Lcm)},
    {"bitwise_left_shift", infer_integers, MT_INTEGERS(binary_loop, LeftShift)},
    {"bitwise_right_shift", infer_integers, MT_INTEGERS(binary_loop, RightShift)},
    {"_any_fmod", nullptr, MT_NUMBERS(mod_loop, AnyMod)},
    {"_clamp_tensor", infer_numbers, MT_NUMBERS(ternary_loop, ClampTensor)},
    {"_mantissa", infer_floats, MT_FLOATS(unary_loop, Mantissa)},
    {"_exponent", infer_floats, MT_FLOATS(unary_loop, Exponent)},
};
static_assert(names_differ(rows));
#undef MT_FLOATS
#undef MT_INTEGERS
#undef MT_NUMBERS
#undef MT_ALL

const RegisterPointwise registered({rows, std::size(rows)});

}  // namespace
}  // namespace mt::cpu
