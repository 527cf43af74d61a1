// The Python object of a tensor. It owns the tensor; where the tensor outlives the last reference to an object that
// somebody could tell from a new one, because it has attributes, weak references or a class of its own, the tensor owns
// the object until Python sees it again (`kept`).
#pragma once

#include <Python.h>

#include "core/tensor.h"

namespace mt {

struct TensorObject {
    PyObject_HEAD Tensor* tensor;  // owned, unless `kept`
    PyObject* dict;
    PyObject* weakrefs;
    bool kept;
};

// Whether Python code has a reference to the tensor's object.
inline bool held_by_python(const Tensor& tensor) {
    return tensor.pyobject && !reinterpret_cast<const TensorObject*>(tensor.pyobject)->kept;
}

// Whether it has no attributes of Python's, and no class but Tensor.
inline bool plain_in_python(const Tensor& tensor) {
    if (!tensor.pyobject) return true;
    PyObject* attributes = reinterpret_cast<const TensorObject*>(tensor.pyobject)->dict;
    return !PyType_HasFeature(Py_TYPE(tensor.pyobject), Py_TPFLAGS_HEAPTYPE) &&
           (!attributes || PyDict_GET_SIZE(attributes) == 0);
}

}  // namespace mt
