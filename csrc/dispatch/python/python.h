// How C++ below bindings/ reaches Python's tensor objects.
#pragma once

#include <Python.h>

#include "core/error.h"
#include "dispatch/op.h"

namespace mt {

// Where the interpreter shuts down, CPython before 3.14 ends the threads that want the GIL by unwinding them, without
// it: one that comes by here then waits for the end of the process.
void wait_if_unwound() noexcept;

inline bool interpreter_ends() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
}

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
    ~PyRef() {
        if (!object_) return;
        if (__builtin_expect(interpreter_ends(), 0)) wait_if_unwound();
        Py_DECREF(object_);
    }
    static PyRef borrow(PyObject* object) { return PyRef(Py_XNewRef(object)); }
    PyObject* get() const { return object_; }
    PyObject* release() { return std::exchange(object_, nullptr); }
    explicit operator bool() const { return object_ != nullptr; }

  private:
    PyObject* object_ = nullptr;
};

extern PyObject* (*wrap_callback)(Ref<Tensor> tensor);      // new reference; None for a null tensor
extern Tensor* (*unwrap_callback)(PyObject* object);        // borrowed; null if it isn't a tensor
extern PyObject* (*value_to_python_callback)(const Value& value);
extern void (*set_python_error_callback)(const Error& error);  // raises it as a Python exception
PyObject* scalar_to_python(const Scalar& scalar);

// Warns at the user's line, and tells a function that is being recorded (minitensor/_warning.py). Throws where a filter
// makes it an error.
void warn(const std::string& text);
// What is to change in PyTorch alone: said where a program runs under its name, once.
void warn_of_pytorch(const std::string& text);

// A tuple of a sequence's items; nothing else calls CPython's function. Up to Python 3.11 its allocation collects
// garbage after it has looked where a list's items are: a finalizer that changes that list had it read freed memory.
inline PyRef tuple_of(PyObject* sequence) {
    const bool list = PyList_CheckExact(sequence);
    const Py_ssize_t count = list ? PyList_GET_SIZE(sequence) : 0;
    PyRef tuple(list ? PyTuple_New(count) : PySequence_Tuple(sequence));
    if (!tuple) fail_python();
    if (!list) return tuple;
    if (PyList_GET_SIZE(sequence) != count) fail("the list changed size while it was read");
    for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(PyList_GET_ITEM(sequence, i)));
    return tuple;
}

}  // namespace mt
