// What a node's formula makes of the gradients of its results.
#pragma once

#include "autograd/node_hooks.h"

namespace mt {

// The gradients of the node's operands, null for those that nobody wants or that have none.
Gradients apply_formula(GradNode& node, Gradients& gradients);

const OpDef& op_named(const char* name);
Value dtype_value(DType dtype);
// A tensor of one number, as `meta` describes it.
Ref<Tensor> full_of(const OperandMeta& meta, int64_t value);

}  // namespace mt
