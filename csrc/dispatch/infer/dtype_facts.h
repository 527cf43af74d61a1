// What PyTorch's checks of numbers say of a dtype.
#pragma once

#include "core/dtype.h"

namespace mt {

// The name of the C++ type in PyTorch's messages.
const char* c_type_name(DType dtype);

// The largest finite number of a floating-point type.
double largest(DType dtype);

}  // namespace mt
