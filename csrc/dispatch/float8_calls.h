// The few ops that compute with floats of eight bits on the CPU, as PyTorch's do.
#pragma once

#include "dispatch/call.h"

namespace mt {

// Whether an inferred call computes with them: products of two tensors of one such dtype, element by element or of
// matrices; sums and the like in another dtype; tests of single elements.
bool computes_with_float8(const Call& call);

// Its result: that of the same op of wider copies, rounded once where it has eight bits itself. It has no history.
Ref<Tensor> computed_wider(const Call& call);

}  // namespace mt
