// The history of views, which is that of their bases.
#pragma once

#include "autograd/tape.h"

namespace mt {

// Where the base begins, in elements of the view; throws if gradients of a write can't be followed between the two.
int64_t start_of_base(const Tensor& view, const Tensor& base);
// The node of a write, whose own one is `inner`, to a view: so far with the base's edge alone.
Ref<GradNode> copy_slices(Tensor& view, Tensor& base, const Ref<GradNode>& inner);

}  // namespace mt
