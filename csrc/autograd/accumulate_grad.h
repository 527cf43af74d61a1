// Where gradients end.
#pragma once

#include "autograd/tape.h"

namespace mt {

// Adds to the gradient of the node's leaf, if there still is one; with `create_graph` keeping the history.
void store_gradient(GradNode& node, Ref<Tensor> gradient, bool create_graph);

// What a leaf's gradient is after another one came, where one of them is in a sparse layout.
extern Ref<Tensor> (*add_sparse_gradient_callback)(Ref<Tensor> before, Ref<Tensor> gradient);

}  // namespace mt
