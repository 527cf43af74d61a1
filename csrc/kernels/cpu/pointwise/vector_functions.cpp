// The tables of vector functions, compiled once for each instruction set.
#include <limits>

#include "kernels/cpu/pointwise/pointwise.h"
// What comes after it is for one instruction set.
#include "kernels/cpu/loops/target.h"
// Which the arithmetic needs.
#include "kernels/cpu/math/functions.h"
// functions.h comes first.
#include "kernels/cpu/math/constants.h"
// Their constants before the functions.
#include "kernels/cpu/math/trigonometric.h"
// sqrt is there.
#include "kernels/cpu/math/erf.h"
#include "kernels/cpu/math/logarithm.h"
#define MT_LOOPS_NS MT_ISA_NS
#include "kernels/cpu/pointwise/formula_loops.h"

namespace mt::cpu::MT_ISA_NS {
namespace {

namespace math = mt::MT_ISA_NS::math;

#define MT_UNARY(Name, function)                                             \
    struct Name {                                                            \
        template <class T> static T apply(T x) { return math::function(x); } \
    };
#define MT_BINARY(Name, function)                                                    \
    struct Name {                                                                    \
        template <class T> static T apply(T x, T y) { return math::function(x, y); } \
    };
#define MT_TERNARY(Name, function)                                                           \
    struct Name {                                                                            \
        template <class T> static T apply(T x, T y, T z) { return math::function(x, y, z); } \
    };
#define MT_ANGLE(Name, function)                                                          \
    struct Name {                                                                         \
        template <class T> static T apply(T x) { return math::function(x); }              \
        template <class T> static T special(T x) { return math::function##_large(x); }    \
        template <class T> static int is_special(T x) { return math::is_large_angle(x); } \
    };

MT_ANGLE(Sin, sin)
MT_ANGLE(Cos, cos)
MT_ANGLE(Tan, tan)
MT_UNARY(Asin, asin)
MT_UNARY(Acos, acos)
MT_UNARY(Atan, atan)
MT_UNARY(Sinh, sinh)
MT_UNARY(Cosh, cosh)
MT_UNARY(Asinh, asinh)
MT_UNARY(Acosh, acosh)
MT_UNARY(Atanh, atanh)
MT_UNARY(Exp2, exp2)
MT_UNARY(Expm1, expm1)
MT_UNARY(Log1p, log1p)
MT_UNARY(Log2, log2)
MT_UNARY(Log10, log10)
MT_UNARY(Erf, erf)
MT_UNARY(Erfc, erfc)
MT_UNARY(Erfinv, erfinv)
MT_UNARY(Gelu, gelu)
MT_UNARY(GeluTanh, gelu_tanh)
MT_UNARY(Silu, silu)
MT_UNARY(Mish, mish)
MT_UNARY(LogSigmoid, log_sigmoid)
MT_UNARY(Selu, selu)
struct Sinc {
    template <class T> static T apply(T x) { return math::sinc(x); }
    template <class T> static T special(T x) { return math::sinc_large(x); }
    template <class T> static int is_special(T x) { return math::is_large_angle(x * T(4)); }
};
MT_UNARY(Logit, logit)
MT_UNARY(Hardswish, hardswish)
MT_UNARY(Hardsigmoid, hardsigmoid)
MT_BINARY(Pow, pow)
MT_BINARY(Atan2, atan2)
MT_BINARY(Elu, elu)
MT_BINARY(Celu, celu)
MT_BINARY(LogAddExp, logaddexp)
MT_BINARY(LogAddExp2, logaddexp2)
MT_BINARY(Xlogy, xlogy)
MT_BINARY(Xlog1py, xlog1py)
MT_TERNARY(Softplus, softplus)
MT_TERNARY(Lerp, lerp)

struct Frac {
    template <class T> static T apply(T x) {
        if constexpr (sizeof(T) == 4) return x - __builtin_truncf(x);
        else return x - __builtin_trunc(x);
    }
};
struct LeakyRelu {
    template <class T> static T apply(T x, T slope) { return math::detail::select(x > T(0), x, x * slope); }
};
struct Hardshrink {
    template <class T> static T apply(T x, T bound) {
        return math::detail::select((x >= -bound) & (x <= bound), T(0), x);
    }
};
struct Softshrink {
    template <class T> static T apply(T x, T bound) {
        const T inside = x * T(0);  // NaN stays
        return math::detail::select(x > bound, x - bound, math::detail::select(x < -bound, x + bound, inside));
    }
};

// The remainder with the sign of a, which is exact: the quotient, rounded, is too large by 1 at most.
template <class T> inline T trunc_(T x) {
    if constexpr (sizeof(T) == 4) return __builtin_truncf(x);
    else return __builtin_trunc(x);
}
template <class T> inline T exact_fmod(T a, T b) {
    const T r = math::detail::fma(-trunc_(a / b), b, a);
    const T back = math::detail::with_sign_of(math::detail::abs(b), a);
    const T corrected = math::detail::select((r != T(0)) & ((r < T(0)) != (a < T(0))), r + back, r);
    return math::detail::with_sign_of(math::detail::abs(corrected), a);
}
template <class T> inline T library_fmod(T a, T b) {
    if constexpr (sizeof(T) == 4) return __builtin_fmodf(a, b);
    else return __builtin_fmod(a, b);
}
struct Fmod {
    template <class T> static T apply(T a, T b) { return exact_fmod(a, b); }
    template <class T> static T special(T a, T b) { return library_fmod(a, b); }
    template <class T> static int is_special(T a, T b) {
        constexpr T limit = sizeof(T) == 4 ? T(0x1p22) : T(0x1p51);
        return !(math::detail::abs(a / b) < limit) | !(math::detail::abs(b) < std::numeric_limits<T>::infinity());
    }
};
struct Remainder : Fmod {
    template <class T> static T signed_as(T mod, T b) {
        return math::detail::select((mod != T(0)) & ((b < T(0)) != (mod < T(0))), mod + b, mod);
    }
    template <class T> static T apply(T a, T b) { return signed_as(exact_fmod(a, b), b); }
    template <class T> static T special(T a, T b) { return signed_as(library_fmod(a, b), b); }
};
// docs/numerics.md has the formula.
struct FloorDivide : Fmod {
    template <class T> static T of_mod(T a, T b, T mod) {
        T q = (a - mod) / b;
        q = math::detail::select((mod != T(0)) & ((b < T(0)) != (mod < T(0))), q - T(1), q);
        const T rounded = math::detail::floor(q);
        const T up = math::detail::select(q - rounded > T(0.5), rounded + T(1), rounded);
        return math::detail::select(q == T(0), math::detail::with_sign_of(T(0), a / b), up);
    }
    template <class T> static T apply(T a, T b) { return of_mod(a, b, exact_fmod(a, b)); }
    template <class T> static T special(T a, T b) { return b == T(0) ? a / b : of_mod(a, b, library_fmod(a, b)); }
};

#define MT_BINARY_FORMULA(Name, a, b, formula)                  \
    struct Name {                                               \
        template <class T> static T apply(T a, T b) { formula } \
    };
#define MT_TERNARY_FORMULA(Name, a, b, c, formula)                   \
    struct Name {                                                    \
        template <class T> static T apply(T a, T b, T c) { formula } \
    };

MT_BINARY_FORMULA(TanhBackward, g, y, return g * (T(1) - y * y);)
MT_BINARY_FORMULA(SigmoidBackward, g, y, return g * y * (T(1) - y);)
MT_BINARY_FORMULA(SiluBackward, g, x, const T s = math::sigmoid(x); return g * (s * (T(1) + x * (T(1) - s)));)
MT_BINARY_FORMULA(GeluBackward, g, x, return g * math::gelu_slope(x);)
MT_BINARY_FORMULA(GeluTanhBackward, g, x, return g * math::gelu_tanh_slope(x);)
MT_BINARY_FORMULA(SquaredDifference, a, b, const T d = a - b; return d * d;)
MT_TERNARY_FORMULA(SquaredDifferenceBackward, g, a, b, const T d = a - b; return g * (d + d);)
MT_TERNARY_FORMULA(SmoothL1, a, b, beta, const T d = math::detail::abs(a - b);
                   return math::detail::select(d < beta, d * d * (T(0.5) / beta), d - T(0.5) * beta);)
struct SmoothL1Backward {
    template <class T> static T apply(T g, T a, T b, T beta) {
        using math::detail::select;
        const T d = a - b;
        return select(d >= beta, g, select(d <= -beta, -g, g * d / beta));
    }
};
MT_TERNARY_FORMULA(LargerShare, g, x, y,
                   return math::detail::select(x < y, T(0), math::detail::select(x == y, g* T(0.5), g));)
struct RootOfPositive {
    template <class T> static T apply(T x) { return math::detail::select(x <= T(0), T(0), math::detail::sqrt(x)); }
};
MT_BINARY_FORMULA(RootOfPositiveBackward, g, y, return math::detail::select(y == T(0), T(0), g / (y + y));)
MT_BINARY_FORMULA(LogitsLoss, x, y, return (T(1) - y) * x - math::log_sigmoid(x);)
MT_TERNARY_FORMULA(LogitsLossBackward, g, x, y, return g * (math::sigmoid(x) - y);)

// In float64 no square of a float32 overflows. Those of float64 are scaled, and the root is corrected by what they
// lost.
struct Hypot {
    static float apply(float x, float y) {
        constexpr float inf = std::numeric_limits<float>::infinity();
        const double a = x, b = y;
        const float r = static_cast<float>(math::detail::sqrt(a * a + b * b));
        return math::detail::select((math::detail::abs(x) == inf) | (math::detail::abs(y) == inf), inf, r);
    }
    static double apply(double x, double y) {
        using namespace math::detail;
        constexpr double inf = std::numeric_limits<double>::infinity();
        const double a = abs(x), b = abs(y), larger = select(a > b, a, b);
        const double down = select(larger > 0x1p+500, 0x1p-600, 1.0);
        const double scale = select(larger < 0x1p-500, 0x1p+600, down);
        const double up = select(larger > 0x1p+500, 0x1p+600, 1.0);
        const double p = a * scale, q = b * scale;
        const double pp = p * p, qq = q * q, sum = pp + qq;
        const double high = select(pp > qq, pp, qq), low = select(pp > qq, qq, pp);
        const double lost = (high - sum) + low + (math::detail::fma(p, p, -pp) + math::detail::fma(q, q, -qq));
        const double root = math::detail::sqrt(sum);
        const double step = (math::detail::fma(-root, root, sum) + lost) / (root + root);
        const double exact = root + select(sum > 0.0, step, 0.0);
        const double r = exact * select(larger < 0x1p-500, 0x1p-600, up);
        return select((a == inf) | (b == inf), inf, select(x != x, x, select(y != y, y, r)));
    }
};
struct Threshold {
    template <class T> static T apply(T x, T bound, T value) { return x <= bound ? value : x; }
};
struct Addcmul {
    template <class T> static T apply(T x, T y, T z, T value) {
        if constexpr (std::is_floating_point_v<T>) return x + value * y * z;
        else {
            using U = std::common_type_t<std::make_unsigned_t<T>, unsigned>;  // wraps
            return static_cast<T>(U(x) + U(value) * U(y) * U(z));
        }
    }
};
struct Addcdiv {
    template <class T> static T apply(T x, T y, T z, T value) { return x + value * y / z; }
};

template <class T> void nan_to_num_loop(void* out, const void* const* in, int64_t n, unsigned scalars) {
    auto* r = static_cast<T*>(out);
    auto* x = static_cast<const T*>(in[0]);
    const T nan = *static_cast<const T*>(in[1]), high = *static_cast<const T*>(in[2]),
            low = *static_cast<const T*>(in[3]);
    constexpr T inf = std::numeric_limits<T>::infinity();
    if (scalars & 1) {
        const T v = *x, number = v == inf ? high : v == -inf ? low : v != v ? nan : v;
        for (int64_t i = 0; i < n; ++i) r[i] = number;
        return;
    }
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) {
        const T v = x[i];
        const T number = math::detail::select(v == inf, high, math::detail::select(v == -inf, low, v));
        r[i] = math::detail::select(v != v, nan, number);
    }
}

#define MT_ENTRY(name, inputs, loop, Op)                                           \
    {                                                                              \
        name, inputs, false, { {}, {}, {}, {}, loop<Op, float>, loop<Op, double> } \
    }

#define MT_NUMBERS(name, inputs, loop, Op)                                                                  \
    {                                                                                                       \
        name, inputs, false, {                                                                              \
            {}, loop<Op, uint8_t>, loop<Op, int32_t>, loop<Op, int64_t>, loop<Op, float>, loop<Op, double>, \
                loop<Op, uint64_t>                                                                          \
        }                                                                                                   \
    }

constexpr PointwiseEntry entries[] = {
    MT_ENTRY("sin", 1, guarded_loop, Sin),
    MT_ENTRY("cos", 1, guarded_loop, Cos),
    MT_ENTRY("tan", 1, guarded_loop, Tan),
    MT_ENTRY("asin", 1, unary_loop, Asin),
    MT_ENTRY("acos", 1, unary_loop, Acos),
    MT_ENTRY("atan", 1, unary_loop, Atan),
    MT_ENTRY("sinh", 1, unary_loop, Sinh),
    MT_ENTRY("cosh", 1, unary_loop, Cosh),
    MT_ENTRY("asinh", 1, unary_loop, Asinh),
    MT_ENTRY("acosh", 1, unary_loop, Acosh),
    MT_ENTRY("atanh", 1, unary_loop, Atanh),
    MT_ENTRY("exp2", 1, unary_loop, Exp2),
    MT_ENTRY("expm1", 1, unary_loop, Expm1),
    MT_ENTRY("log1p", 1, unary_loop, Log1p),
    MT_ENTRY("log2", 1, unary_loop, Log2),
    MT_ENTRY("log10", 1, unary_loop, Log10),
    MT_ENTRY("erf", 1, unary_loop, Erf),
    MT_ENTRY("erfc", 1, unary_loop, Erfc),
    MT_ENTRY("erfinv", 1, unary_loop, Erfinv),
    MT_ENTRY("_gelu", 1, unary_loop, Gelu),
    MT_ENTRY("_gelu_tanh", 1, unary_loop, GeluTanh),
    MT_ENTRY("silu", 1, unary_loop, Silu),
    MT_ENTRY("mish", 1, unary_loop, Mish),
    MT_ENTRY("logsigmoid", 1, unary_loop, LogSigmoid),
    MT_ENTRY("selu", 1, unary_loop, Selu),
    MT_ENTRY("sinc", 1, guarded_loop, Sinc),
    MT_ENTRY("_logit", 1, unary_loop, Logit),
    MT_ENTRY("hardswish", 1, unary_loop, Hardswish),
    MT_ENTRY("hardsigmoid", 1, unary_loop, Hardsigmoid),
    MT_ENTRY("_float_pow", 2, binary_loop, Pow),
    MT_ENTRY("atan2", 2, binary_loop, Atan2),
    MT_ENTRY("elu", 2, binary_loop, Elu),
    MT_ENTRY("celu", 2, binary_loop, Celu),
    MT_ENTRY("logaddexp", 2, binary_loop, LogAddExp),
    MT_ENTRY("logaddexp2", 2, binary_loop, LogAddExp2),
    MT_ENTRY("xlogy", 2, binary_loop, Xlogy),
    MT_ENTRY("xlog1py", 2, binary_loop, Xlog1py),
    MT_ENTRY("softplus", 3, ternary_loop, Softplus),
    MT_ENTRY("lerp", 3, ternary_loop, Lerp),
    MT_ENTRY("frac", 1, unary_loop, Frac),
    MT_ENTRY("leaky_relu", 2, binary_loop, LeakyRelu),
    MT_ENTRY("hardshrink", 2, binary_loop, Hardshrink),
    MT_ENTRY("_softshrink", 2, binary_loop, Softshrink),
    MT_ENTRY("_float_fmod", 2, guarded_binary_loop, Fmod),
    MT_ENTRY("_float_remainder", 2, guarded_binary_loop, Remainder),
    MT_ENTRY("_float_floor_divide", 2, guarded_binary_loop, FloorDivide),
    MT_ENTRY("_tanh_backward", 2, binary_loop, TanhBackward),
    MT_ENTRY("_sigmoid_backward", 2, binary_loop, SigmoidBackward),
    MT_ENTRY("_silu_backward", 2, binary_loop, SiluBackward),
    MT_ENTRY("_gelu_backward", 2, binary_loop, GeluBackward),
    MT_ENTRY("_gelu_tanh_backward", 2, binary_loop, GeluTanhBackward),
    MT_ENTRY("_squared_difference", 2, binary_loop, SquaredDifference),
    MT_ENTRY("_squared_difference_backward", 3, ternary_loop, SquaredDifferenceBackward),
    MT_ENTRY("_smooth_l1", 3, ternary_loop, SmoothL1),
    MT_ENTRY("_smooth_l1_backward", 4, quadruple_loop, SmoothL1Backward),
    MT_ENTRY("_larger_share", 3, ternary_loop, LargerShare),
    MT_ENTRY("_root_of_positive", 1, unary_loop, RootOfPositive),
    MT_ENTRY("_root_of_positive_backward", 2, binary_loop, RootOfPositiveBackward),
    MT_ENTRY("_logits_loss", 2, binary_loop, LogitsLoss),
    MT_ENTRY("_logits_loss_backward", 3, ternary_loop, LogitsLossBackward),
    MT_ENTRY("hypot", 2, binary_loop, Hypot),
    MT_NUMBERS("threshold", 3, ternary_loop, Threshold),
    MT_NUMBERS("addcmul", 4, quadruple_loop, Addcmul),
    MT_ENTRY("addcdiv", 4, quadruple_loop, Addcdiv),
    {"_nan_to_num", 4, false, {{}, {}, {}, {}, nan_to_num_loop<float>, nan_to_num_loop<double>}},
};
static_assert(sizeof entries / sizeof *entries == kVectorFunctions);

#undef MT_ENTRY
#undef MT_NUMBERS
#undef MT_UNARY
#undef MT_BINARY
#undef MT_TERNARY
#undef MT_BINARY_FORMULA
#undef MT_TERNARY_FORMULA
#undef MT_ANGLE

}  // namespace

extern constinit const PointwiseTable pointwise_table = {entries, kVectorFunctions};

}  // namespace mt::cpu::MT_ISA_NS
