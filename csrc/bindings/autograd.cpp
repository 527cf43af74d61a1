// backward and grad, gradient modes, nodes and hooks.
#include <string>
#include <vector>

#include "autograd/engine.h"
#include "bindings/py.h"
#include "trace/trace.h"

namespace mt::py {

namespace {

struct NodeObject {
    PyObject_HEAD GradNode* node;  // owned
};

GradNode& node_of(PyObject* self) { return *reinterpret_cast<NodeObject*>(self)->node; }

void node_dealloc(PyObject* self) {
    Ref<GradNode> dying(reinterpret_cast<NodeObject*>(self)->node);
    Py_TYPE(self)->tp_free(self);
}

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
    return name + "Backward0";
}

PyObject* node_repr(PyObject* self) {
    return PyUnicode_FromFormat("<%s object at %p>", node_name(node_of(self)).c_str(), &node_of(self));
}
PyObject* node_get_name(PyObject* self, PyObject*) { return PyUnicode_FromString(node_name(node_of(self)).c_str()); }

PyObject* node_next(PyObject* self, void*) {
    GradNode& node = node_of(self);
    PyRef tuple(PyTuple_New(static_cast<Py_ssize_t>(node.edges.size())));
    for (size_t i = 0; tuple && i < node.edges.size(); ++i) {
        const Edge& edge = node.edges[i];
        PyObject* next = edge.node ? wrap_grad_node(edge.node) : Py_NewRef(Py_None);
        PyObject* item = next ? Py_BuildValue("(NI)", next, edge.index) : nullptr;
        if (!item) return nullptr;
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item);
    }
    return tuple.release();
}

PyObject* node_compare(PyObject* a, PyObject* b, int operation) {
    if (Py_TYPE(b) != &GradNodeType || (operation != Py_EQ && operation != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((&node_of(a) == &node_of(b)) == (operation == Py_EQ));
}
Py_hash_t node_hash(PyObject* self) { return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(&node_of(self)) >> 4); }

PyMethodDef node_methods[] = {{"name", node_get_name, METH_NOARGS, "name()\n--\n\nThe node's name."}, {}};
PyGetSetDef node_getset[] = {
    {"next_functions", node_next, nullptr, "((node, index), ...): where gradients go next.", nullptr}, {}};

PyTypeObject make_node_type() {
    PyTypeObject type = blank_type();
    type.tp_name = "minitensor.autograd.graph.Node";
    type.tp_doc = "A node of the backward graph.";
    type.tp_basicsize = sizeof(NodeObject);
    type.tp_flags = Py_TPFLAGS_DEFAULT;
    type.tp_dealloc = node_dealloc;
    type.tp_repr = node_repr;
    type.tp_richcompare = node_compare;
    type.tp_hash = node_hash;
    type.tp_methods = node_methods;
    type.tp_getset = node_getset;
    return type;
}

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

std::vector<Tensor*> pointers(const std::vector<Ref<Tensor>>& tensors) {
    std::vector<Tensor*> result;
    for (const Ref<Tensor>& tensor : tensors) result.push_back(tensor.get());
    return result;
}

// run_backward(tensors, gradients, inputs | None, retain_graph, create_graph, allow_unused)
PyObject* py_run_backward(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *tensors, *gradients, *inputs;
        int retain, create, unused;
        if (!PyArg_ParseTuple(args, "OOOppp:run_backward", &tensors, &gradients, &inputs, &retain, &create, &unused))
            return nullptr;
        std::vector<Ref<Tensor>> roots = tensors_from(tensors, "the tensors to differentiate");
        std::vector<Ref<Tensor>> seeds(roots.size());
        PyRef fast = checked(PySequence_Fast(gradients, "gradients"));
        for (size_t i = 0; i < roots.size() && i < static_cast<size_t>(PySequence_Fast_GET_SIZE(fast.get())); ++i) {
            PyObject* item = PySequence_Fast_GET_ITEM(fast.get(), static_cast<Py_ssize_t>(i));
            if (item == Py_None) continue;
            if (!is_tensor(item))
                fail_type(std::string("gradients can be either Tensors or None, but got ") + Py_TYPE(item)->tp_name);
            seeds[i] = Ref<Tensor>::borrow(tensor_of(item));
        }
        BackwardOptions options{retain != 0, create != 0, unused != 0};
        bool grad = inputs != Py_None;
        std::vector<Ref<Tensor>> wanted;
        if (grad) wanted = tensors_from(inputs, "inputs");
        std::vector<Ref<Tensor>> result = run_backward(pointers(roots), std::move(seeds), pointers(wanted), options);
        if (!grad) Py_RETURN_NONE;
        PyRef tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(result.size())));
        for (size_t i = 0; i < result.size(); ++i)
            PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), wrap(std::move(result[i])));
        return tuple.release();
    });
}

PyObject* py_grad_enabled(PyObject*, PyObject*) { return PyBool_FromLong(grad_enabled); }
PyObject* py_set_grad_enabled(PyObject*, PyObject* value) {
    int enabled = PyObject_IsTrue(value);
    if (enabled < 0) return nullptr;
    bool previous = std::exchange(grad_enabled, enabled != 0);
    return PyBool_FromLong(previous);
}
PyObject* py_inference_mode(PyObject*, PyObject*) { return PyBool_FromLong(inference_mode); }
PyObject* py_set_inference_mode(PyObject*, PyObject* value) {
    int enabled = PyObject_IsTrue(value);
    if (enabled < 0) return nullptr;
    bool previous = std::exchange(inference_mode, enabled != 0);
    return PyBool_FromLong(previous);
}

// register_hook(tensor, callable) -> (node, position) as a token for remove_hook
PyObject* py_register_hook(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *tensor, *callable;
        if (!PyArg_ParseTuple(args, "OO:register_hook", &tensor, &callable)) return nullptr;
        if (!is_tensor(tensor)) fail_type("register_hook takes a Tensor");
        Edge edge = grad_edge(*tensor_of(tensor));
        if (!edge.node) fail("cannot register a hook on a tensor that doesn't require gradient");
        edge.node->hooks.emplace_back(edge.index, Py_NewRef(callable));
        return wrap_grad_node(edge.node);
    });
}

PyObject* py_remove_hook(PyObject*, PyObject* args) {
    PyObject *node, *callable;
    if (!PyArg_ParseTuple(args, "O!O:remove_hook", &GradNodeType, &node, &callable)) return nullptr;
    auto& hooks = node_of(node).hooks;
    for (size_t i = 0; i < hooks.size(); ++i)
        if (hooks[i].second == callable) {
            PyRef dying(hooks[i].second);
            hooks.erase(hooks.begin() + static_cast<int64_t>(i));
            break;
        }
    Py_RETURN_NONE;
}

// attach_function(callable, inputs, outputs): outputs become results of a node that calls `callable` with their
// gradients.
PyObject* py_attach_function(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *callable, *inputs, *outputs;
        if (!PyArg_ParseTuple(args, "OOO:attach_function", &callable, &inputs, &outputs)) return nullptr;
        Ref<GradNode> node(new GradNode);
        node->type = GradNode::Type::Python;
        node->sequence = next_sequence();
        node->callable = Py_NewRef(callable);
        for (const Ref<Tensor>& t : tensors_from(inputs, "inputs"))
            node->edges.push_back(requires_grad(*t) ? grad_edge(*t) : Edge{});
        std::vector<Ref<Tensor>> results = tensors_from(outputs, "outputs");
        for (size_t i = 0; i < results.size(); ++i) {
            node->result_meta.push_back({results[i]->sizes, results[i]->dtype});
            set_history(*results[i], node, static_cast<uint32_t>(i));
        }
        Py_RETURN_NONE;
    });
}

PyObject* py_as_result(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject* tensor;
        unsigned index;
        if (!PyArg_ParseTuple(args, "O!I:as_result", &TensorType, &tensor, &index)) return nullptr;
        return wrap(as_result(*tensor_of(tensor), index));
    });
}

PyMethodDef functions[] = {
    {"run_backward", py_run_backward, METH_VARARGS,
     "run_backward(tensors, gradients, inputs, retain_graph, create_graph, allow_unused)"},
    {"is_grad_enabled", py_grad_enabled, METH_NOARGS,
     "is_grad_enabled()\n--\n\nWhether operations are recorded for differentiation."},
    {"set_grad_enabled", py_set_grad_enabled, METH_O, "Sets the mode and returns the previous one."},
    {"is_inference_mode_enabled", py_inference_mode, METH_NOARGS,
     "is_inference_mode_enabled()\n--\n\nWhether inference mode is on."},
    {"set_inference_mode", py_set_inference_mode, METH_O, "Sets the mode and returns the previous one."},
    {"register_hook", py_register_hook, METH_VARARGS, "register_hook(tensor, callable)"},
    {"remove_hook", py_remove_hook, METH_VARARGS, "remove_hook(node, callable)"},
    {"as_result", py_as_result, METH_VARARGS,
     "as_result(tensor, index): within a backward, a saved result with its history."},
    {"attach_function", py_attach_function, METH_VARARGS, "attach_function(callable, inputs, outputs)"},
    {}};

}  // namespace

PyTypeObject GradNodeType = make_node_type();

PyObject* wrap_grad_node(Ref<GradNode> node) {
    PyObject* self = GradNodeType.tp_alloc(&GradNodeType, 0);
    if (self) reinterpret_cast<NodeObject*>(self)->node = node.release();
    return self;
}

bool init_autograd(PyObject* module) {
    install_tape();
    return PyType_Ready(&GradNodeType) == 0 && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace mt::py
