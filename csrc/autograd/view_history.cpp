#include "autograd/view_history.h"

#include "core/error.h"
#include "dispatch/infer/elementwise.h"
#include "dispatch/thread_local_state.h"

namespace mt {

namespace {

[[noreturn]] void refuse_reinterpreted(const Tensor& view, const Tensor& base) {
    throw Error(ErrorKind::NotImplemented,
                std::string("gradients of a write in place can't be followed from a view of dtype ") +
                    info(view.dtype).name + " to its base of dtype " + info(base.dtype).name +
                    ": write to a copy, or to the base");
}

// Complex numbers and their parts are views of each other; other types share no gradients.
bool are_parts(DType a, DType b) {
    return (is_complex(a) && real_dtype(a) == b) || (is_complex(b) && real_dtype(b) == a);
}

}  // namespace

int64_t start_of_base(const Tensor& view, const Tensor& base) {
    if (view.dtype == base.dtype) return base.offset;
    if (!are_parts(view.dtype, base.dtype) || (is_complex(view.dtype) && base.offset % 2))
        refuse_reinterpreted(view, base);
    return is_complex(base.dtype) ? base.offset * 2 : base.offset / 2;
}

namespace {

// The node of a view that is made anew, of an operand whose own history is `edge`.
Ref<GradNode> view_node(const OpDef& op, Tensor& operand, const Tensor& result, Edge edge) {
    Operand slot;
    slot.tensor = &operand;
    Value params[3] = {value_of(result.sizes), value_of(result.strides), value_of(result.offset)};
    Call call(ambient());
    call.op = &op;
    call.operands = &slot;
    call.operand_count = 1;
    call.params = params;
    call.param_count = op.param_args.size();
    Ref<GradNode> node = begin_node(call);
    node->edges[0] = std::move(edge);
    finish_node(*node, call);
    // Whether its base has a gradient is up to the base.
    node->forward_only = node->of_duals = node->edges[0].node && node->edges[0].node->of_duals;
    node->result_meta.push_back({result.sizes, result.dtype, home_of(result)});
    return node;
}

// The history of a view as one of what its base is now, whichever ops once made it.
Ref<GradNode> history_of_view(Tensor& view, Tensor& base) {
    static const OpDef &as_strided = *find_op("as_strided"), &as_real = *find_op("view_as_real"),
                       &as_complex = *find_op("view_as_complex");
    (void)start_of_base(view, base);  // refuses what has none
    if (view.dtype == base.dtype) return view_node(as_strided, base, view, grad_edge(base));
    if (is_complex(base.dtype)) {
        Dims sizes = base.sizes, strides = base.strides;
        for (int64_t& stride : strides) stride *= 2;
        sizes.push_back(2);
        strides.push_back(1);
        Ref<Tensor> parts = Tensor::make(base.storage, view.dtype, sizes, strides, base.offset * 2);
        Ref<GradNode> node = view_node(as_real, base, *parts, grad_edge(base));
        return view_node(as_strided, *parts, view, {node, 0});
    }
    // All the memory between the base's first and last element, as pairs.
    auto [low, high] = element_span(base.sizes, base.strides, base.offset);
    int64_t pairs = (high - low) / 2;
    Ref<Tensor> parts = Tensor::make(base.storage, base.dtype, Dims{pairs, 2}, Dims{2, 1}, low);
    Ref<Tensor> numbers = Tensor::make(base.storage, view.dtype, Dims{pairs}, Dims{1}, low / 2);
    Ref<GradNode> node = view_node(as_strided, base, *parts, grad_edge(base));
    node = view_node(as_complex, *parts, *numbers, {node, 0});
    return view_node(as_strided, *numbers, view, {node, 0});
}

// Whether it isn't clear if writes to a view or its base are to be tracked through it. A base that no name stands for
// shows itself in its views alone, as where a composed function gives a view of an op's result: they are followed.
bool hides_gradients(const Tensor& view) {
    if (view.autograd && view.autograd->of_function) return true;
    if (!is_unrecorded(view)) return false;
    if (view.base->pyobject) return true;
    return requires_grad(*view.base) && !is_outdated(view) && !(view.autograd && view.autograd->grad_fn);
}

// A view through which no gradient can be followed is written to, or what it shows was.
[[noreturn]] void refuse_view(const Tensor& view, bool is_written) {
    const char* done = is_written ? " is being modified inplace"
                                  : " and its base or another view of it has been modified inplace";
    if (view.autograd && view.autograd->of_function)
        fail(
            "An output of a custom Function is a view" + std::string(is_written ? " and" : "") + done +
            ". It was made inside of the Function, is an input that was returned as it is, or is one of several "
            "outputs, so that the gradient of the write would pass by the Function's backward. Clone the output of the "
            "Function.");
    fail(
        "A view was created in no_grad or inference mode" + std::string(is_written ? " and" : "") + done +
        " with grad mode enabled. It isn't clear whether the write should be tracked: move both the view and the write "
        "into the block of that mode, or both out of it.");
}

}  // namespace

Ref<GradNode> copy_slices(Tensor& view, Tensor& base, const Ref<GradNode>& inner) {
    Ref<GradNode> node(new GradNode);
    node->type = GradNode::Type::CopySlices;
    node->sequence = next_sequence();
    node->op = inner->op;
    node->edges.push_back(grad_edge(base));
    node->forward_only = inner->forward_only;
    node->unrecorded = inner->unrecorded;
    node->of_duals = inner->of_duals;
    node->write.reset(new WrittenView{inner, view.sizes, view.strides, base.sizes, base.strides,
                                      view.offset - start_of_base(view, base)});
    node->result_meta.push_back({base.sizes, base.dtype, home_of(base)});
    return node;
}

void check_written_view(const Tensor& view) {
    if (view.base && hides_gradients(view)) refuse_view(view, true);
}

void check_written(const Tensor& tensor) {
    check_written_view(tensor);
    if (begins_history(tensor)) fail("a leaf Variable that requires grad is being used in an in-place operation.");
    if (tensor.base && requires_grad(tensor) && is_leaf(*tensor.base) && !is_of_duals(*tensor.base))
        fail("a view of a leaf Variable that requires grad is being used in an in-place operation.");
}

// The base is a leaf that is a view, or was: then the tensor has the base of that one.
static void follow_base(Tensor& view) {
    (void)grad_fn(*view.base);
    while (view.base->base && !begins_history(*view.base)) view.base = view.base->base;
}

// The history of dual numbers, and of a leaf that was written to under no_grad while a derivative was taken that goes
// forward, ends with that.
[[gnu::cold]] static void leave_forward_mode(Tensor& tensor) {
    if (thread_settings.forward_mode) return;
    if (tensor.autograd->requires_grad) tensor.autograd->grad_fn.reset();
    else (void)requires_grad(tensor);
}

const Ref<GradNode>& grad_fn(Tensor& tensor) {
    static const Ref<GradNode> none;
    if (tensor.base && tensor.base->base) follow_base(tensor);
    if (tensor.base && is_outdated(tensor) &&
        ((tensor.autograd && tensor.autograd->grad_fn) || requires_grad(*tensor.base))) {
        if (hides_gradients(tensor)) refuse_view(tensor, false);
        set_history(tensor, history_of_view(tensor, *tensor.base), 0);
    }
    if (!tensor.autograd) return none;
    AutogradMeta& meta = *tensor.autograd;
    if (__builtin_expect(meta.grad_fn && meta.grad_fn->forward_only, 0)) leave_forward_mode(tensor);
    return meta.grad_fn;
}

void rebase_history(Tensor& tensor, const Ref<GradNode>& node, uint32_t index, size_t operand) {
    if (!tensor.base) return set_history(tensor, node, index);
    Tensor& base = *tensor.base;
    Ref<GradNode> written = copy_slices(tensor, base, node);
    written->write->view_operand = static_cast<uint32_t>(operand);
    for (size_t i = 0; i < node->edges.size(); ++i)
        if (i != operand) written->edges.push_back(node->edges[i]);
    if ((written->passes = written->forward_only)) written->edges.push_back(Edge(written->edges[0]));
    set_history(base, written, 0);
    (void)grad_edge(tensor);
}

}  // namespace mt
