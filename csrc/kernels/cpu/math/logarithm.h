// Exponentials and logarithms to other bases, inverse hyperbolic functions, and powers. See functions.h, whose rules
// hold here. No include guard: see functions.h.

namespace mt::MT_ISA_NS::math {

// 2^x. Overflows to infinity, and underflows gradually.
template <class T> static inline T exp2(T x) {
    using F = detail::Format<T>;
    using M = detail::More<T>;
    using Bits = detail::Bits<T>;
    x = x < M::exp2_low ? M::exp2_low : x;
    x = x > M::exp2_high ? M::exp2_high : x;
    const T shift = detail::round_shift<T> + T(2 * F::exponent_bias);
    const T shifted = x + shift;
    const T r = x - (shifted - shift);
    const T m = detail::fma(detail::polynomial(M::exp2, r), r, T(1));
    const Bits half = detail::bits(shifted) >> 1;
    return m * detail::value(Bits(half << F::mantissa_bits)) *
           detail::value(Bits((detail::bits(shifted) - half) << F::mantissa_bits));
}

namespace detail {

// x = 2^e (1 + f), with f in [-1/3, 1/3), for x > 0.
template <class T> struct Mantissa {
    T e;
    T f;
};
template <class T> static inline Mantissa<T> split(T x) {
    using F = Format<T>;
    constexpr Bits<T> mantissa_mask = (Bits<T>(1) << F::mantissa_bits) - 1;
    constexpr T shift = T(Bits<T>(1) << F::mantissa_bits);
    const Bits<T> low = bits(T(2) / T(3));
    const bool denormal = x < std::numeric_limits<T>::min();
    const T scaled = x * select(denormal, shift, T(1));
    const Bits<T> i = bits(scaled) + (one_bits<T> - low);
    const T e = value(Bits<T>((i >> F::mantissa_bits) | bits(shift))) -
                select(denormal, shift + T(F::exponent_bias + F::mantissa_bits), shift + T(F::exponent_bias));
    return {e, value(Bits<T>((i & mantissa_mask) + low)) - T(1)};
}

// -inf at the pole, NaN below it and for NaN, infinity for infinity.
template <class T> static inline T log_special(T x, T pole, T result) {
    constexpr T inf = std::numeric_limits<T>::infinity();
    const T special = select(x == pole, -inf, std::numeric_limits<T>::quiet_NaN());
    return select(x == inf, inf, select(x > pole, result, special));
}

// log(x) times a factor (in two parts), plus e times a unit (in two parts, the first short).
template <class T> static inline T log_to_base(T x, T factor, T factor_low, T unit, T unit_low) {
    using F = Format<T>;
    const auto [e, f] = split(x);
    const T rest = f * f * fma(horner(F::log, f), f, T(-0.5));
    // f + rest in two parts, times the factor.
    const T high = f + rest, low = rest - (high - f);
    const T product = high * factor;
    const T product_low = fma(high, factor, -product) + fma(low, factor, high * factor_low);
    const T result = fma(e, unit, product + fma(e, unit_low, product_low));
    return log_special(x, T(0), result);
}

}  // namespace detail

template <class T> static inline T log2(T x) {
    return detail::log_to_base<T>(x, detail::Format<T>::log2e, detail::More<T>::log2e_low, T(1), T(0));
}
template <class T> static inline T log10(T x) {
    using M = detail::More<T>;
    return detail::log_to_base<T>(x, M::log10e, M::log10e_low, M::log10_2, M::log10_2_low);
}

// log(a + sqrt(a^2 + 1)) = log1p(a + a^2 / (1 + sqrt(a^2 + 1)))
template <class T> static inline T asinh(T x) {
    using M = detail::More<T>;
    const T a = detail::abs(x), z = a * a;
    const bool large = a > M::log_large;
    const T inner = a + z / (T(1) + detail::sqrt(z + T(1)));
    const T r = log1p<T>(detail::select(large, a - T(1), inner)) + detail::select(large, detail::Format<T>::ln2, T(0));
    return detail::select(x != x || x == T(0), x, detail::with_sign_of(r, x));
}

// log(x + sqrt(x^2 - 1)) = log1p(t + sqrt(2t + t^2)) with t = x - 1
template <class T> static inline T acosh(T x) {
    using M = detail::More<T>;
    const bool large = x > M::log_large;
    const T t = x - T(1);
    const T inner = t + detail::sqrt(detail::fma(t, t, T(2) * t));
    const T r = log1p<T>(detail::select(large, t, inner)) + detail::select(large, detail::Format<T>::ln2, T(0));
    return detail::select(x < T(1), std::numeric_limits<T>::quiet_NaN(), r);
}

// log((1 + a) / (1 - a)) / 2 = log1p(2a + 2a^2 / (1 - a)) / 2
template <class T> static inline T atanh(T x) {
    const T a = detail::abs(x);
    const T twice = a + a;
    const T near = twice + twice * a / (T(1) - a);
    const T far = twice / (T(1) - a);
    const T r = T(0.5) * log1p<T>(detail::select(a < T(0.5), near, far));
    const T special = detail::select(a == T(1), std::numeric_limits<T>::infinity(), r);
    const T outside = detail::select(a > T(1), std::numeric_limits<T>::quiet_NaN(), detail::with_sign_of(special, x));
    return detail::select(x != x || x == T(0), x, outside);
}

namespace detail {

// a^y for a >= 0. The logarithm and its product with y are kept in two parts.
static inline double power(double a, double y) {
    using F = Format<double>;
    using M = More<double>;
    const auto [e, f] = split(a);
    // log(1 + f) = 2s + s^3 (2/3 + s^2 p(s^2)), s = f / (2 + f) with its remainder.
    const double d = 2.0 + f, d_low = f - (d - 2.0);
    const double s = f / d;
    const double s_low = (fma(-s, d, f) - s * d_low) / d;
    const double z = s * s, z_low = fma(s, s, -z) + 2.0 * s * s_low;
    const double cube = z * s, cube_low = fma(z, s, -cube) + fma(z_low, s, z * s_low);
    constexpr double third = 0x1.5555555555555p-1, third_low = 0x1.5555555555555p-55;  // of 2
    const double p = z * polynomial(M::pow_log, z);
    const double w = third + p, w_low = third - w + p + third_low;
    const double c = cube * w, c_low = fma(cube, w, -c) + fma(cube, w_low, cube_low * w);
    // e ln 2 + 2s + c
    const double base = e * F::ln2_high;  // exact
    const double t = base + 2.0 * s,
                 t_low = select(abs(base) > abs(2.0 * s), 2.0 * s - (t - base), base - (t - 2.0 * s));
    const double sum = t + c;
    const double rest = c - (sum - t) + (t_low + (c_low + fma(e, F::ln2_low, 2.0 * s_low)));
    const double log_high = sum + rest, log_low = rest - (log_high - sum);
    double high = y * log_high;
    const double low = fma(y, log_high, -high) + y * log_low;
    high = high < F::exp_low ? F::exp_low : high;
    high = high > F::exp_high ? F::exp_high : high;
    const auto [shifted, r] = reduce_exp<double>(high, 2.0 * F::exponent_bias);
    const double tail = abs(low) < 1.0 ? low : 0.0;  // where it isn't, the result is 0 or infinity
    const double above = r * r * polynomial(M::pow_exp, r);
    const double m = 1.0 + (r + (above + fma(r + above, tail, tail)));
    const std::uint64_t half = shifted >> 1;
    return m * value(half << 52) * value((shifted - half) << 52);
}

// In float64, whose 29 more bits are enough for one rounding of the result.
static inline float power(float a, float y) {
    using F = Format<double>;
    using M = More<float>;
    const auto [e, f] = split(static_cast<double>(a));
    const double s = f / (2.0 + f), z = s * s;
    const double log = fma(e, F::ln2, fma(z * s, fma(z, polynomial(M::pow_log, z), 0x1.5555555555555p-1), 2.0 * s));
    double x = static_cast<double>(y) * log;
    x = x < -200.0 ? -200.0 : x;
    x = x > 200.0 ? 200.0 : x;
    const auto [shifted, r] = reduce_exp<double>(x, F::exponent_bias);
    const double m = 1.0 + (r + r * r * polynomial(M::pow_exp, r));
    return static_cast<float>(m * value(shifted << 52));
}

template <class T> static inline T floor(T x) {
    if constexpr (sizeof(T) == 4) return __builtin_floorf(x);
    else return __builtin_floor(x);
}

}  // namespace detail

// x^y with the special values of IEEE 754 (and C).
template <class T> static inline T pow(T x, T y) {
    using namespace detail;
    constexpr T inf = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
    const T a = abs(x), b = abs(y);
    const bool negative = (bits(x) & sign_mask<T>) != 0;
    const bool whole = floor(y) == y;  // infinities are even
    const bool odd = whole & (floor(T(0.5) * y) != T(0.5) * y);
    const bool up = y > T(0);
    T r = power(a, y);
    r = select(a == T(0), select(up, T(0), inf), r);
    r = select(a == inf, select(up, inf, T(0)), r);
    r = select(b == inf, select((a > T(1)) == up, inf, T(0)), r);
    r = select((b == inf) & (a == T(1)), T(1), r);
    r = select(negative & odd, -r, r);
    r = select(negative & !whole & (a != T(0)) & (a != inf), nan, r);
    r = select((x != x) | (y != y), nan, r);
    return select((y == T(0)) | (x == T(1)), T(1), r);
}

// log(x / (1 - x))
template <class T> static inline T logit(T x) { return log<T>(x / (T(1) - x)); }

// x log(y), 0 where x is 0 and y is no NaN.
template <class T> static inline T xlogy(T x, T y) {
    return detail::select((x == T(0)) & (y == y), T(0), x * log<T>(y));
}
template <class T> static inline T xlog1py(T x, T y) {
    return detail::select((x == T(0)) & (y == y), T(0), x * log1p<T>(y));
}

// log(e^x + e^y)
template <class T> static inline T logaddexp(T x, T y) {
    const T larger = detail::select(x > y, x, y);
    const T sum = larger + log1p<T>(exp<T>(-detail::abs(x - y)));
    const bool equal_infinities = (x == y) & (detail::abs(x) == std::numeric_limits<T>::infinity());
    return detail::select(equal_infinities, x, detail::select((x != x) | (y != y), x + y, sum));
}
template <class T> static inline T logaddexp2(T x, T y) {
    constexpr T log2e = detail::Format<T>::log2e;
    const T larger = detail::select(x > y, x, y);
    const T sum = larger + log1p<T>(exp2<T>(-detail::abs(x - y))) * log2e;
    const bool equal_infinities = (x == y) & (detail::abs(x) == std::numeric_limits<T>::infinity());
    return detail::select(equal_infinities, x, detail::select((x != x) | (y != y), x + y, sum));
}

// start + weight (end - start), from the nearer end.
template <class T> static inline T lerp(T start, T end, T weight) {
    const T difference = end - start;
    return detail::select(detail::abs(weight) < T(0.5), start + weight * difference,
                          end - difference * (T(1) - weight));
}

}  // namespace mt::MT_ISA_NS::math
