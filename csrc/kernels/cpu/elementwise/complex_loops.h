// The loops of complex numbers, compiled once.
#pragma once

#include <string_view>

#include "kernels/cpu/elementwise/loops.h"

namespace mt::cpu {

// Null where PyTorch has no such op of complex numbers. `dtype` is C64 or C128.
UnaryFn complex_unary(UnaryOp op, DType dtype);
BinaryFn complex_binary(BinaryOp op, DType dtype);

// The loop of one tensor by the op's name, for those of pointwise.h's functions that complex numbers have.
UnaryFn complex_function(std::string_view name, DType dtype);

// The dtype that a loop of `op` over `dtype` gives.
inline DType loop_result(UnaryOp op, DType dtype) {
    if (gives_bool(op)) return DType::Bool;
    return op == UnaryOp::Abs ? real_dtype(dtype) : dtype;
}

}  // namespace mt::cpu
