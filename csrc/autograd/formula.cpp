// How the formula of a node is called: an op's in Python, that of a write to a part, or a custom function's.
#include "autograd/formula.h"

#include <algorithm>

#include "autograd/engine.h"
#include "autograd/validate_outputs.h"
#include "core/error.h"
#include "dispatch/jit_device.h"
#include "dispatch/python/override_state.h"
#include "dispatch/python/python.h"
#include "dispatch/thread_local_state.h"

namespace mt {

const OpDef& op_named(const char* name) {
    OpDef* op = find_op(name);
    if (!op) fail(std::string("op '") + name + "' is not defined");
    return *op;
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

namespace {

// What a formula records has the source of the forward call it belongs to.
class FormulaScope {
  public:
    explicit FormulaScope(const GradNode& node) : previous_source_(source_override), previous_node_(current_node) {
        if (node.source.code) source_override = &node.source;
        current_node = &node;
        if (__builtin_expect((marked_ = node.mark != 0), 0)) mark_ = begin_formula_callback(node.mark);
    }
    ~FormulaScope() {
        if (marked_) end_formula_callback(mark_);
        source_override = previous_source_;
        current_node = previous_node_;
    }

  private:
    const SourceRef* previous_source_;
    const GradNode* previous_node_;
    uint64_t mark_ = 0;
    bool marked_;
};

// The write to a view that is being differentiated: its own node has the edges, but for that of the view's old content.
struct SliceWrite {
    const GradNode* node;
    const GradNode* inner;
};
MT_THREAD_LOCAL SliceWrite slice_write{};

// Whether anybody wants the gradient of the operand at `position`.
bool sends(const GradNode& node, size_t position) {
    if (&node != slice_write.inner) return gradient_wanted(node, position);
    const GradNode& write = *slice_write.node;
    if (position == write.write->view_operand) return gradient_wanted(write, 0);
    return gradient_wanted(write, position < write.write->view_operand ? position + 1 : position);
}

class SliceWriteScope {
  public:
    explicit SliceWriteScope(const GradNode& node)
        : previous_(std::exchange(slice_write, SliceWrite{&node, node.inner()})) {}
    ~SliceWriteScope() { slice_write = previous_; }
    SliceWriteScope(const SliceWriteScope&) = delete;

  private:
    SliceWrite previous_;
};

Value bool_value(bool b) {
    Value v;
    v.tag = Value::Bool;
    v.i = b;
    return v;
}

// What Python's formula (or a custom function's backward) returned: one tensor, None, or a tuple of these. A formula
// may also give functions, which are called for those gradients that somebody wants.
Gradients collect(PyObject* returned, const GradNode& node, size_t expected) {
    Gradients result(expected);
    if (PyTuple_Check(returned) || PyList_Check(returned)) {
        PyRef sequence = tuple_of(returned);  // a list may change while functions are called
        auto count = static_cast<size_t>(PyTuple_GET_SIZE(sequence.get()));
        if (count < expected)
            fail("'" + (node.op ? node.op->name : std::string("function")) +
                 "' returned an incorrect number of gradients (expected " + std::to_string(expected) + ", got " +
                 std::to_string(count) + ")");
        for (size_t i = 0; i < expected; ++i) {
            PyObject* item = PyTuple_GET_ITEM(sequence.get(), static_cast<Py_ssize_t>(i));
            PyRef computed;
            if (node.type != GradNode::Type::Python && PyFunction_Check(item)) {
                if (!sends(node, i)) continue;
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
Ref<Tensor> shape_only(const GradNode& node, size_t operand) {
    static Ref<Storage> nothing = Storage::unbacked(0, Device{DeviceType::Meta, -1});
    const OperandMeta& meta = node.operand_meta[operand];
    const OperandLayout layout = node.layouts.empty() ? OperandLayout() : node.layouts[operand];
    return Tensor::make(nothing, meta.dtype, meta.sizes,
                        layout.strides.size() == meta.sizes.size() ? layout.strides : contiguous_strides(meta.sizes),
                        layout.offset);
}

// What the formula gets as `out`: the result, all of them as a tuple, or None if it reads none.
PyRef saved_outputs(GradNode& node) {
    if (node.outputs.empty()) return PyRef::borrow(Py_None);
    if (node.outputs.size() == 1) return wrapped(unpack(node, node.outputs[0]));
    Gradients values;
    for (const SavedTensor& saved : node.outputs) values.push_back(saved.held() ? unpack(node, saved) : Ref<Tensor>());
    return tuple_of(values, values.size());
}

Gradients apply_op(GradNode& node, Gradients& gradients) {
    if (node.released && node.saves && !(node.kept && goes_forward()))
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
        else if (node.saved[i].held()) value = PyRef(wrap_callback(unpack(node, node.saved[i])));
        else value = PyRef(wrap_callback(shape_only(node, i)));
        if (!value) fail_python();
        if (list) {
            if (PyList_Append(operand_list.get(), value.get()) < 0) fail_python();
        } else arguments.push_back(std::move(value));
    }
    if (list) arguments.push_back(std::move(operand_list));
    for (const Value& param : node.params) arguments.emplace_back(value_to_python_callback(param));
    std::vector<PyObject*> raw;
    for (PyRef& argument : arguments) {
        if (!argument) fail_python();
        raw.push_back(argument.get());
    }
    FormulaScope scope(node);
    OverridesOff overrides_off;
    PyRef returned(PyObject_Vectorcall(op.vjp, raw.data(), raw.size(), nullptr));
    if (!returned) fail_python();
    Gradients result = collect(returned.get(), node, n);
    for (size_t i = 0; i < n; ++i) {
        if (!result[i]) continue;
        if (!sends(node, i)) result[i].reset();
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

// The tensor once for each slice, as the other one is mapped.
Ref<Tensor> mapped_as(Tensor& tensor, Tensor& like) {
    Ref<Tensor> always = full_of({Dims{}, DType::Bool, home_of(tensor)}, 1);
    Ref<Tensor> any = call_op(op_named("as_strided"), {&like},
                              {value_of(Dims{}), value_of(Dims{}), value_of(like.offset)});
    return call_op(op_named("where"), {always.get(), &tensor, any.get()});
}

Gradients apply_copy_slices(GradNode& node, Gradients& gradients) {
    const WrittenView& write = *node.write;
    const OpDef &clone = op_named("_row_major"), &as_strided = op_named("as_strided"), &copy = op_named("copy"),
                &fill = op_named("fill");
    Ref<Tensor> base_gradient, region;
    auto lay_out = [&](Tensor& gradient) {
        if (is_contiguous(write.base_sizes, write.base_strides)) {
            base_gradient = call_op(clone, {&gradient});
        } else {
            // The view's strides are those of the base's memory: lay the gradient out likewise.
            auto [low, high] = element_span(write.base_sizes, write.base_strides, 0);
            Ref<Tensor> memory = full_of({Dims{high - low}, gradient.dtype, home_of(gradient)}, 0);
            if (batch_level(gradient)) memory = mapped_as(*memory, gradient);
            base_gradient = call_op(as_strided, {memory.get()},
                                    {value_of(write.base_sizes), value_of(write.base_strides), value_of(-low)});
            Operand self, other;
            self.tensor = base_gradient.get();
            other.tensor = &gradient;
            call_op_inplace(copy, *base_gradient, {self, other});
        }
        Ref<Tensor> seen = seen_as(base_gradient, write.inner->result_meta[0].dtype);
        region = call_op(
            as_strided, {seen.get()},
            {value_of(write.view_sizes), value_of(write.view_strides), value_of(write.view_offset + seen->offset)});
    };
    lay_out(*gradients[0]);
    Gradients inner_gradients{call_op(clone, {region.get()})};
    Gradients inner;
    {
        SliceWriteScope scope(node);
        inner = apply_formula(*write.inner, inner_gradients);
    }
    const size_t old = write.view_operand;
    if (old < inner.size() && inner[old] && inner[old]->numel && inner[old]->dtype == gradients[0]->dtype &&
        batch_level(*inner[old]) && (batch_level(*base_gradient) != 1 || batch_level(*inner[old]) != 1))
        lay_out(*mapped_as(*gradients[0], *inner[old]));  // a sum's gradient is the same for all slices
    Operand destination, source;
    destination.tensor = region.get();
    if (old < inner.size() && inner[old]) {
        source.tensor = inner[old].get();
        call_op_inplace(copy, *region, {destination, source});
    } else {
        call_op_inplace(fill, *region, {destination}, {value_of(int64_t{0})});
    }
    Gradients result(1);
    if (gradient_wanted(node, 0)) result[0] = std::move(base_gradient);
    for (size_t i = 0; i < inner.size(); ++i)
        if (i != old) result.push_back(std::move(inner[i]));
    result.resize(node.edges.size());  // of a number that was assigned there is none
    return result;
}

Gradients apply_python(GradNode& node, Gradients& gradients) {
    PyRef tuple = tuple_of(gradients, gradients.size());
    PyRef callable = PyRef::borrow(node.callable);
    FormulaScope scope(node);
    PyRef returned(PyObject_Call(callable.get(), tuple.get(), nullptr));
    if (!returned) fail_python();
    Gradients result = collect(returned.get(), node, node.edges.size());
    // Fitted here and not only where they arrive: hooks of the node see them so.
    for (size_t i = 0; i < result.size(); ++i)
        if (const Edge& edge = node.edges[i]; result[i] && edge.node)
            result[i] = fit(std::move(result[i]), edge.node->result_meta[edge.index], &node, i);
    return result;
}

}  // namespace

Gradients apply_formula(GradNode& node, Gradients& gradients) {
    switch (node.type) {
        case GradNode::Type::CopySlices: return apply_copy_slices(node, gradients);
        case GradNode::Type::Python: return apply_python(node, gradients);
        default: {
            NoAutocast off;  // its operands have been cast
            return apply_op(node, gradients);
        }
    }
}

Ref<Tensor> as_result(const Tensor& tensor, uint32_t index) {
    Ref<Tensor> result = detach(tensor);
    if (current_node && index < current_node->result_meta.size())
        set_history(*result, Ref<GradNode>::borrow(const_cast<GradNode*>(current_node)), index);
    return result;
}

bool operand_needs_gradient(size_t position) { return !current_node || sends(*current_node, position); }

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
    // A copy to another device goes back, and so does the gradient of a number on the CPU that was used on a GPU. What
    // the JIT's devices compute comes back by itself. A number goes to a meta tensor too.
    const auto plain = [](Device d) { return d.type == DeviceType::CPU || d.type == DeviceType::CUDA; };
    const bool taken = plain(meta.device) || meta.device.type == DeviceType::Meta;
    if (const Device home = home_of(*gradient); !(home == meta.device) && plain(home) && taken)
        gradient = clone_to(*gradient, meta.device);
    return gradient;
}

}  // namespace mt
