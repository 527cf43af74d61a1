// What `jit_scope` and `attr_scope` do: ops inside are recorded under a tag. In the core, since a scope around a loop
// over large arrays finds nothing of itself in the caches; so it is with what `jit_scope` makes of its arguments.
#include <cstddef>
#include <vector>

#include "bindings/jit/trace_python.h"
#include "trace/recording/trace.h"

namespace mt::py {

namespace {

using trace::Tag;

struct ScopeObject {
    PyObject_HEAD int compile;
    int flags;
    bool numbered;
    PyObject* reason;
    int depth;                 // how many times it is entered
    Tag around;                // the tag around the first of them
    std::vector<Tag>* within;  // and those around the others; null if there was none
};

ScopeObject* cast(PyObject* self) { return reinterpret_cast<ScopeObject*>(self); }

constexpr int kPredicateShift = 16;  // a predicate's number is in a tag's flags from this bit on

PyObject* scope_new(PyTypeObject* type, PyObject*, PyObject*) { return type->tp_alloc(type, 0); }

void scope_dealloc(PyObject* self) {
    delete cast(self)->within;
    Py_XDECREF(cast(self)->reason);
    Py_TYPE(self)->tp_free(self);  // a class made in Python drops its own count
}

int scope_init(PyObject* self, PyObject* args, PyObject*) {
    int compile;
    PyObject *flags, *reason;
    if (!PyArg_ParseTuple(args, "iOU:Scope", &compile, &flags, &reason)) return -1;
    const int64_t number = flags == Py_None ? 0 : to_int64(flags);
    cast(self)->compile = compile;
    cast(self)->flags = static_cast<int>(number);
    cast(self)->numbered = compile && flags != Py_None;
    Py_XSETREF(cast(self)->reason, Py_NewRef(reason));
    return 0;
}

int jit_scope_init(PyObject* self, PyObject* args, PyObject* kwargs) {
    static PyObject* const reason = PyUnicode_InternFromString("the end of a jit_scope");
    static const char* const names[] = {"compile_ops", "separate_compiled_gradients", nullptr};
    PyObject *compile_ops = Py_True, *separate = Py_False;
    if (PyTuple_GET_SIZE(args) > 0 || kwargs) {
        if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:jit_scope", const_cast<char**>(names), &compile_ops,
                                         &separate)) {
            return -1;
        }
    }
    if (!PyBool_Check(compile_ops) && !PyCallable_Check(compile_ops)) {
        PyErr_Format(PyExc_TypeError, "jit_scope: compile_ops must be a bool or a function, not %s",
                     Py_TYPE(compile_ops)->tp_name);
        return -1;
    }
    if (!PyBool_Check(separate)) {
        PyErr_Format(PyExc_TypeError, "jit_scope: separate_compiled_gradients must be a bool, not %s",
                     Py_TYPE(separate)->tp_name);
        return -1;
    }
    int flags = separate == Py_True ? trace::kSeparateGradients : 0;
    if (!PyBool_Check(compile_ops)) {
        PyRef number(PyObject_CallMethod(self, "_number", "(O)", compile_ops));
        if (!number) return -1;
        const int64_t value = to_int64(number.get());
        flags |= static_cast<int>(value << kPredicateShift);
    }
    cast(self)->compile = compile_ops != Py_False;
    cast(self)->flags = flags;
    cast(self)->numbered = compile_ops != Py_False;
    Py_XSETREF(cast(self)->reason, Py_XNewRef(reason));
    return 0;
}

PyObject* scope_enter(PyObject* self, PyObject*) {
    ScopeObject& scope = *cast(self);
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
        const bool again = scope.depth > 0;
        if (again) {
            if (!scope.within) scope.within = new std::vector<Tag>;
            scope.within->emplace_back();  // nothing fails once recording has begun
        }
        if (scope.compile == 1) trace::begin_recording();
        trace::set_tag({static_cast<int8_t>(scope.compile), false, scope.numbered ? scope.flags | next_scope() : 0});
        (again ? scope.within->back() : scope.around) = before;
        ++scope.depth;
        Py_RETURN_NONE;
    });
}

PyObject* scope_exit(PyObject* self, PyObject* const* args, Py_ssize_t count) {
    ScopeObject& scope = *cast(self);
    if (scope.depth == 0) {
        PyErr_SetString(PyExc_RuntimeError, "the scope is left, but was not entered");
        return nullptr;
    }
    if (--scope.depth == 0) {
        trace::set_tag(scope.around);
    } else {
        trace::set_tag(scope.within->back());
        scope.within->pop_back();
    }
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

PyMethodDef methods[] = {{"__enter__", method<scope_enter>(), METH_NOARGS, nullptr},
                         {"__exit__", method<scope_exit>(), METH_FASTCALL, nullptr},
                         {}};

PyTypeObject ScopeType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject JitScopeType = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

bool init_scope(PyObject* module) {
    ScopeType.tp_name = "minitensor._C.Scope";
    ScopeType.tp_doc = "Scope(compile, flags | None, reason): ops inside are recorded, with compile=1, under a "
                       "tag; one with flags has a number.";
    ScopeType.tp_basicsize = sizeof(ScopeObject);
    ScopeType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    ScopeType.tp_new = slot<scope_new>;
    ScopeType.tp_init = slot<scope_init>;
    ScopeType.tp_dealloc = slot<scope_dealloc>;
    ScopeType.tp_methods = methods;
    JitScopeType.tp_name = "minitensor._C.JitScope";
    JitScopeType.tp_doc = "JitScope(compile_ops=True, separate_compiled_gradients=False)\n--\n\n"
                          "What jit_scope is, but for `_number(compile_ops)`, the number of a function.";
    JitScopeType.tp_base = &ScopeType;
    JitScopeType.tp_basicsize = sizeof(ScopeObject);
    JitScopeType.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
    JitScopeType.tp_init = slot<jit_scope_init>;
    for (PyTypeObject* type : {&ScopeType, &JitScopeType}) {
        if (PyType_Ready(type) < 0 || PyModule_AddType(module, type) < 0) return false;
    }
    return true;
}

}  // namespace mt::py
