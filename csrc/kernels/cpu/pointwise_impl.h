// The table of vector functions for one instruction set; elementwise_impl.h tells how such a file is included.
#pragma once

#include "kernels/cpu/math.h"
// math.h comes first.
#include "kernels/cpu/math_constants.h"
// Their constants before the functions.
#include "kernels/cpu/math_trigonometric.h"
// sqrt is there.
#include "kernels/cpu/math_erf.h"
#include "kernels/cpu/math_logarithm.h"
#define MT_LOOPS_NS MT_ISA_NS
#include "kernels/cpu/pointwise_loops.h"

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

#define MT_ENTRY(name, inputs, loop, Op)                                           \
    {                                                                              \
        name, inputs, false, { {}, {}, {}, {}, loop<Op, float>, loop<Op, double> } \
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
};
static_assert(sizeof entries / sizeof *entries == kVectorFunctions);

#undef MT_ENTRY
#undef MT_UNARY
#undef MT_BINARY
#undef MT_TERNARY
#undef MT_ANGLE

}  // namespace

extern constinit const PointwiseTable pointwise_table = {entries, kVectorFunctions};

}  // namespace mt::cpu::MT_ISA_NS
