// The structures of nested arguments and results, which minitensor_jit/functions/arguments.py makes: whether a value
// has one that is known, with the tensors in it, which a compiled function asks first, since most calls look like the
// one before; and the value of a structure with other tensors.
#include <cmath>
#include <cstdlib>
#include <vector>

#include "bindings/jit/state/expected_value.h"
#include "bindings/py.h"

namespace mt::py {

namespace {

PyObject* part(PyObject* structure, Py_ssize_t place) {
    if (!PyTuple_Check(structure) || place >= PyTuple_GET_SIZE(structure)) fail_type("match_structure: no structure");
    return PyTuple_GET_ITEM(structure, place);
}

// Structures may be nested deeper than the stack.
class Deeper {
  public:
    Deeper() {
        if (Py_EnterRecursiveCall(" in the structure of arguments")) fail_python();
    }
    ~Deeper() { Py_LeaveRecursiveCall(); }
    Deeper(const Deeper&) = delete;
};

// By type and by bits, through tuples and frozen sets: 0.0 and -0.0 differ, and so do 1 and True.
bool equal(PyObject* a, PyObject* b) {
    if (same_value(a, b)) return true;
    if (Py_TYPE(a) != Py_TYPE(b) || PyTuple_CheckExact(a) || PyComplex_CheckExact(a) || PyFloat_CheckExact(a) ||
        PyFrozenSet_CheckExact(a))
        return false;
    if (PyRange_Check(a)) {
        for (const char* name : {"start", "stop", "step"}) {
            PyRef one = checked(PyObject_GetAttrString(a, name)), other = checked(PyObject_GetAttrString(b, name));
            if (!same_value(one.get(), other.get())) return false;
        }
        return true;
    }
    int same = PyObject_RichCompareBool(a, b, Py_EQ);
    if (same < 0) fail_python();
    return same == 1;
}

double digits_of(PyObject* structure) {
    const char* digits = PyUnicode_AsUTF8(part(structure, 1));
    if (!digits) fail_python();
    return std::strtod(digits, nullptr);
}

bool match(PyObject* structure, PyObject* value, std::vector<PyRef>& tensors);

bool match_slice(PyObject* bounds, PyObject* value) {
    auto* slice = reinterpret_cast<PySliceObject*>(value);
    return equal(part(bounds, 0), slice->start) && equal(part(bounds, 1), slice->stop) &&
           equal(part(bounds, 2), slice->step);
}

// ("dict", keys, parts...): the same keys in the same order.
bool match_dict(PyObject* structure, PyObject* value, std::vector<PyRef>& tensors) {
    PyObject* keys = part(structure, 1);
    if (!PyTuple_Check(keys)) fail_type("match_structure: no structure");
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
bool match_sequence(PyObject* structure, PyObject* value, std::vector<PyRef>& tensors) {
    if (reinterpret_cast<PyObject*>(Py_TYPE(value)) != part(structure, 1)) return false;
    PyObject** attributes = _PyObject_GetDictPtr(value);  // of a class that is made of a named tuple's
    if (attributes && *attributes && PyDict_GET_SIZE(*attributes)) return false;
    PyRef items = tuple_of(value);
    const Py_ssize_t count = PyTuple_GET_SIZE(structure) - 2;
    if (PyTuple_GET_SIZE(items.get()) != count) return false;
    for (Py_ssize_t i = 0; i < count; ++i)
        if (!match(part(structure, 2 + i), part(items.get(), i), tensors)) return false;
    return true;
}

bool match(PyObject* structure, PyObject* value, std::vector<PyRef>& tensors) {
    Deeper deeper;
    const char* tag = PyUnicode_AsUTF8(part(structure, 0));
    if (!tag) fail_python();
    switch (tag[0]) {
        case 't':  // ("tensor",)
            if (!is_tensor(value)) return false;
            tensors.push_back(PyRef::borrow(value));
            return true;
        case 'd': return match_dict(structure, value, tensors);
        case 'f': {  // ("float", hexadecimal digits): 0.0 and -0.0 differ, NaN is itself
            if (!PyFloat_CheckExact(value)) return false;
            const double is = PyFloat_AS_DOUBLE(value), was = digits_of(structure);
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

// The tensors that a value is built of, in order.
struct Supply {
    const PyRef* next;
    const PyRef* end;
};

PyRef build(PyObject* structure, Supply& tensors);

PyRef build_dict(PyObject* structure, Supply& tensors) {
    PyRef dict = checked(PyDict_New());
    PyObject* keys = part(structure, 1);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(keys); ++i) {
        PyRef item = build(part(structure, 2 + i), tensors);
        if (PyDict_SetItem(dict.get(), part(keys, i), item.get()) < 0) fail_python();
    }
    return dict;
}

PyRef build_sequence(PyObject* structure, Supply& tensors) {
    PyObject* kind = part(structure, 1);
    const Py_ssize_t count = PyTuple_GET_SIZE(structure) - 2;
    const bool list = kind == reinterpret_cast<PyObject*>(&PyList_Type);
    PyRef items = checked(list ? PyList_New(count) : PyTuple_New(count));
    for (Py_ssize_t i = 0; i < count; ++i) {
        PyObject* item = build(part(structure, 2 + i), tensors).release();
        if (list) PyList_SET_ITEM(items.get(), i, item);
        else PyTuple_SET_ITEM(items.get(), i, item);
    }
    if (list || kind == reinterpret_cast<PyObject*>(&PyTuple_Type)) return items;
    // A named tuple: what its class does when it is called was done by the function.
    PyRef arguments = checked(PyTuple_Pack(1, items.get()));
    return checked(PyTuple_Type.tp_new(reinterpret_cast<PyTypeObject*>(kind), arguments.get(), nullptr));
}

PyRef build(PyObject* structure, Supply& tensors) {
    const char* tag = PyUnicode_AsUTF8(part(structure, 0));
    if (!tag) fail_python();
    switch (tag[0]) {
        case 't':
            if (tensors.next == tensors.end) fail_type("a structure has more tensors than were given for it");
            return PyRef::borrow((tensors.next++)->get());
        case 'd': return build_dict(structure, tensors);
        case 'f': return checked(PyFloat_FromDouble(digits_of(structure)));
        case 'v': {
            PyObject* value = part(structure, 2);
            if (part(structure, 1) == reinterpret_cast<PyObject*>(&PySlice_Type))
                return checked(PySlice_New(part(value, 0), part(value, 1), part(value, 2)));
            return PyRef::borrow(value);
        }
        default: break;
    }
    if (tag[1] == 'e') return build_sequence(structure, tensors);
    return checked(PyObject_GetAttrString(part(structure, 1), "thing"));
}

// build_structure(structure, tensors) -> the value
PyObject* py_build_structure(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *structure, *given;
        if (!PyArg_ParseTuple(args, "O!O:build_structure", &PyTuple_Type, &structure, &given)) return nullptr;
        PyRef sequence = checked(PySequence_Fast(given, "build_structure: tensors are expected as a sequence"));
        std::vector<PyRef> tensors;
        for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence.get()); ++i)
            tensors.push_back(PyRef::borrow(PySequence_Fast_GET_ITEM(sequence.get(), i)));
        return build_structure(structure, tensors.data(), tensors.size());
    });
}

// match_structure(structure, value) -> the tensors in it, or None
PyObject* py_match_structure(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *structure, *value;
        if (!PyArg_ParseTuple(args, "O!O:match_structure", &PyTuple_Type, &structure, &value)) return nullptr;
        std::vector<PyRef> tensors;
        if (!match(structure, value, tensors)) Py_RETURN_NONE;
        PyRef list = checked(PyList_New(static_cast<Py_ssize_t>(tensors.size())));
        for (size_t i = 0; i < tensors.size(); ++i)
            PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), tensors[i].release());
        return list.release();
    });
}

PyMethodDef structure_functions[] = {
    {"match_structure", method<py_match_structure>(), METH_VARARGS,
     "match_structure(structure, value): the tensors in a value of that structure; None for "
     "one of another."},
    {"build_structure", method<py_build_structure>(), METH_VARARGS,
     "build_structure(structure, tensors): the value of that structure with those tensors."},
    {}};

}  // namespace

bool match_call(PyObject* structure, PyObject* const* args, size_t nargs, PyObject* kwnames,
                std::vector<PyRef>& tensors) {
    PyObject *positional = part(structure, 2), *keywords = part(structure, 3), *keys = part(keywords, 1);
    const Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (PyTuple_GET_SIZE(positional) != static_cast<Py_ssize_t>(nargs) + 2 || PyTuple_GET_SIZE(keys) != named)
        return false;
    for (Py_ssize_t k = 0; k < named; ++k)
        if (!equal(part(keys, k), part(kwnames, k))) return false;
    for (size_t i = 0; i < nargs; ++i)
        if (!match(part(positional, static_cast<Py_ssize_t>(i) + 2), args[i], tensors)) return false;
    for (Py_ssize_t k = 0; k < named; ++k)
        if (!match(part(keywords, k + 2), args[static_cast<Py_ssize_t>(nargs) + k], tensors)) return false;
    return true;
}

PyObject* build_structure(PyObject* structure, const PyRef* tensors, size_t count) {
    Supply supply{tensors, tensors + count};
    PyRef value = build(structure, supply);
    if (supply.next != supply.end) fail_type("a structure has fewer tensors than were given for it");
    return value.release();
}

bool init_structure(PyObject* module) { return PyModule_AddFunctions(module, structure_functions) == 0; }

}  // namespace mt::py
