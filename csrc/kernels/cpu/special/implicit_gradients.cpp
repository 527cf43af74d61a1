// How a sample moves with a parameter of its distribution while its place among all samples stays: with the cumulative
// function F and the density p it is -(dF / dparameter) / p (Figurnov, Mohamed and Mnih, "Implicit reparameterization
// gradients", NeurIPS 2018). All sums below are of terms of one sign, or nearly so, so that no digits cancel.
#include "kernels/cpu/special/special.h"

namespace mt::cpu::special {
namespace {

// A number and its derivative by one parameter.
struct Dual {
    double value, slope;
};
Dual operator+(Dual x, Dual y) { return {x.value + y.value, x.slope + y.slope}; }
Dual operator*(Dual x, Dual y) { return {x.value * y.value, x.slope * y.value + x.value * y.slope}; }
Dual operator/(Dual x, Dual y) {
    double quotient = x.value / y.value;
    return {quotient, (x.slope - quotient * y.slope) / y.value};
}
Dual away_from_zero(Dual x) {
    constexpr double tiny = 1e-300;
    return {std::abs(x.value) < tiny ? tiny : x.value, x.slope};
}
bool is_one(Dual factor, Dual product) {
    if (product.slope != product.slope) return true;  // no number comes of it any more
    return std::abs(factor.value - 1.0) < 1e-15 &&
           std::abs(factor.slope) < 1e-15 * (std::abs(product.slope / product.value) + 1e-3);
}
constexpr int kMostSteps = 1000000;

// The quotient of the upper incomplete gamma function and x times the density, by its continued fraction (DLMF 8.9.2)
// with Lentz's method.
Dual gamma_fraction(double a, double x) {
    Dual b{x + 1.0 - a, -1.0}, c{1e300, 0.0}, d = Dual{1.0, 0.0} / b, product = d;
    for (int i = 1; i < kMostSteps; ++i) {
        Dual numerator{-i * (i - a), static_cast<double>(i)};
        b.value += 2.0;
        d = Dual{1.0, 0.0} / away_from_zero(numerator * d + b);
        c = away_from_zero(b + numerator / c);
        Dual factor = d * c;
        product = product * factor;
        if (is_one(factor, product)) break;
    }
    return product;
}

// The fraction of DLMF 8.17.22, by which x^a (1 - x)^b / (a B(a, b)) becomes the regularised incomplete beta function.
Dual beta_fraction(Dual a, Dual b, double x) {
    const Dual at{x, 0.0}, one{1.0, 0.0};
    auto step = [](double m) { return Dual{m, 0.0}; };
    Dual c = one, d = one / away_from_zero(one + step(-1.0) * (a + b) * at / (a + one)), product = d;
    auto turn = [&](Dual numerator) {
        d = one / away_from_zero(one + numerator * d);
        c = away_from_zero(one + numerator / c);
        Dual factor = d * c;
        product = product * factor;
        return factor;
    };
    for (int i = 1; i < kMostSteps; ++i) {
        Dual m = step(i), twice = a + step(2.0 * i);
        Dual even = turn(m * (b + step(-i)) * at / ((twice + step(-1.0)) * twice));
        Dual odd = turn(step(-1.0) * (a + m) * (a + b + m) * at / (twice * (twice + one)));
        if (is_one(even * odd, product)) break;
    }
    return product;
}

// From a = 1e5 on, with an error below 1e-12: the expansion of Cornish and Fisher, "The percentile points of
// distributions having known cumulants" (Technometrics 2, 1960), x = a + z sqrt(a) + ..., derived with z held.
double standard_gamma_slope_of_large(double a, double x) {
    const double root = std::sqrt(a);
    double z = (x - a) / root;
    for (int i = 0; i < 6; ++i) {
        double z2 = z * z;
        double at = a + z * root + (z2 - 1.0) / 3.0 + z * (z2 - 7.0) / (36.0 * root) -
                    (3.0 * z2 * z2 + 7.0 * z2 - 16.0) / (810.0 * a) +
                    z * (9.0 * z2 * z2 + 256.0 * z2 - 433.0) / (38880.0 * a * root);
        z -= (at - x) / (root + 2.0 * z / 3.0 + (3.0 * z2 - 7.0) / (36.0 * root));
    }
    double z2 = z * z;
    return 1.0 + z / (2.0 * root) - z * (z2 - 7.0) / (72.0 * a * root) +
           (3.0 * z2 * z2 + 7.0 * z2 - 16.0) / (810.0 * a * a) -
           z * (9.0 * z2 * z2 + 256.0 * z2 - 433.0) / (25920.0 * a * a * root);
}

}  // namespace

double standard_gamma_grad(double a, double x) {
    if (!(a > 0.0) || !(x >= 0.0)) return kNan;
    if (x == 0.0) return 0.0;
    if (x == kInf || a == kInf) return x == a ? 1.0 : kNan;
    if (a >= 1e5) return standard_gamma_slope_of_large(a, x);
    const double log_x = std::log(x);
    if (x >= a + 1.0) {
        Dual upper = gamma_fraction(a, x);
        return x * (upper.value * (log_x - digamma(a)) + upper.slope);
    }
    // The series of DLMF 8.7.1, each term derived.
    double term = 1.0 / a, psi = digamma(a + 1.0), sum = term * (psi - log_x);
    for (double k = a + 1.0;; k += 1.0) {
        term *= x / k;
        psi += 1.0 / k;
        double next = term * (psi - log_x);
        sum += next;
        if (k > x && std::abs(next) < std::abs(sum) * 1e-17) return x * sum;
    }
}

double dirichlet_grad(double x, double a, double total) {
    if (total == kInf) return kNan;
    const double b = total - a;
    if (!(x >= 0.0 && x <= 1.0) || !(a > 0.0) || !(b >= 0.0)) return kNan;
    if (x == 0.0 || b == 0.0) return 0.0;
    const double log_x = std::log(x);
    if (x < (a + 1.0) / (total + 2.0)) {
        Dual lower = beta_fraction({a, 1.0}, {b, 0.0}, x);
        return -x / a * (lower.value * (log_x + digamma(total) - digamma(a + 1.0)) + lower.slope);
    }
    Dual upper = beta_fraction({b, 0.0}, {a, 1.0}, 1.0 - x);
    return x / b * (upper.value * (log_x + digamma(total) - digamma(a)) + upper.slope);
}

}  // namespace mt::cpu::special
