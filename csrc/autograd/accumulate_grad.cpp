// Where gradients end: in a leaf's .grad, laid out like the leaf.
#include "autograd/accumulate_grad.h"

#include "autograd/engine.h"
#include "autograd/formula.h"
#include "core/error.h"
#include "dispatch/jit_device.h"
#include "dispatch/memory/memory_order.h"
#include "dispatch/python/python.h"
#include "dispatch/thread_local_state.h"

namespace mt {

void (*grad_stored_callback)(Tensor&) = nullptr;
Ref<Tensor> (*add_sparse_gradient_callback)(Ref<Tensor>, Ref<Tensor>) = nullptr;

namespace {

// The strides of a leaf's gradient: the leaf's own if its elements lie without gaps and overlaps, otherwise row-major.
// It is PyTorch's rule, so that an optimizer's loops run through both in the order of memory. `order`: the dimensions
// from the outermost in memory, empty for row-major ones. A leaf that was given other data since may have another shape
// than the gradient, whose `sizes` are those of before.
Dims layout_of_gradient(const Tensor& leaf, const Dims& sizes, Dims& order) {
    const Tensor* operands[] = {&leaf};
    if (leaf.contiguous() || !(leaf.sizes == sizes) || !memory_order(operands, 1, sizes, order))
        return contiguous_strides(sizes);
    Dims strides = out_of_order(contiguous_strides(in_order(leaf.sizes, order)), order);
    for (size_t d = 0; d < leaf.ndim(); ++d)
        if (leaf.sizes[d] != 1 && leaf.strides[d] != strides[d]) {
            order = Dims();
            return contiguous_strides(sizes);
        }
    return strides;
}

bool has_layout(const Tensor& tensor, const Dims& strides) {
    for (size_t d = 0; d < tensor.ndim(); ++d)
        if (tensor.sizes[d] != 1 && tensor.strides[d] != strides[d]) return false;
    return true;
}

Ref<Tensor> copy_in_order(const Ref<Tensor>& tensor, const Dims& order) {
    const OpDef& row_major = op_named("_row_major");
    if (order.size() == 0) return call_op(row_major, {tensor.get()});
    const OpDef& permute = op_named("permute");
    Dims back(order.size(), 0);
    for (size_t d = 0; d < order.size(); ++d) back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
    Ref<Tensor> moved = call_op(permute, {tensor.get()}, {value_of(order)});
    return call_op(permute, {call_op(row_major, {moved.get()}).get()}, {value_of(back)});
}

}  // namespace

void store_gradient(GradNode& node, Ref<Tensor> gradient, bool create_graph) {
    // Threads that run backward at the same time add to the same gradient, and may drop the leaf or its gradient.
    HoldGil hold;
    Ref<Tensor> leaf = leaf_of(node);
    if (!leaf) return;
    AutogradMeta& meta = autograd_meta(*leaf);
    // None where a hook put it in the gradient's place; and the leaf may not want one any more. Hooks are told.
    if (gradient && !is_leaf(*leaf)) fail("leaf variable has been moved into the graph interior");
    if (!gradient || !meta.requires_grad) return run_post_accumulate_hooks(node, *leaf);
    note_gradient_use(*leaf, true);
    Ref<Tensor> before = meta.grad;
    // Of a number on the CPU that was used on a GPU, or of what was compiled.
    if (home_of(*gradient) != home_of(*leaf) && home_of(*leaf).type != DeviceType::Meta)
        gradient = clone_to(*gradient, leaf->device());
    if (!create_graph && (is_sparse(*gradient) || (before && is_sparse(*before)))) {
        meta.grad = add_sparse_gradient_callback(before, gradient);
    } else if (!before) {
        // The engine's own tensor is handed over unless somebody else holds its storage.
        Dims order;
        const bool mine = owned_once(*gradient);
        const bool fits = (mine && !create_graph && thread_settings.any_grad_layout) ||
                          (gradient->contiguous() && leaf->contiguous()) ||
                          has_layout(*gradient, layout_of_gradient(*leaf, gradient->sizes, order));
        if (!fits) meta.grad = copy_in_order(gradient, order);
        else meta.grad = mine && !create_graph ? detach(*gradient) : call_op(op_named("clone"), {gradient.get()});
    } else if (create_graph) {
        meta.grad = call_op(op_named("add"), {before.get(), gradient.get()});
    } else {
        Operand self, other;
        self.tensor = before.get();
        other.tensor = gradient.get();
        call_op_inplace(op_named("add"), *before, {self, other});
    }
    if (grad_stored_callback) grad_stored_callback(*leaf);
    run_post_accumulate_hooks(node, *leaf);
}

}  // namespace mt
