// Calls of compiled code to Python: custom-calls, and the linear algebra that is NumPy's.
#include "runtime/host_call.h"
#include "bindings/py.h"

namespace mt::py {

namespace {

PyObject* g_host_call = nullptr;

// The text of the Python error that is set, which is cleared: compiled code goes on to its end before anybody looks.
std::string take_error() {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject* text = value ? PyObject_Str(value) : nullptr;
    const char* what = text ? PyUnicode_AsUTF8(text) : nullptr;
    std::string message = type ? reinterpret_cast<PyTypeObject*>(type)->tp_name : "an unknown error";
    if (what) message += std::string(": ") + what;
    PyErr_Clear();
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return message;
}

void call_host(const char* text, int64_t length, void** pointers) {
    PyGILState_STATE state = PyGILState_Ensure();
    std::string problem;
    // Code of an earlier process may be the first to call.
    if (!g_host_call) Py_XDECREF(PyImport_ImportModule("minitensor_jit.runtime.host_call"));
    if (!g_host_call) {
        problem = take_error();
        PyGILState_Release(state);
        fail("compiled code calls Python, and minitensor_jit.runtime.host_call can't be imported: " + problem);
    }
    PyObject* address = PyLong_FromVoidPtr(pointers);
    PyObject* source = PyUnicode_FromStringAndSize(text, static_cast<Py_ssize_t>(length));
    PyObject* returned = address && source ? PyObject_CallFunctionObjArgs(g_host_call, source, address, nullptr)
                                           : nullptr;
    if (!returned) problem = take_error();
    Py_XDECREF(returned);
    Py_XDECREF(source);
    Py_XDECREF(address);
    PyGILState_Release(state);
    if (!problem.empty()) fail("a call from compiled code to Python failed: " + problem);
}

[[maybe_unused]] const bool g_hooked = (host_call_callback = call_host) != nullptr;

}  // namespace

PyObject* py_set_host_call(PyObject*, PyObject* callable) {
    Py_XSETREF(g_host_call, Py_NewRef(callable));
    Py_RETURN_NONE;
}

}  // namespace mt::py
