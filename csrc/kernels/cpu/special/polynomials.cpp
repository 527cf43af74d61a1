// Orthogonal polynomials by their recurrences (DLMF 18.9); degrees are truncated, and negative ones give 0.
#include "core/process/interrupt.h"
#include "kernels/cpu/special/special.h"
#include "runtime/errors.h"

namespace mt::cpu::special {
namespace {

// p[k + 1] = next(k, p[k], p[k - 1]) from p[0] = 1 and p[1] = first.
template <class Next> double recurrence(int64_t n, double first, Next next) {
    if (n <= 0) return n == 0 ? 1.0 : 0.0;
    constexpr int64_t ask = 1 << 20;  // some milliseconds
    if (n > ask && t_runtime_error) return kNan;
    double before = 1.0, now = first;
    for (int64_t k = 1; k < n && now == now; ++k) {
        // Compiled code runs this loop too, and can't be unwound.
        if (__builtin_expect(k % ask == 0, 0)) {
            keeping_errors(check_interrupt);
            if (t_runtime_error) return kNan;
        }
        double after = next(static_cast<double>(k), now, before);
        before = now;
        now = after;
    }
    return now;
}

// The four kinds differ in the polynomial of degree 1. Beyond `most` the trigonometric form takes over inside (-1, 1).
double chebyshev_kind(double x, int64_t n, char kind, int64_t most) {
    if (n < 0) return 0.0;
    double sign = n % 2 ? -1.0 : 1.0, degree = static_cast<double>(n);
    if (std::abs(x) == 1.0) {
        switch (kind) {
            case 't': return x > 0.0 ? 1.0 : sign;
            case 'u': return (degree + 1.0) * (x > 0.0 ? 1.0 : sign);
            case 'v': return x > 0.0 ? 1.0 : (2.0 * degree + 1.0) * sign;
            default: return x > 0.0 ? 2.0 * degree + 1.0 : sign;
        }
    }
    if (n > most && std::abs(x) < 1.0) {
        double angle = std::acos(x);
        switch (kind) {
            case 't': return std::cos(degree * angle);
            case 'u': return std::sin((degree + 1.0) * angle) / std::sin(angle);
            case 'v': return std::cos((degree + 0.5) * angle) / std::cos(0.5 * angle);
            default: return std::sin((degree + 0.5) * angle) / std::sin(0.5 * angle);
        }
    }
    double first = kind == 't' ? x : kind == 'u' ? 2.0 * x : kind == 'v' ? 2.0 * x - 1.0 : 2.0 * x + 1.0;
    return recurrence(n, first, [x](double, double p, double q) { return 2.0 * x * p - q; });
}

int64_t degree_of(double n) {
    constexpr double limit = 9223372036854775808.0;
    return n >= -limit && n < limit ? static_cast<int64_t>(n) : INT64_MIN;
}

}  // namespace

double chebyshev_t(double x, double n) { return chebyshev_kind(x, degree_of(n), 't', 6); }
double chebyshev_u(double x, double n) { return chebyshev_kind(x, degree_of(n), 'u', 8); }
double chebyshev_v(double x, double n) { return chebyshev_kind(x, degree_of(n), 'v', 8); }
double chebyshev_w(double x, double n) { return chebyshev_kind(x, degree_of(n), 'w', 8); }
double shifted_t(double x, double n) { return chebyshev_kind(2.0 * x - 1.0, degree_of(n), 't', 6); }
double shifted_u(double x, double n) { return chebyshev_kind(2.0 * x - 1.0, degree_of(n), 'u', 6); }
double shifted_v(double x, double n) { return chebyshev_kind(2.0 * x - 1.0, degree_of(n), 'v', 6); }
double shifted_w(double x, double n) { return chebyshev_kind(2.0 * x - 1.0, degree_of(n), 'w', 6); }

double hermite_h(double x, double n) {
    return recurrence(degree_of(n), 2.0 * x, [x](double k, double p, double q) { return 2.0 * (x * p - k * q); });
}
double hermite_he(double x, double n) {
    return recurrence(degree_of(n), x, [x](double k, double p, double q) { return x * p - k * q; });
}
double laguerre(double x, double n) {
    if (x == 0.0 && degree_of(n) >= 0) return 1.0;
    return recurrence(degree_of(n), 1.0 - x,
                      [x](double k, double p, double q) { return ((2.0 * k + 1.0 - x) * p - k * q) / (k + 1.0); });
}
double legendre(double x, double n) {
    const int64_t degree = degree_of(n);
    if (std::abs(x) == 1.0 && degree >= 0) return x > 0.0 || degree % 2 == 0 ? 1.0 : -1.0;
    return recurrence(degree, x,
                      [x](double k, double p, double q) { return ((2.0 * k + 1.0) * x * p - k * q) / (k + 1.0); });
}

}  // namespace mt::cpu::special
