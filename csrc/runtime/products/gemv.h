// Products of a vector: with a matrix, or with another vector.
#pragma once

#include "runtime/abi.h"

namespace mt {

/// Computes `*g`, whose pointers are to T, float or double, and of which every matrix has m == 1 or n == 1. There is no
/// epilogue.
///
/// Order of floating-point operations: each block of kGemmBlockK values of k is padded with +0.0 to a multiple of 16.
/// Sixteen lanes start at +0.0; the products are taken by fma in increasing k, number p of the block by lane p % 16.
/// Lanes are added by halving: lane[l] += lane[l + w] for l < w, with w = 8, 4, 2, 1. The first block's result is
/// stored, and those of the others are added to it in order. No other choice changes a bit, the payload and the sign of
/// a NaN excepted.
///
/// Uses the thread pool for large products. Throws std::bad_alloc if there is no memory for temporaries.
template <class T>
void gemv(const MtGemm* g);

extern template void gemv<float>(const MtGemm*);
extern template void gemv<double>(const MtGemm*);

}  // namespace mt
