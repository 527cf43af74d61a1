// Transcendental functions, defined operation by operation.
//
// minitensor_jit/codegen/emitter/math.py emits the same operations in the same order, so compiled and eager code agree
// to the last bit: change both together. The coefficients come from scripts/fit_polynomials.py; docs/math.md has the
// measured errors.
//
// Everything is branch-free (arithmetic, explicit fma, bit casts, integer operations and selects), so a plain loop over
// any of these vectorises for every ISA and gives the same bits on each of them. Compile with -ffp-contract=off.
//
// Files that are compiled once for each ISA include it after loops/target.h, which gives each a namespace. Functions
// are static, so that no code compiled for one ISA can be merged by the linker with the same function compiled for
// another.

#include <cstddef>
#include <cstdint>
#include <limits>

#ifdef MT_ISA_NS
namespace mt::MT_ISA_NS::math {
#else
namespace mt::math {
#endif

namespace detail {

// The constants of one floating-point format.
template <class T> struct Format;

template <> struct Format<float> {
    using Bits = std::uint32_t;
    static constexpr int mantissa_bits = 23;
    static constexpr int exponent_bias = 127;
    static constexpr float log2e = 0x1.715476p+0f;
    static constexpr float ln2 = 0x1.62e43p-1f;
    static constexpr float ln2_high = 0x1.62e4p-1f;  // n * ln2_high is exact
    static constexpr float ln2_low = 0x1.7f7d1cp-20f;
    static constexpr float two_pi = 0x1.921fb6p+2f;
    static constexpr float exp_low = -104.0f;  // exp is below half the least denormal
    static constexpr float exp_high = 89.0f;  // exp is above the largest finite number
    static constexpr float expm1_low = -18.0f;
    static constexpr int sigmoid_exponent = 64;
    static constexpr float sigmoid_factor = 0x1p+64f;
    static constexpr float tanh_high = 10.0f;  // tanh is 1
    static constexpr float log1p_exact = 0x1p+40f;
    static constexpr float exp[] = {0x1.fffffep-2f, 0x1.5554bp-3f, 0x1.555674p-5f, 0x1.122776p-7f, 0x1.6bebe2p-10f};
    static constexpr float exp2r[] = {0x1.fffffcp+0f, 0x1.555492p+0f, 0x1.5558fp-1f, 0x1.1239e2p-2f, 0x1.6a249ep-4f};
    static constexpr float tanh[] = {-0x1.55553ep-2f, 0x1.1109aep-3f, -0x1.b898dcp-5f, 0x1.54b892p-6f, -0x1.825818p-8f};
    static constexpr float log[] = {0x1.555506p-2f, -0x1.fffefp-3f,  0x1.99d028p-3f, -0x1.559ddp-3f,
                                    0x1.1ed71ap-3f, -0x1.f310aap-4f, 0x1.1e66b4p-3f, -0x1.0806b2p-3f};
    static constexpr float sin[] = {-0x1.778a14p-23f, -0x1.4abbcep+5f, 0x1.466bbap+6f, -0x1.32ca86p+6f, 0x1.4bc254p+5f};
    static constexpr float cos[] = {-0x1.3bd3ccp+4f, 0x1.03c1dep+6f, -0x1.55c5ep+6f, 0x1.d9d58p+5f};
};

template <> struct Format<double> {
    using Bits = std::uint64_t;
    static constexpr int mantissa_bits = 52;
    static constexpr int exponent_bias = 1023;
    static constexpr double log2e = 0x1.71547652b82fep+0;
    static constexpr double ln2 = 0x1.62e42fefa39efp-1;
    static constexpr double ln2_high = 0x1.62e42fefa38p-1;
    static constexpr double ln2_low = 0x1.ef35793c7673p-45;
    static constexpr double two_pi = 0x1.921fb54442d18p+2;
    static constexpr double exp_low = -746.0;
    static constexpr double exp_high = 710.0;
    static constexpr double expm1_low = -38.0;
    static constexpr int sigmoid_exponent = 512;
    static constexpr double sigmoid_factor = 0x1p+512;
    static constexpr double tanh_high = 20.0;
    static constexpr double log1p_exact = 0x1p+80;
    static constexpr double exp[] = {0x1p-1,
                                     0x1.5555555555559p-3,
                                     0x1.555555555553fp-5,
                                     0x1.111111110f6dap-7,
                                     0x1.6c16c16c1f081p-10,
                                     0x1.a01a01afd3d3ap-13,
                                     0x1.a01a017bc3b8ep-16,
                                     0x1.71ddf87ecd67bp-19,
                                     0x1.27e53631cd903p-22,
                                     0x1.af5e74f8c27d8p-26,
                                     0x1.1ee87f93d3faep-29};
    static constexpr double exp2r[] = {0x1.000000000000ap+1, 0x1.55555555554fap+0,  0x1.555555555087dp-1,
                                       0x1.1111111127bf4p-2, 0x1.6c16c1842a118p-4,  0x1.a01a012a5285ap-6,
                                       0x1.a0199a0c5588fp-8, 0x1.71df255d2eafcp-10, 0x1.28ad72e530c5ep-12,
                                       0x1.ad7f5f37d5a31p-15};
    static constexpr double tanh[] = {-0x1.555555555553p-2,   0x1.111111110e1acp-3,  -0x1.ba1ba1b780864p-5,
                                      0x1.664f47f0121dcp-6,   -0x1.226e22927b02ep-7, 0x1.d6d0c61d7cb8ap-9,
                                      -0x1.7d79d958ed70dp-10, 0x1.33db16aa7414bp-11, -0x1.e32d4e8f23779p-13,
                                      0x1.4caa9eb3a3484p-14,  -0x1.2035e58777b37p-16};
    static constexpr double log[] = {
        0x1.5555555555543p-2, -0x1.0000000000962p-2, 0x1.999999999e68ep-3, -0x1.555555540cc93p-3,
        0x1.249249216b037p-3, -0x1.000000859ef9p-3,  0x1.c71c73bc2e494p-4, -0x1.99996209df9fp-4,
        0x1.745cc00cef3f1p-4, -0x1.555c079a15a05p-4, 0x1.3b1cee8e14c8fp-4, -0x1.2413d1cecc594p-4,
        0x1.107319ee7378dp-4, -0x1.05c4f9734d15ep-4, 0x1.ef2fb75615321p-5, -0x1.76aefb16a5e3p-5,
        0x1.586a3c8eddbap-5,  -0x1.614060fc6f54bp-4, 0x1.5a121b109467dp-4};
    static constexpr double sin[] = {0x1.1a5ee6efe1adbp-52, -0x1.4abbce625be53p+5, 0x1.466bc6775aad9p+6,
                                     -0x1.32d2cce62abbdp+6, 0x1.50783485c2d6ap+5,  -0x1.e3074b42c4484p+3,
                                     0x1.e8eec79caf81cp+1,  -0x1.6c58cc54df76ep-1};
    static constexpr double cos[] = {-0x1.3bd3cc9be45dep+4, 0x1.03c1f081b5aaep+6, -0x1.55d3c7e3c928p+6,
                                     0x1.e1f5068367af8p+5,  -0x1.a6d1ec7e0a02p+4, 0x1.f9cc40abba87bp+2,
                                     -0x1.b263c30daa45cp+0};
};

template <class T> using Bits = typename Format<T>::Bits;

static inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
static inline std::uint32_t bits(float x) { return __builtin_bit_cast(std::uint32_t, x); }
static inline std::uint64_t bits(double x) { return __builtin_bit_cast(std::uint64_t, x); }
static inline float value(std::uint32_t b) { return __builtin_bit_cast(float, b); }
static inline double value(std::uint64_t b) { return __builtin_bit_cast(double, b); }

template <class T> static constexpr Bits<T> sign_mask = Bits<T>(1) << (sizeof(T) * 8 - 1);
template <class T> static constexpr Bits<T> one_bits = Bits<T>(Format<T>::exponent_bias) << Format<T>::mantissa_bits;
// Adding it rounds a number of small magnitude to an integer, which then stands in the low bits.
template <class T> static constexpr T round_shift = T(Bits<T>(3) << (Format<T>::mantissa_bits - 1));

template <class T> static inline T abs(T x) { return value(Bits<T>(bits(x) & ~sign_mask<T>)); }

// c ? a : b by masking. With ?: gcc would sink the computation of `a` or `b` into a branch, and since floating-point
// operations may trap it does not turn that branch back into a select, which ends the loop's vectorisation.
template <class T> static inline T select(bool c, T a, T b) {
    const Bits<T> mask = Bits<T>(0) - Bits<T>(c);
    return value(Bits<T>((bits(a) & mask) | (bits(b) & ~mask)));
}

// `magnitude` is not negative.
template <class T> static inline T with_sign_of(T magnitude, T x) {
    return value(Bits<T>(bits(magnitude) | (bits(x) & sign_mask<T>)));
}

// Horner's scheme from the highest coefficient down; unrolled by the template, for the vectoriser's sake.
template <std::size_t I = 0, class T, std::size_t N> static inline T horner(const T (&c)[N], T x) {
    if constexpr (I + 1 == N) {
        return c[I];
    } else {
        return fma(horner<I + 1>(c, x), x, c[I]);
    }
}

// The polynomial at -x.
template <std::size_t I = 0, class T, std::size_t N> static inline T horner_of_negative(const T (&c)[N], T x) {
    if constexpr (I + 1 == N) {
        return c[I];
    } else {
        return fma(-horner_of_negative<I + 1>(c, x), x, c[I]);
    }
}

// x = n ln 2 + r with |r| <= ln 2 / 2, where n + bias is in the low bits of `shifted`.
template <class T> struct Reduced {
    Bits<T> shifted;
    T r;
};

template <class T> static inline Reduced<T> reduce_exp(T x, T bias) {
    using F = Format<T>;
    const T shift = round_shift<T> + bias;
    const T shifted = fma(x, F::log2e, shift);
    const T n = shifted - shift;
    const T r = fma(n, -F::ln2_low, fma(n, -F::ln2_high, x));
    return {bits(shifted), r};
}

}  // namespace detail

namespace detail {

// e^x for x within the limits of exp.
template <class T> static inline T exp_within(T x) {
    using F = Format<T>;
    const auto [shifted, r] = reduce_exp<T>(x, T(2 * F::exponent_bias));
    const T m = fma(fma(horner(F::exp, r), r, T(1)), r, T(1));
    // 2^n in two factors, since n leaves the range of the exponent at both ends: the first product is exact.
    const Bits<T> half = shifted >> 1;
    const T scale1 = value(Bits<T>(half << F::mantissa_bits));
    const T scale2 = value(Bits<T>((shifted - half) << F::mantissa_bits));
    return m * scale1 * scale2;
}

}  // namespace detail

// e^x. Overflows to infinity, and underflows gradually.
template <class T> static inline T exp(T x) {
    using F = detail::Format<T>;
    x = x < F::exp_low ? F::exp_low : x;
    x = x > F::exp_high ? F::exp_high : x;
    return detail::exp_within(x);
}

// e^x - 1.
template <class T> static inline T expm1(T x) {
    using F = detail::Format<T>;
    T y = x < F::expm1_low ? F::expm1_low : x;
    y = y > F::exp_high ? F::exp_high : y;
    const auto [shifted, r] = detail::reduce_exp<T>(y, T(F::exponent_bias));
    const T m = detail::fma(r * r, detail::horner(F::exp, r), r);
    // Scaled by 2^(n-1) and then by 2 where 2^n itself overflows.
    constexpr detail::Bits<T> exponent_mask = 2 * F::exponent_bias + 1;
    const bool top = ((shifted + 1) & exponent_mask) == 0;
    const T scale = detail::value(detail::Bits<T>((shifted - detail::Bits<T>(top)) << F::mantissa_bits));
    const T result = detail::fma(scale, m, scale - T(1)) * detail::select(top, T(2), T(1));
    return detail::select(x == T(0), x, result);
}

// Natural logarithm: -inf for zeros, NaN below.
template <class T> static inline T log(T x) {
    using F = detail::Format<T>;
    using Bits = detail::Bits<T>;
    constexpr T inf = std::numeric_limits<T>::infinity();
    constexpr Bits mantissa_mask = (Bits(1) << F::mantissa_bits) - 1;
    constexpr T shift = T(Bits(1) << F::mantissa_bits);
    const Bits low = detail::bits(T(2) / T(3));
    const bool denormal = x < std::numeric_limits<T>::min();
    const T scaled = x * detail::select(denormal, shift, T(1));
    // x = 2^e m with m in [2/3, 4/3).
    const Bits i = detail::bits(scaled) + (detail::one_bits<T> - low);
    const T e = detail::value(Bits((i >> F::mantissa_bits) | detail::bits(shift))) -
                detail::select(denormal, shift + T(F::exponent_bias + F::mantissa_bits), shift + T(F::exponent_bias));
    const T f = detail::value(Bits((i & mantissa_mask) + low)) - T(1);
    const T p = detail::fma(detail::horner(F::log, f), f, T(-0.5));
    const T tail = detail::fma(e, F::ln2_low, f * f * p);
    const T result = detail::fma(e, F::ln2_high, f + tail);
    const T special = detail::select(x == T(0), -inf, std::numeric_limits<T>::quiet_NaN());
    const T finite = detail::select(x > T(0), result, special);
    return detail::select(x == inf, inf, finite);
}

// log(1 + x).
template <class T> static inline T log1p(T x) {
    using F = detail::Format<T>;
    using Bits = detail::Bits<T>;
    constexpr T inf = std::numeric_limits<T>::infinity();
    constexpr Bits mantissa_mask = (Bits(1) << F::mantissa_bits) - 1;
    constexpr T shift = T(Bits(1) << F::mantissa_bits);
    const Bits low = detail::bits(T(2) / T(3));
    const T u = T(1) + x;
    const T lost = detail::select(x < T(1), x - (u - T(1)), T(1) - (u - x));  // 1 + x = u + lost, exactly
    const Bits i = detail::bits(u) + (detail::one_bits<T> - low);
    const Bits biased = i >> F::mantissa_bits;
    const T e = detail::value(Bits(biased | detail::bits(shift))) - (shift + T(F::exponent_bias));
    const T inverse = detail::value(Bits((Bits(2 * F::exponent_bias) - biased) << F::mantissa_bits));  // 2^-e
    const T m = detail::value(Bits((i & mantissa_mask) + low));
    const T f = detail::fma(lost, detail::select(x < F::log1p_exact, inverse, T(0)), m - T(1));
    const T p = detail::fma(detail::horner(F::log, f), f, T(-0.5));
    const T tail = detail::fma(e, F::ln2_low, f * f * p);
    const T result = detail::fma(e, F::ln2_high, f + tail);
    const T special = detail::select(x == T(-1), -inf, std::numeric_limits<T>::quiet_NaN());
    const T finite = detail::select(x > T(-1), result, special);
    const T positive = detail::select(x == inf, inf, finite);
    return detail::select(x == T(0), x, positive);
}

// Hyperbolic tangent: a polynomial near zero, 1 - 2 / (exp(2|x|) + 1) beyond.
template <class T> static inline T tanh(T x) {
    using F = detail::Format<T>;
    const T a = detail::abs(x);
    const T z = a * a;
    const T near = detail::fma(z * a, detail::horner(F::tanh, z), a);
    // a = n ln 2 / 2 + r. The rounding of ln 2 does not show: where n is large, the quotient is small.
    const T b = a > F::tanh_high ? F::tanh_high : a;
    const T shift = detail::round_shift<T> + T(F::exponent_bias);
    const T shifted = detail::fma(b, T(2) * F::log2e, shift);
    const T r = detail::fma(shifted - shift, F::ln2 / T(-2), b);
    const T m = detail::fma(detail::fma(detail::horner(F::exp2r, r), r, T(2)), r, T(1));
    const T scale = detail::value(detail::Bits<T>(detail::bits(shifted) << F::mantissa_bits));
    const T far = T(1) - T(2) / detail::fma(scale, m, T(1));
    return detail::with_sign_of(detail::select(a < T(0.6), near, far), x);
}

// Logistic function 1 / (1 + e^-x). With e^-x = (1 + t) / s, where s is a power of two, it is s / (s + 1 + t): the only
// roundings that show are that of the divisor and that of the quotient.
template <class T> static inline T sigmoid(T x) {
    using F = detail::Format<T>;
    x = x < F::exp_low ? F::exp_low : x;
    x = x > -F::expm1_low ? -F::expm1_low : x;
    // Numerator and divisor have a factor, since s itself may be below the least normal number.
    const auto [shifted, r] = detail::reduce_exp<T>(x, T(F::exponent_bias + F::sigmoid_exponent));
    const T one = F::sigmoid_factor;
    const T s = detail::value(detail::Bits<T>(shifted << F::mantissa_bits));
    const T t = detail::fma(r * r, detail::horner_of_negative(F::exp, r), -r);
    const T sum = s + one;
    const T lost = s - (sum - one);  // by the rounding of the sum
    return s / (sum + detail::fma(t, one, lost));
}

template <class T> struct SinCos {
    T sin;
    T cos;
};

// Sine and cosine of 2 pi u, for u in [0, 1].
template <class T> static inline SinCos<T> sincospi2(T u) {
    using F = detail::Format<T>;
    using Bits = detail::Bits<T>;
    const T shifted = detail::fma(u, T(4), detail::round_shift<T>);
    const Bits quadrant = detail::bits(shifted);
    const T r = detail::fma(shifted - detail::round_shift<T>, T(-0.25), u);  // exact, |r| <= 1/8
    const T z = r * r;
    const T s = detail::fma(r, F::two_pi, r * detail::horner(F::sin, z));
    const T c = detail::fma(detail::horner(F::cos, z), z, T(1));
    const bool odd = (quadrant & 1) != 0;
    const Bits sin_sign = (quadrant & 2) << (sizeof(T) * 8 - 2);
    const Bits cos_sign = ((quadrant + 1) & 2) << (sizeof(T) * 8 - 2);
    return {detail::value(Bits(detail::bits(detail::select(odd, c, s)) ^ sin_sign)),
            detail::value(Bits(detail::bits(detail::select(odd, s, c)) ^ cos_sign))};
}

template <class T> static inline T sinpi2(T u) { return sincospi2<T>(u).sin; }
template <class T> static inline T cospi2(T u) { return sincospi2<T>(u).cos; }

}  // namespace mt::math or mt::MT_ISA_NS::math
