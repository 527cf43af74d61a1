// The loops of complex numbers, compiled once.
#pragma once

#include "kernels/cpu/elementwise/loops.h"

namespace mt::cpu {

// Null where PyTorch has no such op of complex numbers. `dtype` is C64 or C128.
UnaryFn complex_unary(UnaryOp op, DType dtype);
BinaryFn complex_binary(BinaryOp op, DType dtype);

// Those of pointwise.h's functions that complex numbers have.
enum class ComplexFunction : uint8_t {
    None,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    Sinh,
    Cosh,
    Asinh,
    Acosh,
    Atanh,
    Exp2,
    Expm1,
    Log1p,
    Log2,
    Log10,
    Sinc,
    Silu,
};
// Null for None.
UnaryFn complex_function(ComplexFunction function, DType dtype);

// The dtype that a loop of `op` over `dtype` gives.
inline DType loop_result(UnaryOp op, DType dtype) {
    if (gives_bool(op)) return DType::Bool;
    return op == UnaryOp::Abs ? real_dtype(dtype) : dtype;
}

}  // namespace mt::cpu
