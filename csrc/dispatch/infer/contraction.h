// Inference of matrix products.
#pragma once

#include "dispatch/op.h"

namespace mt {

// The C++ name of a dtype, which is what some of PyTorch's messages show.
const char* cpp_name(DType dtype);

// input, other: 1-d, 2-d, or batches that broadcast.
void infer_matmul(Call& call);
// input, and the operands of a matrix product whose right side is a matrix.
void infer_addmm(Call& call);
// (batch, n, k) and (batch, m, k): the distances (batch, n, m).
void infer_cdist(Call& call);
// Square matrices, and right sides; their batches broadcast.
void infer_solve_triangular(Call& call);

}  // namespace mt
