// The shape of one step of a reduction, and access to its elements whatever their strides and dtype.
#pragma once

#include <cstdint>

#include "core/tensor.h"

namespace mt::cpu {

// [outer, n, inner] reduced over n. The outer dimensions keep strides of their own.
struct ReduceStep {
    const char* data = nullptr;
    DType dtype = DType::F32;
    int64_t outer = 1, n = 1, inner = 1;
    int64_t n_stride = 1, inner_stride = 1;
    size_t outer_dims = 0;
    int64_t outer_size[kMaxDims], outer_stride[kMaxDims];

    // The first element of outer index `i`.
    const char* at(int64_t i) const {
        int64_t offset = 0;
        for (size_t d = outer_dims; d-- > 0;) {
            offset += i % outer_size[d] * outer_stride[d];
            i /= outer_size[d];
        }
        return data + offset * static_cast<int64_t>(itemsize(dtype));
    }
    // Whether row i + 1 lies a fixed distance after row i for all rows; then the distance.
    bool regular() const { return outer_dims <= 1; }
    int64_t stride() const { return outer_dims ? outer_stride[0] : 0; }
};

// dst[i * cols + j] = src[i * row_stride + j * col_stride], converted from `from` to `to`; small enough for the cache.
// `spare` has room for as many elements of 8 bytes.
void load_tile(void* dst, DType to, const char* src, DType from, int64_t rows, int64_t row_stride, int64_t cols,
               int64_t col_stride, void* spare);

// The dimensions of a reduction from the outermost to the innermost, without those of size 1; neighbours that are alike
// and lie regularly in memory are one.
struct ReduceDims {
    size_t count = 0;
    int64_t size[kMaxDims], stride[kMaxDims];
    bool reduced[kMaxDims];

    ReduceDims(const Dims& sizes, const Dims& strides, uint64_t mask);
    bool any_reduced() const;
    // Fills all of `step` but data and dtype from the innermost reduced group, and leaves the remaining dimensions, to
    // be seen as contiguous. False if the group or what is inside it doesn't lie regularly: the tensor has to be
    // packed.
    bool take_step(ReduceStep& step);
    // After a step: strides of contiguous memory; neighbours are merged.
    void make_contiguous();
};

}  // namespace mt::cpu
