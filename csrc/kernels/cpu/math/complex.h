// The arithmetic of complex numbers, one operation of their parts after the other; docs/numerics.md has the formulas.
#pragma once

#include <cmath>
#include <complex>

#include "core/numbers.h"

namespace mt::cpu::complex_math {

template <class T>
struct PartOf;
template <>
struct PartOf<complex64> {
    using type = float;
};
template <>
struct PartOf<complex128> {
    using type = double;
};
template <class Z>
using Part = typename PartOf<Z>::type;

template <class Z>
std::complex<Part<Z>> standard(Z z) {
    return {z.re, z.im};
}
template <class Z, class T>
Z of_standard(std::complex<T> z) {
    return {static_cast<Part<Z>>(z.real()), static_cast<Part<Z>>(z.imag())};
}

template <class Z>
Z add(Z a, Z b) {
    return {a.re + b.re, a.im + b.im};
}
template <class Z>
Z sub(Z a, Z b) {
    return {a.re - b.re, a.im - b.im};
}
template <class Z>
Z mul(Z a, Z b) {
    return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}
// Smith's method: scaled by the larger part of the divisor, so that its square can't overflow.
template <class Z>
Z div(Z a, Z b) {
    using T = Part<Z>;
    T re = std::fabs(b.re), im = std::fabs(b.im);
    if (re >= im) {
        if (re == T(0) && im == T(0)) return {a.re / re, a.im / im};
        T ratio = b.im / b.re, scale = T(1) / (b.re + b.im * ratio);
        return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
    }
    T ratio = b.re / b.im, scale = T(1) / (b.re * ratio + b.im);
    return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
}

inline float abs(complex64 z) { return ::hypotf(z.re, z.im); }
inline double abs(complex128 z) { return ::hypot(z.re, z.im); }
template <class Z>
Z sgn(Z z) {
    Part<Z> size = abs(z);
    if (size == 0) return {0, 0};
    return {z.re / size, z.im / size};
}
template <class Z>
Part<Z> angle(Z z) {
    return std::atan2(z.im, z.re);
}

template <class Z>
Z exp(Z z) {
    return of_standard<Z>(std::exp(standard(z)));
}
template <class Z>
Z log(Z z) {
    return of_standard<Z>(std::log(standard(z)));
}
template <class Z>
Z sqrt(Z z) {
    return of_standard<Z>(std::sqrt(standard(z)));
}
template <class Z>
Z tanh(Z z) {
    return of_standard<Z>(std::tanh(standard(z)));
}
#define MT_STANDARD(name)                              \
    template <class Z>                                 \
    Z name(Z z) {                                      \
        return of_standard<Z>(std::name(standard(z))); \
    }
MT_STANDARD(sin)
MT_STANDARD(cos)
MT_STANDARD(tan)
MT_STANDARD(asin)
MT_STANDARD(acos)
MT_STANDARD(atan)
MT_STANDARD(sinh)
MT_STANDARD(cosh)
MT_STANDARD(asinh)
MT_STANDARD(acosh)
MT_STANDARD(atanh)
MT_STANDARD(log10)
#undef MT_STANDARD

template <class Z>
Z scaled(Z z, Part<Z> by) {
    return {z.re * by, z.im * by};
}
template <class Z>
Z log2(Z z) {
    Z l = log(z);
    return {l.re / static_cast<Part<Z>>(M_LN2), l.im / static_cast<Part<Z>>(M_LN2)};
}
template <class Z>
Z exp2(Z z) {
    return exp(scaled(z, static_cast<Part<Z>>(M_LN2)));
}
// exp(z) - 1 without the cancellation near 0: cos(y) - 1 is -2 sin(y/2)^2.
template <class Z>
Z expm1(Z z) {
    Part<Z> e = std::expm1(z.re), half = std::sin(z.im / 2);
    return {e * std::cos(z.im) - 2 * half * half, (e + 1) * std::sin(z.im)};
}
// log(1 + z): near 0 from |1 + z|^2 - 1 = x (2 + x) + y^2.
template <class Z>
Z log1p(Z z) {
    using T = Part<Z>;
    if (std::fabs(z.re) >= T(0.5) || std::fabs(z.im) >= T(0.5)) return log(Z{1 + z.re, z.im});
    return {std::log1p(z.re * (2 + z.re) + z.im * z.im) / 2, std::atan2(z.im, 1 + z.re)};
}
template <class Z>
Z sigmoid(Z z) {
    return div(Z{1, 0}, add(Z{1, 0}, exp(Z{-z.re, -z.im})));
}
template <class Z>
Z sinc(Z z) {
    if (z.re == 0 && z.im == 0) return {1, 0};
    Z x = scaled(z, static_cast<Part<Z>>(M_PI));
    return div(sin(x), x);
}

template <class Z>
Z pow(Z a, Z b) {
    if (b.re == 0 && b.im == 0) return {1, 0};
    return of_standard<Z>(std::pow(standard(a), standard(b)));
}

}  // namespace mt::cpu::complex_math
