// The inner loops of the reductions, one table for each instruction set, and the driver that brings every reduction to
// them. docs/numerics.md defines the order of the operations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/elementwise/loops.h"
#include "kernels/cpu/movement/strided_copy.h"

namespace mt::cpu {

enum class ReduceOp : uint8_t { Sum, Prod, Max, Min, NanSum, SumAbs, SumSquares, Count };

inline constexpr int64_t kLanes = 64;
inline constexpr int64_t kAdjacentRows = 64;
inline constexpr int64_t kRowBlock = 4096, kMaxRowBlocks = 1024;
inline constexpr int64_t kColumnBlock = 256, kMaxColumnBlocks = 64;

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
// Elements a block of a row (a column) of `n` elements.
inline int64_t row_block(int64_t n) { return kRowBlock * ceil_div(n > 0 ? n : 1, kRowBlock * kMaxRowBlocks); }
inline int64_t column_block(int64_t n) {
    return kColumnBlock * ceil_div(n > 0 ? n : 1, kColumnBlock * kMaxColumnBlocks);
}

// Loops over elements of dtype `in`; accumulators have the size of `out`, into which finish() turns them in place.
struct ReduceLoops {
    DType in, out;
    // One block a row: acc[i] reduces the n contiguous elements at in + i * stride.
    void (*rows)(void* acc, const void* in, int64_t count, int64_t stride, int64_t n);
    // The same in pieces, for elements that come through a buffer: kLanes accumulators; every piece but the last has a
    // multiple of kLanes elements.
    void (*lanes_init)(void* lanes);
    void (*lanes_add)(void* lanes, const void* in, int64_t n);
    void (*lanes_finish)(void* acc, const void* lanes);
    // One block of each of count <= kAdjacentRows rows: row i has the elements in[r * n_stride + i]. Null where there
    // is none.
    void (*adjacent)(void* acc, const void* in, int64_t n, int64_t n_stride, int64_t count);
    // Blocks of `block` rows each: acc[j * cols + c] reduces the elements of column c in block j.
    void (*columns)(void* acc, const void* in, int64_t rows, int64_t row_stride, int64_t cols, int64_t block);
    // One block of columns that are contiguous themselves: column c has the elements in[c * col_stride + r]. Null where
    // there is none.
    void (*contiguous_columns)(void* acc, const void* in, int64_t rows, int64_t col_stride, int64_t cols);
    // total[i] = total[i] (op) part[i].
    void (*combine)(void* total, const void* part, int64_t n);
    void (*fill)(void* acc, int64_t n);    // the identity
    void (*finish)(void* out, int64_t n);  // null: the accumulators are the values
};

// The first extreme element of a sequence; NaN counts as the extreme.
struct ArgLoops {
    DType in;
    // index[i], acc[i]: of the n contiguous elements at in + i * stride, indices counted from 0.
    void (*rows)(void* acc, int64_t* index, const void* in, int64_t count, int64_t stride, int64_t n);
    // Continues with rows first .. first + rows, for `cols` columns; first == 0 starts.
    void (*columns)(void* acc, int64_t* index, const void* in, int64_t first, int64_t rows, int64_t row_stride,
                    int64_t cols);
    bool (*better)(const void* acc, const void* than);
};

// Sums of squared deviations from a mean, of one block each.
struct DeviationLoops {
    DType in;
    // Of the n contiguous elements at `in`, from the number at `mean`.
    void (*row)(void* acc, const void* in, int64_t n, const void* mean);
    // Of `cols` columns, each from its own mean.
    void (*columns)(void* acc, const void* in, int64_t rows, int64_t row_stride, int64_t cols, const void* mean);
};

struct ReduceTable {
    ReduceLoops loops[static_cast<size_t>(ReduceOp::Count)][kCompiledDtypes];  // in == Count: not compiled
    ArgLoops arg[2][kCompiledDtypes];                                          // max, min
    DeviationLoops deviations[2];                                              // float32, float64

    const ReduceLoops& get(ReduceOp op, DType dtype) const {
        return loops[static_cast<size_t>(op)][dtype_index(dtype)];
    }
};

namespace baseline {
extern const ReduceTable reduce_table;
}
namespace avx2 {
extern const ReduceTable reduce_table;
}
namespace avx512 {
extern const ReduceTable reduce_table;
}

// The table of mt::isa().
const ReduceTable& select_reduce_table();
inline const ReduceTable& reductions() {
    static const ReduceTable& table = select_reduce_table();
    return table;
}

// out[...] = the reduction of `t` over the dimensions in `mask`, in contiguous memory of dtype `loops.out`. The
// elements are converted to loops.in first; `next` serves the steps after the first one.
void reduce_tensor(void* out, const Strided& t, uint64_t mask, const ReduceLoops& loops, const ReduceLoops& next);

// The same for the squares of the deviations from `mean`, which has an element of loops.in for every one of `out`.
void reduce_deviations(void* out, const Strided& t, uint64_t mask, const DeviationLoops& loops, const void* mean);

}  // namespace mt::cpu
