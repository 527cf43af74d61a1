// Sine, cosine, tangent and their inverses; hyperbolic sine and cosine. See functions.h, whose rules hold here.
// No include guard: see functions.h.

namespace mt::MT_ISA_NS::math {

namespace detail {

// x = n pi/2 + high + low, with |high| <= pi/4, and n mod 4 in the low bits of `quadrant`.
template <class T> struct Angle {
    Bits<T> quadrant;
    T high;
    T low;
};

// For |x| < trig_limit. n times the first part of pi/2, subtracted from x, is exact: a multiple of the first part's
// last place that is smaller than 1.
template <class T> static inline Angle<T> reduce_angle(T x) {
    using M = More<T>;
    const T shifted = fma(x, M::two_over_pi, round_shift<T>);
    const T n = shifted - round_shift<T>;
    const T first = fma(-n, M::pio2_1, x);
    // The rest is subtracted without an error, whichever of the two is larger: x may be close to a multiple.
    const T second = n * M::pio2_2, second_low = fma(n, M::pio2_2, -second);
    const T high = first - second, back = high - first;
    const T lost = (first - (high - back)) - (second + back);
    return {bits(shifted), high, lost - fma(n, M::pio2_3, second_low)};
}

// Sine and cosine of an angle, each with what its rounding lost.
template <class T> struct SinCosParts {
    T sin, sin_low;
    T cos, cos_low;
};

template <class T> static inline SinCosParts<T> sincos_parts(Angle<T> a) {
    using M = More<T>;
    const T r = a.high, z = r * r;
    // sin(high + low) = sin(high) + low cos(high), cos(high + low) = cos(high) - low sin(high).
    const T s_rest = fma(z * r, polynomial(M::sin, z), a.low * fma(z, T(-0.5), T(1)));
    const T half = T(0.5) * z, one = T(1) - half;
    const T c_rest = (T(1) - one) - half + fma(z * z, polynomial(M::cos, z), -(r * a.low));
    const T s = r + s_rest, c = one + c_rest;
    const T s_low = s_rest - (s - r), c_low = c_rest - (c - one);
    const bool odd = (a.quadrant & 1) != 0;
    const Bits<T> sin_sign = (a.quadrant & 2) << (sizeof(T) * 8 - 2);
    const Bits<T> cos_sign = ((a.quadrant + 1) & 2) << (sizeof(T) * 8 - 2);
    return {
        value(Bits<T>(bits(select(odd, c, s)) ^ sin_sign)), value(Bits<T>(bits(select(odd, c_low, s_low)) ^ sin_sign)),
        value(Bits<T>(bits(select(odd, s, c)) ^ cos_sign)), value(Bits<T>(bits(select(odd, s_low, c_low)) ^ cos_sign))};
}

template <class T> static inline T tan_of(Angle<T> a) {
    const auto [s, s_low, c, c_low] = sincos_parts(a);
    const T inverse = T(1) / c, q = s * inverse;
    // The quotient is corrected by its remainder.
    return fma(fma(-q, c, s) + (s_low - q * c_low), inverse, q);
}

// The first 1280 bits of 2/pi.
static constexpr std::uint64_t two_over_pi_bits[] = {
    0xa2f9836e4e441529, 0xfc2757d1f534ddc0, 0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
    0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484, 0xe99c7026b45f7e41, 0x3991d639835339f4,
    0x9c845f8bbdf9283b, 0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7, 0x4f463f669e5fea2d,
    0x7527bac7ebe5f17b, 0x3d0739f78a5292ea, 0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab, 0xf0cfbc209af4361d};

// Payne and Hanek's method: of the product of a large x and 2/pi only the bits next to the point are needed.
[[maybe_unused]] __attribute__((noinline)) static Angle<double> reduce_large(double x) {
    using Wide = unsigned __int128;
    const std::uint64_t b = bits(x);
    const int exponent = static_cast<int>(b >> 52 & 0x7ff) - 1075;  // |x| = m 2^exponent
    const std::uint64_t m = (b & ((std::uint64_t(1) << 52) - 1)) | std::uint64_t(1) << 52;
    // The bits of 2/pi from place `start` on: what comes before makes multiples of 4 (of 2^64 at least).
    const int start = exponent > 2 ? exponent - 2 : 0;
    const int shift = start % 64;
    std::uint64_t w[3];
    for (int i = 0; i < 3; ++i) {
        const std::uint64_t* word = two_over_pi_bits + start / 64 + i;
        w[i] = shift ? word[0] << shift | word[1] >> (64 - shift) : word[0];
    }
    // m * 0.w0w1w2 * 2^(exponent - start): 192 bits after the point, and what is above them.
    const Wide p2 = Wide(m) * w[2], p1 = Wide(m) * w[1] + (p2 >> 64), p0 = Wide(m) * w[0] + (p1 >> 64);
    const std::uint64_t integer = static_cast<std::uint64_t>(p0 >> 64);
    std::uint64_t high = static_cast<std::uint64_t>(p0), low = static_cast<std::uint64_t>(p1);
    std::uint64_t last = static_cast<std::uint64_t>(p2);
    // 2^(exponent - start) moves the point by up to 2 places, or back by up to 22.
    const int places = exponent - start;
    std::uint64_t n = integer;
    if (places > 0) {
        n = integer << places | high >> (64 - places);
        high = high << places | low >> (64 - places);
        low = low << places | last >> (64 - places);
    } else if (places < 0) {
        n = integer >> -places;
        low = low >> -places | high << (64 + places);
        high = high >> -places | integer << (64 + places);
    }
    // The fraction, in -1/2 .. 1/2 of a quarter turn.
    Wide fraction = Wide(high) << 64 | low;
    const bool above = high >> 63;
    if (above) {
        ++n;
        fraction = -fraction;
    }
    int zeros = fraction >> 64
                    ? __builtin_clzll(static_cast<std::uint64_t>(fraction >> 64))
                    : 64 + (static_cast<std::uint64_t>(fraction) ? __builtin_clzll(static_cast<std::uint64_t>(fraction))
                                                                 : 63);
    fraction <<= zeros;
    const double scale = value(std::uint64_t(1023 - zeros) << 52);
    const double top = static_cast<double>(static_cast<std::uint64_t>(fraction >> 75)) * 0x1p-53 * scale;
    const double rest = static_cast<double>(static_cast<std::uint64_t>(fraction >> 22) &
                                            ((std::uint64_t(1) << 53) - 1)) *
                        0x1p-106 * scale;
    using M = More<double>;
    double r = top * M::pio2_1;
    double r_low = fma(top, M::pio2_1, -r) + fma(top, M::pio2_2, rest * M::pio2_1);
    const double sum = r + r_low;
    r_low = r_low - (sum - r);
    const bool negative = (b >> 63) != 0;
    const double sign = above != negative ? -1.0 : 1.0;
    return {negative ? std::uint64_t(0) - n : n, sum * sign, r_low * sign};
}

// Any finite x; NaN for others.
template <class T> __attribute__((noinline)) static SinCos<T> sincos_large(T x) {
    const double wide = static_cast<double>(x), a = abs(wide);
    if (!(a < std::numeric_limits<double>::infinity())) return {x - x, x - x};
    const auto parts = sincos_parts(a < More<double>::trig_limit ? reduce_angle(wide) : reduce_large(wide));
    return {static_cast<T>(parts.sin), static_cast<T>(parts.cos)};
}

}  // namespace detail

template <class T> static inline bool is_large_angle(T x) { return !(detail::abs(x) < detail::More<T>::trig_limit); }

// Below trig_limit ...
template <class T> static inline T sin(T x) {
    return detail::select(x == T(0), x, detail::sincos_parts(detail::reduce_angle(x)).sin);
}
template <class T> static inline T cos(T x) { return detail::sincos_parts(detail::reduce_angle(x)).cos; }
template <class T> static inline T tan(T x) {
    return detail::select(x == T(0), x, detail::tan_of(detail::reduce_angle(x)));
}
// ... and beyond.
template <class T> static inline T sin_large(T x) { return detail::sincos_large(x).sin; }
template <class T> static inline T cos_large(T x) { return detail::sincos_large(x).cos; }
template <class T> __attribute__((noinline)) static T tan_large(T x) {
    const double wide = static_cast<double>(x), a = detail::abs(wide);
    if (!(a < std::numeric_limits<double>::infinity())) return x - x;
    return static_cast<T>(
        detail::tan_of(a < detail::More<double>::trig_limit ? detail::reduce_angle(wide) : detail::reduce_large(wide)));
}

// sin(pi x) / (pi x)
template <class T> static inline T sinc(T x) {
    const T angle = x * static_cast<T>(0x1.921fb54442d18p+1);
    return detail::select(x == T(0), T(1), sin<T>(angle) / angle);
}
template <class T> static inline T sinc_large(T x) {
    const T angle = x * static_cast<T>(0x1.921fb54442d18p+1);
    return sin_large<T>(angle) / angle;
}

namespace detail {

// atan(n / d) for 0 <= n, 0 < d: by way of (n - d) / (n + d), or -d / n, where n / d is not small.
template <class T> static inline T atan_of(T n, T d) {
    using M = More<T>;
    const bool mid = n > M::tan_pi_8 * d, far = M::tan_pi_8 * n > d;
    const T top = select(far, -d, select(mid, n - d, n));
    const T bottom = select(far, n, select(mid, n + d, d));
    const T base = select(far, T(2) * (M::pio2_1 * T(0.5)), select(mid, M::pio2_1 * T(0.5), T(0)));
    const T base_low = select(far, T(2) * M::pi_4_low, select(mid, M::pi_4_low, T(0)));
    const T t = top / bottom;
    const T z = t * t;
    return base + (t + fma(z * t, polynomial(M::atan, z), base_low));
}

static inline float sqrt(float x) { return __builtin_sqrtf(x); }
static inline double sqrt(double x) { return __builtin_sqrt(x); }

// asin(a) for 0 <= a <= 1/2, less a.
template <class T> static inline T asin_rest(T a, T z) { return z * a * polynomial(More<T>::asin, z); }

}  // namespace detail

template <class T> static inline T atan(T x) {
    const T a = detail::abs(x);
    const T r = detail::atan_of(a, T(1));
    const T limited = detail::select(a > detail::More<T>::big, detail::More<T>::pio2_1, r);
    return detail::with_sign_of(detail::select(a < T(1e-6) * T(1e-6), a, limited), x);
}

template <class T> static inline T atan2(T y, T x) {
    constexpr T inf = std::numeric_limits<T>::infinity();
    T n = detail::abs(y), d = detail::abs(x);
    const bool equal = n == d;  // both zero, or both infinite: as if both were 1, or for zeros n / 1
    const T zero_or_one = detail::select(n == T(0), T(0), T(1));
    // Quarters keep the sum of large ones finite; small ones are scaled up, so that products with constants stay exact.
    const T scale = detail::select(n > detail::More<T>::big || d > detail::More<T>::big, T(0.25), T(1));
    const T up = detail::select(n < T(1) / detail::More<T>::big && d < T(1) / detail::More<T>::big,
                                detail::More<T>::big, T(1));
    n = n * scale * up;
    d = d * scale * up;
    n = detail::select(equal, zero_or_one, n);
    d = detail::select(equal, T(1), d);
    // An infinite n or d makes a quotient of infinities where both ends of the sum are it.
    const bool d_inf = d == inf, n_inf = n == inf;
    n = detail::select(d_inf, T(0), detail::select(n_inf, T(1), n));
    d = detail::select(n_inf, T(0), detail::select(d_inf, T(1), d));
    const T r = detail::atan_of(n, d);
    using M = detail::More<T>;
    const bool left = (detail::bits(x) & detail::sign_mask<T>) != 0;
    const T turned = T(2) * M::pio2_1 - (r - T(4) * M::pi_4_low);
    const T result = detail::with_sign_of(detail::select(left, turned, r), y);
    return detail::select(x != x || y != y, x + y, result);
}

template <class T> static inline T asin(T x) {
    using M = detail::More<T>;
    const T a = detail::abs(x);
    const bool near = a <= T(0.5);
    const T z = detail::select(near, a * a, T(0.5) * (T(1) - a));
    const T s = detail::select(near, a, detail::sqrt(z));
    const T rest = detail::asin_rest(s, z);
    // asin(a) = pi/2 - 2 asin(sqrt((1 - a) / 2)); the root's rounding is made good.
    const T lost = detail::fma(-s, s, z) / (s + s + std::numeric_limits<T>::min());
    const T far = M::pio2_1 - T(2) * (s + (rest + (lost - M::pi_4_low)));
    const T result = detail::select(near, s + rest, far);
    const T outside = detail::select(a > T(1), std::numeric_limits<T>::quiet_NaN(), detail::with_sign_of(result, x));
    return detail::select(x != x || x == T(0), x, outside);
}

template <class T> static inline T acos(T x) {
    using M = detail::More<T>;
    const T a = detail::abs(x);
    const bool near = a <= T(0.5), negative = x < T(0);
    const T z = detail::select(near, a * a, T(0.5) * (T(1) - a));
    const T s = detail::select(near, a, detail::sqrt(z));
    const T rest = detail::asin_rest(s, z);
    const T lost = detail::fma(-s, s, z) / (s + s + std::numeric_limits<T>::min());
    const T signed_s = detail::with_sign_of(s, x), signed_rest = detail::with_sign_of(T(1), x) * rest;
    const T middle = M::pio2_1 - (signed_s + (signed_rest - T(2) * M::pi_4_low));
    const T end = T(2) * (s + (rest + lost));
    const T far = detail::select(negative, T(2) * M::pio2_1 - (end - T(4) * M::pi_4_low), end);
    return detail::select(near, middle, far);
}

namespace detail {

// e^x / 2: as exp, one power lower, so that it only overflows where a hyperbolic function does. x >= 0.
template <class T> static inline T half_exp(T x) {
    using F = Format<T>;
    x = x > More<T>::half_exp_high ? More<T>::half_exp_high : x;
    const auto [shifted, r] = reduce_exp<T>(x, T(2 * F::exponent_bias - 1));
    const T m = fma(fma(horner(F::exp, r), r, T(1)), r, T(1));
    const Bits<T> half = shifted >> 1;
    return m * value(Bits<T>(half << F::mantissa_bits)) * value(Bits<T>((shifted - half) << F::mantissa_bits));
}

}  // namespace detail

template <class T> static inline T sinh(T x) {
    const T a = detail::abs(x), z = a * a;
    const T near = detail::fma(z * a, detail::polynomial(detail::More<T>::sinh, z), a);
    const T e = detail::half_exp(a);
    return detail::with_sign_of(detail::select(a < T(1), near, e - T(0.25) / e), x);
}

template <class T> static inline T cosh(T x) {
    const T e = detail::half_exp(detail::abs(x));
    return e + T(0.25) / e;
}

}  // namespace mt::MT_ISA_NS::math
