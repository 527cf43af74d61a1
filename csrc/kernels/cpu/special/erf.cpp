// The error function's relatives and the normal distribution.
#include "kernels/cpu/special/special.h"
#include "kernels/cpu/special/tables.h"

namespace mt::cpu::special {
namespace {

constexpr double kRootHalf = 0.70710678118654752440, kRootPi = 1.77245385090551602730;

// e^(x^2), where that is finite, and e^(-x^2): the square in two parts.
double exp_square(double x) {
    double high = x * x, low = std::fma(x, x, -high);
    double e = std::exp(high);
    return e + e * low;
}
double exp_minus_square(double x, double factor) {
    double high = x * x, low = std::fma(x, x, -high);
    // In two halves, so that a result below the normal numbers is rounded once.
    double e = std::exp(-0.5 * high);
    return e * (factor * (1.0 - low)) * e;
}

// The x >= 0 with erfc(x) = q, for 0 < q <= 1/2.
double inverse_erfc(double q) {
    double t = std::sqrt(-std::log(q));
    if (t < 3.0) return chebyshev(tables::erfinv_far, (t - 1.9) / 1.1);
    if (t < 9.0) return chebyshev(tables::erfinv_farther, (t - 6.0) / 3.0);
    return chebyshev(tables::erfinv_farthest, (t - 18.5) / 9.5);
}

}  // namespace

double erfcx(double x) {
    if (x < -26.64) return kInf;  // from -26.6287 on; e^(x^2) is finite up to -26.6417
    if (x < 0.0) return 2.0 * exp_square(x) - erfcx(-x);
    if (x > 1e9) return 1.0 / (kRootPi * x);
    return chebyshev(tables::erfcx, (x - 3.75) / (x + 3.75)) / (1.0 + 2.0 * x);
}

double erfc(double x) {
    if (x < 0.5) return 1.0 - std::erf(x);
    if (x > 28.0) return 0.0;
    return exp_minus_square(x, erfcx(x));
}

double erfinv(double y) {
    double a = std::abs(y);
    if (!(a < 1.0)) return a == 1.0 ? std::copysign(kInf, y) : kNan;
    if (a > 0.5) return std::copysign(inverse_erfc(1.0 - a), y);
    return y * chebyshev(tables::erfinv_near, 8.0 * y * y - 1.0);
}

double ndtr(double x) {
    double t = x * kRootHalf;
    return x < -1.0 ? 0.5 * erfc(-t) : 0.5 * (1.0 + std::erf(t));
}

double ndtri(double p) {
    if (!(p > 0.0 && p < 1.0)) return p == 0.0 ? -kInf : p == 1.0 ? kInf : kNan;
    constexpr double root2 = 1.41421356237309504880;
    double tail = p < 0.5 ? p : 1.0 - p;
    double x = tail < 0.25 ? inverse_erfc(2.0 * tail) : erfinv(1.0 - 2.0 * tail);
    return p < 0.5 ? -root2 * x : root2 * x;
}

double log_ndtr(double x) {
    double t = x * kRootHalf;
    return x < -1.0 ? std::log(0.5 * erfcx(-t)) - t * t : std::log1p(-0.5 * erfc(t));
}

double entr(double x) { return x > 0.0 ? -x * std::log(x) : x == 0.0 ? 0.0 : x != x ? x : -kInf; }

}  // namespace mt::cpu::special
