// Kernels of complex numbers for ops whose own kernel only takes real ones.
#pragma once

#include <string_view>

#include "dispatch/op.h"

namespace mt::cpu {

// Null if complex numbers have no such op.
KernelFn find_complex_kernel(std::string_view op);

}  // namespace mt::cpu
