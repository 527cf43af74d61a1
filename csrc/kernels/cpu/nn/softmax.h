// The loops of softmax and log_softmax, one table for each instruction set. Their bits are those of the ops they stand
// for: amax, sub, exp, sum and then div, or log and sub; for logsumexp log and add.
#pragma once

#include <cstdint>

namespace mt::cpu {

struct SoftmaxLoops {
    // `count` rows of n contiguous elements; `out` may be `in`.
    void (*rows)(void* out, const void* in, int64_t count, int64_t n, bool log);
    // `cols` columns of n elements that are `stride` apart, in contiguous memory [n, stride]; `out` may be `in`.
    void (*columns)(void* out, const void* in, int64_t n, int64_t stride, int64_t cols, bool log);
    // logsumexp of the same: one element a row or column.
    void (*sum_rows)(void* out, const void* in, int64_t count, int64_t n);
    void (*sum_columns)(void* out, const void* in, int64_t n, int64_t stride, int64_t cols);
    // The gradient of `count` rows of n elements, from that of the results and the results.
    void (*gradient_rows)(void* out, const void* grad, const void* result, int64_t count, int64_t n, bool log);
    // Attention's: grad = weight * (grad - the sum of grad * weight) * scale for `count` rows; sums have 16 lanes.
    void (*slopes)(void* grad, const void* weight, double scale, int64_t count, int64_t n);
};

struct SoftmaxTable {
    SoftmaxLoops f32, f64;
};

namespace baseline {
extern const SoftmaxTable softmax_table;
}
namespace avx2 {
extern const SoftmaxTable softmax_table;
}
namespace avx512 {
extern const SoftmaxTable softmax_table;
}

// The loops of mt::isa() for float32 or float64.
const SoftmaxLoops& softmax_loops(bool wide);

inline constexpr int64_t kSoftmaxColumns = 64;  // at most, in one call

}  // namespace mt::cpu
