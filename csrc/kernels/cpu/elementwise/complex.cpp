// The ops that only complex numbers need: conj, sgn, angle, polar and complex.
#include "dispatch/infer/complex.h"
#include "core/error.h"
#include "dispatch/memory/memory_order.h"
#include "kernels/cpu/elementwise/kernels.h"
#include "kernels/cpu/loops/strided_loop.h"
#include "kernels/cpu/math/complex.h"

namespace mt::cpu {

namespace {

namespace cm = complex_math;

template <class In, class Out, auto f>
void one(Call& call) {
    LoopOperand operand = operand_of(call.in(0), DTypeOf<In>::value);
    run_elementwise(
        operand_of(*call.outputs[0], DTypeOf<Out>::value), &operand, 1,
        [](void*, void* to, const void* const* from, int64_t n, unsigned scalars) {
            auto* r = static_cast<Out*>(to);
            auto* x = static_cast<const In*>(from[0]);
            int64_t step = !(scalars & 1);
            for (int64_t i = 0; i < n; ++i) r[i] = f(x[i * step]);
        },
        nullptr);
}

template <class In, class Out, auto f>
void two(Call& call) {
    LoopOperand operands[2] = {operand_of(call.in(0), DTypeOf<In>::value), operand_of(call.in(1), DTypeOf<In>::value)};
    run_elementwise(
        operand_of(*call.outputs[0], DTypeOf<Out>::value), operands, 2,
        [](void*, void* to, const void* const* from, int64_t n, unsigned scalars) {
            auto* r = static_cast<Out*>(to);
            auto* a = static_cast<const In*>(from[0]);
            auto* b = static_cast<const In*>(from[1]);
            int64_t step_a = !(scalars & 1), step_b = !(scalars & 2);
            for (int64_t i = 0; i < n; ++i) r[i] = f(a[i * step_a], b[i * step_b]);
        },
        nullptr);
}

template <class Z>
Z conjugate(Z z) {
    return {z.re, -z.im};
}

void conj(Call& call) {
    switch (call.compute) {
        case DType::C64: return one<complex64, complex64, conjugate<complex64>>(call);
        case DType::C128: return one<complex128, complex128, conjugate<complex128>>(call);
        default: run_copy(call.in(0), *call.outputs[0]);
    }
}

void sgn(Call& call) {
    switch (call.compute) {
        case DType::C64: return one<complex64, complex64, cm::sgn<complex64>>(call);
        case DType::C128: return one<complex128, complex128, cm::sgn<complex128>>(call);
        case DType::Bool: return run_copy(call.in(0), *call.outputs[0]);
        default: run_unary(UnaryOp::Sign, call);
    }
}

// Of a real number: 0, pi if it is below 0, NaN for NaN.
template <class T>
T real_angle(T x) {
    return x != x ? x : x < T(0) ? static_cast<T>(M_PI) : T(0);
}

void angle(Call& call) {
    switch (call.compute) {
        case DType::C64: return one<complex64, float, cm::angle<complex64>>(call);
        case DType::C128: return one<complex128, double, cm::angle<complex128>>(call);
        case DType::F64: return one<double, double, real_angle<double>>(call);
        case DType::F32: return one<float, float, real_angle<float>>(call);
        default: {
            // float16 and bfloat16, computed in float32.
            LoopOperand operand = operand_of(call.in(0), call.compute);
            run_elementwise(
                operand_of(*call.outputs[0], call.compute), &operand, 1,
                [](void*, void* to, const void* const* from, int64_t n, unsigned scalars) {
                    auto* x = static_cast<const float*>(from[0]);
                    int64_t step = !(scalars & 1);
                    for (int64_t i = 0; i < n; ++i) static_cast<float*>(to)[i] = real_angle(x[i * step]);
                },
                nullptr);
        }
    }
}

template <class Z>
Z join(cm::Part<Z> re, cm::Part<Z> im) {
    return {re, im};
}
template <class Z>
Z from_polar(cm::Part<Z> size, cm::Part<Z> angle) {
    return {size * std::cos(angle), size * std::sin(angle)};
}

void complex(Call& call) {
    if (call.compute == DType::F32) return two<float, complex64, join<complex64>>(call);
    two<double, complex128, join<complex128>>(call);
}

void polar(Call& call) {
    if (call.compute == DType::F32) return two<float, complex64, from_polar<complex64>>(call);
    two<double, complex128, from_polar<complex128>>(call);
}

const RegisterOrder ordered{Order::KeptOfReal, {"angle"}};
const RegisterNative registered{Takes::Any,
                                {
                                    {"conj_physical", infer_conj, conj},
                                    {"sgn", infer_sgn, sgn},
                                    {"angle", infer_angle, angle},
                                    {"complex", infer_complex, complex},
                                    {"polar", infer_polar, polar},
                                }};

}  // namespace

}  // namespace mt::cpu
