// What a convolution and its two gradients have in common: matrix products with blocks of patches that stay in the
// cache. How the work is cut depends on shapes only, so results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "core/dtype.h"
#include "kernels/cpu/linalg/multiply.h"
#include "runtime/scratch.h"

namespace mt::cpu {

constexpr int64_t kBlockBytes = 512 << 10;  // of patches: about half a second-level cache
constexpr int64_t kPanel = 64;              // columns that suit the product
constexpr int64_t kTasks = 16;              // enough for the threads of most machines

// This thread's memory for a block of patches, and for a product of one. The three kernels share them.
mt::Scratch& patches_scratch();
mt::Scratch& product_scratch();

template <class T>
T* scratch(mt::Scratch& memory, int64_t count) {
    return static_cast<T*>(memory.get(static_cast<size_t>(count > 0 ? count : 1) * sizeof(T)));
}

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }

// n in equal parts of about `wanted`, which are multiples of `unit`.
inline int64_t part_of(int64_t n, int64_t wanted, int64_t unit) {
    int64_t parts = ceil_div(n, std::max(wanted, unit));
    return std::max<int64_t>(ceil_div(ceil_div(n, parts), unit) * unit, 1);
}

// Calls body(a number of the type that is computed with): smaller types are computed in float32.
template <class F>
void with_float(DType dtype, F body) {
    if (dtype == DType::F64) body(double());
    else body(float());
}

template <class F>
void with_type(DType dtype, F body) {
    if (dtype == DType::I64) body(int64_t());
    else with_float(dtype, body);
}

}  // namespace mt::cpu
