// The callable of a composed function that takes `out=`: calls without it go straight to the function, others to the
// form that stores the result. A wrapper in Python would take longer than a small op does. The same callable without a
// second form is a function whose mistaken arguments are explained. Plain calls of functions that say which op these
// stand for do not run the function: see `shortcut` in minitensor/composite/registry.py.
#include <cstddef>

#include "bindings/shortcut.h"

namespace mt::py {

namespace {

struct OutFormObject {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* plain;
    PyObject* storing;
    PyObject* shortcuts;  // a tuple of Shortcuts, or null
    bool direct;          // a shortcut may write to `out`
};

OutFormObject* cast(PyObject* self) { return reinterpret_cast<OutFormObject*>(self); }

PyObject* out_name = nullptr;

bool names_out(PyObject* kwnames) {
    if (!kwnames) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); ++i) {
        PyObject* name = PyTuple_GET_ITEM(kwnames, i);
        // Names in calls are interned, except those of a dict that was read from somewhere.
        if (name == out_name || PyUnicode_CompareWithASCIIString(name, "out") == 0) return true;
    }
    return false;
}

// `argument_error(function, args, kwargs, error)` gives the TypeError for an argument that lacked an attribute, or
// None.
PyObject* argument_error = nullptr;
PyObject* checked_form = nullptr;

// An AttributeError of a composed function means that an argument is no tensor: say so, as PyTorch does. Looking at the
// arguments after the failure costs the calls that succeed nothing.
void explain_error(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    PyObject *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace);
    PyErr_NormalizeException(&kind, &error, &trace);
    if (trace) PyException_SetTraceback(error, trace);
    Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    PyObject *places = PyTuple_New(count), *names = PyDict_New();
    bool ready = places && names;
    for (Py_ssize_t i = 0; ready && i < count; ++i) PyTuple_SET_ITEM(places, i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; ready && kwnames && i < PyTuple_GET_SIZE(kwnames); ++i) {
        ready = PyDict_SetItem(names, PyTuple_GET_ITEM(kwnames, i), args[count + i]) == 0;
    }
    PyObject* better = ready ? PyObject_CallFunctionObjArgs(argument_error, function, places, names, error, nullptr)
                             : nullptr;
    Py_XDECREF(places);
    Py_XDECREF(names);
    if (better && better != Py_None) {
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(better)), better);
        Py_XDECREF(kind);
        Py_XDECREF(error);
        Py_XDECREF(trace);
    } else {
        PyErr_Restore(kind, error, trace);  // instead of what went wrong with the explanation
    }
    Py_XDECREF(better);
}

PyObject* out_form_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    if (PyObject* shortcuts = cast(self)->shortcuts) {
        auto count = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
        PyObject* result;
        if (!kwnames) {
            if (take_shortcut(shortcuts, args, count, &result)) return result;
        } else if (cast(self)->direct && PyTuple_GET_SIZE(kwnames) == 1 && is_tensor(args[count]) &&
                   names_out(kwnames)) {
            if (take_shortcut_out(shortcuts, args, count, args[count], &result)) return result;
        }
    }
    PyObject* function = names_out(kwnames) ? cast(self)->storing : cast(self)->plain;
    PyObject* result = PyObject_Vectorcall(function, args, nargsf, kwnames);
    if (!result && argument_error && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        explain_error(cast(self)->plain, args, nargsf, kwnames);
    }
    return result;
}

PyObject* out_form_get(PyObject* self, PyObject* object, PyObject*) {
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

// Everything but pickling is as it is of the function that stores: name, documentation, signature, class.
PyObject* out_form_getattro(PyObject* self, PyObject* name) {
    if (PyUnicode_CompareWithASCIIString(name, "__reduce_ex__") == 0) return PyObject_GenericGetAttr(self, name);
    if (PyUnicode_CompareWithASCIIString(name, "__reduce__") == 0) return PyObject_GenericGetAttr(self, name);
    return PyObject_GetAttr(cast(self)->storing, name);
}
int out_form_setattro(PyObject* self, PyObject* name, PyObject* value) {
    return value ? PyObject_SetAttr(cast(self)->storing, name, value) : PyObject_DelAttr(cast(self)->storing, name);
}
PyObject* out_form_repr(PyObject* self) { return PyObject_Repr(cast(self)->storing); }

int out_form_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(cast(self)->plain);
    Py_VISIT(cast(self)->storing);
    Py_VISIT(cast(self)->shortcuts);
    return 0;
}
int out_form_clear(PyObject* self) {
    Py_CLEAR(cast(self)->plain);
    Py_CLEAR(cast(self)->storing);
    Py_CLEAR(cast(self)->shortcuts);
    return 0;
}
void out_form_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    out_form_clear(self);
    PyObject_GC_Del(self);
}

PyObject* out_form_reduce(PyObject* self, PyObject*) {
    // The checked form of a function is made anew from it: in the function's own module the name is its own.
    if (cast(self)->plain == cast(self)->storing && checked_form) {
        return Py_BuildValue("O(O)", checked_form, cast(self)->plain);
    }
    return PyObject_GetAttrString(cast(self)->storing, "__name__");
}

// pydoc asks the object itself, past `getattro`.
PyObject* out_form_doc(PyObject* self, void*) { return PyObject_GetAttrString(cast(self)->storing, "__doc__"); }

PyGetSetDef getset[] = {{"__doc__", slot<out_form_doc>, nullptr, "What the function computes.", nullptr}, {}};

PyMethodDef methods[] = {{"__reduce__", method<out_form_reduce>(), METH_NOARGS, "Pickled by name."}, {}};

PyTypeObject make_out_form_type() {
    PyTypeObject type = blank_type();
    type.tp_name = "minitensor.OutForm";
    type.tp_doc = "A function that takes `out=`.";
    type.tp_basicsize = sizeof(OutFormObject);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
    type.tp_vectorcall_offset = offsetof(OutFormObject, vectorcall);
    type.tp_call = PyVectorcall_Call;
    type.tp_descr_get = slot<out_form_get>;
    type.tp_getset = getset;
    type.tp_getattro = slot<out_form_getattro>;
    type.tp_setattro = slot<out_form_setattro>;
    type.tp_repr = slot<out_form_repr>;
    type.tp_traverse = slot<out_form_traverse>;
    type.tp_clear = slot<out_form_clear>;
    type.tp_dealloc = slot<out_form_dealloc>;
    type.tp_methods = methods;
    return type;
}

PyTypeObject OutFormType = make_out_form_type();

// out_form(plain, storing, direct=False): the two as one callable.
PyObject* py_out_form(PyObject*, PyObject* args) {
    PyObject *plain, *storing;
    int direct = 0;
    if (!PyArg_ParseTuple(args, "OO|p:out_form", &plain, &storing, &direct)) return nullptr;
    PyRef shortcuts(PyObject_GetAttrString(plain, "_shortcuts"));
    if (!shortcuts) PyErr_Clear();
    if (shortcuts && !are_shortcuts(shortcuts.get())) {
        PyErr_SetString(PyExc_TypeError, "out_form: _shortcuts must be a tuple of shortcuts");
        return nullptr;
    }
    auto* made = PyObject_GC_New(OutFormObject, &OutFormType);
    if (!made) return nullptr;
    made->vectorcall = slot<out_form_vectorcall>;
    made->plain = Py_NewRef(plain);
    made->storing = Py_NewRef(storing);
    made->shortcuts = shortcuts.release();
    made->direct = direct;
    PyObject_GC_Track(made);
    return reinterpret_cast<PyObject*>(made);
}

// set_argument_error(argument_error, checked): what explains an error of a call, and what makes a checked function.
PyObject* py_set_argument_error(PyObject*, PyObject* args) {
    PyObject *explain, *checked;
    if (!PyArg_ParseTuple(args, "OO:set_argument_error", &explain, &checked)) return nullptr;
    Py_XSETREF(argument_error, Py_NewRef(explain));
    Py_XSETREF(checked_form, Py_NewRef(checked));
    Py_RETURN_NONE;
}

PyMethodDef functions[] = {
    {"set_argument_error", method<py_set_argument_error>(), METH_VARARGS,
     "set_argument_error(argument_error, checked): explains calls with wrong arguments."},
    {"out_form", method<py_out_form>(), METH_VARARGS,
     "out_form(plain, storing, direct=False): a callable that is `storing` where `out` is given."},
    {}};

}  // namespace

bool init_out_form(PyObject* module) {
    out_name = PyUnicode_InternFromString("out");
    return out_name && PyType_Ready(&OutFormType) == 0 && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace mt::py
