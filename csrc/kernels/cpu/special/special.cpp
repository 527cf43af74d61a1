// The table of the special functions.
#include "kernels/cpu/special/special.h"

#include "dispatch/infer/elementwise.h"
#include "dispatch/infer/pointwise.h"
#define MT_LOOPS_NS special
#include "kernels/cpu/pointwise/formula_loops.h"

namespace mt::cpu {
namespace {

using special::binary_loop;
using special::ternary_loop;
using special::unary_loop;

template <double (*function)(double)> struct One {
    template <class T> static T apply(T x) { return static_cast<T>(function(static_cast<double>(x))); }
};
template <double (*function)(double, double)> struct Two {
    template <class T> static T apply(T x, T y) {
        return static_cast<T>(function(static_cast<double>(x), static_cast<double>(y)));
    }
};
template <double (*function)(double, double, double)> struct Three {
    template <class T> static T apply(T x, T y, T z) {
        return static_cast<T>(function(static_cast<double>(x), static_cast<double>(y), static_cast<double>(z)));
    }
};

#define MT_FLOATS(loop, Op) {false, nullptr, nullptr, nullptr, nullptr, loop<Op, float>, loop<Op, double>}

// A line for each function: the op and its loops.
constexpr PointwiseRow rows[] = {
    {"erfcx", infer_wide, MT_FLOATS(unary_loop, One<special::erfcx>)},
    {"ndtr", infer_promoted, MT_FLOATS(unary_loop, One<special::ndtr>)},
    {"ndtri", infer_wide, MT_FLOATS(unary_loop, One<special::ndtri>)},
    {"log_ndtr", infer_wide, MT_FLOATS(unary_loop, One<special::log_ndtr>)},
    {"entr", infer_promoted, MT_FLOATS(unary_loop, One<special::entr>)},
    {"lgamma", infer_promoted, MT_FLOATS(unary_loop, One<special::lgamma>)},
    {"digamma", infer_promoted, MT_FLOATS(unary_loop, One<special::digamma>)},
    {"i0", infer_promoted, MT_FLOATS(unary_loop, One<special::i0>)},
    {"i0e", infer_promoted, MT_FLOATS(unary_loop, One<special::i0e>)},
    {"i1", infer_promoted, MT_FLOATS(unary_loop, One<special::i1>)},
    {"i1e", infer_promoted, MT_FLOATS(unary_loop, One<special::i1e>)},
    {"modified_bessel_i0", infer_wide, MT_FLOATS(unary_loop, One<special::i0>)},
    {"modified_bessel_i1", infer_wide, MT_FLOATS(unary_loop, One<special::i1>)},
    {"modified_bessel_k0", infer_wide, MT_FLOATS(unary_loop, One<special::k0>)},
    {"modified_bessel_k1", infer_wide, MT_FLOATS(unary_loop, One<special::k1>)},
    {"scaled_modified_bessel_k0", infer_wide, MT_FLOATS(unary_loop, One<special::k0e>)},
    {"scaled_modified_bessel_k1", infer_wide, MT_FLOATS(unary_loop, One<special::k1e>)},
    {"bessel_j0", infer_wide, MT_FLOATS(unary_loop, One<special::j0>)},
    {"bessel_j1", infer_wide, MT_FLOATS(unary_loop, One<special::j1>)},
    {"bessel_y0", infer_wide, MT_FLOATS(unary_loop, One<special::y0>)},
    {"bessel_y1", infer_wide, MT_FLOATS(unary_loop, One<special::y1>)},
    {"airy_ai", infer_wide, MT_FLOATS(unary_loop, One<special::airy_ai>)},
    {"spherical_bessel_j0", infer_wide, MT_FLOATS(unary_loop, One<special::spherical_j0>)},
    {"_polygamma", infer_promoted, MT_FLOATS(binary_loop, Two<special::polygamma>)},
    {"zeta", infer_wide, MT_FLOATS(binary_loop, Two<special::zeta>)},
    {"igamma", infer_floats, MT_FLOATS(binary_loop, Two<special::igamma>)},
    {"igammac", infer_floats, MT_FLOATS(binary_loop, Two<special::igammac>)},
    {"_standard_gamma_grad", infer_floats, MT_FLOATS(binary_loop, Two<special::standard_gamma_grad>)},
    {"_dirichlet_grad", infer_floats, MT_FLOATS(ternary_loop, Three<special::dirichlet_grad>)},
    {"chebyshev_polynomial_t", infer_wide, MT_FLOATS(binary_loop, Two<special::chebyshev_t>)},
    {"chebyshev_polynomial_u", infer_wide, MT_FLOATS(binary_loop, Two<special::chebyshev_u>)},
    {"chebyshev_polynomial_v", infer_wide, MT_FLOATS(binary_loop, Two<special::chebyshev_v>)},
    {"chebyshev_polynomial_w", infer_wide, MT_FLOATS(binary_loop, Two<special::chebyshev_w>)},
    {"shifted_chebyshev_polynomial_t", infer_wide, MT_FLOATS(binary_loop, Two<special::shifted_t>)},
    {"shifted_chebyshev_polynomial_u", infer_wide, MT_FLOATS(binary_loop, Two<special::shifted_u>)},
    {"shifted_chebyshev_polynomial_v", infer_wide, MT_FLOATS(binary_loop, Two<special::shifted_v>)},
    {"shifted_chebyshev_polynomial_w", infer_wide, MT_FLOATS(binary_loop, Two<special::shifted_w>)},
    {"hermite_polynomial_h", infer_wide, MT_FLOATS(binary_loop, Two<special::hermite_h>)},
    {"hermite_polynomial_he", infer_wide, MT_FLOATS(binary_loop, Two<special::hermite_he>)},
    {"laguerre_polynomial_l", infer_wide, MT_FLOATS(binary_loop, Two<special::laguerre>)},
    {"legendre_polynomial_p", infer_wide, MT_FLOATS(binary_loop, Two<special::legendre>)},
};
static_assert(names_differ(rows));
#undef MT_FLOATS

const RegisterPointwise registered({rows, std::size(rows)});

}  // namespace
}  // namespace mt::cpu
