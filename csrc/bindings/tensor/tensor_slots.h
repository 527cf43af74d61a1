// Slots of the class of tensors, and its methods in C++.
#pragma once

#include "bindings/py.h"

namespace mt::py {

// tensor_object.cpp
void tensor_dealloc(PyObject* self);
int tensor_traverse(PyObject* self, visitproc visit, void* arg);
int tensor_clear(PyObject* self);
// The tensor's last owner in C++ is gone: its object, which it has kept, goes with it.
void drop_object(Tensor* tensor);

// tensor_methods.cpp
extern PyMethodDef tensor_methods[];
// TypeError if it is in a sparse layout.
const Tensor& checked_dense(const Tensor& tensor);

}  // namespace mt::py
