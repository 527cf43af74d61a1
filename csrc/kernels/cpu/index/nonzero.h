// Kernels whose result's shape depends on the data; called by the bindings, not through a Call. Both compute recorded
// inputs first.
#pragma once

#include "core/tensor.h"

namespace mt {

// The indices of the elements that are not zero: int64 [count, rank], in logical order.
Ref<Tensor> nonzero(const Tensor& t);
// The elements of `t` where `mask` (bool) holds, in logical order, after the two are broadcast together.
Ref<Tensor> masked_select(const Tensor& t, const Tensor& mask);
// Every place as often as `repeats`, a vector of int32 or int64, says.
Ref<Tensor> repeat_places(const Tensor& repeats);

}  // namespace mt
