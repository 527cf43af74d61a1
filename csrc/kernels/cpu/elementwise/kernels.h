// Kernels that other kernels are made of.
#pragma once

#include "dispatch/op.h"
#include "kernels/cpu/elementwise/loops.h"

namespace mt::cpu {

// outputs[0] = op(operands[0]), computed in call.compute.
void run_unary(UnaryOp op, Call& call);
// out = in, broadcast and converted.
void run_copy(const Tensor& in, Tensor& out);
void run_fill(Tensor& out, Scalar value);
// Throws PyTorch's "... not implemented for 'ComplexFloat'" if there is no loop.
void check_loop(bool exists, const Call& call);
// A number, converted for a loop, and so aligned.
struct alignas(16) Number {
    char bytes[16];
};

// Whether a flat loop over the tensor's memory visits its elements in order.
inline bool is_flat(const Tensor& tensor) {
    if (tensor.numel == 1) return true;
    if (tensor.ndim() == 1) return tensor.strides[0] == 1;
    return tensor.contiguous();
}

// The first element of a tensor whose value has been computed, as an operand's and a result's has when a kernel runs.
inline char* first_element(const Tensor& tensor, size_t item) {
    return static_cast<char*>(tensor.storage->data) + tensor.offset * static_cast<int64_t>(item);
}
}  // namespace mt::cpu
