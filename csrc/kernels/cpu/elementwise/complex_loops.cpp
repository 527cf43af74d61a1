#include "kernels/cpu/elementwise/complex_loops.h"

#include "kernels/cpu/math/complex.h"

namespace mt::cpu {

namespace {

namespace cm = complex_math;

template <class Z, auto f>
void unary_loop(void* out, const void* in, int64_t n) {
    using R = decltype(f(Z{}));
    auto* r = static_cast<R*>(out);
    auto* x = static_cast<const Z*>(in);
    for (int64_t i = 0; i < n; ++i) r[i] = f(x[i]);
}

template <class Z, auto f>
bool binary_loop(void* out, const void* lhs, const void* rhs, int64_t n, unsigned scalars) {
    using R = decltype(f(Z{}, Z{}));
    auto* r = static_cast<R*>(out);
    auto* a = static_cast<const Z*>(lhs);
    auto* b = static_cast<const Z*>(rhs);
    if (scalars == 0) {
        for (int64_t i = 0; i < n; ++i) r[i] = f(a[i], b[i]);
        return true;
    }
    int64_t step_a = !(scalars & 1), step_b = !(scalars & 2);
    Z x = *a, y = *b;
    for (int64_t i = 0; i < n; ++i) r[i] = f(step_a ? a[i] : x, step_b ? b[i] : y);
    return true;
}

template <class Z>
UnaryFn unary_of(UnaryOp op) {
    using T = cm::Part<Z>;
    switch (op) {
        case UnaryOp::Neg: return unary_loop<Z, [](Z z) { return Z{-z.re, -z.im}; }>;
        case UnaryOp::Abs: return unary_loop<Z, [](Z z) { return cm::abs(z); }>;
        case UnaryOp::Square: return unary_loop<Z, [](Z z) { return cm::mul(z, z); }>;
        case UnaryOp::Cube: return unary_loop<Z, [](Z z) { return cm::mul(cm::mul(z, z), z); }>;
        case UnaryOp::InverseSquare: return unary_loop<Z, [](Z z) { return cm::div(Z{1, 0}, cm::mul(z, z)); }>;
        case UnaryOp::Sqrt: return unary_loop<Z, [](Z z) { return cm::sqrt(z); }>;
        case UnaryOp::Rsqrt: return unary_loop<Z, [](Z z) { return cm::div(Z{1, 0}, cm::sqrt(z)); }>;
        case UnaryOp::Reciprocal: return unary_loop<Z, [](Z z) { return cm::div(Z{1, 0}, z); }>;
        case UnaryOp::Exp: return unary_loop<Z, [](Z z) { return cm::exp(z); }>;
        case UnaryOp::Log: return unary_loop<Z, [](Z z) { return cm::log(z); }>;
        case UnaryOp::Tanh: return unary_loop<Z, [](Z z) { return cm::tanh(z); }>;
        case UnaryOp::Sigmoid: return unary_loop<Z, [](Z z) { return cm::sigmoid(z); }>;
        case UnaryOp::LogicalNot:
            return unary_loop<Z, [](Z z) { return static_cast<uint8_t>(z.re == T(0) && z.im == T(0)); }>;
        case UnaryOp::IsNan:
            return unary_loop<Z, [](Z z) { return static_cast<uint8_t>(z.re != z.re || z.im != z.im); }>;
        case UnaryOp::IsInf:
            return unary_loop<Z, [](Z z) { return static_cast<uint8_t>(std::isinf(z.re) || std::isinf(z.im)); }>;
        case UnaryOp::IsFinite:
            return unary_loop<Z, [](Z z) { return static_cast<uint8_t>(std::isfinite(z.re) && std::isfinite(z.im)); }>;
        default: return nullptr;
    }
}

template <class Z>
BinaryFn binary_of(BinaryOp op) {
    switch (op) {
        case BinaryOp::Add: return binary_loop<Z, [](Z a, Z b) { return cm::add(a, b); }>;
        case BinaryOp::Sub: return binary_loop<Z, [](Z a, Z b) { return cm::sub(a, b); }>;
        case BinaryOp::Mul: return binary_loop<Z, [](Z a, Z b) { return cm::mul(a, b); }>;
        case BinaryOp::Div: return binary_loop<Z, [](Z a, Z b) { return cm::div(a, b); }>;
        case BinaryOp::Pow: return binary_loop<Z, [](Z a, Z b) { return cm::pow(a, b); }>;
        case BinaryOp::Eq: return binary_loop<Z, [](Z a, Z b) { return static_cast<uint8_t>(a == b); }>;
        case BinaryOp::Ne: return binary_loop<Z, [](Z a, Z b) { return static_cast<uint8_t>(!(a == b)); }>;
        default: return nullptr;
    }
}

template <class Z>
UnaryFn function_of(ComplexFunction function) {
    switch (function) {
        case ComplexFunction::None: return nullptr;
        case ComplexFunction::Sin: return unary_loop<Z, [](Z z) { return cm::sin(z); }>;
        case ComplexFunction::Cos: return unary_loop<Z, [](Z z) { return cm::cos(z); }>;
        case ComplexFunction::Tan: return unary_loop<Z, [](Z z) { return cm::tan(z); }>;
        case ComplexFunction::Asin: return unary_loop<Z, [](Z z) { return cm::asin(z); }>;
        case ComplexFunction::Acos: return unary_loop<Z, [](Z z) { return cm::acos(z); }>;
        case ComplexFunction::Atan: return unary_loop<Z, [](Z z) { return cm::atan(z); }>;
        case ComplexFunction::Sinh: return unary_loop<Z, [](Z z) { return cm::sinh(z); }>;
        case ComplexFunction::Cosh: return unary_loop<Z, [](Z z) { return cm::cosh(z); }>;
        case ComplexFunction::Asinh: return unary_loop<Z, [](Z z) { return cm::asinh(z); }>;
        case ComplexFunction::Acosh: return unary_loop<Z, [](Z z) { return cm::acosh(z); }>;
        case ComplexFunction::Atanh: return unary_loop<Z, [](Z z) { return cm::atanh(z); }>;
        case ComplexFunction::Exp2: return unary_loop<Z, [](Z z) { return cm::exp2(z); }>;
        case ComplexFunction::Expm1: return unary_loop<Z, [](Z z) { return cm::expm1(z); }>;
        case ComplexFunction::Log1p: return unary_loop<Z, [](Z z) { return cm::log1p(z); }>;
        case ComplexFunction::Log2: return unary_loop<Z, [](Z z) { return cm::log2(z); }>;
        case ComplexFunction::Log10: return unary_loop<Z, [](Z z) { return cm::log10(z); }>;
        case ComplexFunction::Sinc: return unary_loop<Z, [](Z z) { return cm::sinc(z); }>;
        case ComplexFunction::Silu: return unary_loop<Z, [](Z z) { return cm::mul(z, cm::sigmoid(z)); }>;
    }
    return nullptr;
}

}  // namespace

UnaryFn complex_function(ComplexFunction function, DType dtype) {
    return dtype == DType::C64 ? function_of<complex64>(function) : function_of<complex128>(function);
}
UnaryFn complex_unary(UnaryOp op, DType dtype) {
    return dtype == DType::C64 ? unary_of<complex64>(op) : unary_of<complex128>(op);
}
BinaryFn complex_binary(BinaryOp op, DType dtype) {
    return dtype == DType::C64 ? binary_of<complex64>(op) : binary_of<complex128>(op);
}

}  // namespace mt::cpu
