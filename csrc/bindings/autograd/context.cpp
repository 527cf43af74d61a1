// The base of context managers that set a state of the thread. A signal's handler may raise between any two
// instructions of Python, and a `with` statement doesn't leave what it hasn't entered: so it is done here that what was
// set is set back, whatever comes in the middle of entering or leaving.
#include "bindings/py.h"

namespace mt::py {

namespace {

struct ContextObject {
    PyObject_HEAD PyObject* kept;  // a list of what was before, for each time that it is entered; null at first
};
ContextObject* cast(PyObject* self) { return reinterpret_cast<ContextObject*>(self); }

PyObject *now_name = nullptr, *set_name = nullptr, *restore_name = nullptr;

PyObject* raised() {  // owned; null if nothing is
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    if (!type) return nullptr;
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback) PyException_SetTraceback(value, traceback);
    Py_DECREF(type);
    Py_XDECREF(traceback);
    return value;
}

void raise(PyObject* error) {  // steals it
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
    Py_DECREF(error);
}

// What a handler raises ends the call of `_restore`: it is called again, until it has come to its end. False with the
// first error.
bool restore(PyObject* self, PyObject* before) {
    constexpr int kMost = 16;  // an error of its own comes every time
    PyObject* first = nullptr;
    for (int i = 0; i < kMost; ++i) {
        PyRef done(PyObject_CallMethodOneArg(self, restore_name, before));
        if (done) break;
        PyObject* error = raised();
        if (first) Py_DECREF(error);
        else first = error;
    }
    if (first) raise(first);
    return !first;
}

PyRef take(PyObject* self) {
    PyObject* kept = cast(self)->kept;
    const Py_ssize_t last = PyList_GET_SIZE(kept) - 1;
    PyRef before(Py_NewRef(PyList_GET_ITEM(kept, last)));
    if (PyList_SetSlice(kept, last, last + 1, nullptr) < 0) return {};
    return before;
}

PyObject* context_enter(PyObject* self, PyObject*) {
    PyRef before(PyObject_CallMethodNoArgs(self, now_name));
    if (!before) return nullptr;
    if (!cast(self)->kept && !(cast(self)->kept = PyList_New(0))) return nullptr;
    if (PyList_Append(cast(self)->kept, before.get()) < 0) return nullptr;
    PyRef result(PyObject_CallMethodNoArgs(self, set_name));
    if (result) return result.release();
    PyObject* error = raised();
    take(self);
    if (!restore(self, before.get())) PyErr_Clear();
    PyErr_Clear();
    raise(error);
    return nullptr;
}

PyObject* context_exit(PyObject* self, PyObject* const*, Py_ssize_t) {
    if (!cast(self)->kept || PyList_GET_SIZE(cast(self)->kept) == 0)
        return PyErr_Format(PyExc_RuntimeError, "%s is left, but was not entered", Py_TYPE(self)->tp_name);
    PyRef before = take(self);
    if (!before || !restore(self, before.get())) return nullptr;
    Py_RETURN_NONE;
}

// A copy is not entered.
PyObject* context_state(PyObject* self, PyObject*) {
    PyObject* attributes = PyObject_GenericGetDict(self, nullptr);
    if (attributes) return attributes;
    PyErr_Clear();
    Py_RETURN_NONE;
}

int context_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(cast(self)->kept);
    return 0;
}
int context_clear(PyObject* self) {
    Py_CLEAR(cast(self)->kept);
    return 0;
}
void context_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    context_clear(self);
    Py_TYPE(self)->tp_free(self);
}

PyMethodDef methods[] = {{"__enter__", method<context_enter>(), METH_NOARGS, nullptr},
                         {"__exit__", method<context_exit>(), METH_FASTCALL, nullptr},
                         {"__getstate__", method<context_state>(), METH_NOARGS, nullptr},
                         {}};

PyTypeObject make_context_type() {
    PyTypeObject type = blank_type();
    type.tp_name = "minitensor._C.Context";
    type.tp_doc = "A context manager. `_now()` gives what is to be set back, `_set()` sets, and gives what `with` "
                  "binds, and `_restore(before)` sets back, also a second time and from the middle of either.";
    type.tp_basicsize = sizeof(ContextObject);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
    type.tp_new = PyType_GenericNew;
    type.tp_dealloc = slot<context_dealloc>;
    type.tp_traverse = slot<context_traverse>;
    type.tp_clear = slot<context_clear>;
    type.tp_methods = methods;
    return type;
}
PyTypeObject ContextType = make_context_type();

}  // namespace

bool init_context(PyObject* module) {
    now_name = PyUnicode_InternFromString("_now");
    set_name = PyUnicode_InternFromString("_set");
    restore_name = PyUnicode_InternFromString("_restore");
    return now_name && set_name && restore_name && PyType_Ready(&ContextType) == 0 &&
           PyModule_AddType(module, &ContextType) == 0;
}

}  // namespace mt::py
