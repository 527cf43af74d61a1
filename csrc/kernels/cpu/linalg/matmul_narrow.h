// Products of few rows or columns with a large matrix of float16 or bfloat16.
#pragma once

#include "core/tensor.h"

namespace mt::cpu {

/// Computes out = a b if it is such a product; otherwise returns false.
bool narrow_product(const Tensor& a, const Tensor& b, Tensor& out);

}  // namespace mt::cpu
