// The inner loops of the elementwise kernels, one table for each instruction set. A loop works on contiguous elements
// of one dtype or on single values; strided_loop.h brings everything else to that form.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace mt::cpu {

enum class UnaryOp : uint8_t {
    Neg,
    Abs,
    Sign,
    Square,
    Cube,
    InverseSquare,
    Sqrt,
    Rsqrt,
    Reciprocal,
    Exp,
    Log,
    Tanh,
    Sigmoid,
    Relu,
    Floor,
    Ceil,
    Trunc,
    Round,
    LogicalNot,
    BitwiseNot,
    IsNan,
    IsInf,
    IsFinite,
    Count
};

enum class BinaryOp : uint8_t {
    Add,
    Sub,
    Mul,
    Div,
    FloorDivide,
    Remainder,
    Pow,
    Maximum,
    Minimum,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    LogicalAnd,
    LogicalOr,
    LogicalXor,
    BitwiseAnd,
    BitwiseOr,
    BitwiseXor,
    Count
};

// Bit i of `scalars`: input i is a single value. `out` may be the same array as an input.
using UnaryFn = void (*)(void* out, const void* in, int64_t n);
// False if an integer was divided by zero.
using BinaryFn = bool (*)(void* out, const void* a, const void* b, int64_t n, unsigned scalars);
using WhereFn = void (*)(void* out, const void* condition, const void* a, const void* b, int64_t n, unsigned scalars);
using ClampFn = void (*)(void* out, const void* in, const void* low, const void* high, int64_t n);
using ConvertFn = void (*)(void* out, const void* in, int64_t n);

inline constexpr size_t kCompiledDtypes = 6;

// The place of a dtype that kernels are compiled for in the tables.
inline size_t dtype_index(DType dtype) {
    static constexpr uint8_t indices[] = {0, 1, 0, 0, 0, 0, 2, 0, 3, 0, 0, 4, 5, 0, 0};
    return indices[static_cast<size_t>(dtype)];
}

struct ElementwiseTable {
    UnaryFn unary[static_cast<size_t>(UnaryOp::Count)][kCompiledDtypes];
    BinaryFn binary[static_cast<size_t>(BinaryOp::Count)][kCompiledDtypes];
    WhereFn where[9];  // by item size
    ClampFn clamp[kCompiledDtypes];
    ConvertFn convert[kCompiledDtypes][kCompiledDtypes];  // [from][to]
    // Copies to 64-byte aligned memory around the caches; the caller fences. `bytes` is a multiple of 64.
    void (*stream)(void* out, const void* in, int64_t bytes);
    // Add, Sub, Mul and Div of float32 and float64 that write around the caches; the caller fences.
    BinaryFn stream_binary[4][2];

    UnaryFn get(UnaryOp op, DType dtype) const { return unary[static_cast<size_t>(op)][dtype_index(dtype)]; }
    BinaryFn get(BinaryOp op, DType dtype) const { return binary[static_cast<size_t>(op)][dtype_index(dtype)]; }
    BinaryFn get_stream(BinaryOp op, DType dtype) const {
        if (op > BinaryOp::Div || (dtype != DType::F32 && dtype != DType::F64)) return nullptr;
        return stream_binary[static_cast<size_t>(op)][dtype == DType::F64];
    }
    ConvertFn get_convert(DType from, DType to) const { return convert[dtype_index(from)][dtype_index(to)]; }
};

namespace baseline {
extern const ElementwiseTable elementwise_table;
}
namespace avx2 {
extern const ElementwiseTable elementwise_table;
}
namespace avx512 {
extern const ElementwiseTable elementwise_table;
}

// The table of mt::isa().
const ElementwiseTable& select_elementwise_table();
inline const ElementwiseTable& elementwise() {
    static const ElementwiseTable& table = select_elementwise_table();
    return table;
}

// The dtype that a comparison or test gives, or the operands' own.
inline constexpr bool gives_bool(BinaryOp op) { return op >= BinaryOp::Eq && op <= BinaryOp::LogicalXor; }
inline constexpr bool gives_bool(UnaryOp op) { return op == UnaryOp::LogicalNot || op >= UnaryOp::IsNan; }

}  // namespace mt::cpu
