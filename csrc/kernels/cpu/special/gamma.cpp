// The gamma function's relatives.
#include "kernels/cpu/special/special.h"

// Declared by <math.h> for some standards only.
extern "C" double lgamma_r(double, int*);

namespace mt::cpu::special {
namespace {

// sin(pi x) and its quotient with cos(pi x), exact in the reduction.
double sin_pi(double x) {
    double r = x - 2.0 * std::round(0.5 * x);
    if (r > 0.5) r = 1.0 - r;
    else if (r < -0.5) r = -1.0 - r;
    return std::sin(kPi * r);
}
double tan_pi(double x) { return std::tan(kPi * (x - std::round(x))); }

// B(2k) / (2k)! for the Euler-Maclaurin formula.
constexpr double kBernoulli[] = {1.0 / 12.0,
                                 -1.0 / 720.0,
                                 1.0 / 30240.0,
                                 -1.0 / 1209600.0,
                                 1.0 / 47900160.0,
                                 -691.0 / 1307674368000.0,
                                 1.0 / 74724249600.0,
                                 -3617.0 / 10670622842880000.0,
                                 43867.0 / 5109094217170944000.0,
                                 -174611.0 / 802857662698291200000.0};

// log(Gamma(a)) - (a - 1/2) log(a) + a - log(2 pi) / 2 for a >= 10 (DLMF 5.11.1).
double stirling_rest(double a) {
    double z = 1.0 / (a * a);
    return (1.0 / 12.0 -
            z * (1.0 / 360.0 -
                 z * (1.0 / 1260.0 - z * (1.0 / 1680.0 - z * (1.0 / 1188.0 - z * (691.0 / 360360.0 - z / 156.0)))))) /
           a;
}

// log(1 + m) - m
double log1p_minus(double m) {
    if (std::abs(m) > 0.3) return std::log1p(m) - m;
    // s = m / (2 + m): log(1 + m) = 2 (s + s^3 / 3 + ...), and m = 2s / (1 - s)
    double s = m / (2.0 + m), z = s * s, sum = 0.0, power = 1.0;
    for (int k = 1; k < 40; ++k) {
        power *= z;
        double term = power / (2 * k + 1);
        sum += term;
        if (term < sum * 1e-17) break;
    }
    return 2.0 * s * sum - s * m;
}

// x^a e^-x / Gamma(a + 1)
double gamma_density(double a, double x) {
    if (a < 10.0) return std::exp(a * std::log(x) - x - lgamma(a + 1.0));
    return std::exp(a * log1p_minus((x - a) / a) - stirling_rest(a)) / std::sqrt(2.0 * kPi * a);
}

// The regularised lower function by its series (DLMF 8.7.1).
double lower_series(double a, double x) {
    double term = 1.0, sum = 1.0;
    for (double k = a + 1.0; term > sum * 1e-17; k += 1.0) {
        term *= x / k;
        sum += term;
    }
    return sum * gamma_density(a, x);
}

// The regularised upper function by its continued fraction (DLMF 8.9.2), with Lentz's method.
double upper_fraction(double a, double x) {
    constexpr double tiny = 1e-300;
    double b = x + 1.0 - a, c = 1.0 / tiny, d = 1.0 / b, h = d;
    for (int i = 1; i < 1000000; ++i) {
        double an = -i * (i - a);
        b += 2.0;
        d = an * d + b;
        if (std::abs(d) < tiny) d = tiny;
        c = b + an / c;
        if (std::abs(c) < tiny) c = tiny;
        d = 1.0 / d;
        double factor = d * c;
        h *= factor;
        if (std::abs(factor - 1.0) < 1e-16) break;
    }
    return h * a * gamma_density(a, x);
}

// Small x: the upper function for a <= 1, where 1 minus the lower one would lose its digits.
double upper_small(double a, double x) {
    // 1 - x^a / Gamma(1 + a) + x^a / Gamma(1 + a) * sum of -a (-x)^k / ((a + k) k!)
    double sum = 0.0, factor = 1.0;
    for (int k = 1; k < 200; ++k) {
        factor *= -x / k;
        double term = factor / (a + k);
        sum += term;
        if (std::abs(term) <= std::abs(sum) * 1e-17) break;
    }
    double log = a * std::log(x) - lgamma(1.0 + a);
    return -std::expm1(log) - std::exp(log) * a * sum;
}

}  // namespace

double lgamma(double x) {
    int sign;
    return ::lgamma_r(x, &sign);
}

double digamma(double x) {
    if (x == 0.0) return std::copysign(kInf, -x);
    if (x < 0.0) {
        if (x == std::trunc(x)) return kNan;
        return digamma(1.0 - x) - kPi / tan_pi(x);
    }
    double shifted = 0.0;
    for (; x < 10.0; x += 1.0) shifted -= 1.0 / x;
    if (x == kInf) return x;
    double z = 1.0 / (x * x);
    // DLMF 5.11.2
    double series =
        z * (1.0 / 12.0 -
             z * (1.0 / 120.0 -
                  z * (1.0 / 252.0 - z * (1.0 / 240.0 - z * (1.0 / 132.0 - z * (691.0 / 32760.0 - z / 12.0))))));
    return shifted + (std::log(x) - 0.5 / x - series);
}

// Hurwitz's function: the first terms, and the Euler-Maclaurin formula for the rest (DLMF 25.11.5).
double zeta(double s, double q) {
    if (s == 1.0) return kInf;
    if (s < 1.0) return kNan;
    if (q == kInf) return s == s ? 0.0 : kNan;
    if (q <= 0.0) {
        if (q == std::floor(q)) return kInf;
        if (s != std::floor(s)) return kNan;
    }
    double sum = 0.0, a = q;
    for (int i = 0; i < 9 || a <= 9.0; ++i, a += 1.0) {
        double term = std::pow(a, -s);
        sum += term;
        if (std::abs(term) < std::abs(sum) * 1e-17) return sum;
    }
    double power = std::pow(a, -s);
    sum += power * a / (s - 1.0) + 0.5 * power;
    double factor = s * power / a;
    for (size_t k = 0; k < std::size(kBernoulli); ++k) {
        double term = factor * kBernoulli[k];
        sum += term;
        if (std::abs(term) < std::abs(sum) * 1e-17) break;
        double n = 2.0 * static_cast<double>(k) + 1.0;
        factor *= (s + n) * (s + n + 1.0) / (a * a);
    }
    return sum;
}

double polygamma(double x, double n) {
    if (n == 0.0) return digamma(x);
    if (x == kInf) return std::fmod(n, 2.0) == 1.0 ? 0.0 : -0.0;
    if (n == 1.0 && x == -kInf) return kNan;  // between poles, not one of them
    if (n == 1.0 && x < 0.5 && x != std::floor(x)) {  // reflection (DLMF 5.15.6)
        double s = kPi / sin_pi(x);
        return s * s - polygamma(1.0 - x, 1.0);
    }
    double magnitude = std::exp(lgamma(n + 1.0)) * zeta(n + 1.0, x);
    return std::fmod(n, 2.0) == 1.0 ? magnitude : -magnitude;
}

double igamma(double a, double x) {
    if (x < 0.0 || a < 0.0) return kNan;
    if (a == 0.0) return x > 0.0 ? 1.0 : kNan;
    if (x == 0.0) return 0.0;
    if (a == kInf) return x == kInf ? kNan : 0.0;
    if (x == kInf) return 1.0;
    if (a != a || x != x) return kNan;
    return x < a + 1.0 ? lower_series(a, x) : 1.0 - upper_fraction(a, x);
}

double igammac(double a, double x) {
    if (x < 0.0 || a < 0.0) return kNan;
    if (a == 0.0) return x > 0.0 ? 0.0 : kNan;
    if (x == 0.0) return 1.0;
    if (a == kInf) return x == kInf ? kNan : 1.0;
    if (x == kInf) return 0.0;
    if (a != a || x != x) return kNan;
    if (x < 1.0 && a <= 1.0) return upper_small(a, x);
    return x < a + 1.0 ? 1.0 - lower_series(a, x) : upper_fraction(a, x);
}

}  // namespace mt::cpu::special
