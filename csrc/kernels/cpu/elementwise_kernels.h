// Kernels that other kernels are made of.
#pragma once

#include "dispatch/op.h"
#include "kernels/cpu/elementwise.h"

namespace mt::cpu {

// outputs[0] = op(operands[0]), computed in call.compute.
void run_unary(UnaryOp op, Call& call);
// out = in, broadcast and converted.
void run_copy(const Tensor& in, Tensor& out);
void run_fill(Tensor& out, Scalar value);
// `value` as an element of `dtype`, at `out`.
void store_scalar(Scalar value, DType dtype, void* out);

// Whether a flat loop over the tensor's memory visits its elements in order.
inline bool is_flat(const Tensor& tensor) { return tensor.numel == 1 || tensor.contiguous(); }

}  // namespace mt::cpu
