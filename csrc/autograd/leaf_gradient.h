// Where gradients end.
#pragma once

#include "autograd/tape.h"

namespace mt {

// Adds to the gradient of the node's leaf, if there still is one; with `create_graph` keeping the history.
void store_gradient(GradNode& node, Ref<Tensor> gradient, bool create_graph);

}  // namespace mt
