// Bessel functions of integer order 0 and 1, and Airy's function. tables.h tells what is expanded.
#include "kernels/cpu/special/special.h"
#include "kernels/cpu/special/tables.h"

namespace mt::cpu::special {
namespace {

constexpr double kTwoOverPi = 2.0 / kPi, kQuarter = kPi / 4.0;

// sqrt(2 / (pi x)) (P cos(x - t) - Q sin(x - t)), with 8/x in Q's expansion; `sine` exchanges the two, for Y.
template <size_t p_count, size_t q_count>
double hankel(const double (&p)[p_count], const double (&q)[q_count], double x, int order, bool sine) {
    double z = 8.0 / x, u = 2.0 * z * z - 1.0;
    double even = chebyshev(p, u), odd = z * chebyshev(q, u);
    // cos and sin of x - pi/4 (times sqrt 2) by those of x, which are reduced exactly.
    double s = std::sin(x), c = std::cos(x);
    double cosine = order == 0 ? c + s : s - c, sinus = order == 0 ? s - c : -(c + s);
    double scale = std::sqrt(1.0 / (kPi * x));
    return sine ? scale * (even * sinus + odd * cosine) : scale * (even * cosine - odd * sinus);
}

double small_square(double x) { return x * x / 32.0 - 1.0; }

}  // namespace

double i0e(double x) {
    x = std::abs(x);
    if (x <= 8.0) return chebyshev(tables::i0_small, x / 4.0 - 1.0);
    return x == kInf ? 0.0 : chebyshev(tables::i0_large, 16.0 / x - 1.0) / std::sqrt(x);
}
double i1e(double x) {
    double a = std::abs(x);
    if (a <= 8.0) return chebyshev(tables::i1_small, a / 4.0 - 1.0) * x;
    return a == kInf ? 0.0 : std::copysign(chebyshev(tables::i1_large, 16.0 / a - 1.0) / std::sqrt(a), x);
}
double i0(double x) {
    if (std::abs(x) == kInf) return kInf;
    double half = std::exp(0.5 * std::abs(x));  // e^x overflows before the product does
    return std::abs(x) < 700.0 ? std::exp(std::abs(x)) * i0e(x) : half * i0e(x) * half;
}
double i1(double x) {
    if (std::abs(x) == kInf) return x;
    double half = std::exp(0.5 * std::abs(x));
    return std::abs(x) < 700.0 ? std::exp(std::abs(x)) * i1e(x) : half * i1e(x) * half;
}

double k0(double x) {
    if (!(x > 0.0)) return x == 0.0 ? kInf : kNan;
    if (x <= 2.0) return chebyshev(tables::k0_small, x * x / 2.0 - 1.0) - std::log(0.5 * x) * i0(x);
    return std::exp(-x) * chebyshev(tables::k0_large, 4.0 / x - 1.0) / std::sqrt(x);
}
double k0e(double x) {
    if (!(x > 0.0)) return x == 0.0 ? kInf : kNan;
    if (x <= 2.0) return k0(x) * std::exp(x);
    return chebyshev(tables::k0_large, 4.0 / x - 1.0) / std::sqrt(x);
}
double k1(double x) {
    if (!(x > 0.0)) return x == 0.0 ? kInf : kNan;
    if (x <= 2.0) return chebyshev(tables::k1_small, x * x / 2.0 - 1.0) / x + std::log(0.5 * x) * i1(x);
    return std::exp(-x) * chebyshev(tables::k1_large, 4.0 / x - 1.0) / std::sqrt(x);
}
double k1e(double x) {
    if (!(x > 0.0)) return x == 0.0 ? kInf : kNan;
    if (x <= 2.0) return k1(x) * std::exp(x);
    return chebyshev(tables::k1_large, 4.0 / x - 1.0) / std::sqrt(x);
}

double j0(double x) {
    x = std::abs(x);
    if (x == kInf) return 0.0;
    return x <= 8.0 ? chebyshev(tables::j0_small, small_square(x)) : hankel(tables::p0, tables::q0, x, 0, false);
}
double j1(double x) {
    double a = std::abs(x);
    if (a == kInf) return 0.0;
    if (a <= 8.0) return x * chebyshev(tables::j1_small, small_square(x));
    return std::copysign(1.0, x) * hankel(tables::p1, tables::q1, a, 1, false);
}
double y0(double x) {
    if (!(x > 0.0)) return x == 0.0 ? -kInf : kNan;
    if (x == kInf) return 0.0;
    if (x <= 8.0) return chebyshev(tables::y0_small, small_square(x)) + kTwoOverPi * std::log(x) * j0(x);
    return hankel(tables::p0, tables::q0, x, 0, true);
}
double y1(double x) {
    if (!(x > 0.0)) return x == 0.0 ? -kInf : kNan;
    if (x == kInf) return 0.0;
    if (x <= 8.0)
        return x * chebyshev(tables::y1_small, small_square(x)) + kTwoOverPi * (std::log(x) * j1(x) - 1.0 / x);
    return hankel(tables::p1, tables::q1, x, 1, true);
}

double airy_ai(double x) {
    if (x != x) return x;
    if (std::abs(x) == kInf) return x > 0.0 ? 0.0 : kNan;
    double root = std::sqrt(std::abs(x)), z = std::abs(x) * root / 1.5;
    constexpr double root_pi = 1.77245385090551602730;
    if (x < -5.0) {
        double u = 98.0 / (z * z) - 1.0;
        double p = chebyshev(tables::airy_p, u), q = chebyshev(tables::airy_q, u) / z;
        return (p * std::cos(z - kQuarter) + q * std::sin(z - kQuarter)) / (root_pi * std::sqrt(root));
    }
    if (x <= 2.0) return chebyshev(tables::airy_small, (2.0 * x + 3.0) / 7.0);
    return std::exp(-z) * chebyshev(tables::airy_decay, 3.0 / z - 1.0) / (2.0 * root_pi * std::sqrt(root));
}

double spherical_j0(double x) {
    if (std::abs(x) == kInf) return 0.0;
    if (std::abs(x) < 0.5) {
        double z = x * x;
        return 1.0 -
               z / 6.0 * (1.0 - z / 20.0 * (1.0 - z / 42.0 * (1.0 - z / 72.0 * (1.0 - z / 110.0 * (1.0 - z / 156.0)))));
    }
    return std::sin(x) / x;
}

}  // namespace mt::cpu::special
