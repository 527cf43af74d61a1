// Sums of float16 and bfloat16 in float32, which convert in registers what they add. The order is that of the loops of
// reduce.h.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace mt::cpu {

struct NarrowSums {
    // lanes[r % 64] += x[r] for r < n, in increasing r.
    void (*lanes)(float* lanes, const uint16_t* x, int64_t n);
    // acc[c] += x[r * stride + c] for c < cols and r < rows, in increasing r.
    void (*columns)(float* acc, const uint16_t* x, int64_t rows, int64_t stride, int64_t cols);
};

// Null where the instruction set in use can't convert so, and for other dtypes.
const NarrowSums* narrow_sums(DType dtype);

}  // namespace mt::cpu
