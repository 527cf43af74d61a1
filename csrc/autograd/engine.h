// The backward engine.
#pragma once

#include "autograd/tape.h"

namespace mt {

struct BackwardOptions {
    bool retain_graph = false;
    bool create_graph = false;
    bool allow_unused = false;
    bool accumulate = false;  // the gradients of `inputs` go where they do without: to the leaves' .grad
    bool forward = false;     // one of the two passes that a derivative forward is made of: no_grad doesn't end it
};

// What is differentiated: a result of a node, and what is known of it.
struct Root {
    Edge edge;
    OperandMeta meta;
};

// Sends `gradients` back from `roots`. With `inputs`, gives their gradients (null where unused) and accumulates
// nothing, or only those with `accumulate`; without, adds to the leaves' .grad. Nodes run latest first; what they saved
// is freed as they go unless retain_graph.
std::vector<Ref<Tensor>> run_backward(const std::vector<Root>& roots, std::vector<Ref<Tensor>> gradients,
                                      const std::vector<Edge>& inputs, const BackwardOptions& options);

// The same, always node by node.
std::vector<Ref<Tensor>> run_backward_by_engine(const std::vector<Root>& roots, std::vector<Ref<Tensor>> gradients,
                                                const std::vector<Edge>& inputs, const BackwardOptions& options);
// Asked before a pass that adds to the leaves' .grad, to first order only: whether it has been done otherwise. May take
// over `gradients` then.
extern bool (*whole_backward_callback)(const std::vector<Root>& roots, std::vector<Ref<Tensor>>& gradients,
                                       const BackwardOptions& options);
// Frees what a node keeps for its formula.
void release_saved(GradNode& node);

// The number of the pass that is running on this thread, 0 if none is, and whether a gradient will arrive at a node.
uint64_t backward_id();
// Whether it is one of the two that a derivative forward is made of.
bool goes_forward();
// Whether that pass adds to all leaves, not to some that were asked for.
bool backward_accumulates();
bool will_execute(const GradNode& node);
// Whether that pass wants what a node sends along its edge `position`; without a pass, whether there is an edge.
bool gradient_wanted(const GradNode& node, size_t position);

// Sum of `gradient` over the dimensions that broadcasting added, in the dtype of the operand.
Ref<Tensor> reduce_to_operand(Ref<Tensor> gradient, const OperandMeta& meta);

// While a formula runs: whether anybody wants the gradient of the operand at `position`.
bool operand_needs_gradient(size_t position);

// While a node runs: the tensor as result `index` of that node, for what was saved without its history.
Ref<Tensor> as_result(const Tensor& tensor, uint32_t index);

// Told of every store to a leaf's .grad; trace/ needs it for compiled functions.
extern void (*grad_stored_callback)(Tensor& leaf);

}  // namespace mt
