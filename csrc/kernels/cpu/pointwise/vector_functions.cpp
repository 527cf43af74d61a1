// The tables of vector functions, compiled once for each instruction set.
#include <limits>

#include "dispatch/infer/elementwise.h"
#include "dispatch/infer/pointwise.h"
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

// A function of kernels/cpu/math as a formula.
template <class F> struct Of {
    template <class... T> static auto apply(T... x) { return F()(x...); }
};
#define MT_MATH(function) Of<decltype([](auto... x) { return math::function(x...); })>
// One that has another form for large angles.
#define MT_ANGLE(Name, function)                                                          \
    struct Name {                                                                         \
        template <class T> static T apply(T x) { return math::function(x); }              \
        template <class T> static T special(T x) { return math::function##_large(x); }    \
        template <class T> static int is_special(T x) { return math::is_large_angle(x); } \
    };

MT_ANGLE(Sin, sin)
MT_ANGLE(Cos, cos)
MT_ANGLE(Tan, tan)
struct Sinc {
    template <class T> static T apply(T x) { return math::sinc(x); }
    template <class T> static T special(T x) { return math::sinc_large(x); }
    template <class T> static int is_special(T x) { return math::is_large_angle(x * T(4)); }
};

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

struct NanToNum {
    template <class T> static T apply(T x, T nan, T high, T low) {
        constexpr T inf = std::numeric_limits<T>::infinity();
        const T number = math::detail::select(x == inf, high, math::detail::select(x == -inf, low, x));
        return math::detail::select(x != x, nan, number);
    }
};

// For x and three numbers.
template <class Op, class T> void numbers_loop(void* out, const void* const* in, int64_t n, unsigned scalars) {
    auto* r = static_cast<T*>(out);
    auto* x = static_cast<const T*>(in[0]);
    const T a = *static_cast<const T*>(in[1]), b = *static_cast<const T*>(in[2]), c = *static_cast<const T*>(in[3]);
    if (scalars & 1) {
        const T number = Op::apply(*x, a, b, c);
        for (int64_t i = 0; i < n; ++i) r[i] = number;
        return;
    }
#pragma GCC ivdep
    for (int64_t i = 0; i < n; ++i) r[i] = Op::apply(x[i], a, b, c);
}

// Columns: bool, uint8, int32, int64, float32, float64, uint64.
#define MT_FLOATS(loop, Op) {false, nullptr, nullptr, nullptr, nullptr, loop<Op, float>, loop<Op, double>}
#define MT_NUMBERS(loop, Op)                                                                     \
    {false,           nullptr,          loop<Op, uint8_t>, loop<Op, int32_t>, loop<Op, int64_t>, \
     loop<Op, float>, loop<Op, double>, loop<Op, uint64_t>}

// A line for each function: the op (without an inference there is none, only the loop), its loops, and its form of
// complex numbers.
constexpr PointwiseRow rows[] = {
    {"sin", infer_float_unary, MT_FLOATS(guarded_loop, Sin), ComplexFunction::Sin},
    {"cos", infer_float_unary, MT_FLOATS(guarded_loop, Cos), ComplexFunction::Cos},
    {"tan", infer_float_unary, MT_FLOATS(guarded_loop, Tan), ComplexFunction::Tan},
    {"asin", infer_float_unary, MT_FLOATS(unary_loop, MT_MATH(asin)), ComplexFunction::Asin},
    {"acos", infer_float_unary, MT_FLOATS(unary_loop, MT_MATH(acos)), ComplexFunction::Acos},
    {"atan", infer_float_unary, MT_FLOATS(unary_loop, MT_MATH(atan)), ComplexFunction::Atan},
    {"sinh", infer_float_unary, MT_FLOATS(unary_loop, MT_MATH(sinh)), ComplexFunction::Sinh},
    {"cosh", infer_float_unary, MT_FLOATS(unary_loop, MT_MATH(cosh)), ComplexFunction::Cosh},
    {"asinh", infer_float_unary, MT_FLOATS(unary_loop, MT_MATH(asinh)), ComplexFunction::Asinh},
    {"acosh", infer_float_unary, MT_FLOATS(unary_loop, MT_MATH(acosh)), ComplexFunction::Acosh},
    {"atanh", infer_float_unary, MT_FLOATS(unary_loop, MT_MATH(atanh)), ComplexFunction::Atanh},
    {"exp2", infer_float_unary, MT_FLOATS(unary_loop, MT_MATH(exp2)), ComplexFunction::Exp2},
    {"expm1", infer_float_unary, MT_FLOATS(unary_loop, MT_MATH(expm1)), ComplexFunction::Expm1},
    {"log1p", infer_float_unary, MT_FLOATS(unary_loop, MT_MATH(log1p)), ComplexFunction::Log1p},
    {"log2", infer_float_unary, MT_FLOATS(unary_loop, MT_MATH(log2)), ComplexFunction::Log2},
    {"log10", infer_float_unary, MT_FLOATS(unary_loop, MT_MATH(log10)), ComplexFunction::Log10},
    {"erf", infer_float_unary, MT_FLOATS(unary_loop, MT_MATH(erf))},
    {"erfc", infer_float_unary, MT_FLOATS(unary_loop, MT_MATH(erfc))},
    {"erfinv", infer_float_unary, MT_FLOATS(unary_loop, MT_MATH(erfinv))},
    {"_gelu", infer_floats, MT_FLOATS(unary_loop, MT_MATH(gelu))},
    {"_gelu_tanh", infer_floats, MT_FLOATS(unary_loop, MT_MATH(gelu_tanh))},
    {"silu", infer_floats, MT_FLOATS(unary_loop, MT_MATH(silu)), ComplexFunction::Silu},
    {"mish", infer_floats, MT_FLOATS(unary_loop, MT_MATH(mish))},
    {"logsigmoid", infer_floats, MT_FLOATS(unary_loop, MT_MATH(log_sigmoid))},
    {"selu", infer_floats, MT_FLOATS(unary_loop, MT_MATH(selu))},
    {"sinc", infer_float_unary, MT_FLOATS(guarded_loop, Sinc), ComplexFunction::Sinc},
    {"_logit", infer_float_unary, MT_FLOATS(unary_loop, MT_MATH(logit))},
    {"hardswish", infer_floats, MT_FLOATS(unary_loop, MT_MATH(hardswish))},
    {"hardsigmoid", infer_floats, MT_FLOATS(unary_loop, MT_MATH(hardsigmoid))},
    {"_float_pow", nullptr, MT_FLOATS(binary_loop, MT_MATH(pow))},
    {"atan2", infer_promoted, MT_FLOATS(binary_loop, MT_MATH(atan2))},
    {"elu", infer_floats, MT_FLOATS(binary_loop, MT_MATH(elu))},
    {"celu", infer_floats, MT_FLOATS(binary_loop, MT_MATH(celu))},
    {"logaddexp", infer_floats, MT_FLOATS(binary_loop, MT_MATH(logaddexp))},
    {"logaddexp2", infer_floats, MT_FLOATS(binary_loop, MT_MATH(logaddexp2))},
    {"xlogy", infer_promoted, MT_FLOATS(binary_loop, MT_MATH(xlogy))},
    {"xlog1py", infer_promoted, MT_FLOATS(binary_loop, MT_MATH(xlog1py))},
    {"softplus", infer_floats, MT_FLOATS(ternary_loop, MT_MATH(softplus))},
    {"lerp", infer_lerp, MT_FLOATS(ternary_loop, MT_MATH(lerp)), ComplexFunction::None, run_weighted},
    {"frac", infer_floats, MT_FLOATS(unary_loop, Frac)},
    {"leaky_relu", infer_floats, MT_FLOATS(binary_loop, LeakyRelu)},
    {"hardshrink", infer_floats, MT_FLOATS(binary_loop, Hardshrink)},
    {"_softshrink", infer_floats, MT_FLOATS(binary_loop, Softshrink)},
    {"_float_fmod", nullptr, MT_FLOATS(guarded_binary_loop, Fmod)},
    {"_float_remainder", nullptr, MT_FLOATS(guarded_binary_loop, Remainder)},
    {"_float_floor_divide", nullptr, MT_FLOATS(guarded_binary_loop, FloorDivide)},
    {"_tanh_backward", infer_floats, MT_FLOATS(binary_loop, TanhBackward)},
    {"_sigmoid_backward", infer_floats, MT_FLOATS(binary_loop, SigmoidBackward)},
    {"_silu_backward", infer_floats, MT_FLOATS(binary_loop, SiluBackward)},
    {"_gelu_backward", infer_floats, MT_FLOATS(binary_loop, GeluBackward)},
    {"_gelu_tanh_backward", infer_floats, MT_FLOATS(binary_loop, GeluTanhBackward)},
    {"_squared_difference", infer_floats, MT_FLOATS(binary_loop, SquaredDifference)},
    {"_squared_difference_backward", infer_floats, MT_FLOATS(ternary_loop, SquaredDifferenceBackward)},
    {"_smooth_l1", infer_floats, MT_FLOATS(ternary_loop, SmoothL1)},
    {"_smooth_l1_backward", infer_floats, MT_FLOATS(quadruple_loop, SmoothL1Backward)},
    {"_larger_share", infer_promoted, MT_FLOATS(ternary_loop, LargerShare)},
    {"_root_of_positive", infer_floats, MT_FLOATS(unary_loop, RootOfPositive)},
    {"_root_of_positive_backward", infer_floats, MT_FLOATS(binary_loop, RootOfPositiveBackward)},
    {"_logits_loss", infer_floats, MT_FLOATS(binary_loop, LogitsLoss)},
    {"_logits_loss_backward", infer_floats, MT_FLOATS(ternary_loop, LogitsLossBackward)},
    {"hypot", infer_floats, MT_FLOATS(binary_loop, Hypot)},
    {"threshold", infer_numbers, MT_NUMBERS(ternary_loop, Threshold)},
    {"addcmul", infer_numbers_with_number, MT_NUMBERS(quadruple_loop, Addcmul)},
    {"addcdiv", infer_floats_with_number, MT_FLOATS(quadruple_loop, Addcdiv)},
    {"_nan_to_num", infer_floats, MT_FLOATS(numbers_loop, NanToNum)},
};
static_assert(names_differ(rows));

#undef MT_FLOATS
#undef MT_NUMBERS
#undef MT_MATH
#undef MT_BINARY_FORMULA
#undef MT_TERNARY_FORMULA
#undef MT_ANGLE

}  // namespace

extern constinit const PointwiseTable pointwise_table = {rows, std::size(rows)};

}  // namespace mt::cpu::MT_ISA_NS
