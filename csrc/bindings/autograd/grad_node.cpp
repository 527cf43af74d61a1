// The Python object of a node of the backward graph: one type for each name, as in PyTorch.
#include <algorithm>
#include <map>
#include <string>
#include <unordered_set>
#include <vector>

#include "autograd/node_hooks.h"
#include "bindings/py.h"

namespace mt::py {

namespace {

struct NodeObject {
    PyObject_HEAD GradNode* node;  // owned
};

void node_dealloc(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    Ref<GradNode> dying(reinterpret_cast<NodeObject*>(self)->node);
    if (dying && dying->pyobject == self) dying->pyobject = nullptr;
    type->tp_free(self);
    if (type->tp_flags & Py_TPFLAGS_HEAPTYPE) Py_DECREF(type);
}

// Its name without the namespace.
std::string type_name_of(const GradNode& node) {
    std::string name = node_name(node);
    const size_t end = name.rfind(':');
    return end == std::string::npos ? name : name.substr(end + 1);
}

PyObject* node_repr(PyObject* self) {
    return PyUnicode_FromFormat("<%s object at %p>", type_name_of(node_of(self)).c_str(), &node_of(self));
}
PyObject* node_get_name(PyObject* self, PyObject*) { return PyUnicode_FromString(node_name(node_of(self)).c_str()); }

void add_shown(const GradNode& node, std::vector<Edge>& shown) {
    for (size_t i = 0; i < node.edges.size(); ++i)
        if (shows_edge(node, i)) shown.push_back(node.edges[i]);
}

// Of a function's node: the edges that leave the function, each once, but as often as a single one of its nodes has it.
// An operand that gets no gradient is shown where that node knows of it which is the only one with such edges.
std::vector<Edge> edges_of_function(GradNode& last) {
    std::vector<std::vector<Edge>> leaving;
    std::vector<GradNode*> waiting{&last};
    std::unordered_set<const GradNode*> seen;
    while (!waiting.empty()) {
        GradNode& node = *waiting.back();
        waiting.pop_back();
        std::vector<Edge> out, all;
        add_shown(node, all);
        bool leaves = false;
        std::vector<GradNode*> further;
        for (const Edge& edge : all) {
            if (edge.node && edge.node->inside) {
                if (seen.insert(edge.node.get()).second) further.push_back(edge.node.get());
            } else {
                leaves |= static_cast<bool>(edge.node);
                out.push_back(edge);
            }
        }
        if (leaves) leaving.push_back(std::move(out));
        waiting.insert(waiting.end(), further.rbegin(), further.rend());
    }
    if (leaving.size() == 1) return std::move(leaving[0]);
    std::vector<Edge> shown;
    for (const std::vector<Edge>& out : leaving) {
        const size_t known = shown.size();
        for (const Edge& edge : out) {
            const bool is_known = std::any_of(
                shown.begin(), shown.begin() + static_cast<ptrdiff_t>(known),
                [&](const Edge& other) { return other.node == edge.node && other.index == edge.index; });
            if (edge.node && !is_known) shown.push_back(edge);
        }
    }
    return shown;
}

PyObject* node_next(PyObject* self, void*) {
    GradNode& node = node_of(self);
    std::vector<Edge> shown;  // held: the collector may run
    if (node.function) shown = edges_of_function(node);
    else add_shown(node, shown);
    PyRef tuple(PyTuple_New(static_cast<Py_ssize_t>(shown.size())));
    for (size_t i = 0; tuple && i < shown.size(); ++i) {
        PyObject* next = shown[i].node ? wrap_grad_node(shown[i].node) : Py_NewRef(Py_None);
        PyObject* item = next ? Py_BuildValue("(NI)", next, shown[i].index) : nullptr;
        if (!item) return nullptr;
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item);
    }
    return tuple.release();
}

PyObject* node_metadata(PyObject* self, void*) {
    GradNode& node = node_of(self);
    if (!node.metadata) node.metadata = PyDict_New();
    return Py_XNewRef(node.metadata);
}

PyObject* node_variable(PyObject* self, void*) {
    GradNode& node = node_of(self);
    if (node.type != GradNode::Type::Accumulate) {
        PyErr_SetString(PyExc_AttributeError, "only AccumulateGrad has a variable");
        return nullptr;
    }
    return wrap(leaf_of(node));
}

PyObject* node_sequence(PyObject* self, PyObject*) { return PyLong_FromUnsignedLongLong(node_of(self).sequence); }

PyObject* node_compare(PyObject* a, PyObject* b, int operation) {
    if (!is_node(b) || (operation != Py_EQ && operation != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((&node_of(a) == &node_of(b)) == (operation == Py_EQ));
}
Py_hash_t node_hash(PyObject* self) { return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(&node_of(self)) >> 4); }

[[noreturn]] void fail_released() {
    fail("Trying to backward through the graph a second time (or directly access saved tensors after they have already "
         "been freed). Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
         "Specify retain_graph=True if you need to backward through the graph a second time or if you need to access "
         "saved tensors after calling backward.");
}

// _saved_self, _saved_other, _saved_result, _saved_dim: what a formula reads, by the name of the schema's argument.
PyObject* saved_attribute(GradNode& node, std::string_view name) {
    const OpDef& op = *node.op;
    bool freed = node.released && node.saves;
    if (name == "result" && !node.outputs.empty() && node.outputs[0].held()) return wrap(unpack(node, node.outputs[0]));
    if (name == "result" && freed && op.vjp_saves_out == OpDef::Reads::All) fail_released();
    for (size_t i = 0; i < op.operand_args.size() && !op.operand_list; ++i) {
        const std::string& argument = op.args[op.operand_args[i]].name;
        if (argument != name && !(argument == "input" && name == "self")) continue;
        if (freed && i < op.vjp_saves_operand.size() && op.vjp_saves_operand[i]) fail_released();
        if (i < node.saved.size() && node.saved[i].held()) return wrap(unpack(node, node.saved[i]));
        if (i < node.operand_kind.size() && node.operand_kind[i] == 1) return scalar_to_python(node.scalars[i]);
        return nullptr;
    }
    for (size_t i = 0; i < op.param_args.size() && i < node.params.size(); ++i)
        if (op.args[op.param_args[i]].name == name) return value_to_python(node.params[i]);
    return nullptr;
}

// The names that saved_attribute() knows. Nothing is unpacked: a hook may compute it again.
std::vector<std::string> saved_names(const GradNode& node) {
    const OpDef& op = *node.op;
    const bool freed = node.released && node.saves;
    std::vector<std::string> names;
    for (size_t i = 0; i < op.operand_args.size() && i < node.operand_kind.size() && !op.operand_list; ++i) {
        const bool was_saved = freed && i < op.vjp_saves_operand.size() && op.vjp_saves_operand[i];
        if (!was_saved && node.operand_kind[i] != 1 && !(i < node.saved.size() && node.saved[i].held())) continue;
        const std::string& argument = op.args[op.operand_args[i]].name;
        names.push_back("_saved_" + (argument == "input" ? "self" : argument));
    }
    for (size_t i = 0; i < op.param_args.size() && i < node.params.size(); ++i)
        names.push_back("_saved_" + op.args[op.param_args[i]].name);
    if ((!node.outputs.empty() && node.outputs[0].held()) || (freed && op.vjp_saves_out == OpDef::Reads::All))
        names.emplace_back("_saved_result");
    return names;
}

PyObject* node_dir(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        PyRef names = checked(
            PyObject_CallMethod(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__dir__", "O", self));
        if (node_of(self).type == GradNode::Type::Op)
            for (const std::string& name : saved_names(node_of(self))) {
                PyRef text = checked(PyUnicode_FromString(name.c_str()));
                if (PyList_Append(names.get(), text.get()) < 0) fail_python();
            }
        return names.release();
    });
}

PyObject* node_getattro(PyObject* self, PyObject* name) {
    GradNode& node = node_of(self);
    Py_ssize_t length = 0;
    const char* text = PyUnicode_AsUTF8AndSize(name, &length);
    if (!text) return nullptr;
    std::string_view called(text, static_cast<size_t>(length));
    if (node.type == GradNode::Type::Op && called.starts_with("_saved_")) {
        bool failed = false;
        PyObject* found = guarded([&]() -> PyObject* {
            failed = true;
            PyObject* saved = saved_attribute(node, called.substr(7));
            failed = false;
            return saved;
        });
        if (found || failed) return found;
    }
    PyObject* found = PyObject_GenericGetAttr(self, name);
    if (found || node.type != GradNode::Type::Python || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
    // The node of a custom function shows its context: saved_tensors and what forward left there.
    PyRef context(PyObject_GetAttrString(node.callable, "context"));
    if (!context) return nullptr;
    PyErr_Clear();
    const GradNode* before = std::exchange(current_node, &node);
    found = PyObject_GetAttr(context.get(), name);
    current_node = before;
    return found;
}

int node_setattro(PyObject* self, PyObject* name, PyObject* value) {
    GradNode& node = node_of(self);
    if (node.type != GradNode::Type::Python || _PyType_Lookup(Py_TYPE(self), name))
        return PyObject_GenericSetAttr(self, name, value);
    PyRef context(PyObject_GetAttrString(node.callable, "context"));
    return context ? PyObject_SetAttr(context.get(), name, value) : -1;
}

PyObject* register_with(const char* kind, PyObject* self, PyObject* hook) {
    PyRef module(PyImport_ImportModule("minitensor.autograd.hooks"));
    return module ? PyObject_CallMethod(module.get(), "register", "OOs", self, hook, kind) : nullptr;
}
PyObject* node_register_hook(PyObject* self, PyObject* hook) { return register_with("post", self, hook); }
PyObject* node_register_prehook(PyObject* self, PyObject* hook) { return register_with("pre", self, hook); }

PyMethodDef node_methods[] = {
    {"name", method<node_get_name>(), METH_NOARGS, "name()\n--\n\nThe node's name."},
    {"__dir__", method<node_dir>(), METH_NOARGS, "__dir__()\n--\n\nThe attributes, what is saved among them."},
    {"_sequence_nr", method<node_sequence>(), METH_NOARGS,
     "_sequence_nr()\n--\n\nThe node's place in the order of creation."},
    {"register_hook", method<node_register_hook>(), METH_O,
     "register_hook(fn)\n--\n\nCall fn(grad_inputs, grad_outputs) after the node has run; what it returns replaces "
     "grad_inputs. Gives a handle with remove()."},
    {"register_prehook", method<node_register_prehook>(), METH_O,
     "register_prehook(fn)\n--\n\nCall fn(grad_outputs) before the node runs; what it returns replaces them. Gives a "
     "handle with remove()."},
    {}};
PyGetSetDef node_getset[] = {
    {"next_functions", slot<node_next>, nullptr, "((node, index), ...): where gradients go next.", nullptr},
    {"metadata", slot<node_metadata>, nullptr, "A dict for whoever wants to note something.", nullptr},
    {"variable", slot<node_variable>, nullptr, "Of AccumulateGrad: the leaf, or None if it is gone.", nullptr},
    {}};

PyTypeObject make_node_type() {
    PyTypeObject type = blank_type();
    type.tp_name = "minitensor.autograd.graph.Node";
    type.tp_doc = "A node of the backward graph.";
    type.tp_basicsize = sizeof(NodeObject);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    type.tp_dealloc = slot<node_dealloc>;
    type.tp_repr = slot<node_repr>;
    type.tp_richcompare = slot<node_compare>;
    type.tp_hash = slot<node_hash>;
    type.tp_getattro = slot<node_getattro>;
    type.tp_setattro = slot<node_setattro>;
    type.tp_methods = node_methods;
    type.tp_getset = node_getset;
    return type;
}

PyTypeObject* type_named(const std::string& name) {
    static auto* types = new std::map<std::string, PyTypeObject*>;
    PyTypeObject*& type = (*types)[name];
    if (type) return type;
    auto* qualified = new std::string("minitensor.autograd.graph." + name);
    PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(slot<node_dealloc>)},
                           {Py_tp_doc, const_cast<char*>("A node of the backward graph.")},
                           {0, nullptr}};
    PyType_Spec spec{qualified->c_str(), sizeof(NodeObject), 0, Py_TPFLAGS_DEFAULT, slots};
    PyRef bases(PyTuple_Pack(1, &GradNodeType));
    type = bases ? reinterpret_cast<PyTypeObject*>(PyType_FromSpecWithBases(&spec, bases.get())) : nullptr;
    return type;
}

}  // namespace

PyTypeObject GradNodeType = make_node_type();

bool is_node(PyObject* object) { return PyObject_TypeCheck(object, &GradNodeType); }
GradNode& node_of(PyObject* self) { return *reinterpret_cast<NodeObject*>(self)->node; }

PyObject* wrap_grad_node(Ref<GradNode> node) {
    if (node->pyobject && Py_REFCNT(node->pyobject) > 0) return Py_NewRef(node->pyobject);
    PyTypeObject* type = type_named(type_name_of(*node));
    PyObject* self = type ? type->tp_alloc(type, 0) : nullptr;
    if (!self) return nullptr;
    node->pyobject = self;
    reinterpret_cast<NodeObject*>(self)->node = node.release();
    return self;
}

bool init_grad_node(PyObject* module) {
    if (PyType_Ready(&GradNodeType) < 0) return false;
    return PyModule_AddObjectRef(module, "GradNode", reinterpret_cast<PyObject*>(&GradNodeType)) == 0;
}

}  // namespace mt::py
