// Tensors kept for the backward pass.
#pragma once

#include "autograd/tape.h"

namespace mt {

// The tensor as a node keeps it: a result without its history, or what the hooks make of it.
SavedTensor save(Tensor& value, bool is_output, uint32_t index);

}  // namespace mt
