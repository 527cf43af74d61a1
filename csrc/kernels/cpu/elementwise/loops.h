// The inner loops of the elementwise kernels, one table for each instruction set. A loop works on contiguous elements
// of one dtype or on single values; strided_loop.h brings everything else to that form.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"

namespace mt::cpu {

enum class UnaryOp : uint8_t {
#define MT_UNARY(functor, ...) functor,
#define MT_UNARY_LOOP(functor, ...) functor,
#include "kernels/cpu/elementwise/rows.h"
    Count
};

enum class BinaryOp : uint8_t {
#define MT_BINARY(functor, ...) functor,
#include "kernels/cpu/elementwise/rows.h"
    Count
};

// The first ones are arithmetic.
inline constexpr bool kIsArithmetic[] = {
#define MT_ARITHMETIC(...) true,
#define MT_BINARY(...) false,
#include "kernels/cpu/elementwise/rows.h"
};
inline constexpr size_t kArithmetic = [] {
    size_t count = 0;
    while (kIsArithmetic[count]) ++count;
    return count;
}();
static_assert(
    [] {
        for (size_t i = kArithmetic; i < static_cast<size_t>(BinaryOp::Count); ++i)
            if (kIsArithmetic[i]) return false;
        return true;
    }(),
    "rows of arithmetic come before the other ones");
inline constexpr bool is_arithmetic(BinaryOp op) { return static_cast<size_t>(op) < kArithmetic; }

// The dtype that a loop gives: the operands' own, or that of a comparison or test.
enum class LoopResult : uint8_t { Same, Bool };
inline constexpr LoopResult kUnaryResults[] = {
#define MT_UNARY(functor, op, result, ...) LoopResult::result,
#define MT_UNARY_LOOP(...) LoopResult::Same,
#include "kernels/cpu/elementwise/rows.h"
};
inline constexpr LoopResult kBinaryResults[] = {
#define MT_BINARY(functor, op, result, ...) LoopResult::result,
#include "kernels/cpu/elementwise/rows.h"
};
inline constexpr bool gives_bool(BinaryOp op) { return kBinaryResults[static_cast<size_t>(op)] == LoopResult::Bool; }
inline constexpr bool gives_bool(UnaryOp op) { return kUnaryResults[static_cast<size_t>(op)] == LoopResult::Bool; }

// Bit i of `scalars`: input i is a single value. `out` may be the same array as an input.
using UnaryFn = void (*)(void* out, const void* in, int64_t n);
// False if an integer was divided by zero.
using BinaryFn = bool (*)(void* out, const void* a, const void* b, int64_t n, unsigned scalars);
using WhereFn = void (*)(void* out, const void* condition, const void* a, const void* b, int64_t n, unsigned scalars);
using ClampFn = void (*)(void* out, const void* in, const void* low, const void* high, int64_t n);
using ConvertFn = void (*)(void* out, const void* in, int64_t n);

// The columns of the tables: bool, uint8, int32, int64, float32, float64, uint64, complex64, complex128. A kernel that
// lacks the last ones leaves them out.
inline constexpr size_t kCompiledDtypes = 9;

// The column of the type that `dtype` is computed in.
inline size_t dtype_index(DType dtype) {
    static constexpr uint8_t indices[] = {0, 1, 2, 2, 2, 3, 2, 6, 3, 4, 4, 4, 5, 7, 8, 4, 4, 4, 4, 4};
    return indices[static_cast<size_t>(dtype)];
}

// n contiguous elements of one type as another: table lookups for the types of loops, and from and to them; others go
// by way of those in blocks. Never null; equal types are copied.
ConvertFn get_convert(DType from, DType to);

struct ElementwiseTable {
    UnaryFn unary[static_cast<size_t>(UnaryOp::Count)][kCompiledDtypes];
    BinaryFn binary[static_cast<size_t>(BinaryOp::Count)][kCompiledDtypes];
    WhereFn where[17];  // by item size
    ClampFn clamp[kCompiledDtypes];
    const ConvertFn (*convert)[kCompiledDtypes];  // [from][to]; null between complex and most others
    const ConvertFn* load;   // by dtype: from memory to loop_dtype, null where that is the same
    const ConvertFn* store;  // and back
    // Arithmetic of float32 and float64 that writes around the caches; the caller fences.
    BinaryFn stream_binary[kArithmetic][2];
    // The same of float16 and bfloat16 as they are stored, computed in float32. Null where no instructions convert
    // them.
    BinaryFn narrow_binary[kArithmetic][2];

    UnaryFn get(UnaryOp op, DType dtype) const { return unary[static_cast<size_t>(op)][dtype_index(dtype)]; }
    BinaryFn get(BinaryOp op, DType dtype) const { return binary[static_cast<size_t>(op)][dtype_index(dtype)]; }
    BinaryFn get_stream(BinaryOp op, DType dtype) const {
        if (!is_arithmetic(op) || (dtype != DType::F32 && dtype != DType::F64)) return nullptr;
        return stream_binary[static_cast<size_t>(op)][dtype == DType::F64];
    }
    BinaryFn get_narrow(BinaryOp op, DType dtype) const {
        if (!is_arithmetic(op) || (dtype != DType::F16 && dtype != DType::BF16)) return nullptr;
        return narrow_binary[static_cast<size_t>(op)][dtype == DType::BF16];
    }
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

}  // namespace mt::cpu
