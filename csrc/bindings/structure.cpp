// Whether nested arguments have a structure that is known (minitensor_jit/function_arguments.py makes them), and the
// tensors in them: what a compiled function asks first, since most calls look like the one before.
#include <cmath>
#include <cstdlib>

#include "bindings/py.h"

namespace mt::py {

namespace {

PyObject* part(PyObject* structure, Py_ssize_t place) { return PyTuple_GET_ITEM(structure, place); }

bool equal(PyObject* a, PyObject* b) {
    if (a == b) return true;
    int same = Py_TYPE(a) == Py_TYPE(b) ? PyObject_RichCompareBool(a, b, Py_EQ) : 0;
    if (same < 0) fail_python();
    return same == 1;
}

bool match(PyObject* structure, PyObject* value, PyObject* tensors);

bool match_slice(PyObject* bounds, PyObject* value) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    return equal(part(bounds, 0), slice->start) && equal(part(bounds, 1), slice->stop) &&
           equal(part(bounds, 2), slice->step);
}

// ("dict", keys, parts...): the same keys in the same order.
bool match_dict(PyObject* structure, PyObject* value, PyObject* tensors) {
    PyObject* keys = part(structure, 1);
    if (!PyDict_CheckExact(value) || PyDict_GET_SIZE(value) != PyTuple_GET_SIZE(keys)) return false;
    Py_ssize_t at = 0;
    PyObject *key, *item;
    for (Py_ssize_t i = 0; PyDict_Next(value, &at, &key, &item); ++i) {
        PyRef held_key = PyRef::borrow(key), held_item = PyRef::borrow(item);  // comparing may run code
        if (i >= PyTuple_GET_SIZE(keys) || !equal(part(keys, i), key)) return false;
        if (!match(part(structure, 2 + i), item, tensors)) return false;
    }
    return true;
}

// ("sequence", type, parts...)
bool match_sequence(PyObject* structure, PyObject* value, PyObject* tensors) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != part(structure, 1)) return false;
    PyRef items(PySequence_Tuple(value));
    check_python();
    const Py_ssize_t count = PyTuple_GET_SIZE(structure) - 2;
    if (PyTuple_GET_SIZE(items.get()) != count) return false;
    for (Py_ssize_t i = 0; i < count; ++i)
        if (!match(part(structure, 2 + i), part(items.get(), i), tensors)) return false;
    return true;
}

bool match(PyObject* structure, PyObject* value, PyObject* tensors) {
    const char* tag = PyUnicode_AsUTF8(part(structure, 0));
    if (!tag) fail_python();
    switch (tag[0]) {
        case 't':  // ("tensor",)
            if (!is_tensor(value)) return false;
            if (PyList_Append(tensors, value) < 0) fail_python();
            return true;
        case 'd': return match_dict(structure, value, tensors);
        case 'f': {  // ("float", hexadecimal digits): 0.0 and -0.0 differ, NaN is itself
            const char* digits = PyUnicode_AsUTF8(part(structure, 1));
            if (!digits) fail_python();
            if (!PyFloat_CheckExact(value)) return false;
            const double is = PyFloat_AS_DOUBLE(value), was = std::strtod(digits, nullptr);
            return std::isnan(is) ? std::isnan(was) : is == was && std::signbit(is) == std::signbit(was);
        }
        case 'v': {  // ("value", type, value)
            PyObject* kind = part(structure, 1);
            if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != kind) return false;
            if (PySlice_Check(value)) return match_slice(part(structure, 2), value);
            return equal(part(structure, 2), value);
        }
        default: break;
    }
    if (tag[1] == 'e') return match_sequence(structure, value, tensors);
    // ("same", what holds the very thing)
    PyRef thing = checked(PyObject_GetAttrString(part(structure, 1), "thing"));
    return thing.get() == value;
}

// match_structure(structure, value) -> the tensors in it, or None
PyObject* py_match_structure(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *structure, *value;
        if (!PyArg_ParseTuple(args, "O!O:match_structure", &PyTuple_Type, &structure, &value)) return nullptr;
        PyRef tensors = checked(PyList_New(0));
        if (!match(structure, value, tensors.get())) Py_RETURN_NONE;
        return tensors.release();
    });
}

PyMethodDef functions[] = {{"match_structure", py_match_structure, METH_VARARGS,
                            "match_structure(structure, value): the tensors in a value of that structure; None for "
                            "one of another."},
                           {}};

}  // namespace

bool init_structure(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace mt::py
