// The callable of a composed function that takes `out=`: calls without it go straight to the function, others to the
// form that stores the result. A wrapper in Python would take longer than a small op does.
#include <cstddef>

#include "bindings/py.h"

namespace mt::py {

namespace {

struct OutFormObject {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* plain;
    PyObject* storing;
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

PyObject* out_form_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    PyObject* function = names_out(kwnames) ? cast(self)->storing : cast(self)->plain;
    return PyObject_Vectorcall(function, args, nargsf, kwnames);
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
    return 0;
}
int out_form_clear(PyObject* self) {
    Py_CLEAR(cast(self)->plain);
    Py_CLEAR(cast(self)->storing);
    return 0;
}
void out_form_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    out_form_clear(self);
    PyObject_GC_Del(self);
}

PyObject* out_form_reduce(PyObject* self, PyObject*) { return PyObject_GetAttrString(cast(self)->storing, "__name__"); }

PyMethodDef methods[] = {{"__reduce__", out_form_reduce, METH_NOARGS, "Pickled by name."}, {}};

PyTypeObject make_out_form_type() {
    PyTypeObject type = blank_type();
    type.tp_name = "minitensor.OutForm";
    type.tp_doc = "A function that takes `out=`.";
    type.tp_basicsize = sizeof(OutFormObject);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
    type.tp_vectorcall_offset = offsetof(OutFormObject, vectorcall);
    type.tp_call = PyVectorcall_Call;
    type.tp_descr_get = out_form_get;
    type.tp_getattro = out_form_getattro;
    type.tp_setattro = out_form_setattro;
    type.tp_repr = out_form_repr;
    type.tp_traverse = out_form_traverse;
    type.tp_clear = out_form_clear;
    type.tp_dealloc = out_form_dealloc;
    type.tp_methods = methods;
    return type;
}

PyTypeObject OutFormType = make_out_form_type();

// out_form(plain, storing): the two as one callable.
PyObject* py_out_form(PyObject*, PyObject* args) {
    PyObject *plain, *storing;
    if (!PyArg_ParseTuple(args, "OO:out_form", &plain, &storing)) return nullptr;
    auto* made = PyObject_GC_New(OutFormObject, &OutFormType);
    if (!made) return nullptr;
    made->vectorcall = out_form_vectorcall;
    made->plain = Py_NewRef(plain);
    made->storing = Py_NewRef(storing);
    PyObject_GC_Track(made);
    return reinterpret_cast<PyObject*>(made);
}

PyMethodDef functions[] = {{"out_form", py_out_form, METH_VARARGS,
                            "out_form(plain, storing): a callable that is `storing` where `out` is given."},
                           {}};

}  // namespace

bool init_out_form(PyObject* module) {
    out_name = PyUnicode_InternFromString("out");
    return out_name && PyType_Ready(&OutFormType) == 0 && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace mt::py
