// What `jit_scope` and `attr_scope` have in common: ops inside are recorded under a tag. In the core, since a scope
// around a loop over large arrays finds nothing of itself in the caches.
#include <cstddef>
#include <vector>

#include "bindings/trace_python.h"
#include "trace/trace.h"

namespace mt::py {

namespace {

using trace::Tag;

struct ScopeObject {
    PyObject_HEAD int compile;
    int flags;
    bool numbered;
    PyObject* reason;
    std::vector<Tag>* before;  // the tags around it, one for each time that it was entered
};

ScopeObject* cast(PyObject* self) { return reinterpret_cast<ScopeObject*>(self); }

PyObject* scope_new(PyTypeObject* type, PyObject*, PyObject*) {
    PyObject* self = type->tp_alloc(type, 0);
    if (self) cast(self)->before = new std::vector<Tag>;
    return self;
}

void scope_dealloc(PyObject* self) {
    delete cast(self)->before;
    Py_XDECREF(cast(self)->reason);
    Py_TYPE(self)->tp_free(self);  // a class made in Python drops its own count
}

int scope_init(PyObject* self, PyObject* args, PyObject*) {
    int compile;
    PyObject *flags, *reason;
    if (!PyArg_ParseTuple(args, "iOU:Scope", &compile, &flags, &reason)) return -1;
    const long number = flags == Py_None ? 0 : PyLong_AsLong(flags);
    if (PyErr_Occurred()) return -1;
    cast(self)->compile = compile;
    cast(self)->flags = static_cast<int>(number);
    cast(self)->numbered = compile && flags != Py_None;
    Py_XSETREF(cast(self)->reason, Py_NewRef(reason));
    return 0;
}

PyObject* scope_enter(PyObject* self, PyObject*) {
    const ScopeObject& scope = *cast(self);
    if (!scope.reason) {
        PyErr_SetString(PyExc_TypeError, "the scope was not initialized");
        return nullptr;
    }
    if (trace::options_id() == 0) {  // the first on this thread
        PyRef started(PyObject_CallMethod(self, "_start", nullptr));
        if (!started) return nullptr;
    }
    return guarded([&]() -> PyObject* {
        const Tag before = trace::current_tag;
        if (scope.compile == 1) trace::begin_recording();
        trace::set_tag({static_cast<int8_t>(scope.compile), false, scope.numbered ? scope.flags | next_scope() : 0});
        scope.before->push_back(before);
        Py_RETURN_NONE;
    });
}

PyObject* scope_exit(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    const ScopeObject& scope = *cast(self);
    if (scope.before->empty()) {
        PyErr_SetString(PyExc_RuntimeError, "the scope is left, but was not entered");
        return nullptr;
    }
    trace::set_tag(scope.before->back());
    scope.before->pop_back();
    if (scope.compile != 1) Py_RETURN_NONE;
    PyObject* ended = guarded([&]() -> PyObject* {
        const char* reason = PyUnicode_AsUTF8(scope.reason);
        if (!reason) fail_python();
        trace::end_recording(reason);
        Py_RETURN_NONE;
    });
    // An exception of the program's own is the one to see; values that fail now say so when they are read.
    if (!ended && count > 0 && args[0] != Py_None && PyErr_ExceptionMatches(PyExc_Exception)) {
        PyErr_Clear();
        Py_RETURN_NONE;
    }
    return ended;
}

PyMethodDef methods[] = {
    {"__enter__", scope_enter, METH_NOARGS, nullptr},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(scope_exit)), METH_FASTCALL, nullptr},
    {}};

PyTypeObject ScopeType = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

bool init_scope(PyObject* module) {
    ScopeType.tp_name = "minitensor._C.Scope";
    ScopeType.tp_doc = "Scope(compile, flags | None, reason): ops inside are recorded, with compile=1, under a "
                       "tag; one with flags has a number.";
    ScopeType.tp_basicsize = sizeof(ScopeObject);
    ScopeType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    ScopeType.tp_new = scope_new;
    ScopeType.tp_init = scope_init;
    ScopeType.tp_dealloc = scope_dealloc;
    ScopeType.tp_methods = methods;
    return PyType_Ready(&ScopeType) == 0 && PyModule_AddType(module, &ScopeType) == 0;
}

}  // namespace mt::py
