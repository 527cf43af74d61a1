// The arithmetic of the elementwise ops on one element, as docs/numerics.md defines it. Included by loops.cpp,
// once for each instruction set.
#pragma once

namespace mt::cpu::MT_ISA_NS {
namespace {

template <class T> inline constexpr bool kIsFloat = __is_same(T, float) || __is_same(T, double);

template <class T> struct BitsOf;
template <> struct BitsOf<uint8_t> {
    using type = uint8_t;
};
template <> struct BitsOf<int32_t> {
    using type = uint32_t;
};
template <> struct BitsOf<int64_t> {
    using type = uint64_t;
};
template <> struct BitsOf<uint64_t> {
    using type = uint64_t;
};
template <> struct BitsOf<float> {
    using type = uint32_t;
};
template <> struct BitsOf<double> {
    using type = uint64_t;
};
// The unsigned type of T's width: integer arithmetic wraps.
template <class T> using Bits = typename BitsOf<T>::type;

template <class T> T bits_and(T a, T b) {
    return __builtin_bit_cast(T, static_cast<Bits<T>>(__builtin_bit_cast(Bits<T>, a) & __builtin_bit_cast(Bits<T>, b)));
}
template <class T> T bits_or(T a, T b) {
    return __builtin_bit_cast(T, static_cast<Bits<T>>(__builtin_bit_cast(Bits<T>, a) | __builtin_bit_cast(Bits<T>, b)));
}

inline float floor_(float x) { return __builtin_floorf(x); }
inline double floor_(double x) { return __builtin_floor(x); }
inline float ceil_(float x) { return __builtin_ceilf(x); }
inline double ceil_(double x) { return __builtin_ceil(x); }
inline float trunc_(float x) { return __builtin_truncf(x); }
inline double trunc_(double x) { return __builtin_trunc(x); }
inline float rint_(float x) { return __builtin_rintf(x); }
inline double rint_(double x) { return __builtin_rint(x); }
inline float sqrt_(float x) { return __builtin_sqrtf(x); }
inline double sqrt_(double x) { return __builtin_sqrt(x); }
inline float fabs_(float x) { return __builtin_fabsf(x); }
inline double fabs_(double x) { return __builtin_fabs(x); }
inline float fmod_(float x, float y) { return __builtin_fmodf(x, y); }
inline double fmod_(double x, double y) { return __builtin_fmod(x, y); }
inline float pow_(float x, float y) { return __builtin_powf(x, y); }
inline double pow_(double x, double y) { return __builtin_pow(x, y); }
inline float copysign_(float x, float y) { return __builtin_copysignf(x, y); }
inline double copysign_(double x, double y) { return __builtin_copysign(x, y); }

// Unary ------------------------------------------------------------------------------------------------------------

struct Neg {
    template <class T> static T apply(T x) {
        if constexpr (kIsFloat<T>) return -x;
        else return static_cast<T>(Bits<T>(0) - static_cast<Bits<T>>(x));
    }
};
struct Abs {
    template <class T> static T apply(T x) {
        if constexpr (kIsFloat<T>) return fabs_(x);
        else return x < T(0) ? Neg::apply(x) : x;
    }
};
struct Sign {  // 0 for NaN and both zeros
    template <class T> static T apply(T x) { return static_cast<T>((T(0) < x) - (x < T(0))); }
};
struct Square {
    template <class T> static T apply(T x) {
        if constexpr (kIsFloat<T>) return x * x;
        else return static_cast<T>(static_cast<Bits<T>>(x) * static_cast<Bits<T>>(x));
    }
};
struct Cube {
    template <class T> static T apply(T x) { return x * x * x; }
};
struct InverseSquare {
    template <class T> static T apply(T x) { return T(1) / (x * x); }
};
struct Sqrt {
    template <class T> static T apply(T x) { return sqrt_(x); }
};
struct Rsqrt {
    template <class T> static T apply(T x) { return T(1) / sqrt_(x); }
};
struct Reciprocal {
    template <class T> static T apply(T x) { return T(1) / x; }
};
struct Relu {  // maximum(x, +0): NaN stays, -0 becomes +0
    template <class T> static T apply(T x) { return x <= T(0) ? T(0) : x; }
};
struct Floor {
    template <class T> static T apply(T x) { return floor_(x); }
};
struct Ceil {
    template <class T> static T apply(T x) { return ceil_(x); }
};
struct Trunc {
    template <class T> static T apply(T x) { return trunc_(x); }
};
struct Round {
    template <class T> static T apply(T x) { return rint_(x); }
};  // ties to even
struct LogicalNot {
    static uint8_t apply(uint8_t x) { return x == 0; }
};
struct BitwiseNot {
    template <class T> static T apply(T x) { return static_cast<T>(~x); }
};
struct IsNan {
    template <class T> static uint8_t apply(T x) { return x != x; }
};
struct IsInf {
    template <class T> static uint8_t apply(T x) { return fabs_(x) == static_cast<T>(__builtin_inf()); }
};
struct IsFinite {
    template <class T> static uint8_t apply(T x) { return fabs_(x) < static_cast<T>(__builtin_inf()); }
};

// Binary -----------------------------------------------------------------------------------------------------------

#define MT_WRAPPING(Name, OP)                                                               \
    struct Name {                                                                           \
        template <class T> static T apply(T a, T b) {                                       \
            if constexpr (kIsFloat<T>) return a OP b;                                       \
            else return static_cast<T>(static_cast<Bits<T>>(a) OP static_cast<Bits<T>>(b)); \
        }                                                                                   \
        template <class V> static V of_vectors(V a, V b) { return a OP b; }                 \
    };
MT_WRAPPING(Add, +)
MT_WRAPPING(Sub, -)
MT_WRAPPING(Mul, *)
#undef MT_WRAPPING

struct Div {
    template <class T> static T apply(T a, T b) { return a / b; }
    template <class V> static V of_vectors(V a, V b) { return a / b; }
};

struct Maximum {  // NaN if either is NaN; -0 orders before +0
    template <class T> static T apply(T a, T b) {
        T larger = a > b ? a : b;
        if constexpr (kIsFloat<T>) {
            larger = a == b ? bits_and(a, b) : larger;
            larger = a != a ? a : larger;
        }
        return larger;
    }
};
struct Minimum {
    template <class T> static T apply(T a, T b) {
        T smaller = a < b ? a : b;
        if constexpr (kIsFloat<T>) {
            smaller = a == b ? bits_or(a, b) : smaller;
            smaller = a != a ? a : smaller;
        }
        return smaller;
    }
};

#define MT_COMPARISON(Name, OP)                                              \
    struct Name {                                                            \
        template <class T> static uint8_t apply(T a, T b) { return a OP b; } \
    };
MT_COMPARISON(Eq, ==)
MT_COMPARISON(Ne, !=)
MT_COMPARISON(Lt, <)
MT_COMPARISON(Le, <=)
#undef MT_COMPARISON

struct BitwiseAnd {
    template <class T> static T apply(T a, T b) { return static_cast<T>(a & b); }
};
struct BitwiseOr {
    template <class T> static T apply(T a, T b) { return static_cast<T>(a | b); }
};
struct BitwiseXor {
    template <class T> static T apply(T a, T b) { return static_cast<T>(a ^ b); }
};

// Rounds towards minus infinity. Integers: b is not zero; the smallest integer over -1 wraps.
struct FloorDivide {
    template <class T> static T apply(T a, T b) {
        if constexpr (kIsFloat<T>) {
            if (b == T(0)) return a / b;
            T mod = fmod_(a, b);
            T quotient = (a - mod) / b;
            if (mod != T(0) && (b < T(0)) != (mod < T(0))) quotient -= T(1);
            if (quotient == T(0)) return copysign_(T(0), a / b);
            T rounded = floor_(quotient);
            return quotient - rounded > T(0.5) ? rounded + T(1) : rounded;
        } else if constexpr (T(-1) > T(0)) {
            return static_cast<T>(a / b);
        } else {
            if (b == T(-1)) return Neg::apply(a);
            T quotient = a / b;
            return (a < T(0)) != (b < T(0)) && quotient * b != a ? quotient - T(1) : quotient;
        }
    }
};
// The sign of the divisor, as in Python.
struct Remainder {
    template <class T> static T apply(T a, T b) {
        if constexpr (kIsFloat<T>) {
            T mod = fmod_(a, b);
            return mod != T(0) && (b < T(0)) != (mod < T(0)) ? mod + b : mod;
        } else if constexpr (T(-1) > T(0)) {
            return static_cast<T>(a % b);
        } else {
            if (b == T(-1)) return T(0);
            T mod = a % b;
            return mod != T(0) && (b < T(0)) != (mod < T(0)) ? mod + b : mod;
        }
    }
};
struct Pow {
    template <class T> static T apply(T a, T b) {
        if constexpr (kIsFloat<T>) {
            return pow_(a, b);
        } else {
            if constexpr (T(-1) < T(0)) {
                if (b < T(0)) return a == T(1) ? T(1) : a == T(-1) ? (b & 1 ? T(-1) : T(1)) : T(0);
            }
            uint64_t base = static_cast<uint64_t>(a), result = 1;
            for (auto power = static_cast<uint64_t>(b); power; power >>= 1, base *= base)
                if (power & 1) result *= base;
            return static_cast<T>(result);
        }
    }
};

}  // namespace
}  // namespace mt::cpu::MT_ISA_NS
