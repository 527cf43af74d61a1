// Calls of the hooks that users put on nodes.
#pragma once

#include "autograd/tape.h"

namespace mt {

using Gradients = std::vector<Ref<Tensor>>;

// Hooks of single results' gradients, those of retain_grad last. They may replace gradients.
void run_tensor_hooks(const GradNode& node, Gradients& gradients);
// Node.register_prehook: may replace all gradients at once.
void run_prehooks(const GradNode& node, Gradients& gradients);
// Node.register_hook: sees the gradients that the node computed and those it was given; may replace the former.
void run_posthooks(const GradNode& node, Gradients& computed, const Gradients& given);
// Whether hooks and `next_functions` show the edge at `position`: not of indices and masks, and of numbers only where
// PyTorch makes tensors of them.
bool shows_edge(const GradNode& node, size_t position);
void run_post_accumulate_hooks(const GradNode& node, Tensor& leaf);

PyRef wrapped(Ref<Tensor> tensor);
PyRef tuple_of(const Gradients& gradients, size_t count);
Ref<Tensor> tensor_from(PyObject* object, const GradNode& node, size_t position);

}  // namespace mt
