// How C++ below bindings/ reaches Python's tensor objects.
#pragma once

#include <Python.h>

#include "core/error.h"
#include "dispatch/op.h"

namespace mt {

// Owns one count of a Python object.
class PyRef {
  public:
    PyRef() = default;
    explicit PyRef(PyObject* owned) : object_(owned) {}
    PyRef(PyRef&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
    PyRef& operator=(PyRef&& other) noexcept {
        std::swap(object_, other.object_);
        return *this;
    }
    PyRef(const PyRef&) = delete;
    ~PyRef() { Py_XDECREF(object_); }
    static PyRef borrow(PyObject* object) { return PyRef(Py_XNewRef(object)); }
    PyObject* get() const { return object_; }
    PyObject* release() { return std::exchange(object_, nullptr); }
    explicit operator bool() const { return object_ != nullptr; }

  private:
    PyObject* object_ = nullptr;
};

extern PyObject* (*wrap_hook)(Ref<Tensor> tensor);      // new reference; None for a null tensor
extern Tensor* (*unwrap_hook)(PyObject* object);        // borrowed; null if it isn't a tensor
extern PyObject* (*value_to_python_hook)(const Value& value);
extern void (*set_python_error_hook)(const Error& error);  // raises it as a Python exception
PyObject* scalar_to_python(const Scalar& scalar);

}  // namespace mt
