#include "autograd/node_hooks.h"

#include "core/error.h"

namespace mt {

namespace {

// Held: a hook may remove hooks, itself too.
std::vector<std::pair<uint32_t, PyRef>> hooks_of(const GradNode& node, Hook::Kind kind) {
    std::vector<std::pair<uint32_t, PyRef>> hooks;
    for (const Hook& hook : node.hooks)
        if (hook.kind == kind) hooks.emplace_back(hook.index, PyRef::borrow(hook.callable));
    return hooks;
}

// What a hook of a node returned in place of `gradients`: a tuple, or one tensor for one gradient.
void replace_all(PyObject* returned, const GradNode& node, Gradients& gradients, const char* what) {
    if (returned == Py_None) return;
    PyRef items(PyTuple_Check(returned) || PyList_Check(returned) ? PySequence_Tuple(returned)
                                                                  : PyTuple_Pack(1, returned));
    if (!items) fail_python();
    auto count = static_cast<size_t>(PyTuple_GET_SIZE(items.get()));
    if (count != gradients.size())
        fail(std::string("hook has changed the number of ") + what + " of " + node_name(node) + ": expected " +
             std::to_string(gradients.size()) + ", got " + std::to_string(count));
    for (size_t i = 0; i < count; ++i)
        gradients[i] = tensor_from(PyTuple_GET_ITEM(items.get(), static_cast<Py_ssize_t>(i)), node, i);
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
            Ref<Tensor> replaced = tensor_from(returned.get(), node, index);
            if (!(replaced->sizes == gradients[index]->sizes))
                fail("hook has changed the size of value: from " + to_string(gradients[index]->sizes) + " to " +
                     to_string(replaced->sizes));
            gradients[index] = std::move(replaced);
        }
    }
}

void run_prehooks(const GradNode& node, Gradients& gradients) {
    for (auto& [index, hook] : hooks_of(node, Hook::Kind::Pre)) {
        PyRef argument = tuple_of(gradients, gradients.size());
        PyRef returned(PyObject_CallOneArg(hook.get(), argument.get()));
        if (!returned) fail_python();
        replace_all(returned.get(), node, gradients, "gradients");
    }
}

void run_posthooks(const GradNode& node, Gradients& computed, const Gradients& given) {
    for (auto& [index, hook] : hooks_of(node, Hook::Kind::Post)) {
        PyRef after = tuple_of(computed, computed.size()), before = tuple_of(given, given.size());
        PyRef returned(PyObject_CallFunctionObjArgs(hook.get(), after.get(), before.get(), nullptr));
        if (!returned) fail_python();
        replace_all(returned.get(), node, computed, "gradients");
    }
}

void run_post_accumulate_hooks(const GradNode& node, Tensor& leaf) {
    for (auto& [index, hook] : hooks_of(node, Hook::Kind::PostAccumulate)) {
        PyRef argument = wrapped(Ref<Tensor>::borrow(&leaf));
        PyRef returned(PyObject_CallOneArg(hook.get(), argument.get()));
        if (!returned) fail_python();
    }
}

PyRef wrapped(Ref<Tensor> tensor) {
    PyRef object(wrap_hook(std::move(tensor)));
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
    Tensor* t = unwrap_hook(object);
    if (!t)
        fail_type("the gradient of operand " + std::to_string(position) + " of '" +
                  (node.op ? node.op->name : "function") + "' must be a Tensor or None, got " +
                  Py_TYPE(object)->tp_name);
    return Ref<Tensor>::borrow(t);
}

}  // namespace mt
