#include "bindings/jit/state/expected_value.h"

#include <cstring>

namespace mt::py {

namespace {

// A class of dicts: what an object was that is known by its class, under None, and by its attributes.
PyObject* snapshot_type = nullptr;
// NumPy's scalars are immutable.
bool numpy_scalar(PyObject* object) {
    const char* name = Py_TYPE(object)->tp_name;
    return std::strncmp(name, "numpy.", 6) == 0 && std::strcmp(name, "numpy.ndarray") != 0 &&
           Py_TYPE(object)->tp_as_buffer && Py_TYPE(object)->tp_as_buffer->bf_getbuffer &&
           !(Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE);
}

bool same_bytes(PyObject* a, PyObject* b) {
    Py_buffer one, other;
    if (PyObject_GetBuffer(a, &one, PyBUF_FULL_RO) < 0) return PyErr_Clear(), false;
    bool equal = false;
    if (PyObject_GetBuffer(b, &other, PyBUF_FULL_RO) < 0) {
        PyErr_Clear();
    } else {
        equal = one.len == other.len && std::memcmp(one.buf, other.buf, static_cast<size_t>(one.len)) == 0;
        PyBuffer_Release(&other);
    }
    PyBuffer_Release(&one);
    return equal;
}

// Whether two dicts have the same keys and values in the same order; of dicts and sets in them it's asked likewise.
bool same_items(PyObject* then, PyObject* now) {
    if (then == now) return true;
    if (Py_TYPE(then) != Py_TYPE(now)) return false;
    if (PyAnySet_Check(then)) return PySet_GET_SIZE(then) == 0 && PySet_GET_SIZE(now) == 0;
    if (!PyDict_Check(then)) return same_value(then, now);
    if (PyDict_GET_SIZE(then) != PyDict_GET_SIZE(now)) return false;
    PyObject *key, *value, *other_key, *other_value;
    Py_ssize_t at = 0, other_at = 0;
    while (PyDict_Next(then, &at, &key, &value) && PyDict_Next(now, &other_at, &other_key, &other_value))
        if (!same_value(key, other_key) || !same_items(value, other_value)) return false;
    return true;
}

bool is_as_then(PyObject* snapshot, PyObject* now) {
    PyObject* attributes = attributes_of(now);
    if (PyDict_GetItem(snapshot, Py_None) != reinterpret_cast<PyObject*>(Py_TYPE(now)) || !attributes ||
        PyDict_GET_SIZE(attributes) + 1 != PyDict_GET_SIZE(snapshot))
        return false;
    PyObject *name, *value;
    for (Py_ssize_t at = 0; PyDict_Next(attributes, &at, &name, &value);) {
        PyObject* then = PyDict_GetItem(snapshot, name);
        if (!then || !same_items(then, value)) return false;
    }
    return true;
}

}  // namespace

PyObject *local_type = nullptr, *dict_name = nullptr;

void set_snapshot_type(PyObject* type) { Py_XSETREF(snapshot_type, Py_NewRef(type)); }

bool is_snapshot(PyObject* object) { return reinterpret_cast<PyObject*>(Py_TYPE(object)) == snapshot_type; }

bool is_plain(PyObject* object) {
    return PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyUnicode_CheckExact(object) ||
           PyBytes_CheckExact(object) || PyComplex_CheckExact(object) || PyTuple_CheckExact(object) ||
           PyFrozenSet_CheckExact(object) || numpy_scalar(object) || is_snapshot(object);
}

bool same_value(PyObject* then, PyObject* now) {
    if (then == now) return true;
    if (is_snapshot(then)) return is_as_then(then, now);
    if (Py_TYPE(then) != Py_TYPE(now)) return false;
    if (PyFloat_CheckExact(then)) {
        double a = PyFloat_AS_DOUBLE(then), b = PyFloat_AS_DOUBLE(now);
        return std::memcmp(&a, &b, sizeof a) == 0;
    }
    if (PyComplex_CheckExact(then)) {
        const Py_complex a = to_complex(then), b = to_complex(now);
        return std::memcmp(&a, &b, sizeof a) == 0;
    }
    if (PyTuple_CheckExact(then)) {
        if (PyTuple_GET_SIZE(then) != PyTuple_GET_SIZE(now)) return false;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(then); ++i)
            if (!same_value(PyTuple_GET_ITEM(then, i), PyTuple_GET_ITEM(now, i))) return false;
        return true;
    }
    if (PyLong_CheckExact(then) || PyUnicode_CheckExact(then) || PyBytes_CheckExact(then)) {
        int equal = PyObject_RichCompareBool(then, now, Py_EQ);
        if (equal < 0) PyErr_Clear();
        return equal == 1;
    }
    return numpy_scalar(then) && same_bytes(then, now);
}

bool init_expected_values() {
    PyRef threads(PyImport_ImportModule("_thread"));
    local_type = threads ? PyObject_GetAttrString(threads.get(), "_local") : nullptr;
    dict_name = PyUnicode_InternFromString("__dict__");
    return local_type && dict_name;
}

}  // namespace mt::py
