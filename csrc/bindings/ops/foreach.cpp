// One op on many tensors: the loop over lists without an interpreter's step for each.
#include <string>
#include <vector>

#include "bindings/py.h"

namespace mt::py {

namespace {

// foreach(op, lists, names): op(lists[0][i], lists[1][i], ...) for every i, as a tuple. What is no list or tuple is the
// same for all; the last len(names) are passed by these names.
PyObject* py_foreach(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *op, *lists, *names;
        if (!PyArg_ParseTuple(args, "OO!O!:foreach", &op, &PyTuple_Type, &lists, &PyTuple_Type, &names)) return nullptr;
        Py_ssize_t width = PyTuple_GET_SIZE(lists), keywords = PyTuple_GET_SIZE(names);
        if (width == 0 || keywords >= width) fail_type("foreach(op, lists, names) needs a list");
        for (Py_ssize_t i = 0; i < keywords; ++i)
            if (!PyUnicode_Check(PyTuple_GET_ITEM(names, i))) fail_type("foreach: names must be strings");
        // Copies: an op may run Python code, which could change a list.
        std::vector<PyRef> columns;
        std::vector<bool> is_list;
        Py_ssize_t count = -1;
        for (Py_ssize_t j = 0; j < width; ++j) {
            PyObject* item = PyTuple_GET_ITEM(lists, j);
            is_list.push_back(PyList_Check(item) || PyTuple_Check(item));
            columns.push_back(is_list.back() ? tuple_of(item) : PyRef::borrow(item));
            if (!is_list.back()) continue;
            Py_ssize_t size = PyTuple_GET_SIZE(columns.back().get());
            if (count >= 0 && size != count)
                fail("Tensor lists must have the same number of tensors, got " + std::to_string(count) + " and " +
                     std::to_string(size));
            count = size;
        }
        if (count <= 0) fail("Tensor list must have at least one tensor.");
        PyRef results = checked(PyTuple_New(count));
        std::vector<PyObject*> call(static_cast<size_t>(width));
        for (Py_ssize_t i = 0; i < count; ++i) {
            for (size_t j = 0; j < call.size(); ++j)
                call[j] = is_list[j] ? PyTuple_GET_ITEM(columns[j].get(), i) : columns[j].get();
            PyObject* result = PyObject_Vectorcall(op, call.data(), static_cast<size_t>(width - keywords),
                                                   keywords ? names : nullptr);
            if (!result) return nullptr;
            PyTuple_SET_ITEM(results.get(), i, result);
        }
        return results.release();
    });
}

PyMethodDef foreach_functions[] = {
    {"foreach", method<py_foreach>(), METH_VARARGS, "foreach(op, lists, names): the op on the items of lists."}, {}};

}  // namespace

bool init_foreach(PyObject* module) { return PyModule_AddFunctions(module, foreach_functions) == 0; }

}  // namespace mt::py
