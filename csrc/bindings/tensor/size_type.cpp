// The Python type of shapes.
#include <string>

#include "bindings/py.h"
#include "bindings/tensor/type_objects.h"

namespace mt::py {

namespace {

// Whatever is an integer becomes an int: a bool, NumPy's, a tensor of one.
PyObject* size_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    return guarded([&]() -> PyObject* {
        PyRef items, given;  // `args` with a list's items in a tuple
        if (PyTuple_GET_SIZE(args) == 1 && PyList_CheckExact(PyTuple_GET_ITEM(args, 0))) {
            items = tuple_of(PyTuple_GET_ITEM(args, 0));
            given = checked(PyTuple_Pack(1, items.get()));
            args = given.get();
        }
        PyRef self = checked(PyTuple_Type.tp_new(type, args, kwargs));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self.get()); ++i) {
            PyObject* item = PyTuple_GET_ITEM(self.get(), i);
            if (!PyLong_Check(item) || PyBool_Check(item)) {  // a size that varies is an int of a class of its own
                PyRef number(PyNumber_Index(item));
                if (!number && !PyErr_ExceptionMatches(PyExc_TypeError)) fail_python();
                if (!number) {
                    PyErr_Clear();
                    fail_type(shown_package + ".Size() takes an iterable of 'int' (item " + std::to_string(i) +
                              " is '" + Py_TYPE(item)->tp_name + "')");
                }
                if (PyBool_Check(number.get())) number = checked(PyNumber_Long(number.get()));
                PyTuple_SET_ITEM(self.get(), i, number.release());
                Py_DECREF(item);
                item = PyTuple_GET_ITEM(self.get(), i);
            }
            int64_t value;
            if (!to_int64(item, &value)) fail_value("Overflow when unpacking long long");
        }
        return self.release();
    });
}

PyObject* size_repr(PyObject* self) {
    PyRef list(PySequence_List(self));
    return list ? PyUnicode_FromFormat("%s.Size(%R)", shown_package.c_str(), list.get()) : nullptr;
}
PyObject* size_numel(PyObject* self, PyObject*) {
    PyRef count(PyLong_FromLong(1));
    for (Py_ssize_t i = 0; count && i < PyTuple_GET_SIZE(self); ++i)
        count = PyRef(PyNumber_Multiply(count.get(), PyTuple_GET_ITEM(self, i)));
    return count.release();
}
// Sums, multiples and slices of sizes are sizes.
PyObject* size_from(PyObject* tuple) {
    if (!tuple || !PyTuple_CheckExact(tuple)) return tuple;
    PyRef held(tuple);
    return PyObject_CallOneArg(reinterpret_cast<PyObject*>(&SizeType), tuple);
}
PyObject* size_add(PyObject* a, PyObject* b) {
    if (!PyTuple_Check(a) || !PyTuple_Check(b)) Py_RETURN_NOTIMPLEMENTED;
    return size_from(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}
PyObject* size_repeat(PyObject* self, Py_ssize_t n) {
    PyRef plain(PyTuple_GetSlice(self, 0, PyTuple_GET_SIZE(self)));
    if (!plain) return nullptr;
    return size_from(PyTuple_Type.tp_as_sequence->sq_repeat(plain.get(), n));
}
PyObject* size_subscript(PyObject* self, PyObject* key) {
    return size_from(PyTuple_Type.tp_as_mapping->mp_subscript(self, key));
}
PyNumberMethods size_number;
PySequenceMethods size_sequence;
PyMappingMethods size_mapping;

PyMethodDef size_methods[] = {{"numel", method<size_numel>(), METH_NOARGS, "The product of the sizes."}, {}};

}  // namespace

PyTypeObject SizeType = named_type("minitensor.Size", "The shape of a tensor: a tuple of ints.", 0);

PyObject* size_object(Dims dims) {
    PyObject* self = SizeType.tp_alloc(&SizeType, static_cast<Py_ssize_t>(dims.size()));
    if (!self) return nullptr;
    for (size_t i = 0; i < dims.size(); ++i)
        PyTuple_SET_ITEM(self, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(dims[i]));
    return self;
}

PyObject* dims_to_tuple(Dims dims) {
    PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(dims.size()));
    if (!tuple) return nullptr;
    for (size_t i = 0; i < dims.size(); ++i)
        PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(dims[i]));
    return tuple;
}

bool init_sizes(PyObject* module) {
    SizeType.tp_base = &PyTuple_Type;
    SizeType.tp_new = slot<size_new>;
    SizeType.tp_repr = slot<size_repr>;
    SizeType.tp_methods = size_methods;
    size_number.nb_add = slot<size_add>;
    size_sequence.sq_repeat = slot<size_repeat>;
    size_mapping.mp_subscript = slot<size_subscript>;
    SizeType.tp_as_number = &size_number;
    SizeType.tp_as_sequence = &size_sequence;
    SizeType.tp_as_mapping = &size_mapping;
    return PyType_Ready(&SizeType) == 0 && PyModule_AddType(module, &SizeType) == 0;
}

}  // namespace mt::py
