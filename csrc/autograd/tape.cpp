#include "autograd/tape.h"

#include <algorithm>

#include "autograd/node_hooks.h"
#include "autograd/saved_tensor.h"
#include "autograd/view_history.h"
#include "core/error.h"
#include "dispatch/infer/elementwise.h"
#include "dispatch/out.h"
#include "dispatch/thread_local_state.h"

namespace mt {

void (*capture_source_callback)(SourceRef*) = nullptr;
MT_THREAD_LOCAL bool capture_sources = false;
MT_THREAD_LOCAL uint64_t call_mark = 0;
uint64_t (*begin_formula_callback)(uint64_t) = nullptr;
void (*end_formula_callback)(uint64_t) = nullptr;
MT_THREAD_LOCAL const SourceRef* source_override = nullptr;
MT_THREAD_LOCAL PyObject* saved_tensor_hooks = nullptr;
MT_THREAD_LOCAL const GradNode* current_node = nullptr;
MT_THREAD_LOCAL uint64_t own_nodes_from = 0;
MT_THREAD_LOCAL bool ran_earlier_node = false;
MT_THREAD_LOCAL bool duals_are_variables = false;
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
MT_THREAD_LOCAL Dying<AutogradMeta> t_dying_metas;
MT_THREAD_LOCAL Dying<GradNode> t_dying_nodes;

void destroy_meta(AutogradMeta* meta) {
    // The graph may outlive the leaf; nobody can see its gradient any more.
    if (meta->accumulator && !meta->stands_for_leaf) meta->accumulator->leaf = nullptr;
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

void check_saved(const Tensor& tensor) {
    // What a transform records is its own; only what it gives may be differentiated again.
    if (__builtin_expect(tensor.is_inference, 0) && !transform)
        fail(
            "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in "
            "computation tracked by autograd. To work around this, you can make a clone to get a normal tensor and use "
            "it in autograd, or use `no_grad()` instead of `inference_mode()`.");
}

}  // namespace

Ref<GradNode> begin_node(const Call& call) {
    Ref<GradNode> node(new GradNode);
    node->op = call.op;
    node->reserve_inline(node->edges, call.operand_count).resize(call.operand_count);
    return node;
}

void finish_node(GradNode& node, const Call& call, const Ref<Tensor>* before) {
    const OpDef& op = *node.op;
    node.sequence = next_sequence();
    if (__builtin_expect(thread_settings.forward_mode || thread_settings.forward_only, 0)) note_direction(node);
    uint32_t reads = formula_reads(op, [&](size_t k) { return static_cast<bool>(node.edges[k].node); });
    const size_t n = call.operand_count;
    node.reserve_inline(node.saved, n).resize(n);
    node.reserve_inline(node.operand_meta, n);
    node.reserve_inline(node.operand_kind, n);
    const bool is_view = op.kind == Kind::View;
    if (is_view || op.kind == Kind::Contraction) node.layouts.resize(n);
    for (size_t i = 0; i < n; ++i) {
        const Operand& operand = call.operands[i];
        if (!operand.tensor) {
            node.operand_kind.emplace_back(uint8_t{operand.is_scalar ? uint8_t{1} : uint8_t{2}});
            node.operand_meta.emplace_back();
            if (!operand.is_scalar) continue;
            if (node.scalars.empty()) node.reserve_inline(node.scalars, n).resize(n);
            node.scalars[i] = operand.scalar;
            continue;
        }
        const Tensor& tensor = *operand.tensor;
        node.operand_kind.emplace_back(uint8_t{0});
        node.operand_meta.emplace_back(tensor.sizes, tensor.dtype, home_of(tensor));
        if (is_view) node.layouts[i] = {tensor.strides, tensor.offset};
        else if (!node.layouts.empty() && tensor.ndim() == 2) node.layouts[i].strides = tensor.strides;
        if (!saves_operand(op, i, reads)) continue;
        check_saved(tensor);
        node.saved[i] = save(before && before[i] ? *before[i] : *operand.tensor, false, 0);
        node.saves = true;
    }
    if (call.param_count)
        node.reserve_inline(node.params, call.param_count).assign(call.params, call.params + call.param_count);
    if (capture_sources && capture_source_callback) capture_source_callback(&node.source);
    node.mark = call_mark;
    if (anomaly.enabled) note_stack(node);
}

namespace {

void save_outputs(GradNode& node, const Ref<Tensor>* results, size_t count) {
    if (node.op->vjp_saves_out == OpDef::Reads::Nothing ||
        !(formula_reads(*node.op, [&](size_t i) { return static_cast<bool>(node.edges[i].node); }) & 1))
        return;
    const bool all = node.op->vjp_saves_out == OpDef::Reads::All;
    node.reserve_inline(node.outputs, count);
    for (size_t i = 0; i < count; ++i)
        node.outputs.push_back(
            all || !is_floating(results[i]->dtype) ? save(*results[i], true, static_cast<uint32_t>(i)) : SavedTensor());
    node.saves = true;
}

// As before a write in place, which has been counted.
struct Before {
    uint32_t* version;
    explicit Before(Tensor* written) : version(written ? &version_of(*written) : nullptr) {
        if (version) --*version;
    }
    ~Before() {
        if (version) ++*version;
    }
    Before(const Before&) = delete;
};

// Where the gradients of a call's operands go: of one in place as they were before the write.
void set_edges(GradNode& node, const Call& call, Tensor* written) {
    Before before(written);
    for (size_t i = 0; i < call.operand_count; ++i)
        if (edge_wanted(call.operands[i].tensor)) node.edges[i] = grad_edge(*call.operands[i].tensor);
}

// Where a gradient goes that passes by the write.
[[gnu::cold]] Edge edge_past(Tensor& written) {
    Before before(&written);
    return edge_wanted(&written) ? grad_edge(written) : Edge{};
}

// An operand of the written storage that no element of is written is kept with the history from before the write: what
// a view has afterwards runs through the node itself, which would own itself.
void keep_apart(const GradNode& node, const Call& call, const Tensor& written, Ref<Tensor>* before) {
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Tensor* t = call.operands[i].tensor;
        if (!t || before[i] || !node.edges[i].node || t->storage.get() != written.storage.get()) continue;
        if (!t->base && t != &written) continue;
        before[i] = detach(*t);
        set_history(*before[i], node.edges[i].node, node.edges[i].index);
    }
}

// x += y where x is a view: the history of the base is rewritten, x's is made anew from it.
void record_on_view(Call& call, Tensor& view, Ref<Tensor>* before) {
    Tensor& base = *view.base;
    (void)start_of_base(view, base);  // refuses what has none
    Ref<GradNode> inner = begin_node(call);
    set_edges(*inner, call, &view);
    keep_apart(*inner, call, view, before);
    finish_node(*inner, call, before);
    inner->result_meta.push_back({view.sizes, view.dtype, home_of(view)});
    Ref<Tensor> written = Ref<Tensor>::borrow(&view);
    save_outputs(*inner, &written, 1);
    Ref<GradNode> node = copy_slices(view, base, inner);
    // Operand 0 is the old content of the view, whose history is the base's.
    for (size_t i = 1; i < inner->edges.size(); ++i) node->edges.push_back(inner->edges[i]);
    if ((node->passes = node->forward_only)) node->edges.push_back(Edge(node->edges[0]));
    set_history(base, node, 0);
    (void)grad_edge(view);
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
    if (source.is_inference) return;
    share_counter(source, view);
    const bool differentiable = is_floating(view.dtype) || is_complex(view.dtype);
    if ((view.dtype != source.dtype && !differentiable)) return;
    const bool root = source.base && !thread_settings.grad_enabled;  // nothing begins where nothing is recorded
    view.base = root ? source.base : base_of_views(source);
    note_history_made(view, version_of(view), !thread_settings.grad_enabled || (source.base && is_unrecorded(source)));
    if (__builtin_expect(source.autograd && source.autograd->of_function, 0)) autograd_meta(view).of_function = true;
}

// Whether all tensors are of inference mode, about which autograd isn't asked, even where one wants a gradient. Those
// that numbers are made to are not.
bool only_inference(const Call& call) {
    static const OpDef *clone = find_op("clone"), *cast = find_op("cast");
    if (call.op == clone || call.op == cast) return false;  // that make a normal tensor of it
    bool any = false;
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Operand& operand = call.operands[i];
        if (operand.tensor ? !operand.tensor->is_inference : operand.is_scalar && call.op->numbers_as_tensors)
            return false;
        any |= operand.tensor != nullptr;
    }
    return any;
}

void record(Call& call, Ref<Tensor>* results, Tensor* inplace);

// A write by an op without a derivative, random numbers or whether elements are equal: as that of a number.
void record_overwritten(Tensor& written, Ref<Tensor>* results) {
    static const OpDef* fill = find_op("fill");
    Operand operand;
    operand.tensor = &written;
    Value zero = Value::of(Scalar::of(0.0));
    Call call(ambient());
    call.op = fill;
    call.operands = &operand;
    call.operand_count = 1;
    call.params = &zero;
    call.param_count = 1;
    record(call, results, &written);
}

void record(Call& call, Ref<Tensor>* results, Tensor* inplace) {
    bool wanted = false;
    for (size_t i = 0; i < call.operand_count; ++i) wanted |= edge_wanted(call.operands[i].tensor);
    const OpDef& op = *call.op;
    if (op.kind == Kind::View && !inplace && results[0].get() != call.operands[0].tensor) {
        if (op.differentiable()) note_base(*call.operands[0].tensor, *results[0]);
        else if (!results[0]->is_inference) share_counter(*call.operands[0].tensor, *results[0]);
    }
    if (inplace) wanted |= edge_wanted(inplace);
    if (wanted && inplace && !op.differentiable()) return record_overwritten(*inplace, results);
    if (!wanted || !op.differentiable()) return;
    if (__builtin_expect(only_inference(call), 0)) return;
    if (inplace && inplace->base) {
        record_on_view(call, *inplace, results);
        return;
    }
    Ref<GradNode> node = begin_node(call);
    set_edges(*node, call, inplace);
    if (inplace) keep_apart(*node, call, *inplace, results);
    if (__builtin_expect(inplace && (thread_settings.forward_mode || thread_settings.forward_only), 0)) {
        note_direction(*node);
        if (node->forward_only) node->edges.push_back(edge_past(*inplace));
    }
    finish_node(*node, call, inplace ? results : nullptr);
    if (inplace) {
        node->passes = node->forward_only;
        node->result_meta.push_back({inplace->sizes, inplace->dtype, home_of(*inplace)});
        Ref<Tensor> written = Ref<Tensor>::borrow(inplace);
        save_outputs(*node, &written, 1);
        set_history(*inplace, node, 0);
        return;
    }
    node->reserve_inline(node->result_meta, call.result_count);
    for (size_t i = 0; i < call.result_count; ++i) {
        node->result_meta.emplace_back(results[i]->sizes, results[i]->dtype, home_of(*results[i]));
        if (is_floating(results[i]->dtype) || is_complex(results[i]->dtype))
            set_history(*results[i], node, static_cast<uint32_t>(i));
    }
    save_outputs(*node, results, call.result_count);
}

}  // namespace

MT_THREAD_LOCAL Transform* transform = nullptr;

void begin_transform(std::vector<Ref<Tensor>> given) {
    // Also what is behind mapped tensors.
    for (size_t i = 0; i < given.size(); ++i)
        if (batch_level(*given[i])) given.push_back(given[i]->autograd->batch_value);
    const uint32_t began = functions_begun.fetch_add(1, std::memory_order_relaxed) + 1;
    transform = new Transform{began, std::move(given), std::unique_ptr<Transform>(transform)};
}

void end_transform() {
    std::unique_ptr<Transform> ending(transform);
    if (ending) transform = ending->around.release();
}

int transform_depth() {
    int depth = 0;
    for (const Transform* at = transform; at; at = at->around.get()) ++depth;
    return depth;
}

namespace {

void check_captured(const OpDef& op, const Tensor& written) {
    auto is_given = [](const Tensor& tensor) {
        return std::any_of(transform->given.begin(), transform->given.end(),
                           [&](const Ref<Tensor>& given) { return given.get() == &tensor; });
    };
    for (const Tensor* at = &written; at; at = at->base.get()) {
        if (is_given(*at)) return;
        if (at->made_in < transform->began)
            fail("a function that a transform (grad, vjp, jvp, ...) is called with may not write to a tensor that it "
                 "captured, as '" +
                 op.name + "_' in place would: pass the tensor to it as an argument");
    }
}

}  // namespace

void check_inference(const Tensor& written) {
    // Those with a count of their own, as `.data` gives, are written anywhere.
    if (__builtin_expect(written.is_inference, 0) && !thread_settings.inference_mode && !counter_of(written))
        fail("Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a "
             "normal tensor before doing inplace update.");
}

namespace {

TapedCall check_inplace(Call& call, Tensor& destination) {
    check_inference(destination);
    if (__builtin_expect(thread_settings.forward_mode, 0)) keep_saved(destination);
    if (__builtin_expect(transform != nullptr, 0)) check_captured(*call.op, destination);
    if (__builtin_expect(destination.is_inference, 0) && only_inference(call)) return {};
    if (!thread_settings.records_gradients()) return {};
    bool wanted = edge_wanted(&destination);
    for (size_t i = 0; i < call.operand_count; ++i) wanted |= edge_wanted(call.operands[i].tensor);
    if (wanted && !thread_settings.forward_only) check_written(destination);
    // What refuses to be differentiated does so before anything is written.
    for (size_t i = 0; wanted && i < call.operand_count; ++i)
        if (Tensor* t = call.operands[i].tensor; t && t->base && is_outdated(*t)) (void)grad_fn(*t);
    if (!wanted || (!is_floating(destination.dtype) && !is_complex(destination.dtype))) return {};
    TapedCall result{true, 0};
    if (!call.op->differentiable()) return result;
    uint32_t reads = formula_reads(*call.op, [&](size_t i) { return edge_wanted(call.operands[i].tensor); });
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Tensor* operand = call.operands[i].tensor;
        if (!operand || !saves_operand(*call.op, i, reads)) continue;
        check_saved(*operand);
        result.reads |= 1u << i;
    }
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
uint64_t latest_sequence() { return g_sequence; }

void GradNode::destroy(GradNode* node) { t_dying_nodes.destroy(node, free_node); }

AutogradMeta& autograd_meta(Tensor& tensor) {
    if (!tensor.autograd) tensor.autograd = new AutogradMeta;
    return *tensor.autograd;
}

// What was recorded of dual numbers ends with their level.
[[gnu::cold]] static void end_history_of_duals(AutogradMeta& meta) {
    const Edge edge = backward_edge({meta.grad_fn, meta.output_index});
    const bool leaf = !edge.node || edge.node->type == GradNode::Type::Accumulate;
    meta.grad_fn = leaf ? Ref<GradNode>() : edge.node;
    meta.output_index = leaf ? 0 : edge.index;
}

bool requires_grad(const Tensor& t) {
    if (t.autograd) {
        AutogradMeta& meta = *t.autograd;
        if (meta.grad_fn) {
            if (__builtin_expect(!meta.grad_fn->of_duals || thread_settings.forward_mode, 1)) return true;
            end_history_of_duals(meta);
            if (meta.grad_fn) return true;
        }
        if (meta.requires_grad) return true;
    }
    // A view whose base was written to by something that requires grad, or one made while nothing was recorded.
    return t.base && t.base->autograd && requires_grad(*t.base);
}

bool is_leaf(const Tensor& t) {
    const Ref<GradNode>& node = grad_fn(const_cast<Tensor&>(t));
    if (!node || !node->forward_only) return !node;
    const Edge edge = backward_edge({node, 0});
    return !edge.node || edge.node->type == GradNode::Type::Accumulate;
}

Ref<Tensor> leaf_of(GradNode& node) {
    if (!node.kept_leaf) return node.leaf ? Ref<Tensor>::borrow(node.leaf) : Ref<Tensor>();
    Ref<Tensor> leaf = std::move(node.kept_leaf);
    node.leaf = leaf.get();
    autograd_meta(*leaf).accumulator = Ref<GradNode>::borrow(&node);
    return leaf;
}

namespace {

// Whether the graph takes over a leaf whose last owner is gone, since a hook is to be called with it.
bool keep_leaf(Tensor& tensor) {
    GradNode* node = tensor.autograd->accumulator.get();
    if (!node || node->refcount == 1 || grad_fn(tensor) ||
        std::none_of(node->hooks.begin(), node->hooks.end(),
                     [](const Hook& hook) { return hook.kind == Hook::Kind::PostAccumulate; }))
        return false;
    tensor.refcount = 1;
    node->leaf = nullptr;
    node->kept_leaf = Ref<Tensor>(&tensor);
    tensor.autograd->accumulator.reset();
    return true;
}

}  // namespace

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

Edge backward_edge(Edge edge) {
    while (edge.node && edge.node->forward_only) {
        Edge next = edge.node->passes ? edge.node->edges.back() : Edge{};
        edge = std::move(next);
    }
    return edge;
}

void note_direction(GradNode& node) {
    node.unrecorded = thread_settings.forward_only;
    bool any = false, all = true;
    for (const Edge& edge : node.edges) {
        if (!edge.node) continue;
        any = true;
        all &= edge.node->of_duals;
    }
    node.of_duals = any && all && !duals_are_variables;
    node.forward_only = node.unrecorded || node.of_duals;
}

bool requires_backward(Tensor& tensor) {
    if (!requires_grad(tensor)) return false;
    const bool marked = tensor.autograd && tensor.autograd->grad_fn && tensor.autograd->grad_fn->forward_only;
    return !(marked || thread_settings.forward_mode) || backward_edge(grad_edge(tensor)).node;
}

void set_requires_grad(Tensor& tensor, bool value) {
    if (value && !is_floating(tensor.dtype) && !is_complex(tensor.dtype))
        fail("only Tensors of floating point and complex dtype can require gradients");
    if (value && tensor.is_inference && !thread_settings.inference_mode)
        fail("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.");
    if (!value && tensor.autograd && tensor.autograd->grad_fn && !is_leaf(tensor))
        fail("you can only change requires_grad flags of leaf variables. If you want to use a computed variable in a "
             "subgraph that doesn't require differentiation use var_no_grad = var.detach().");
    if (value && is_of_duals(tensor))
        throw Error(ErrorKind::NotImplemented,
                    "what is computed of dual numbers can't be a leaf that requires grad: make one of `detach()`");
    if (value || tensor.autograd) {
        AutogradMeta& meta = autograd_meta(tensor);
        if (!meta.grad_fn) meta.requires_grad = value;
        // A leaf that was written to while a derivative was taken that goes forward.
        else if (!value && meta.grad_fn->passes) meta.grad_fn->edges.back() = {};
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
    meta.requires_grad &= node->passes;  // still a leaf to what goes backward
    meta.grad_fn = std::move(node);
    meta.output_index = index;
    note_history_made(tensor, version_of(tensor), is_unrecorded(tensor));
}

Ref<Tensor> detach(const Tensor& tensor) {
    if (__builtin_expect(function_log != nullptr, 0)) function_log->touch(const_cast<Tensor&>(tensor));
    Ref<Tensor> result = Tensor::view(tensor, tensor.sizes, tensor.strides, tensor.offset);
    share_counter(tensor, *result);
    result->is_inference = tensor.is_inference;
    if (__builtin_expect(tensor.is_inference, 0) && !thread_settings.inference_mode && !counter_of(*result))
        autograd_meta(*result).counter = VersionCounter::from(0);
    if (int level = batch_level(tensor)) {
        AutogradMeta& meta = autograd_meta(*result);
        meta.batch_level = level;
        meta.batch_value = tensor.autograd->batch_value;
    }
    return result;
}

void detach_in_place(Tensor& tensor) {
    AutogradMeta& meta = *tensor.autograd;
    const Ref<GradNode> before = std::move(meta.grad_fn);
    meta.grad_fn.reset();
    if (before)
        for (const Hook& hook : before->hooks)
            if (hook.kind == Hook::Kind::Tensor && hook.index == meta.output_index) {
                meta.requires_grad = true;
                grad_edge(tensor).node->hooks.push_back(
                    {hook.kind, 0, Py_NewRef(hook.callable), hook.in_programs, true});
            }
    meta.requires_grad = false;
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

void log_gradient_use(Tensor& owner, bool read) {
    FunctionLog& log = *function_log;
    if (owner.made_in >= log.number || !log.known_owners.insert(&owner).second) return;
    log.gradients.push_back({Ref<Tensor>::borrow(&owner), owner.autograd ? owner.autograd->grad : Ref<Tensor>(), read});
}

void install_tape() {
    tape_callback = record;
    view_callback = note_base;
    version_callback = own_version;
    requires_grad_callback = requires_grad;
    check_inplace_callback = check_inplace;
    check_inference_callback = check_inference;
    autograd_meta_destroy_callback = destroy_meta;
    keep_leaf_callback = keep_leaf;
}

}  // namespace mt
