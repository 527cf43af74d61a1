// The special functions on one number, in double; float32 is computed in double and rounded once. Compiled once, so
// their bits do not depend on the instruction set; exp, log and the like are the C library's.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/cpu/pointwise/pointwise.h"

namespace mt::cpu::special {

inline constexpr double kInf = std::numeric_limits<double>::infinity();
inline constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
inline constexpr double kPi = 3.14159265358979323846;

// A Chebyshev series by Clenshaw's recurrence, twice: T(2k)(u) = T(k)(v) with v = 2u^2 - 1, and T(2k + 1)(u) is u times
// a polynomial of the third kind, V(k)(v). Two chains of half the length take half the time.
template <size_t count> inline double chebyshev(const double (&c)[count], double u) {
    double twice = 4.0 * u * u - 2.0;
    double even1 = 0.0, even2 = 0.0, odd1 = 0.0, odd2 = 0.0;
    for (size_t k = (count + 1) / 2; k-- > 1;) {
        double even0 = c[2 * k] + twice * even1 - even2;
        double odd0 = (2 * k + 1 < count ? c[2 * k + 1] : 0.0) + twice * odd1 - odd2;
        even2 = even1;
        even1 = even0;
        odd2 = odd1;
        odd1 = odd0;
    }
    double even = c[0] + 0.5 * twice * even1 - even2;
    double odd = (count > 1 ? c[1] : 0.0) + twice * odd1 - odd2 - odd1;
    return even + u * odd;
}

// Error functions (erf.cpp)
double erfc(double x);
double erfcx(double x);
double erfinv(double y);
double ndtr(double x);
double ndtri(double p);
double log_ndtr(double x);
double entr(double x);

// Gamma functions (gamma.cpp)
double lgamma(double x);
double digamma(double x);
double polygamma(double x, double n);
double zeta(double s, double q);
double igamma(double a, double x);
double igammac(double a, double x);

// Derivatives of samples (implicit_gradients.cpp): of shape a by a; of Dirichlet's distribution, a component by its
// concentration, over 1 - x.
double standard_gamma_grad(double a, double x);
double dirichlet_grad(double x, double a, double total);

// Bessel functions and Airy's (bessel.cpp)
double i0(double x);
double i0e(double x);
double i1(double x);
double i1e(double x);
double k0(double x);
double k0e(double x);
double k1(double x);
double k1e(double x);
double j0(double x);
double j1(double x);
double y0(double x);
double y1(double x);
double airy_ai(double x);
double spherical_j0(double x);

// Orthogonal polynomials of degree n (polynomials.cpp)
double chebyshev_t(double x, double n);
double chebyshev_u(double x, double n);
double chebyshev_v(double x, double n);
double chebyshev_w(double x, double n);
double shifted_t(double x, double n);
double shifted_u(double x, double n);
double shifted_v(double x, double n);
double shifted_w(double x, double n);
double hermite_h(double x, double n);
double hermite_he(double x, double n);
double laguerre(double x, double n);
double legendre(double x, double n);

}  // namespace mt::cpu::special
