#include "dispatch/python/python.h"

namespace mt {

PyObject* (*wrap_callback)(Ref<Tensor>) = nullptr;
Tensor* (*unwrap_callback)(PyObject*) = nullptr;
PyObject* (*value_to_python_callback)(const Value&) = nullptr;

void (*set_python_error_callback)(const Error&) = nullptr;

namespace {

void call_warning(const char* function, const std::string& text) {
    PyRef module(PyImport_ImportModule("minitensor._warning"));
    PyRef done(module ? PyObject_CallMethod(module.get(), function, "s", text.c_str()) : nullptr);
    if (!done) fail_python();
}

}  // namespace

void warn(const std::string& text) { call_warning("warn", text); }
void warn_of_pytorch(const std::string& text) { call_warning("warn_of_pytorch", text); }

PyObject* scalar_to_python(const Scalar& scalar) {
    switch (scalar.tag) {
        case Scalar::Bool: return PyBool_FromLong(scalar.i != 0);
        case Scalar::Int: return PyLong_FromLongLong(scalar.i);
        case Scalar::Complex: return PyComplex_FromDoubles(scalar.f, scalar.imag);
        default: return PyFloat_FromDouble(scalar.f);
    }
}

}  // namespace mt
