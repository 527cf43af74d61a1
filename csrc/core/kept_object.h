// Tensors that own their Python object.
#pragma once

#include "core/tensor.h"

namespace mt {

// Told when nothing refers to such a tensor any more: gives the tensor to its object and drops that.
extern void (*drop_object_callback)(Tensor* tensor);

}  // namespace mt
