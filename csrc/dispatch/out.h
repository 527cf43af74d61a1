// The `out=` form of calls: results written to tensors that the caller gives.
#pragma once

#include <vector>

#include "dispatch/call.h"
#include "dispatch/registry.h"

namespace mt {

// Runs `call` with its results in `outs`, of which there is one for each result. A tensor of another shape is resized,
// with PyTorch's warning if it had elements; a result is converted where its dtype can be cast. Operands may alias
// `outs`.
void dispatch_out(Call& call, Tensor* const* outs, size_t out_count);

extern bool (*requires_grad_callback)(const Tensor& tensor);  // installed by autograd/
extern void (*check_inference_callback)(const Tensor& written);  // the same
// Throws PyTorch's error if gradients are wanted of any of these: writing to `out` has none.
void check_out_needs_no_gradient(const char* op, const Tensor* const* tensors, size_t count);

// Throws PyTorch's error if `out` shows an element twice, or shares memory with an operand.
void check_out_is_apart(const Tensor& out, const Tensor* const* operands, size_t count);
// Throws PyTorch's error unless a result of that dtype may be stored in `out`, which nothing was written to so far.
void check_out(const Tensor& out, DType result, const Dims& sizes, bool exact);
// The same for computed results, all before any is stored.
void store_outs(Tensor* const* outs, Ref<Tensor>* results, size_t count, OutRule rule);
// Writes a computed result to `out`, as above.
void store_out(Tensor& out, Tensor& result);

// Gives the tensor other sizes, contiguous; its storage grows if needed, and views of it see the same storage.
void resize(Tensor& tensor, const Dims& sizes);

// Throws PyTorch's error unless a result of type `from` may be stored as `to`.
void check_castable(DType from, DType to);

}  // namespace mt
