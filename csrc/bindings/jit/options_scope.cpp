// The compiler's options that are in force for a while. In the core, since a session enters such a scope at every step:
// in a program that works between the steps nothing of it is found in the caches.
#include "bindings/jit/trace_python.h"
#include "trace/recording/trace.h"

namespace mt::py {

namespace {

constexpr const char* kChange = "a change of the compiler's options";

struct OptionsScopeObject {
    PyObject_HEAD uint64_t options;
    uint64_t before;
    PyObject* reason;  // of the flush at the end, where it records; or null
    PyObject* value;  // what entering gives
    bool entered;
};

OptionsScopeObject* cast(PyObject* self) { return reinterpret_cast<OptionsScopeObject*>(self); }

PyObject* scope_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject *options, *reason = Py_None, *value = Py_None;
    if (!PyArg_ParseTuple(args, "O!|OO:OptionsScope", &PyLong_Type, &options, &reason, &value)) return nullptr;
    if (reason != Py_None && !PyUnicode_Check(reason)) {
        PyErr_Format(PyExc_TypeError, "OptionsScope: reason must be a str or None, not %s", Py_TYPE(reason)->tp_name);
        return nullptr;
    }
    const uint64_t id = to_uint64(options);
    PyObject* self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    cast(self)->options = id;
    cast(self)->reason = reason == Py_None ? nullptr : Py_NewRef(reason);
    cast(self)->value = Py_NewRef(value);
    return self;
}

void scope_dealloc(PyObject* self) {
    Py_XDECREF(cast(self)->reason);
    Py_XDECREF(cast(self)->value);
    PyTypeObject* type = Py_TYPE(self);
    type->tp_free(self);  // a class made in Python drops its own count
}

// What was recorded before runs first, under its own options.
PyObject* scope_enter(PyObject* self, PyObject*) {
    OptionsScopeObject& scope = *cast(self);
    if (scope.entered) {
        PyErr_SetString(PyExc_RuntimeError, "the options' scope is entered already");
        return nullptr;
    }
    return guarded([&]() -> PyObject* {
        trace::flush(kChange);
        if (scope.reason) trace::begin_recording();
        scope.before = trace::options_id();
        trace::set_options_id(scope.options);
        scope.entered = true;
        return Py_NewRef(scope.value);
    });
}

PyObject* scope_exit(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    OptionsScopeObject& scope = *cast(self);
    if (!scope.entered) {
        PyErr_SetString(PyExc_RuntimeError, "the options' scope is left, but was not entered");
        return nullptr;
    }
    scope.entered = false;
    bool ended = true;
    if (scope.reason) {
        ended = guarded([&] {
            const char* reason = PyUnicode_AsUTF8(scope.reason);
            if (!reason) fail_python();
            trace::end_recording(reason);
            return true;
        });
        // An exception of the program's own is the one to see; values that fail now say so when they are read.
        if (!ended && count > 0 && args[0] != Py_None && PyErr_ExceptionMatches(PyExc_Exception)) {
            PyErr_Clear();
            ended = true;
        }
    }
    PyObject *kind = nullptr, *error = nullptr, *traceback = nullptr;
    if (!ended) PyErr_Fetch(&kind, &error, &traceback);
    const bool flushed = guarded([&] {
        trace::flush(kChange);
        return true;
    });
    trace::set_options_id(scope.before);
    if (!ended) {
        PyErr_Clear();
        PyErr_Restore(kind, error, traceback);
        return nullptr;
    }
    if (!flushed) return nullptr;
    Py_RETURN_NONE;
}

PyMethodDef options_scope_methods[] = {{"__enter__", method<scope_enter>(), METH_NOARGS, nullptr},
                                       {"__exit__", method<scope_exit>(), METH_FASTCALL, nullptr},
                                       {}};

PyTypeObject OptionsScopeType = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

bool init_options_scope(PyObject* module) {
    OptionsScopeType.tp_name = "minitensor._C.OptionsScope";
    OptionsScopeType.tp_doc = "OptionsScope(id, reason=None, value=None): the options of this number are in force "
                              "inside; with a reason, what runs inside is recorded, and flushed at the end for it. "
                              "Entering gives the value.";
    OptionsScopeType.tp_basicsize = sizeof(OptionsScopeObject);
    OptionsScopeType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    OptionsScopeType.tp_new = slot<scope_new>;
    OptionsScopeType.tp_dealloc = slot<scope_dealloc>;
    OptionsScopeType.tp_methods = options_scope_methods;
    return PyType_Ready(&OptionsScopeType) >= 0 && PyModule_AddType(module, &OptionsScopeType) >= 0;
}

}  // namespace mt::py
