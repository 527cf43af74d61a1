// Matrix products for eager kernels and, through the C interface, for compiled code.
#pragma once

#include <cstdint>

#include "runtime/abi.h"

namespace mt {

/// The documented length of a block of the accumulation over k, in elements, for every type and every CPU. It is part
/// of the numerics: changing it changes results.
template <class T>
inline constexpr int64_t kGemmBlockK = 512;

/// Computes `*g`, whose pointers are to T: float, double, int32_t, int64_t or uint8_t.
///
/// Order of floating-point operations: for each block of kGemmBlockK values of k, an accumulator starts at +0.0 and
/// takes the products by fma in increasing k; the first block's result is stored in C and those of the others are added
/// to it in order. What is to be added to a product of one block is added to its sum. No other choice (packing, tiles,
/// orientation, threads, instruction set) changes a bit of the result, the payload and the sign of a NaN excepted.
/// Integers wrap around.
///
/// Uses the thread pool for large products. Throws std::bad_alloc if there is no memory for packing.
template <class T>
void gemm(const MtGemm* g);

/// `count` products with the sizes and strides of `each`, one after the other. Each has `width` pointers: a, b, c and,
/// if there are four, add. What one writes others may read as `add` only. Threads are shared out once for all: each has
/// the same columns or rows of every result.
template <class T>
void gemms(const MtGemm& each, void* const* pointers, int64_t count, int64_t width);

extern template void gemms<float>(const MtGemm&, void* const*, int64_t, int64_t);
extern template void gemms<double>(const MtGemm&, void* const*, int64_t, int64_t);
extern template void gemm<float>(const MtGemm*);
extern template void gemm<double>(const MtGemm*);
extern template void gemm<int32_t>(const MtGemm*);
extern template void gemm<int64_t>(const MtGemm*);
extern template void gemm<uint8_t>(const MtGemm*);

}  // namespace mt
