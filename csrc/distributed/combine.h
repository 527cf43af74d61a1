// The numbers of several processes, made one: in the order of the ranks, whichever way they came.
#pragma once

#include "core/dtype.h"

namespace mt::distributed {

// PyTorch's numbers of them.
enum class ReduceKind : uint8_t { Sum, Average, Product, Min, Max, And, Or, Xor, Count };

// out[i] = ranks[0][i] op ranks[1][i] op ... for `count` elements; `out` may be one of them. Float16 and bfloat16 are
// combined as float32 and rounded once; integers wrap around; sums of bools say whether any is true, products whether
// all are; the least or greatest number with a NaN among them is NaN. Throws for a dtype that the operation doesn't
// take.
void combine(DType dtype, ReduceKind kind, const char* const* ranks, int count_of_ranks, char* out, size_t count);

const char* name_of(ReduceKind kind);

}  // namespace mt::distributed
