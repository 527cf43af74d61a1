// nn.Module's base: reading attributes, among which are the module's tensors and children, and calling it.
#include "bindings/py.h"

namespace mt::py {

bool init_module_base(PyObject* module);

namespace {

PyTypeObject* base_type();

PyObject* interned(const char* text) { return PyUnicode_InternFromString(text); }

// What a module's registries have under a name: a new reference, or null, also without an exception.
PyObject* registered(PyObject* dict, PyObject* name) {
    static PyObject* const registries[] = {interned("_parameters"), interned("_buffers"), interned("_modules")};
    for (PyObject* key : registries) {
        PyObject* registry = PyDict_GetItemWithError(dict, key);
        if (!registry) {
            if (PyErr_Occurred()) return nullptr;
            continue;  // before Module.__init__
        }
        if (!PyDict_Check(registry)) {
            PyErr_Format(PyExc_TypeError, "%U of a module must be a dict, not %s", key, Py_TYPE(registry)->tp_name);
            return nullptr;
        }
        PyObject* found = PyDict_GetItemWithError(registry, name);
        if (found) return Py_NewRef(found);
        if (PyErr_Occurred()) return nullptr;
    }
    return nullptr;
}

// Module.__getattr__(name): for what isn't found otherwise.
PyObject* base_getattr(PyObject* self, PyObject* name) {
    if (!PyUnicode_Check(name)) {
        PyErr_Format(PyExc_TypeError, "attribute name must be string, not '%s'", Py_TYPE(name)->tp_name);
        return nullptr;
    }
    PyRef dict(PyObject_GenericGetDict(self, nullptr));
    if (!dict) return nullptr;
    PyObject* found = registered(dict.get(), name);
    if (!found && !PyErr_Occurred())
        PyErr_Format(PyExc_AttributeError, "'%s' object has no attribute '%U'", Py_TYPE(self)->tp_name, name);
    return found;
}

// As if the class had __getattr__, without the exception on the way to it.
PyObject* base_getattro(PyObject* self, PyObject* name) {
    if (_PyType_Lookup(Py_TYPE(self), name)) {
        PyObject* found = PyObject_GenericGetAttr(self, name);
        if (found || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
        PyErr_Clear();
        return base_getattr(self, name);
    }
    PyRef dict(PyObject_GenericGetDict(self, nullptr));
    if (!dict) return nullptr;
    if (PyObject* found = PyDict_GetItemWithError(dict.get(), name)) return Py_NewRef(found);
    return PyErr_Occurred() ? nullptr : base_getattr(self, name);
}

// Python puts its generic way of finding __getattr__ into every new class; those that don't define it get the short
// one.
PyObject* base_init_subclass(PyObject* cls, PyObject* args, PyObject* kwargs) {
    static PyObject* const getattr = interned("__getattr__");
    static PyObject* const getattribute = interned("__getattribute__");
    auto* type = reinterpret_cast<PyTypeObject*>(cls);
    auto inherits = [&](PyObject* name) { return _PyType_Lookup(type, name) == _PyType_Lookup(base_type(), name); };
    if (inherits(getattr) && inherits(getattribute)) type->tp_getattro = slot<base_getattro>;
    PyRef above(PyObject_CallFunctionObjArgs(reinterpret_cast<PyObject*>(&PySuper_Type), base_type(), cls, nullptr));
    PyRef next(above ? PyObject_GetAttrString(above.get(), "__init_subclass__") : nullptr);
    return next ? PyObject_Call(next.get(), args, kwargs) : nullptr;
}

// The hooks of all modules, four dicts or none; the tuple lives as long as the process.
PyObject* global_hooks = nullptr;

bool has_any(PyObject* hooks) { return !PyDict_Check(hooks) || PyDict_GET_SIZE(hooks) != 0; }

bool hooked_everywhere() {
    if (!global_hooks) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(global_hooks); ++i)
        if (has_any(PyTuple_GET_ITEM(global_hooks, i))) return true;
    return false;
}

// Which attribute runs the module: what compile() made, forward itself, or forward with the hooks around it.
PyObject* entry_of(PyObject* dict) {
    static PyObject* const forward = interned("forward");
    static PyObject* const with_hooks = interned("_call_impl");
    static PyObject* const compiled = interned("_compiled_call_impl");
    static PyObject* const hooks[] = {interned("_forward_pre_hooks"), interned("_forward_hooks"),
                                      interned("_backward_hooks"), interned("_backward_pre_hooks")};
    PyObject* made = PyDict_GetItemWithError(dict, compiled);
    if (made && made != Py_None) return compiled;
    if (PyErr_Occurred()) return nullptr;
    if (hooked_everywhere()) return with_hooks;
    for (PyObject* name : hooks) {
        PyObject* found = PyDict_GetItemWithError(dict, name);
        if (!found || has_any(found)) return PyErr_Occurred() ? nullptr : with_hooks;
    }
    return forward;
}

PyObject* base_call(PyObject* self, PyObject* args, PyObject* kwargs) {
    PyRef dict(PyObject_GenericGetDict(self, nullptr));
    PyObject* entry = dict ? entry_of(dict.get()) : nullptr;
    PyRef function(entry ? PyObject_GetAttr(self, entry) : nullptr);
    return function ? PyObject_Call(function.get(), args, kwargs) : nullptr;
}

PyObject* set_global_hooks(PyObject*, PyObject* dicts) {
    if (!PyTuple_Check(dicts)) {
        PyErr_SetString(PyExc_TypeError, "set_global_module_hooks(): a tuple of dicts is expected");
        return nullptr;
    }
    Py_XSETREF(global_hooks, Py_NewRef(dicts));
    Py_RETURN_NONE;
}

PyMethodDef module_base_methods[] = {
    {"__getattr__", method<base_getattr>(), METH_O,
     "__getattr__($self, name, /)\n--\n\nThe parameter, buffer or child of that name."},
    {"__init_subclass__", method<base_init_subclass>(), METH_VARARGS | METH_KEYWORDS | METH_CLASS,
     "Makes reading attributes of the new class short."},
    {}};

PyTypeObject make_module_base_type() {
    PyTypeObject type = blank_type();
    type.tp_name = "minitensor._C.ModuleBase";
    type.tp_doc = "Finds a module's parameters, buffers and children as attributes, and calls its forward.";
    type.tp_basicsize = sizeof(PyObject);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    type.tp_call = slot<base_call>;
    type.tp_methods = module_base_methods;
    return type;
}

PyTypeObject ModuleBaseType = make_module_base_type();

PyTypeObject* base_type() { return &ModuleBaseType; }

}  // namespace

bool init_module_base(PyObject* module) {
    ModuleBaseType.tp_new = PyBaseObject_Type.tp_new;
    static PyMethodDef functions[] = {{"set_global_module_hooks", method<set_global_hooks>(), METH_O,
                                       "set_global_module_hooks(dicts, /)\n--\n\nThe hooks of all modules."},
                                      {}};
    if (PyType_Ready(&ModuleBaseType) < 0) return false;
    // A class whose `__new__` comes later among the bases, as those of mixins do, finds it past this one.
    if (PyDict_DelItemString(ModuleBaseType.tp_dict, "__new__") < 0) return false;
    PyType_Modified(&ModuleBaseType);
    return PyModule_AddType(module, &ModuleBaseType) == 0 && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace mt::py
