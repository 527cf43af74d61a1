#include "autograd/node_hooks.h"

#include "core/error.h"
#include "dispatch/call.h"

namespace mt {

namespace {

bool was_removed(PyObject* hook) {
    PyRef removed(PyObject_GetAttrString(hook, "removed"));
    if (!removed) fail_python();
    return removed.get() == Py_True;
}

// Held: a hook may remove hooks, itself too. Those that it removes are called this time, as in PyTorch.
std::vector<std::pair<uint32_t, PyRef>> hooks_of(const GradNode& node, Hook::Kind kind) {
    std::vector<std::pair<uint32_t, PyRef>> hooks;
    for (const Hook& hook : node.hooks)
        if (hook.kind == kind && !(hook.elsewhere && was_removed(hook.callable)))
            hooks.emplace_back(hook.index, PyRef::borrow(hook.callable));
    return hooks;
}

// Registered hooks are objects around the user's.
std::string name_of(PyObject* registered) {
    PyRef hook(PyObject_GetAttrString(registered, "hook"));
    if (!hook) PyErr_Clear();
    PyObject* called = hook ? hook.get() : registered;
    PyRef name(PyObject_GetAttrString(called, "__name__"));
    const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
    if (text) return text;
    PyErr_Clear();
    return Py_TYPE(called)->tp_name;
}

std::string kind_of(const Tensor& tensor) {
    return (is_sparse(tensor) ? "sparse " : "") + std::string(info(tensor.dtype).name) + " on " +
           device_text(home_of(tensor));
}

// What a hook gave in the place of a gradient: none, or one of the same dtype, device and shape.
Ref<Tensor> replacement(PyObject* returned, const Ref<Tensor>& before, PyObject* hook) {
    if (returned == Py_None) return {};
    if (!before) fail("can't replace a None gradient with a non-None value: hook '" + name_of(hook) + "' did");
    Tensor* given = unwrap_callback(returned);
    if (!given)
        fail_type("expected a Tensor or None, but hook '" + name_of(hook) + "' returned '" +
                  Py_TYPE(returned)->tp_name + "'");
    if (given->dtype != before->dtype || home_of(*given) != home_of(*before) || is_sparse(*given) != is_sparse(*before))
        fail("hook '" + name_of(hook) + "' has changed the type of value (was " + kind_of(*before) + ", got " +
             kind_of(*given) + ")");
    if (!(given->sizes == before->sizes))
        fail("hook '" + name_of(hook) + "' has changed the size of value (was " + to_string(before->sizes) + ", got " +
             to_string(given->sizes) + ")");
    return Ref<Tensor>::borrow(given);
}

// What a hook of a node returned in place of all `gradients`.
void replace_all(PyObject* returned, Gradients& gradients, PyObject* hook) {
    if (returned == Py_None) return;
    if (!PyTuple_Check(returned))
        fail_type("expected a tuple, but hook '" + name_of(hook) + "' returned '" + Py_TYPE(returned)->tp_name + "'");
    auto count = static_cast<size_t>(PyTuple_GET_SIZE(returned));
    if (count != gradients.size())
        fail("hook '" + name_of(hook) + "' has returned an incorrect number of values (got " + std::to_string(count) +
             ", but expected " + std::to_string(gradients.size()) + ")");
    Gradients replaced;
    for (size_t i = 0; i < count; ++i)
        replaced.push_back(replacement(PyTuple_GET_ITEM(returned, static_cast<Py_ssize_t>(i)), gradients[i], hook));
    gradients = std::move(replaced);
}

}  // namespace

void run_tensor_hooks(const GradNode& node, Gradients& gradients) {
    for (Hook::Kind kind : {Hook::Kind::Tensor, Hook::Kind::Retain}) {
        for (auto& [index, hook] : hooks_of(node, kind)) {
            if (index >= gradients.size() || !gradients[index]) continue;
            PyRef argument = wrapped(gradients[index]);
            PyRef returned(PyObject_CallOneArg(hook.get(), argument.get()));
            if (!returned) fail_python();
            if (returned.get() == Py_None) continue;
            gradients[index] = replacement(returned.get(), gradients[index], hook.get());
        }
    }
}

void run_prehooks(const GradNode& node, Gradients& gradients) {
    for (auto& [index, hook] : hooks_of(node, Hook::Kind::Pre)) {
        PyRef argument = tuple_of(gradients, gradients.size());
        PyRef returned(PyObject_CallOneArg(hook.get(), argument.get()));
        if (!returned) fail_python();
        replace_all(returned.get(), gradients, hook.get());
    }
}

bool shows_edge(const GradNode& node, size_t position) {
    // The view's old content comes first, which in the write's own node is operand `view_operand`.
    if (node.type == GradNode::Type::CopySlices && position > 0 && node.write)
        return shows_edge(*node.write->inner, position <= node.write->view_operand ? position - 1 : position);
    if (node.type != GradNode::Type::Op || position >= node.operand_kind.size()) return true;
    if (node.operand_kind[position] == 1) return node.op->numbers_as_tensors;
    const DType dtype = node.operand_meta[position].dtype;
    if (node.operand_kind[position] == 2 || is_floating(dtype) || is_complex(dtype)) return true;
    // Integers and bools are operands like others in arithmetic, and elsewhere places and masks.
    if (node.op->predicate >= 0) return position != static_cast<size_t>(node.op->predicate);
    return node.op->operand_list || node.op->kind == Kind::Elementwise;
}

void run_posthooks(const GradNode& node, Gradients& computed, const Gradients& given) {
    const auto hooks = hooks_of(node, Hook::Kind::Post);
    if (hooks.empty()) return;
    Gradients shown;
    for (size_t i = 0; i < computed.size(); ++i)
        if (shows_edge(node, i)) shown.push_back(std::move(computed[i]));
    for (auto& [index, hook] : hooks) {
        PyRef after = tuple_of(shown, shown.size()), before = tuple_of(given, given.size());
        PyRef returned(PyObject_CallFunctionObjArgs(hook.get(), after.get(), before.get(), nullptr));
        if (!returned) fail_python();
        replace_all(returned.get(), shown, hook.get());
    }
    for (size_t i = 0, next = 0; i < computed.size(); ++i)
        if (shows_edge(node, i)) computed[i] = std::move(shown[next++]);
}

void run_post_accumulate_hooks(const GradNode& node, Tensor& leaf) {
    // As in PyTorch, what one gives is what the next gets, and only at the end an error.
    Ref<Tensor> given = Ref<Tensor>::borrow(&leaf);
    for (auto& [index, hook] : hooks_of(node, Hook::Kind::PostAccumulate)) {
        PyRef argument = wrapped(given);
        PyRef returned(PyObject_CallOneArg(hook.get(), argument.get()));
        if (!returned) fail_python();
        if (Ref<Tensor> other = replacement(returned.get(), given, hook.get())) given = std::move(other);
    }
    if (given.get() != &leaf) fail("Tensor post accumulate grad hooks should return None.");
}

PyRef wrapped(Ref<Tensor> tensor) {
    PyRef object(wrap_callback(std::move(tensor)));
    if (!object) fail_python();
    return object;
}

PyRef tuple_of(const Gradients& gradients, size_t count) {
    PyRef tuple(PyTuple_New(static_cast<Py_ssize_t>(count)));
    if (!tuple) fail_python();
    for (size_t i = 0; i < count; ++i)
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), wrapped(gradients[i]).release());
    return tuple;
}

Ref<Tensor> tensor_from(PyObject* object, const GradNode& node, size_t position) {
    if (object == Py_None) return {};
    Tensor* t = unwrap_callback(object);
    if (!t && node.type == GradNode::Type::Python)
        fail("Function " + node_name(node) + " returned an invalid gradient at index " + std::to_string(position) +
             " - expected Variable or None (got " + Py_TYPE(object)->tp_name + ")");
    if (!t)
        fail_type("the gradient of operand " + std::to_string(position) + " of '" +
                  (node.op ? node.op->name : "function") + "' must be a Tensor or None, got " +
                  Py_TYPE(object)->tp_name);
    return Ref<Tensor>::borrow(t);
}

}  // namespace mt
