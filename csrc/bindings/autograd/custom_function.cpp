// What a custom Function's forward returned becomes results of a node of the graph.
#include <algorithm>
#include <string>
#include <vector>

#include "autograd/engine.h"
#include "bindings/py.h"
#include "dispatch/thread_local_state.h"

namespace mt::py {

namespace {

// Held: hooks may change a list, and an iterator's items are nobody else's.
std::vector<Ref<Tensor>> tensors_from(PyObject* sequence, const char* what) {
    PyRef fast = checked(PySequence_Fast(sequence, what));
    std::vector<Ref<Tensor>> result;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) {
        PyObject* item = PySequence_Fast_GET_ITEM(fast.get(), i);
        if (!is_tensor(item)) fail_type(std::string(what) + " must be Tensors, got " + Py_TYPE(item)->tp_name);
        result.push_back(Ref<Tensor>::borrow(tensor_of(item)));
    }
    return result;
}

bool has_gradient(const Tensor& t) { return is_floating(t.dtype) || is_complex(t.dtype); }

struct Applied {
    Ref<GradNode> node;  // null: no gradient is wanted
    std::vector<Ref<Tensor>> inputs, dirty, without_gradient;
    std::vector<Ref<Tensor>> saved;  // by a setup_context, to which an input that is returned is still the input
    size_t output_count = 0;

    static bool among(const std::vector<Ref<Tensor>>& tensors, const Tensor& t) {
        return std::any_of(tensors.begin(), tensors.end(), [&](const Ref<Tensor>& one) { return one.get() == &t; });
    }

    // An input that is returned is another tensor, so that it can have another history.
    Ref<Tensor> view_of(Tensor& t) const {
        if (among(saved, t))
            fail("An input that has been returned as-is as output is being saved for backward. This is not supported "
                 "if you override setup_context. You should return and save a view of the input instead, e.g. with "
                 "x.view_as(x) or setup ctx inside the forward function itself.");
        static const OpDef* alias = find_op("alias");
        GradMode off(false);
        return call_op(*alias, {&t});
    }

    // An input that forward wrote: what it was before is the node's operand.
    void write_back(Tensor& t, uint32_t index) const {
        if (t.autograd && t.autograd->requires_grad && !t.autograd->grad_fn)
            fail("a leaf Variable that requires grad has been used in an in-place operation.");
        auto input = std::find_if(inputs.begin(), inputs.end(), [&](const Ref<Tensor>& i) { return i.get() == &t; });
        if (input == inputs.end()) {
            warn("Only input Tensors should be given to ctx.mark_dirty(). If a Tensor is not an input, there is no "
                 "need to pass it to mark_dirty().");
            return set_history(t, node, index);
        }
        if (t.base && output_count > 1)
            fail("If your Function modifies inplace an input that is a view of another Tensor, your Function cannot "
                 "return more than one Tensor. Change the number of outputs, or clone the input before the call.");
        check_written(t);
        note_gradient_use(t, false);
        if (t.autograd) t.autograd->grad.reset();  // that of what it was
        rebase_history(t, node, index, static_cast<size_t>(input - inputs.begin()));
    }

    // Output `index`, with its history; `differentiable` counts those that have one.
    Ref<Tensor> result(Ref<Tensor> t, uint32_t index, size_t& differentiable) const {
        const bool is_input = among(inputs, *t), is_dirty = among(dirty, *t);
        if (!node || !has_gradient(*t) || among(without_gradient, *t)) {
            if (node) node->result_meta.emplace_back();
            if (!requires_grad(*t)) {
                if (is_input && !is_dirty) t = view_of(*t);
            } else if (is_input) {
                t = detach(*t);
            } else if (!t->base) {
                t->autograd->grad_fn.reset();
                t->autograd->requires_grad = false;
            }
        } else {
            ++differentiable;
            node->result_meta.push_back({t->sizes, t->dtype, home_of(*t)});
            if (is_dirty) {
                write_back(*t, index);
            } else {
                if (is_input) t = view_of(*t);
                set_history(*t, node, index);
            }
        }
        if (t->base && !(is_input && is_dirty)) autograd_meta(*t).of_function = true;
        return t;
    }
};

// begin_function(callable, inputs) -> node: one that calls `callable` with one gradient, or None, for each output. It
// notes the history that the inputs have before forward, which may write to them.
PyObject* py_begin_function(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *callable, *inputs;
        if (!PyArg_ParseTuple(args, "OO:begin_function", &callable, &inputs)) return nullptr;
        Ref<GradNode> node(new GradNode);
        node->type = GradNode::Type::Python;
        node->sequence = next_sequence();
        node->callable = Py_NewRef(callable);
        if (anomaly.enabled) note_stack(*node);
        for (const Ref<Tensor>& t : tensors_from(inputs, "inputs"))
            node->edges.push_back(requires_grad(*t) ? grad_edge(*t) : Edge{});
        note_direction(*node);
        return wrap_grad_node(node);
    });
}

// finish_function(node | None, inputs, outputs, dirty, without_gradient, saved) -> results: outputs become results of
// the node. None: no gradient is wanted. `saved`: what setup_context saves.
PyObject* py_finish_function(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *node, *inputs, *outputs, *dirty, *without_gradient, *saved;
        if (!PyArg_ParseTuple(args, "OOO!OOO:finish_function", &node, &inputs, &PyList_Type, &outputs, &dirty,
                              &without_gradient, &saved))
            return nullptr;
        if (node != Py_None &&
            (!is_node(node) || node_of(node).type != GradNode::Type::Python || !node_of(node).result_meta.empty()))
            fail_type("finish_function takes a node of begin_function, once");
        Applied applied;
        applied.inputs = tensors_from(inputs, "inputs");
        applied.dirty = tensors_from(dirty, "dirty tensors");
        applied.without_gradient = tensors_from(without_gradient, "tensors without a gradient");
        applied.saved = tensors_from(saved, "saved tensors");
        if (node != Py_None) applied.node = Ref<GradNode>::borrow(&node_of(node));
        if (applied.node && applied.node->edges.size() != applied.inputs.size())
            fail_value("finish_function: other inputs than those of begin_function");
        PyRef given = tuple_of(outputs);
        applied.output_count = static_cast<size_t>(PyTuple_GET_SIZE(given.get()));
        PyRef results = checked(PyList_New(PyTuple_GET_SIZE(given.get())));
        size_t differentiable = 0;
        for (size_t i = 0; i < applied.output_count; ++i) {
            PyObject* output = PyTuple_GET_ITEM(given.get(), static_cast<Py_ssize_t>(i));
            PyObject* result;
            if (is_tensor(output)) {
                result = wrap(
                    applied.result(Ref<Tensor>::borrow(tensor_of(output)), static_cast<uint32_t>(i), differentiable));
                if (!result) fail_python();
            } else {
                if (applied.node) applied.node->result_meta.emplace_back();
                result = Py_NewRef(output);
            }
            PyList_SET_ITEM(results.get(), static_cast<Py_ssize_t>(i), result);
        }
        // A write to one of several would have to be one to all.
        for (size_t i = 0; differentiable > 1 && i < applied.output_count; ++i)
            if (PyObject* result = PyList_GET_ITEM(results.get(), static_cast<Py_ssize_t>(i)); is_tensor(result))
                if (Tensor& t = *tensor_of(result); t.base) autograd_meta(t).of_function = true;
        return results.release();
    });
}

PyMethodDef custom_function_functions[] = {
    {"begin_function", method<py_begin_function>(), METH_VARARGS, "begin_function(callable, inputs) -> node"},
    {"finish_function", method<py_finish_function>(), METH_VARARGS,
     "finish_function(node | None, inputs, outputs, dirty, without_gradient, saved) -> results"},
    {}};

}  // namespace

bool init_custom_function(PyObject* module) { return PyModule_AddFunctions(module, custom_function_functions) == 0; }

}  // namespace mt::py
