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

template <double (*function)(double)> constexpr PointwiseEntry one(const char* name) {
    return {name, 1, false, {{}, {}, {}, {}, unary_loop<One<function>, float>, unary_loop<One<function>, double>}};
}
template <double (*function)(double, double)> constexpr PointwiseEntry two(const char* name) {
    return {name, 2, false, {{}, {}, {}, {}, binary_loop<Two<function>, float>, binary_loop<Two<function>, double>}};
}

template <double (*function)(double, double, double)> constexpr PointwiseEntry three(const char* name) {
    return {
        name, 3, false, {{}, {}, {}, {}, ternary_loop<Three<function>, float>, ternary_loop<Three<function>, double>}};
}

constexpr PointwiseEntry entries[] = {
    one<special::erfcx>("erfcx"),
    one<special::ndtr>("ndtr"),
    one<special::ndtri>("ndtri"),
    one<special::log_ndtr>("log_ndtr"),
    one<special::entr>("entr"),
    one<special::lgamma>("lgamma"),
    one<special::digamma>("digamma"),
    one<special::i0>("i0"),
    one<special::i0e>("i0e"),
    one<special::i1>("i1"),
    one<special::i1e>("i1e"),
    one<special::i0>("modified_bessel_i0"),
    one<special::i1>("modified_bessel_i1"),
    one<special::k0>("modified_bessel_k0"),
    one<special::k1>("modified_bessel_k1"),
    one<special::k0e>("scaled_modified_bessel_k0"),
    one<special::k1e>("scaled_modified_bessel_k1"),
    one<special::j0>("bessel_j0"),
    one<special::j1>("bessel_j1"),
    one<special::y0>("bessel_y0"),
    one<special::y1>("bessel_y1"),
    one<special::airy_ai>("airy_ai"),
    one<special::spherical_j0>("spherical_bessel_j0"),
    two<special::polygamma>("_polygamma"),
    two<special::zeta>("zeta"),
    two<special::igamma>("igamma"),
    two<special::igammac>("igammac"),
    two<special::standard_gamma_grad>("_standard_gamma_grad"),
    three<special::dirichlet_grad>("_dirichlet_grad"),
    two<special::chebyshev_t>("chebyshev_polynomial_t"),
    two<special::chebyshev_u>("chebyshev_polynomial_u"),
    two<special::chebyshev_v>("chebyshev_polynomial_v"),
    two<special::chebyshev_w>("chebyshev_polynomial_w"),
    two<special::shifted_t>("shifted_chebyshev_polynomial_t"),
    two<special::shifted_u>("shifted_chebyshev_polynomial_u"),
    two<special::shifted_v>("shifted_chebyshev_polynomial_v"),
    two<special::shifted_w>("shifted_chebyshev_polynomial_w"),
    two<special::hermite_h>("hermite_polynomial_h"),
    two<special::hermite_he>("hermite_polynomial_he"),
    two<special::laguerre>("laguerre_polynomial_l"),
    two<special::legendre>("legendre_polynomial_p"),
};
constexpr size_t kCount = sizeof entries / sizeof *entries;
constexpr PointwiseTable functions{entries, kCount};
const PointwiseTable& table() { return functions; }

const RegisterTable<table, kCount> loops;

const bool registered = [] {
    for (const PointwiseEntry& entry : entries) {
        std::string_view name = entry.name;
        bool any = name == "ndtr" || name == "entr" || name == "lgamma" || name == "digamma" || name == "_polygamma" ||
                   name == "i0" || name == "i0e" || name == "i1" || name == "i1e";
        bool floats = name == "igamma" || name == "igammac" || name.ends_with("_grad");
        InferFn infer = floats ? infer_floats : any ? infer_promoted : infer_wide;
        register_native({entry.name, infer, run_pointwise, Takes::Any});
    }
    return true;
}();

}  // namespace
}  // namespace mt::cpu
