// Tensors kept for the backward pass.
#pragma once

#include "autograd/tape.h"

namespace mt {

// The tensor as a node keeps it: a result without its history, or what the hooks make of it.
SavedTensor save(Tensor& value, bool is_output, uint32_t index);

// To be called in forward mode before the destination is written: copies what is saved of its storage. A derivative
// that goes forward is computed when it is asked for, of what the ops have read.
void keep_saved(const Tensor& destination);
// Forward mode has ended on this thread: writes copy nothing from now on.
void forget_saved();

}  // namespace mt
