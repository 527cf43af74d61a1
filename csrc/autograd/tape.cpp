#include "autograd/tape.h"

#include "core/error.h"
#include "dispatch/infer_elementwise.h"
#include "dispatch/out.h"
#include "dispatch/settings.h"

namespace mt {

void (*capture_source_hook)(SourceRef*) = nullptr;
MT_THREAD_LOCAL bool capture_sources = false;
MT_THREAD_LOCAL uint64_t call_mark = 0;
uint64_t (*begin_formula_hook)(uint64_t) = nullptr;
void (*end_formula_hook)(uint64_t) = nullptr;
MT_THREAD_LOCAL const SourceRef* source_override = nullptr;
MT_THREAD_LOCAL PyObject* saved_tensor_hooks = nullptr;
MT_THREAD_LOCAL const GradNode* current_node = nullptr;
MT_THREAD_LOCAL uint64_t own_nodes_from = 0;
MT_THREAD_LOCAL bool ran_earlier_node = false;
MT_THREAD_LOCAL const char* beyond_replay = nullptr;
Anomaly anomaly;

namespace {

uint64_t g_sequence = 0;

bool edge_wanted(const Tensor* t) { return t && (is_floating(t->dtype) || is_complex(t->dtype)) && requires_grad(*t); }

// What a thread is destroying, so that a long chain of owners doesn't recurse: the first one to die frees those that
// die with it, one after the other.
template <class T>
struct Dying {
    std::vector<T*> waiting;
    bool active = false;

    template <class Free>
    void destroy(T* dying, Free&& free) {
        waiting.push_back(dying);
        if (std::exchange(active, true)) return;
        while (!waiting.empty()) {
            T* next = waiting.back();
            waiting.pop_back();
            free(next);
        }
        active = false;
    }
};
thread_local Dying<AutogradMeta> t_dying_metas;
thread_local Dying<GradNode> t_dying_nodes;

void destroy_meta(AutogradMeta* meta) {
    // The graph may outlive the leaf; nobody can see its gradient any more.
    if (meta->accumulator) meta->accumulator->leaf = nullptr;
    t_dying_metas.destroy(meta, [](AutogradMeta* next) { delete next; });
}

// What the gradients that are wanted are computed from: bit 0 the result, bit 1 + i operand i.
template <class Wanted>
uint32_t formula_reads(const OpDef& op, Wanted&& wanted) {
    if (op.vjp_reads.empty()) return ~0u;
    uint32_t mask = 0;
    for (size_t i = 0; i < op.vjp_reads.size(); ++i)
        if (wanted(i)) mask |= op.vjp_reads[i];
    return mask;
}

bool saves_operand(const OpDef& op, size_t i, uint32_t reads) {
    size_t spec = i < op.vjp_saves_operand.size() ? i : op.vjp_saves_operand.size() - 1;  // a list saves alike
    return op.vjp_saves_operand[spec] && (op.vjp_reads.empty() || (reads >> (1 + i) & 1));
}

// The tensor as a node keeps it: a result without its history, or what the hooks make of it.
SavedTensor save(Tensor& value, bool is_output, uint32_t index) {
    SavedTensor saved;
    saved.version = version_of(value);
    saved.is_output = is_output;
    saved.index = index;
    Ref<Tensor> kept = is_output ? detach(value) : Ref<Tensor>::borrow(&value);
    if (!saved_tensor_hooks) {
        saved.tensor = std::move(kept);
        return saved;
    }
    if (!is_output) saved.edge = grad_edge(value);
    PyRef hooks = PyRef::borrow(saved_tensor_hooks);
    PyRef given(wrap_hook(std::move(kept)));
    if (!given) fail_python();
    bool enabled = std::exchange(thread_settings.grad_enabled, false);
    saved.packed = PyRef(PyObject_CallOneArg(PyTuple_GET_ITEM(hooks.get(), 0), given.get()));
    thread_settings.grad_enabled = enabled;
    if (!saved.packed) fail_python();
    if (version_of(value) != saved.version)
        fail("A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook can not "
             "be modified by in-place operations as this can lead to unexpected side-effects. Please open an issue if "
             "you need to perform in-place operations on the input to a pack hook.");
    saved.unpack = PyRef::borrow(PyTuple_GET_ITEM(hooks.get(), 1));
    return saved;
}

// The node of one call, its edges from `edges`. `before` has what in-place calls overwrote, per operand.
Ref<GradNode> make_node(const Call& call, std::vector<Edge> edges, const Ref<Tensor>* before = nullptr) {
    const OpDef& op = *call.op;
    Ref<GradNode> node(new GradNode);
    node->sequence = next_sequence();
    node->op = &op;
    node->edges = std::move(edges);
    uint32_t reads = formula_reads(op, [&](size_t k) { return static_cast<bool>(node->edges[k].node); });
    size_t n = call.operand_count;
    node->saved.resize(n);
    node->operand_meta.resize(n);
    node->scalars.resize(n);
    node->operand_kind.resize(n);
    for (size_t i = 0; i < n; ++i) {
        const Operand& operand = call.operands[i];
        if (!operand.tensor) {
            node->operand_kind[i] = operand.is_scalar ? 1 : 2;
            node->scalars[i] = operand.scalar;
            continue;
        }
        node->operand_meta[i] = {operand.tensor->sizes, operand.tensor->dtype, home_of(*operand.tensor)};
        if (op.kind == Kind::View) {
            node->operand_meta[i].strides = operand.tensor->strides;
            node->operand_meta[i].offset = operand.tensor->offset;
        } else if (op.kind == Kind::Contraction && operand.tensor->ndim() == 2) {
            node->operand_meta[i].strides = operand.tensor->strides;
        }
        if (saves_operand(op, i, reads)) {
            if (operand.tensor->is_inference)
                fail("Inference tensors cannot be saved for backward. Please do not use Tensors created in inference "
                     "mode in computation tracked by autograd. To work around this, you can make a clone to get a "
                     "normal tensor and use it in autograd, or use `torch.no_grad()` instead of "
                     "`torch.inference_mode()`.");
            Tensor* value = before && before[i] ? before[i].get() : operand.tensor;
            node->saved[i] = save(*value, false, 0);
            node->saves = true;
        }
    }
    node->params.assign(call.params, call.params + call.param_count);
    if (capture_sources && capture_source_hook) capture_source_hook(&node->source);
    node->mark = call_mark;
    if (anomaly.enabled) note_stack(*node);
    return node;
}

void save_outputs(GradNode& node, const Ref<Tensor>* results, size_t count) {
    if (!node.op->vjp_saves_out ||
        !(formula_reads(*node.op, [&](size_t i) { return static_cast<bool>(node.edges[i].node); }) & 1))
        return;
    for (size_t i = 0; i < count; ++i) node.outputs.push_back(save(*results[i], true, static_cast<uint32_t>(i)));
    node.saves = true;
}

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

// Where the base begins, in elements of the view.
int64_t start_of_base(const Tensor& view, const Tensor& base) {
    if (view.dtype == base.dtype) return base.offset;
    if (!are_parts(view.dtype, base.dtype) || (is_complex(view.dtype) && base.offset % 2))
        refuse_reinterpreted(view, base);
    return is_complex(base.dtype) ? base.offset * 2 : base.offset / 2;
}

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
    Ref<GradNode> node = make_node(call, {std::move(edge)});
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

// The node of a write, whose own one is `inner`, to a view: so far with the base's edge alone.
Ref<GradNode> copy_slices(Tensor& view, Tensor& base, const Ref<GradNode>& inner) {
    Ref<GradNode> node(new GradNode);
    node->type = GradNode::Type::CopySlices;
    node->sequence = next_sequence();
    node->op = inner->op;
    node->edges.push_back(grad_edge(base));
    node->inner = inner;
    node->view_sizes = view.sizes;
    node->view_strides = view.strides;
    node->view_offset = view.offset - start_of_base(view, base);
    node->base_sizes = base.sizes;
    node->base_strides = base.strides;
    node->result_meta.push_back({base.sizes, base.dtype, home_of(base)});
    return node;
}

// Where the gradients of a call's operands go: of one in place as they were before the write, which has been counted.
std::vector<Edge> edges_of(const Call& call, Tensor* written) {
    struct Before {
        uint32_t* version;
        explicit Before(Tensor* written) : version(written ? &version_of(*written) : nullptr) {
            if (version) --*version;
        }
        ~Before() {
            if (version) ++*version;
        }
    } before(written);
    std::vector<Edge> edges(call.operand_count);
    for (size_t i = 0; i < call.operand_count; ++i)
        if (edge_wanted(call.operands[i].tensor)) edges[i] = grad_edge(*call.operands[i].tensor);
    return edges;
}

// x += y where x is a view: the history of the base is rewritten, x's is made anew from it.
void record_on_view(Call& call, Tensor& view, const Ref<Tensor>* before) {
    Tensor& base = *view.base;
    (void)start_of_base(view, base);  // refuses what has none
    std::vector<Edge> edges = edges_of(call, &view);
    Ref<GradNode> inner = make_node(call, std::move(edges), before);
    inner->result_meta.push_back({view.sizes, view.dtype, home_of(view)});
    Ref<Tensor> written = Ref<Tensor>::borrow(&view);
    save_outputs(*inner, &written, 1);
    Ref<GradNode> node = copy_slices(view, base, inner);
    // Operand 0 is the old content of the view, whose history is the base's.
    for (size_t i = 1; i < inner->edges.size(); ++i) node->edges.push_back(inner->edges[i]);
    set_history(base, node, 0);
    (void)grad_edge(view);
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

uint32_t& own_version(const Tensor& tensor) {
    VersionCounter* counter = counter_of(tensor);
    return counter ? counter->value : tensor.storage->version;
}

void share_counter(const Tensor& source, Tensor& view) {
    if (__builtin_expect(counter_of(source) != nullptr, 0)) autograd_meta(view).counter = source.autograd->counter;
}

// A view knows its base, in every mode: a later write through either may bring a gradient, or show that none can be
// followed.
void note_base(Tensor& source, Tensor& view) {
    share_counter(source, view);
    const bool differentiable = is_floating(view.dtype) || is_complex(view.dtype);
    if (source.is_inference || (view.dtype != source.dtype && !differentiable)) return;
    view.base = source.base ? source.base : Ref<Tensor>::borrow(&source);
    note_history_made(view, version_of(view), !thread_settings.grad_enabled || (source.base && is_unrecorded(source)));
    if (__builtin_expect(source.autograd && source.autograd->of_function, 0)) autograd_meta(view).of_function = true;
}

void record(Call& call, Ref<Tensor>* results, Tensor* inplace) {
    bool wanted = false;
    for (size_t i = 0; i < call.operand_count; ++i) wanted |= edge_wanted(call.operands[i].tensor);
    const OpDef& op = *call.op;
    if (op.kind == Kind::View && !inplace && results[0].get() != call.operands[0].tensor)
        note_base(*call.operands[0].tensor, *results[0]);
    if (inplace) wanted |= edge_wanted(inplace);
    if (!wanted || !op.differentiable()) return;
    if (inplace && inplace->base) {
        record_on_view(call, *inplace, results);
        return;
    }
    std::vector<Edge> edges = edges_of(call, inplace);
    Ref<GradNode> node = make_node(call, std::move(edges), inplace ? results : nullptr);
    if (inplace) {
        node->result_meta.push_back({inplace->sizes, inplace->dtype, home_of(*inplace)});
        Ref<Tensor> written = Ref<Tensor>::borrow(inplace);
        save_outputs(*node, &written, 1);
        set_history(*inplace, node, 0);
        return;
    }
    for (size_t i = 0; i < call.result_count; ++i) {
        node->result_meta.push_back({results[i]->sizes, results[i]->dtype, home_of(*results[i])});
        if (is_floating(results[i]->dtype) || is_complex(results[i]->dtype))
            set_history(*results[i], node, static_cast<uint32_t>(i));
    }
    save_outputs(*node, results, call.result_count);
}

}  // namespace

void check_written_view(const Tensor& view) {
    if (view.base && hides_gradients(view)) refuse_view(view, true);
}

namespace {

TapedCall check_inplace(Call& call, Tensor& destination) {
    if (!thread_settings.records_gradients()) return {};
    if (destination.is_inference)
        fail("Inplace update to inference tensor outside InferenceMode is not allowed.You can make a clone to get a "
             "normal tensor "
             "before doing inplace update.");
    bool wanted = edge_wanted(&destination);
    for (size_t i = 0; i < call.operand_count; ++i) wanted |= edge_wanted(call.operands[i].tensor);
    if (wanted && destination.base) check_written_view(destination);
    bool leaf = destination.autograd && destination.autograd->requires_grad && !destination.autograd->grad_fn;
    if (leaf) fail("a leaf Variable that requires grad is being used in an in-place operation.");
    if (destination.base && requires_grad(destination) && is_leaf(*destination.base))
        fail("a view of a leaf Variable that requires grad is being used in an in-place operation.");
    if (!wanted || (!is_floating(destination.dtype) && !is_complex(destination.dtype))) return {};
    if (!call.op->differentiable())
        fail("in-place " + call.op->name + " on a tensor that requires grad: the op has no derivative");
    TapedCall result{true, 0};
    uint32_t reads = formula_reads(*call.op, [&](size_t i) { return edge_wanted(call.operands[i].tensor); });
    for (size_t i = 0; i < call.operand_count; ++i)
        if (call.operands[i].tensor && saves_operand(*call.op, i, reads)) result.reads |= 1u << i;
    return result;
}

void free_node(GradNode* node) {
    for (Hook& hook : node->hooks) Py_XDECREF(hook.callable);
    Py_XDECREF(node->metadata);
    Py_XDECREF(node->trace);
    Py_XDECREF(node->callable);
    Py_XDECREF(node->source.code);
    delete node;
}

}  // namespace

uint64_t next_sequence() { return ++g_sequence; }

void GradNode::destroy(GradNode* node) { t_dying_nodes.destroy(node, free_node); }

AutogradMeta& autograd_meta(Tensor& tensor) {
    if (!tensor.autograd) tensor.autograd = new AutogradMeta;
    return *tensor.autograd;
}

bool requires_grad(const Tensor& t) {
    if (t.autograd && (t.autograd->requires_grad || t.autograd->grad_fn)) return true;
    // A view whose base was written to by something that requires grad, or one made while nothing was recorded.
    return t.base && t.base->autograd && requires_grad(*t.base);
}

bool is_leaf(const Tensor& t) { return !grad_fn(const_cast<Tensor&>(t)); }

const Ref<GradNode>& grad_fn(Tensor& tensor) {
    static const Ref<GradNode> none;
    if (tensor.base && is_outdated(tensor) && requires_grad(*tensor.base)) {
        if (hides_gradients(tensor)) refuse_view(tensor, false);
        set_history(tensor, history_of_view(tensor, *tensor.base), 0);
    }
    return tensor.autograd ? tensor.autograd->grad_fn : none;
}

Edge grad_edge(Tensor& tensor) {
    if (const Ref<GradNode>& node = grad_fn(tensor)) return {node, tensor.autograd->output_index};
    if (!tensor.autograd || !tensor.autograd->requires_grad) return {};
    AutogradMeta& meta = *tensor.autograd;
    if (!meta.accumulator) {
        meta.accumulator = Ref<GradNode>(new GradNode);
        meta.accumulator->type = GradNode::Type::Accumulate;
        meta.accumulator->leaf = &tensor;
        meta.accumulator->sequence = UINT64_MAX;  // gradients are stored as soon as they are complete
        meta.accumulator->result_meta.push_back({tensor.sizes, tensor.dtype, home_of(tensor)});
    } else if (OperandMeta& known = meta.accumulator->result_meta[0];
               __builtin_expect(!(known.sizes == tensor.sizes) || known.dtype != tensor.dtype, 0)) {
        // The leaf was given other data. A graph of before goes on with what it was made of.
        if (meta.accumulator->refcount == 1u + (meta.accumulator->pyobject != nullptr))
            known = {tensor.sizes, tensor.dtype, home_of(tensor)};
    }
    return {meta.accumulator, 0};
}

void set_requires_grad(Tensor& tensor, bool value) {
    if (value && !is_floating(tensor.dtype) && !is_complex(tensor.dtype))
        fail("only Tensors of floating point and complex dtype can require gradients");
    if (value && tensor.is_inference && !thread_settings.inference_mode)
        fail("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    if (!value && tensor.autograd && tensor.autograd->grad_fn)
        fail("you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
             "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
    if (value || tensor.autograd) {
        AutogradMeta& meta = autograd_meta(tensor);
        if (!meta.grad_fn) meta.requires_grad = value;
        // A view that becomes a leaf begins a history of its own, in which its views are views of it.
        if (!meta.grad_fn && value) tensor.base.reset();
    }
}

void set_history(Tensor& tensor, Ref<GradNode> node, uint32_t index) {
    AutogradMeta& meta = autograd_meta(tensor);
    if (meta.retain_hook && meta.grad_fn) {
        // retain_grad stays with the tensor, whose gradient is another node's from now on.
        std::erase_if(meta.grad_fn->hooks, [&](Hook& hook) {
            bool same = hook.kind == Hook::Kind::Retain && hook.callable == meta.retain_hook;
            if (same) Py_DECREF(hook.callable);  // `retain_hook` has a count of its own
            return same;
        });
        node->hooks.push_back({Hook::Kind::Retain, index, Py_NewRef(meta.retain_hook)});
    }
    meta.grad_fn = std::move(node);
    meta.output_index = index;
    meta.requires_grad = false;
    note_history_made(tensor, version_of(tensor), is_unrecorded(tensor));
}

void rebase_history(Tensor& tensor, const Ref<GradNode>& node, uint32_t index, size_t operand) {
    if (!tensor.base) return set_history(tensor, node, index);
    Tensor& base = *tensor.base;
    Ref<GradNode> written = copy_slices(tensor, base, node);
    written->view_operand = static_cast<uint32_t>(operand);
    for (size_t i = 0; i < node->edges.size(); ++i)
        if (i != operand) written->edges.push_back(node->edges[i]);
    set_history(base, written, 0);
    (void)grad_edge(tensor);
}

Ref<Tensor> detach(const Tensor& tensor) {
    if (__builtin_expect(function_log != nullptr, 0)) function_log->touch(const_cast<Tensor&>(tensor));
    Ref<Tensor> result = Tensor::view(tensor, tensor.sizes, tensor.strides, tensor.offset);
    share_counter(tensor, *result);
    result->is_inference = tensor.is_inference;
    if (int level = batch_level(tensor)) {
        AutogradMeta& meta = autograd_meta(*result);
        meta.batch_level = level;
        meta.batch_value = tensor.autograd->batch_value;
    }
    return result;
}

Ref<Tensor> detach_deeply(const Tensor& tensor) {
    Ref<Tensor> result = detach(tensor);
    if (batch_level(*result)) result->autograd->batch_value = detach_deeply(*result->autograd->batch_value);
    return result;
}

void note_stack(GradNode& node) {
    PyRef text(PyObject_CallNoArgs(anomaly.stack));
    if (!text) fail_python();
    if (current_node && current_node->trace) {
        std::string name = node_name(*current_node);
        text = PyRef(PyUnicode_FromFormat(
            "%U\n\nPrevious calculation was induced by %s. Traceback of forward call that induced the previous "
            "calculation:\n%U",
            text.get(), name.c_str(), current_node->trace));
        if (!text) fail_python();
    }
    node.trace = text.release();
}

namespace {

// The tensor that `unpack` gave back for what `pack` made, with the history of the one that was saved.
Ref<Tensor> unpack_by_hook(GradNode& node, const SavedTensor& saved) {
    PyRef returned(PyObject_CallOneArg(saved.unpack.get(), saved.packed.get()));
    if (!returned) fail_python();
    Tensor* given = unwrap_hook(returned.get());
    if (!given)
        fail_type(std::string("Output of saved tensor unpack_hook expected to be a Tensor but got result of type ") +
                  Py_TYPE(returned.get())->tp_name);
    Ref<Tensor> result = detach(*given);
    if (!is_floating(result->dtype) && !is_complex(result->dtype)) return result;
    if (saved.is_output) set_history(*result, Ref<GradNode>::borrow(&node), saved.index);
    else if (saved.edge.node) set_history(*result, saved.edge.node, saved.edge.index);
    return result;
}

[[noreturn]] void refuse_modified(const GradNode& node, const SavedTensor& saved) {
    const Tensor& tensor = *saved.tensor;
    std::string made;
    if (saved.is_output) made = ", which is output " + std::to_string(saved.index) + " of " + node_name(node) + ",";
    else if (tensor.autograd && tensor.autograd->grad_fn)
        made = ", which is output " + std::to_string(tensor.autograd->output_index) + " of " +
               node_name(*tensor.autograd->grad_fn) + ",";
    std::string hint = anomaly.enabled
                           ? "the backtrace further above shows the operation that failed to compute its gradient. The "
                             "variable in question was changed in there or anywhere later. Good luck!"
                           : "enable anomaly detection to find the operation that failed to compute its gradient, with "
                             "minitensor.autograd.set_detect_anomaly(True).";
    fail("one of the variables needed for gradient computation has been modified by an inplace operation: "
         "[minitensor." +
         std::string(torch_type_name(tensor.dtype)) + "Tensor " + to_string(tensor.sizes) + "]" + made +
         " is at version " + std::to_string(version_of(tensor)) + "; expected version " +
         std::to_string(saved.version) + " instead. It was saved for " + node_name(node) + ". Hint: " + hint);
}

// What PyTorch calls the nodes of ops whose names differ from its own.
std::string_view special_name(const GradNode& node) {
    static constexpr std::pair<std::string_view, std::string_view> names[] = {
        {"cast", "ToCopyBackward0"}, {"copy", "CopyBackwards"},          {"max_dim", "MaxBackward0"},
        {"min_dim", "MinBackward0"}, {"amax", "AmaxBackward0"},          {"nll_loss", "NllLossBackward0"},
        {"fill", "FillBackward0"},   {"conj_physical", "ConjBackward0"}, {"_row_major", "CloneBackward0"},
    };
    for (auto [op, name] : names)
        if (node.op->name == op) return name;
    if (node.op->name == "matmul" && node.operand_meta.size() == 2) {
        // PyTorch's matmul is these; broadcast products are not one op there.
        size_t x = node.operand_meta[0].sizes.size(), y = node.operand_meta[1].sizes.size();
        if (x == 1 && y == 1) return "DotBackward0";
        if (x == 2 && y == 1) return "MvBackward0";
        if (x == 2 && y == 2) return "MmBackward0";
        if (x == 3 && y == 3) return "BmmBackward0";
    }
    return {};
}

// PyTorch numbers the overloads: 0 without dim, 1 with it.
bool is_dim_overload(const GradNode& node) {
    static constexpr std::string_view names[] = {"sum", "mean", "prod", "squeeze"};
    for (std::string_view name : names)
        if (node.op->name == name) return !node.params.empty() && !node.params[0].is_none();
    return false;
}

}  // namespace

std::string node_name(const GradNode& node) {
    if (node.type == GradNode::Type::Accumulate) return "AccumulateGrad";
    if (node.type == GradNode::Type::CopySlices) return "CopySlices";
    if (node.type == GradNode::Type::Python) {
        PyRef name(PyObject_GetAttrString(node.callable, "__name__"));
        const char* text = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
        if (text) return text;
        PyErr_Clear();
        return "PythonBackward";
    }
    if (std::string_view special = special_name(node); !special.empty()) return std::string(special);
    // log_softmax -> LogSoftmaxBackward0
    std::string name;
    bool upper = true;
    for (char c : node.op->name) {
        if (c == '_') {
            upper = true;
            continue;
        }
        name += upper && c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
        upper = false;
    }
    return name + (is_dim_overload(node) ? "Backward1" : "Backward0");
}

Ref<Tensor> unpack(GradNode& node, const SavedTensor& saved) {
    if (saved.packed) return unpack_by_hook(node, saved);
    Tensor& tensor = *saved.tensor;
    if (version_of(tensor) != saved.version) refuse_modified(node, saved);
    if (!saved.is_output) return saved.tensor;
    Ref<Tensor> result = detach(tensor);
    if (is_floating(result->dtype) || is_complex(result->dtype))
        set_history(*result, Ref<GradNode>::borrow(&node), saved.index);
    return result;
}

void log_gradient_use(Tensor& owner, bool read) {
    FunctionLog& log = *function_log;
    if (owner.made_in >= log.number || !log.known_owners.insert(&owner).second) return;
    log.gradients.push_back({Ref<Tensor>::borrow(&owner), owner.autograd ? owner.autograd->grad : Ref<Tensor>(), read});
}

void install_tape() {
    tape_hook = record;
    view_hook = note_base;
    version_hook = own_version;
    requires_grad_hook = requires_grad;
    check_inplace_hook = check_inplace;
    autograd_meta_destroy_hook = destroy_meta;
}

}  // namespace mt
