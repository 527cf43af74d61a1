// The error function, and activation functions that are made of it and of exponentials. See functions.h, whose rules
// hold here. No include guard: see functions.h.

namespace mt::MT_ISA_NS::math {

// A polynomial up to 1, 1 - exp(-p(|x| - 1)) beyond.
template <class T> static inline T erf(T x) {
    using M = detail::More<T>;
    const T a = detail::abs(x), z = a * a;
    const T near = detail::fma(a, detail::polynomial(M::erf_near, z), a);
    const T limited = detail::select(a > M::erf_one, M::erf_one, a);
    const T far = T(1) - exp<T>(-detail::polynomial(M::erf_far, limited - T(1)));
    return detail::with_sign_of(detail::select(a < T(1), near, far), x);
}

// 1 - erf(x): exp(-x^2) times a polynomial; float32 in float64.
template <class T> static inline T erfc(T x) {
    const double wide = static_cast<double>(x), b = detail::abs(wide);
    const double a = detail::select(b > 28.0, 28.0, b);
    const double q = detail::polynomial(detail::More<T>::erfc, (a - 3.75) / (a + 3.75)) / (1.0 + 2.0 * a);
    const double square = a * a, lost = detail::fma(a, a, -square);
    const double r = exp<double>(-square) * (q - q * lost);
    return static_cast<T>(detail::select(wide < 0.0, 2.0 - r, r));
}

// The number whose erf is x: x times a polynomial in w = -log(1 - x^2), beyond in sqrt(w) (Giles, "Approximating the
// erfinv function", 2012).
template <class T> static inline T erfinv(T x) {
    using M = detail::More<T>;
    constexpr T inf = std::numeric_limits<T>::infinity();
    const T w = -log<T>(detail::fma(-x, x, T(1)));
    const T root = detail::sqrt(w);
    T far = detail::polynomial(M::erfinv_far, root - M::erfinv_far_middle);
    if constexpr (sizeof(T) == 8)
        far = detail::select(root > T(4), detail::polynomial(M::erfinv_farthest, root - T(5)), far);
    const T near = detail::polynomial(M::erfinv_near, w - M::erfinv_near_middle);
    const T r = x * detail::select(w < T(2) * M::erfinv_near_middle, near, far);
    return detail::select(detail::abs(x) == T(1), detail::with_sign_of(inf, x), r);
}

// erf(x / sqrt(2)): twice the normal distribution's integral up to x, less 1. Where 1 is added to it, an error that is
// small beside 1 is enough, so float32 has one polynomial for all of it.
template <class T> static inline T normal(T x) {
    if constexpr (sizeof(T) == 4) {
        const float r = x * detail::polynomial(detail::More<float>::normal, detail::fma(x * x, 0.0625f, -1.0f));
        return detail::select(detail::abs(x) > 5.65f, detail::with_sign_of(1.0f, x), r);
    } else {
        return erf<T>(x * 0x1.6a09e667f3bcdp-1);
    }
}

// x times the normal distribution's integral up to x.
template <class T> static inline T gelu(T x) { return x * T(0.5) * (T(1) + normal<T>(x)); }

template <class T> static inline T gelu_tanh(T x) {
    constexpr T root = static_cast<T>(0x1.9884533d43651p-1);  // sqrt(2 / pi)
    const T inner = root * (x + T(0.044715) * (x * x * x));
    return T(0.5) * x * (T(1) + tanh<T>(inner));
}

// Their derivatives.
template <class T> static inline T gelu_slope(T x) {
    constexpr T density = static_cast<T>(0x1.9884533d43651p-2);
    const T integral = detail::fma(T(0.5), normal<T>(x), T(0.5));
    return integral + x * (exp<T>(x * x * T(-0.5)) * density);
}

template <class T> static inline T gelu_tanh_slope(T x) {
    constexpr T root = static_cast<T>(0x1.9884533d43651p-1);
    const T t = tanh<T>(root * (x + T(0.044715) * (x * x * x)));
    return T(0.5) * (T(1) + t) + T(0.5) * x * (T(1) - t * t) * (root * (T(1) + T(3 * 0.044715) * (x * x)));
}

template <class T> static inline T silu(T x) { return x * sigmoid<T>(x); }

// x tanh(log(1 + e^x))
template <class T> static inline T mish(T x) { return x * tanh<T>(log1p<T>(exp<T>(x))); }

// log(1 / (1 + e^-x))
template <class T> static inline T log_sigmoid(T x) {
    return detail::select(x > T(0), T(0), x) - log1p<T>(exp<T>(-detail::abs(x)));
}

// log(1 + e^(beta x)) / beta; x itself where that is no different.
template <class T> static inline T softplus(T x, T beta, T threshold) {
    const T z = x * beta;
    return detail::select(z > threshold, x, log1p<T>(exp<T>(z)) / beta);
}

template <class T> static inline T elu(T x, T alpha) { return detail::select(x > T(0), x, expm1<T>(x) * alpha); }
template <class T> static inline T celu(T x, T alpha) {
    return detail::select(x > T(0), x, expm1<T>(x / alpha) * alpha);
}
// elu with the alpha and the scale that keep mean and variance (Klambauer et al., "Self-normalizing neural networks").
template <class T> static inline T selu(T x) {
    constexpr T scale = static_cast<T>(1.0507009873554804934193349852946);
    constexpr T scaled_alpha = static_cast<T>(1.0507009873554804934193349852946 * 1.6732632423543772848170429916717);
    return detail::select(x > T(0), x * scale, expm1<T>(x) * scaled_alpha);
}

namespace detail {

// min(max(x + 3, 0), 6), NaN for NaN
template <class T> static inline T hard_ramp(T x) {
    const T y = x + T(3);
    return select(y < T(0), T(0), select(y > T(6), T(6), y));
}

}  // namespace detail

template <class T> static inline T hardsigmoid(T x) { return detail::hard_ramp(x) / T(6); }
template <class T> static inline T hardswish(T x) { return x * detail::hard_ramp(x) / T(6); }

}  // namespace mt::MT_ISA_NS::math
