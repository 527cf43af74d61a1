#include "autograd/engine.h"

#include <algorithm>
#include <queue>
#include <unordered_map>
#include <unordered_set>

#include "autograd/node_hooks.h"
#include "core/error.h"
#include "dispatch/jit_device.h"
#include "dispatch/memory_order.h"
#include "dispatch/python.h"

namespace mt {

void (*grad_stored_hook)(Tensor&) = nullptr;

namespace {

class GradMode {
  public:
    explicit GradMode(bool enabled) : previous_(grad_enabled) { grad_enabled = enabled; }
    ~GradMode() { grad_enabled = previous_; }

  private:
    bool previous_;
};

// What a formula records has the source of the forward call it belongs to.
class FormulaScope {
  public:
    explicit FormulaScope(const GradNode& node) : previous_source_(source_override), previous_node_(current_node) {
        if (node.source.code) source_override = &node.source;
        current_node = &node;
        if (__builtin_expect((marked_ = node.mark != 0), 0)) mark_ = begin_formula_hook(node.mark);
    }
    ~FormulaScope() {
        if (marked_) end_formula_hook(mark_);
        source_override = previous_source_;
        current_node = previous_node_;
    }

  private:
    const SourceRef* previous_source_;
    const GradNode* previous_node_;
    uint64_t mark_ = 0;
    bool marked_;
};

const OpDef& op_named(const char* name) {
    OpDef* op = find_op(name);
    if (!op) fail(std::string("op '") + name + "' is not defined");
    return *op;
}

Value bool_value(bool b) {
    Value v;
    v.tag = Value::Bool;
    v.i = b;
    return v;
}

Value dtype_value(DType dtype) {
    Value v;
    v.tag = Value::Type;
    v.dtype = dtype;
    return v;
}

Ref<Tensor> full_of(const OperandMeta& meta, int64_t value) {
    Value device;
    device.tag = Value::Dev;
    device.device = meta.device;
    return call_op(op_named("full"), {}, {value_of(meta.sizes), value_of(value), dtype_value(meta.dtype), device});
}

void accumulate(Ref<Tensor>& into, Ref<Tensor> gradient) {
    if (!into) into = std::move(gradient);
    else into = call_op(op_named("add"), {into.get(), gradient.get()});
}

// What Python's formula (or a custom function's backward) returned: one tensor, None, or a tuple of these. A formula
// may also give functions, which are called for those gradients that somebody wants.
Gradients collect(PyObject* returned, const GradNode& node, size_t expected) {
    Gradients result(expected);
    if (PyTuple_Check(returned) || PyList_Check(returned)) {
        PyRef sequence(PySequence_Fast(returned, "gradients"));
        auto count = static_cast<size_t>(PySequence_Fast_GET_SIZE(sequence.get()));
        if (count < expected)
            fail("'" + (node.op ? node.op->name : std::string("function")) +
                 "' returned an incorrect number of gradients (expected " + std::to_string(expected) + ", got " +
                 std::to_string(count) + ")");
        for (size_t i = 0; i < expected; ++i) {
            PyObject* item = PySequence_Fast_GET_ITEM(sequence.get(), static_cast<Py_ssize_t>(i));
            PyRef computed;
            if (node.type != GradNode::Type::Python && PyFunction_Check(item)) {
                if (!node.edges[i].node) continue;
                computed = PyRef(PyObject_CallNoArgs(item));
                if (!computed) fail_python();
                item = computed.get();
            }
            result[i] = tensor_from(item, node, i);
        }
    } else {
        if (expected) result[0] = tensor_from(returned, node, 0);
    }
    return result;
}

// A tensor that has only a shape and a dtype, for formulas that read no values.
Ref<Tensor> shape_only(const OperandMeta& meta) {
    static Ref<Storage> nothing = Storage::unbacked(0, Device{DeviceType::Meta, -1});
    return Tensor::make(nothing, meta.dtype, meta.sizes,
                        meta.strides.size() == meta.sizes.size() ? meta.strides : contiguous_strides(meta.sizes),
                        meta.offset);
}

// What the formula gets as `out`: the result, all of them as a tuple, or None if it reads none.
PyRef saved_outputs(GradNode& node) {
    if (node.outputs.empty()) return PyRef::borrow(Py_None);
    if (node.outputs.size() == 1) return wrapped(unpack(node, node.outputs[0]));
    Gradients values;
    for (const SavedTensor& saved : node.outputs) values.push_back(unpack(node, saved));
    return tuple_of(values, values.size());
}

Gradients apply_op(GradNode& node, Gradients& gradients) {
    if (node.released && node.saves)
        fail("Trying to backward through the graph a second time (or directly access saved tensors after they have "
             "already "
             "been freed). Saved intermediate values of the graph are freed when you call .backward() or "
             "autograd.grad(). "
             "Specify retain_graph=True if you need to backward through the graph a second time (op '" +
             node.op->name + "').");
    const OpDef& op = *node.op;
    std::vector<PyRef> arguments;
    if (node.result_meta.size() == 1) arguments.push_back(wrapped(gradients[0]));
    else arguments.push_back(tuple_of(gradients, node.result_meta.size()));
    arguments.push_back(saved_outputs(node));
    size_t n = node.operand_kind.size();
    bool list = op.operand_list;
    PyRef operand_list(list ? PyList_New(0) : nullptr);
    for (size_t i = 0; i < n; ++i) {
        PyRef value;
        if (node.operand_kind[i] == 1) value = PyRef(scalar_to_python(node.scalars[i]));
        else if (node.operand_kind[i] == 2) value = PyRef::borrow(Py_None);
        else if (node.saved[i].held()) value = PyRef(wrap_hook(unpack(node, node.saved[i])));
        else value = PyRef(wrap_hook(shape_only(node.operand_meta[i])));
        if (!value) fail_python();
        if (list) {
            if (PyList_Append(operand_list.get(), value.get()) < 0) fail_python();
        } else arguments.push_back(std::move(value));
    }
    if (list) arguments.push_back(std::move(operand_list));
    for (const Value& param : node.params) arguments.emplace_back(value_to_python_hook(param));
    std::vector<PyObject*> raw;
    for (PyRef& argument : arguments) {
        if (!argument) fail_python();
        raw.push_back(argument.get());
    }
    FormulaScope scope(node);
    PyRef returned(PyObject_Vectorcall(op.vjp, raw.data(), raw.size(), nullptr));
    if (!returned) fail_python();
    Gradients result = collect(returned.get(), node, n);
    for (size_t i = 0; i < n; ++i) {
        if (!result[i]) continue;
        if (!node.edges[i].node) result[i].reset();
        else result[i] = reduce_to_operand(std::move(result[i]), node.operand_meta[i]);
    }
    return result;
}

// The same memory as numbers of another type: parts of complex numbers, or complex numbers of parts.
Ref<Tensor> seen_as(Ref<Tensor> tensor, DType dtype) {
    if (tensor->dtype == dtype) return tensor;
    if (is_complex(tensor->dtype)) return call_op(op_named("view_as_real"), {tensor.get()});
    auto [low, high] = element_span(tensor->sizes, tensor->strides, tensor->offset);
    Ref<Tensor> pairs = call_op(op_named("as_strided"), {tensor.get()},
                                {value_of(Dims{(high - low) / 2, 2}), value_of(Dims{2, 1}), value_of(low)});
    return call_op(op_named("view_as_complex"), {pairs.get()});
}

Gradients apply_copy_slices(GradNode& node, Gradients& gradients) {
    const OpDef &clone = op_named("_row_major"), &as_strided = op_named("as_strided"), &copy = op_named("copy"),
                &fill = op_named("fill");
    Ref<Tensor> base_gradient;
    if (is_contiguous(node.base_sizes, node.base_strides)) {
        base_gradient = call_op(clone, {gradients[0].get()});
    } else {
        // The view's strides are those of the base's memory: lay the gradient out likewise.
        auto [low, high] = element_span(node.base_sizes, node.base_strides, 0);
        Ref<Tensor> memory = full_of({Dims{high - low}, gradients[0]->dtype, home_of(*gradients[0])}, 0);
        if (batch_level(*gradients[0])) {
            // One for each slice, as the gradient is mapped.
            Ref<Tensor> always = full_of({Dims{}, DType::Bool, home_of(*gradients[0])}, 1);
            Ref<Tensor> any = call_op(as_strided, {gradients[0].get()},
                                      {value_of(Dims{}), value_of(Dims{}), value_of(gradients[0]->offset)});
            memory = call_op(op_named("where"), {always.get(), memory.get(), any.get()});
        }
        base_gradient = call_op(as_strided, {memory.get()},
                                {value_of(node.base_sizes), value_of(node.base_strides), value_of(-low)});
        Operand self, other;
        self.tensor = base_gradient.get();
        other.tensor = gradients[0].get();
        call_op_inplace(copy, *base_gradient, {self, other});
    }
    Ref<Tensor> seen = seen_as(base_gradient, node.inner->result_meta[0].dtype);
    Ref<Tensor> region = call_op(
        as_strided, {seen.get()},
        {value_of(node.view_sizes), value_of(node.view_strides), value_of(node.view_offset + seen->offset)});
    Gradients inner_gradients{call_op(clone, {region.get()})};
    Gradients inner = apply_op(*node.inner, inner_gradients);
    Operand destination, source;
    destination.tensor = region.get();
    if (!inner.empty() && inner[0]) {
        source.tensor = inner[0].get();
        call_op_inplace(copy, *region, {destination, source});
    } else {
        call_op_inplace(fill, *region, {destination}, {value_of(int64_t{0})});
    }
    Gradients result{std::move(base_gradient)};
    for (size_t i = 1; i < inner.size(); ++i) result.push_back(std::move(inner[i]));
    return result;
}

bool expands_to(const Dims& from, const Dims& to) {
    if (from.size() > to.size()) return false;
    size_t lead = to.size() - from.size();
    for (size_t i = 0; i < from.size(); ++i)
        if (from[i] != 1 && from[i] != to[lead + i]) return false;
    return true;
}

Gradients apply_python(GradNode& node, Gradients& gradients) {
    PyRef tuple = tuple_of(gradients, gradients.size());
    PyRef callable = PyRef::borrow(node.callable);
    FormulaScope scope(node);
    PyRef returned(PyObject_Call(callable.get(), tuple.get(), nullptr));
    if (!returned) fail_python();
    Gradients result = collect(returned.get(), node, node.edges.size());
    for (size_t i = 0; i < result.size(); ++i) {
        const Edge& edge = node.edges[i];
        if (!result[i] || !edge.node || edge.index >= edge.node->result_meta.size()) continue;
        const OperandMeta& meta = edge.node->result_meta[edge.index];
        if (!(result[i]->sizes == meta.sizes) && !expands_to(meta.sizes, result[i]->sizes))
            fail("Function " + node_name(node) + " returned an invalid gradient at index " + std::to_string(i) +
                 " - got " + to_string(result[i]->sizes) + " but expected shape compatible with " +
                 to_string(meta.sizes));
        result[i] = reduce_to_operand(std::move(result[i]), meta);
    }
    return result;
}

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

void store_gradient(GradNode& node, Ref<Tensor> gradient, bool create_graph) {
    if (!node.leaf) return;
    // Threads that run backward at the same time add to the same gradient, and may drop the leaf or its gradient.
    HoldGil hold;
    Ref<Tensor> leaf = Ref<Tensor>::borrow(node.leaf);
    AutogradMeta& meta = autograd_meta(*leaf);
    Ref<Tensor> before = meta.grad;
    // Of a number on the CPU that was used on a card, or of what was compiled.
    if (home_of(*gradient) != home_of(*leaf) && home_of(*leaf).type != DeviceType::Meta)
        gradient = clone_to(*gradient, leaf->device());
    if (!before) {
        // The engine's own tensor is handed over unless somebody else holds its storage.
        Dims order;
        const bool fits = (gradient->contiguous() && leaf->contiguous()) ||
                          has_layout(*gradient, layout_of_gradient(*leaf, gradient->sizes, order));
        const bool mine = gradient->storage->refcount == 1 && gradient->refcount == 1;
        if (!fits) meta.grad = copy_in_order(gradient, order);
        else
            meta.grad = create_graph ? gradient
                        : mine       ? detach(*gradient)
                                     : call_op(op_named("clone"), {gradient.get()});
    } else if (create_graph) {
        meta.grad = call_op(op_named("add"), {before.get(), gradient.get()});
    } else {
        Operand self, other;
        self.tensor = before.get();
        other.tensor = gradient.get();
        call_op_inplace(op_named("add"), *before, {self, other});
    }
    if (grad_stored_hook) grad_stored_hook(*leaf);
    run_post_accumulate_hooks(node, *leaf);
}

// A formula that failed in anomaly mode: the warning names the forward call.
void report_anomaly(const GradNode& node) {
    std::string name = node_name(node);
    PyRef trace = PyRef::borrow(node.trace ? node.trace : Py_None);
    PyRef done(PyObject_CallFunction(anomaly.report, "sO", name.c_str(), trace.get()));
    if (!done) fail_python();
}

void check_for_nan(const GradNode& node, const Gradients& gradients) {
    for (size_t i = 0; i < gradients.size(); ++i) {
        if (!gradients[i]) continue;
        PyRef argument = wrapped(gradients[i]);
        PyRef found(PyObject_CallOneArg(anomaly.has_nan, argument.get()));
        if (!found) fail_python();
        if (found.get() == Py_True)
            fail("Function '" + node_name(node) + "' returned nan values in its " + std::to_string(i) + "th output.");
    }
}

void release(GradNode& node) {
    node.released = true;
    node.saved.clear();
    node.saved.resize(node.operand_kind.size());
    node.outputs.clear();
    if (node.inner) release(*node.inner);
    if (node.callable) {
        PyRef callable = PyRef::borrow(node.callable);
        PyRef done(PyObject_CallMethod(callable.get(), "release", nullptr));
        if (!done) PyErr_Clear();  // a callable without anything to release
    }
}

uint64_t g_runs = 0;

class Run {
  public:
    Run(const std::vector<Edge>& inputs, const BackwardOptions& options) : options_(options) {
        for (size_t i = 0; i < inputs.size(); ++i) captures_[inputs[i].node.get()].push_back({inputs[i].index, i});
        captured_.resize(inputs.size());
    }

    void seed(const Edge& edge, Ref<Tensor> gradient) {
        roots_.push_back(edge.node);
        deliver(edge, std::move(gradient));
    }

    bool will_execute(const GradNode* node) const { return useful_.contains(const_cast<GradNode*>(node)); }
    uint64_t id() const { return id_; }

    Gradients run() {
        count_dependencies();
        std::unordered_set<GradNode*> queued;
        for (auto& root : roots_)
            if (dependencies_[root.get()] == 0 && queued.insert(root.get()).second) ready_.push(root);
        while (!ready_.empty()) {
            Ref<GradNode> node = ready_.top();
            ready_.pop();
            step(*node);
            // Ctrl-C ends a long pass; formulas that run no Python code of their own would not notice it.
            if ((++steps_ & 63) == 0 && PyErr_CheckSignals() < 0) fail_python();
        }
        return std::move(captured_);
    }

  private:
    struct Later {
        bool operator()(const Ref<GradNode>& a, const Ref<GradNode>& b) const { return a->sequence < b->sequence; }
    };

    /// Adds the gradient of a part, as `split` and `x[i]` make them, to that part of what the whole has already,
    /// instead of adding a tensor that is zero everywhere else. False where that can't be done.
    bool add_to_part(const GradNode& node, const Gradients& gradients) {
        static const OpDef *slice = &op_named("slice"), *select = &op_named("select");
        if ((node.op != slice && node.op != select) || node.type != GradNode::Type::Op || !node.hooks.empty() ||
            options_.create_graph || anomaly.enabled || !gradients[0])
            return false;
        const Edge& edge = node.edges[0];
        if (!edge.node || !useful_.contains(edge.node.get())) return false;
        auto found = buffers_.find(edge.node.get());
        if (found == buffers_.end() || edge.index >= found->second.size()) return false;
        const Ref<Tensor>& whole = found->second[edge.index];
        Tensor& part_of_gradient = *gradients[0];
        // Nobody else may see the memory change.
        if (!whole || whole->refcount != 1 || whole->storage->refcount != 1 || whole->storage->external() ||
            whole->storage->read_only || !whole->contiguous() || whole->dtype != part_of_gradient.dtype ||
            !(whole->sizes == node.operand_meta[0].sizes) || home_of(*whole) != home_of(part_of_gradient) ||
            batch_level(*whole) || batch_level(part_of_gradient))
            return false;
        Operand self, other;
        Ref<Tensor> part = call_op(*node.op, {whole.get()}, node.params);
        self.tensor = part.get();
        other.tensor = &part_of_gradient;
        call_op_inplace(op_named("add"), *part, {self, other});
        return true;
    }

    void deliver(const Edge& edge, Ref<Tensor> gradient) {
        Gradients& slots = buffers_[edge.node.get()];
        slots.resize(std::max<size_t>(slots.size(), edge.node->result_meta.size()));
        accumulate(slots[edge.index], std::move(gradient));
    }

    void count_dependencies() {
        // Depth first, without recursion; with captures only the nodes on a path to one are of use.
        std::vector<std::pair<GradNode*, size_t>> stack;
        std::unordered_set<GradNode*> seen;
        for (auto& root : roots_) {
            if (!seen.insert(root.get()).second) continue;
            stack.push_back({root.get(), 0});
            while (!stack.empty()) {
                auto& [node, next] = stack.back();
                if (next < node->edges.size()) {
                    GradNode* child = node->edges[next++].node.get();
                    if (child && seen.insert(child).second) stack.push_back({child, 0});
                } else {
                    bool of_use = captures_.empty() ? true : captures_.contains(node);
                    for (const Edge& edge : node->edges) {
                        if (!edge.node) continue;
                        ++dependencies_[edge.node.get()];
                        of_use |= useful_.contains(edge.node.get());
                    }
                    if (of_use) useful_.insert(node);
                    stack.pop_back();
                }
            }
        }
    }

    void step(GradNode& node) {
        Gradients gradients = std::move(buffers_[&node]);
        buffers_.erase(&node);
        gradients.resize(node.result_meta.size());
        bool any = false;
        for (auto& g : gradients) any |= static_cast<bool>(g);
        if (any) run_tensor_hooks(node, gradients);
        if (auto found = captures_.find(&node); found != captures_.end())
            for (auto [index, slot] : found->second) captured_[slot] = gradients[index];
        Gradients sent(node.edges.size());
        if (any && useful_.contains(&node)) {
            if (node.type == GradNode::Type::Accumulate) {
                if (captures_.empty()) {
                    run_prehooks(node, gradients);
                    store_gradient(node, node.hooks.empty() ? std::move(gradients[0]) : gradients[0],
                                   options_.create_graph);
                    run_posthooks(node, sent, gradients);
                }
            } else if (wants_run(node)) {
                if (__builtin_expect(node.sequence < own_nodes_from, 0)) ran_earlier_node = true;
                run_prehooks(node, gradients);
                for (size_t i = 0; i < gradients.size(); ++i)
                    if (!gradients[i] && node.type != GradNode::Type::Python)
                        gradients[i] = full_of(node.result_meta[i], 0);
                if (!add_to_part(node, gradients)) {
                    sent = apply(node, gradients);
                    run_posthooks(node, sent, gradients);
                }
                if (!options_.retain_graph) release(node);
            }
        }
        gradients.clear();
        for (size_t i = 0; i < node.edges.size(); ++i) {
            const Edge& edge = node.edges[i];
            if (!edge.node) continue;
            if (sent[i] && useful_.contains(edge.node.get())) deliver(edge, std::move(sent[i]));
            if (--dependencies_[edge.node.get()] == 0) ready_.push(edge.node);
        }
    }

    static Gradients apply(GradNode& node, Gradients& gradients) {
        auto run = [&]() {
            switch (node.type) {
                case GradNode::Type::CopySlices: return apply_copy_slices(node, gradients);
                case GradNode::Type::Python: return apply_python(node, gradients);
                default: return apply_op(node, gradients);
            }
        };
        if (!anomaly.enabled) return run();
        try {
            Gradients sent = run();
            if (anomaly.check_nan) check_for_nan(node, sent);
            return sent;
        } catch (const Error& error) {
            // The warning comes first; a Python exception is put aside meanwhile.
            PyObject *type, *value, *traceback;
            PyErr_Fetch(&type, &value, &traceback);
            report_anomaly(node);
            PyErr_Restore(type, value, traceback);
            throw;
        }
    }

    // False for a node that only leads to other captures' dead ends.
    bool wants_run(const GradNode& node) const {
        if (captures_.empty()) return true;
        for (const Edge& edge : node.edges)
            if (edge.node && useful_.contains(edge.node.get())) return true;
        return false;
    }

    BackwardOptions options_;
    uint64_t steps_ = 0, id_ = ++g_runs;
    std::unordered_map<GradNode*, std::vector<std::pair<uint32_t, size_t>>> captures_;
    Gradients captured_;
    std::vector<Ref<GradNode>> roots_;
    std::unordered_map<GradNode*, Gradients> buffers_;
    std::unordered_map<GradNode*, int> dependencies_;
    std::unordered_set<GradNode*> useful_;
    std::priority_queue<Ref<GradNode>, std::vector<Ref<GradNode>>, Later> ready_;
};

}  // namespace

Ref<Tensor> as_result(const Tensor& tensor, uint32_t index) {
    Ref<Tensor> result = detach(tensor);
    if (current_node && index < current_node->result_meta.size())
        set_history(*result, Ref<GradNode>::borrow(const_cast<GradNode*>(current_node)), index);
    return result;
}

bool operand_needs_gradient(size_t position) {
    return !current_node || (position < current_node->edges.size() && current_node->edges[position].node);
}

Ref<Tensor> reduce_to_operand(Ref<Tensor> gradient, const OperandMeta& meta) {
    if (!(gradient->sizes == meta.sizes)) {
        Dims dims;
        size_t lead = gradient->ndim() - std::min(gradient->ndim(), meta.sizes.size());
        for (size_t i = 0; i < gradient->ndim(); ++i)
            if (i < lead || (meta.sizes[i - lead] == 1 && gradient->sizes[i] != 1))
                dims.push_back(static_cast<int64_t>(i));
        Value none;
        if (!dims.empty())
            gradient = call_op(op_named("sum"), {gradient.get()}, {value_of(dims), bool_value(true), none});
        if (!(gradient->sizes == meta.sizes))
            gradient = call_op(op_named("view"), {gradient.get()}, {value_of(meta.sizes)});
    }
    // What reaches a real operand is the real part.
    if (is_complex(gradient->dtype) && !is_complex(meta.dtype))
        if (const OpDef* real = find_op("real")) gradient = call_op(*real, {gradient.get()});
    if (gradient->dtype != meta.dtype)
        gradient = call_op(op_named("cast"), {gradient.get()}, {dtype_value(meta.dtype)});
    return gradient;
}

namespace {

MT_THREAD_LOCAL const Run* current_run = nullptr;

class RunScope {
  public:
    explicit RunScope(const Run& run) : previous_(std::exchange(current_run, &run)) {}
    ~RunScope() { current_run = previous_; }
    RunScope(const RunScope&) = delete;

  private:
    const Run* previous_;
};

// The gradient to start from, as it was given or one.
Ref<Tensor> seed_for(const Root& root, Ref<Tensor> given, size_t position) {
    if (!given) {
        if (product(root.meta.sizes) != 1) fail("grad can be implicitly created only for scalar outputs");
        if (is_complex(root.meta.dtype))
            fail(std::string("grad can be implicitly created only for real scalar outputs but got ") +
                 info(root.meta.dtype).name);
        return full_of({root.meta.sizes, root.meta.dtype, root.meta.device}, 1);
    }
    std::string place = "[" + std::to_string(position) + "]";
    if (!(given->sizes == root.meta.sizes))
        fail("Mismatch in shape: grad_output" + place + " has a shape of minitensor.Size(" + to_string(given->sizes) +
             ") and output" + place + " has a shape of minitensor.Size(" + to_string(root.meta.sizes) + ").");
    if (is_complex(given->dtype) != is_complex(root.meta.dtype))
        fail("For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
             "dtype: grad_output" +
             place + " has a dtype of minitensor." + info(given->dtype).name + " and output" + place +
             " has a dtype of minitensor." + info(root.meta.dtype).name + ".");
    if (given->dtype != root.meta.dtype)
        return call_op(op_named("cast"), {given.get()}, {dtype_value(root.meta.dtype)});
    return given;
}

}  // namespace

std::vector<Ref<Tensor>> run_backward(const std::vector<Root>& roots, std::vector<Ref<Tensor>> gradients,
                                      const std::vector<Edge>& inputs, const BackwardOptions& options) {
    GradMode mode(options.create_graph);
    Run run(inputs, options);
    RunScope scope(run);
    for (size_t i = 0; i < roots.size(); ++i) run.seed(roots[i].edge, seed_for(roots[i], std::move(gradients[i]), i));
    std::vector<Ref<Tensor>> result = run.run();
    if (!inputs.empty() && !options.allow_unused)
        for (size_t i = 0; i < result.size(); ++i)
            if (!result[i])
                fail("The differentiated Tensor at index " + std::to_string(i) +
                     " appears to not have been used in the graph. Set allow_unused=True if this is the desired "
                     "behavior.");
    return result;
}

uint64_t backward_id() { return current_run ? current_run->id() : 0; }
bool will_execute(const GradNode& node) { return current_run && current_run->will_execute(&node); }

}  // namespace mt
