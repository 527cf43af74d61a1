// Which elements tensors share, and which a tensor shows twice.
#pragma once

#include "core/tensor.h"

namespace mt {

// Whether the memory that two tensors span meets.
bool may_overlap(const Tensor& a, const Tensor& b);
// Whether they show the same elements at the same indices.
bool same_view(const Tensor& a, const Tensor& b);
// Whether a view has an element twice.
bool has_internal_overlap(const Tensor& t);
// Throws PyTorch's error if it has.
void check_written_once(const Tensor& destination);
[[noreturn]] void refuse_shared();

}  // namespace mt
