// Iteration over up to four strided arrays at once: dimensions are ordered after the destination and merged, then rows
// of the innermost dimension (or tiles, when an input is transposed) are handed out.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor.h"

namespace mt::cpu {

inline constexpr size_t kMaxOperands = 4;

// Strides are in bytes; array 0 is the destination. A scalar is an array with all strides 0.
struct StridedLoop {
    size_t operands = 0;
    size_t ndim = 0;
    int64_t numel = 1;
    char* data[kMaxOperands];
    int64_t item[kMaxOperands];  // bytes per element
    int64_t sizes[kMaxDims];
    int64_t strides[kMaxOperands][kMaxDims];

    // The destination; call first.
    void set_output(void* base, size_t itemsize, const Dims& shape, const Dims& steps);
    // An input, broadcast to the destination's shape.
    void add_input(const void* base, size_t itemsize, const Dims& shape, const Dims& steps);
    // Drops dimensions of size 1, orders and merges the rest. After it ndim >= 1 unless there are no elements.
    void simplify();

    int64_t inner() const { return sizes[ndim - 1]; }
    int64_t inner_stride(size_t operand) const { return strides[operand][ndim - 1]; }
    // Whether the operand's elements lie one after the other over the whole iteration.
    bool dense(size_t operand) const;
    // Whether the operand is one single element.
    bool single(size_t operand) const;
    // Whether an input is contiguous along another dimension than the innermost one, so that tiles pay. That dimension
    // is moved next to the innermost one.
    bool prepare_tiles();
    bool transposed(size_t operand) const {
        return ndim >= 2 && strides[operand][ndim - 2] == item[operand] && inner_stride(operand) != item[operand] &&
               inner_stride(operand) != 0;
    }

    // Calls f(char* const* pointers, const int64_t* index, int64_t n) for pieces of at most `most` elements of the rows
    // in the range [begin, end) of elements; `index` is the position of the first one.
    template <class F> void for_each_run(int64_t begin, int64_t end, int64_t most, F&& f) const {
        int64_t index[kMaxDims];
        char* pointers[kMaxOperands];
        locate(begin, index, pointers);
        size_t last = ndim - 1;
        while (begin < end) {
            int64_t n = sizes[last] - index[last];
            if (n > most) n = most;
            if (n > end - begin) n = end - begin;
            f(static_cast<char* const*>(pointers), static_cast<const int64_t*>(index), n);
            begin += n;
            advance(n, index, pointers);
        }
    }

    // The position of element `at`.
    void locate(int64_t at, int64_t* index, char** pointers) const {
        for (size_t k = 0; k < operands; ++k) pointers[k] = data[k];
        for (size_t d = ndim; d-- > 0;) {
            index[d] = at % sizes[d];
            at /= sizes[d];
            for (size_t k = 0; k < operands; ++k) pointers[k] += index[d] * strides[k][d];
        }
    }

    // Moves by n <= what is left of the row.
    void advance(int64_t n, int64_t* index, char** pointers) const {
        size_t d = ndim - 1;
        index[d] += n;
        for (size_t k = 0; k < operands; ++k) pointers[k] += n * strides[k][d];
        while (d > 0 && index[d] == sizes[d]) {
            for (size_t k = 0; k < operands; ++k) pointers[k] += strides[k][d - 1] - sizes[d] * strides[k][d];
            index[d] = 0;
            ++index[--d];
        }
    }
};

// The n elements of operand `k` from `index` on, at `from`, one after the other in `out`; and the reverse.
void gather_run(const StridedLoop& loop, size_t k, const char* from, const int64_t* index, int64_t n, void* out);
void scatter_run(const StridedLoop& loop, size_t k, char* to, const int64_t* index, int64_t n, const void* in);
// The same for one row: elements `stride` bytes apart.
void gather_row(const char* from, int64_t stride, int64_t item, int64_t n, void* out);
void scatter_row(char* to, int64_t stride, int64_t item, int64_t n, const void* in);
// out[r][c] = in[c][r]: rows of `in` are `in_stride` bytes apart, those of `out` `out_stride`.
void transpose_tile(const char* in, int64_t in_stride, char* out, int64_t out_stride, int64_t item, int64_t rows,
                    int64_t columns);

// What the elementwise kernels are made of: `fn` gets contiguous elements of the wanted dtypes, or single values where
// the bit in `scalars` is set, and writes contiguous elements of the dtype that `out` wants. Elements are converted to
// `wanted` and then to what loops compute it in; a result the other way.
struct LoopOperand {
    void* data;
    const Dims* sizes;
    const Dims* strides;
    DType stored;      // in memory
    DType wanted;      // by the op
    bool raw = false;  // `fn` moves elements of `wanted` itself
};
using BlockFn = void (*)(void* context, void* out, const void* const* in, int64_t n, unsigned scalars);
// Parallel; converts, gathers and scatters through small buffers only where an operand needs it, and writes around the
// caches when the result is larger than they are.
// `stream_fn`, if given, computes the same and does the latter by itself.
void run_elementwise(const LoopOperand& out, const LoopOperand* in, size_t count, BlockFn fn, void* context,
                     BlockFn stream_fn = nullptr);
// out = in, converted and broadcast.
void copy_elements(const LoopOperand& out, const LoopOperand& in);

inline LoopOperand operand_of(const Tensor& tensor, DType wanted, bool raw = false) {
    return {tensor.data(), &tensor.sizes, &tensor.strides, tensor.dtype, wanted, raw};
}
// A single value of dtype `dtype` at `value`.
LoopOperand scalar_operand(const void* value, DType dtype);

// Chunks of parallel loops over cheap elements.
inline constexpr int64_t kElementwiseGrain = 32768;
// Results of at least this many bytes are written around the caches.
int64_t streaming_threshold();

}  // namespace mt::cpu
