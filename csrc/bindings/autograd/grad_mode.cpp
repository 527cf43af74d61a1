// What no_grad, enable_grad, set_grad_enabled and inference_mode do. In the core, since every step of an optimizer and
// every evaluation enters one.
#include <vector>

#include "bindings/py.h"
#include "dispatch/call.h"
#include "dispatch/thread_local_state.h"

namespace mt::py {

namespace {

struct Modes {
    Recording recording;
    bool inference;
};

struct GradModeObject {
    PyObject_HEAD bool grad;
    bool sets_inference, inference;
    int depth;                   // how many times it is entered
    Modes around;                // what was in force around the first of them
    std::vector<Modes>* within;  // and around the others; null if there was none
};

GradModeObject* cast(PyObject* self) { return reinterpret_cast<GradModeObject*>(self); }

bool set_modes(PyObject* self, PyObject* grad, PyObject* inference) {
    if (!PyBool_Check(grad) || (inference != Py_None && !PyBool_Check(inference))) {
        PyErr_SetString(PyExc_TypeError, "GradMode: grad must be a bool, and inference a bool or None");
        return false;
    }
    cast(self)->grad = grad == Py_True;
    cast(self)->sets_inference = inference != Py_None;
    cast(self)->inference = inference == Py_True;
    return true;
}

PyObject* mode_new(PyTypeObject* type, PyObject*, PyObject*) { return type->tp_alloc(type, 0); }

int mode_init(PyObject* self, PyObject* args, PyObject*) {
    PyObject *grad, *inference = Py_None;
    if (!PyArg_ParseTuple(args, "O|O:GradMode", &grad, &inference)) return -1;
    return set_modes(self, grad, inference) ? 0 : -1;
}

// A context manager or, over a function, what the context manager makes of it as a decorator.
PyObject* decorator_new(PyTypeObject* type, PyObject* args, PyObject* kwargs, PyObject* grad) {
    static const char* const names[] = {"function", nullptr};
    PyObject* function = Py_None;
    if (PyTuple_GET_SIZE(args) > 0 || kwargs) {
        if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|O", const_cast<char**>(names), &function)) return nullptr;
        if (function != Py_None && !PyCallable_Check(function)) {
            return PyErr_Format(PyExc_TypeError, "%s: function must be callable, not %s", type->tp_name,
                                Py_TYPE(function)->tp_name);
        }
    }
    PyRef self(type->tp_alloc(type, 0));
    if (!self || !set_modes(self.get(), grad, Py_None)) return nullptr;
    return function == Py_None ? self.release() : PyObject_CallOneArg(self.get(), function);
}

PyObject* no_grad_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    return decorator_new(type, args, kwargs, Py_False);
}

PyObject* enable_grad_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    return decorator_new(type, args, kwargs, Py_True);
}

int decorator_init(PyObject*, PyObject*, PyObject*) { return 0; }

void mode_dealloc(PyObject* self) {
    delete cast(self)->within;
    Py_TYPE(self)->tp_free(self);  // a class made in Python drops its own count
}

PyObject* mode_enter(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        GradModeObject& mode = *cast(self);
        const Modes before{Recording::now(), thread_settings.inference_mode};
        if (mode.depth == 0) {
            mode.around = before;
        } else {
            if (!mode.within) mode.within = new std::vector<Modes>;
            mode.within->push_back(before);
        }
        ++mode.depth;
        if (mode.sets_inference) Recording{mode.grad, false}.set();
        else Recording::as(mode.grad).set();
        if (mode.sets_inference) thread_settings.inference_mode = mode.inference;
        Py_RETURN_NONE;
    });
}

PyObject* mode_exit(PyObject* self, PyObject* const*, Py_ssize_t) {
    GradModeObject& mode = *cast(self);
    if (mode.depth == 0) {
        PyErr_SetString(PyExc_RuntimeError, "the mode is left, but was not entered");
        return nullptr;
    }
    Modes before = mode.around;
    if (--mode.depth > 0) {
        before = mode.within->back();
        mode.within->pop_back();
    }
    before.recording.set();
    if (mode.sets_inference) thread_settings.inference_mode = before.inference;
    Py_RETURN_NONE;
}

PyMethodDef methods[] = {{"__enter__", method<mode_enter>(), METH_NOARGS, nullptr},
                         {"__exit__", method<mode_exit>(), METH_FASTCALL, nullptr},
                         {}};

PyTypeObject GradModeType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject NoGradType = {PyVarObject_HEAD_INIT(nullptr, 0)};
PyTypeObject EnableGradType = {PyVarObject_HEAD_INIT(nullptr, 0)};

}  // namespace

bool init_grad_mode(PyObject* module) {
    GradModeType.tp_name = "minitensor._C.GradMode";
    GradModeType.tp_doc = "GradMode(grad, inference=None): whether ops inside are recorded for differentiation, and "
                          "whether inference mode is on.";
    GradModeType.tp_new = slot<mode_new>;
    GradModeType.tp_init = slot<mode_init>;
    GradModeType.tp_dealloc = slot<mode_dealloc>;
    GradModeType.tp_methods = methods;
    NoGradType.tp_name = "minitensor._C.NoGrad";
    NoGradType.tp_doc = "NoGrad(function=None)\n--\n\nWhat no_grad is.";
    NoGradType.tp_new = slot<no_grad_new>;
    EnableGradType.tp_name = "minitensor._C.EnableGrad";
    EnableGradType.tp_doc = "EnableGrad(function=None)\n--\n\nWhat enable_grad is.";
    EnableGradType.tp_new = slot<enable_grad_new>;
    for (PyTypeObject* type : {&NoGradType, &EnableGradType}) {
        type->tp_base = &GradModeType;
        type->tp_init = slot<decorator_init>;
    }
    for (PyTypeObject* type : {&GradModeType, &NoGradType, &EnableGradType}) {
        type->tp_basicsize = sizeof(GradModeObject);
        type->tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE;
        if (PyType_Ready(type) < 0 || PyModule_AddType(module, type) < 0) return false;
    }
    return true;
}

}  // namespace mt::py
