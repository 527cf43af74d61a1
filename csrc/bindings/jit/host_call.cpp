// Calls of compiled code to Python: custom-calls, and the linear algebra that is NumPy's.
#include "runtime/host_call.h"

#include "bindings/py.h"
#include "trace/plan/launch_scratch.h"

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

PyObject* py_launch_values(PyObject*, PyObject*) {
    return guarded([]() -> PyObject* {
        PyObject* values = trace::LaunchScratch::values();
        if (!values && PyErr_Occurred()) fail_python();
        return Py_NewRef(values ? values : Py_None);
    });
}

PyObject* py_share_launch_memory(PyObject*, PyObject* args) {
    unsigned long long address;
    PyObject* like;
    if (!PyArg_ParseTuple(args, "KO!", &address, &TensorType, &like)) return nullptr;
    return guarded([&]() -> PyObject* {
        const Tensor& t = *tensor_of(like);
        auto* data = reinterpret_cast<void*>(static_cast<uintptr_t>(address));
        Ref<Storage> storage = trace::LaunchScratch::share(data, byte_count(t.sizes, t.dtype));
        if (!storage) Py_RETURN_NONE;
        return wrap(made_now(Tensor::make(std::move(storage), t.dtype, t.sizes, contiguous_strides(t.sizes), 0)));
    });
}

PyMethodDef host_call_functions[] = {
    {"launch_values", method<py_launch_values>(), METH_NOARGS,
     "A dict that goes with the launch that runs in this thread; None if no launch that has scratch memory runs."},
    {"share_launch_memory", method<py_share_launch_memory>(), METH_VARARGS,
     "share_launch_memory(address, like): a contiguous tensor of a dtype and shape in that launch's scratch memory, "
     "which it may outlive; None if the address is elsewhere."},
    {}};

}  // namespace

bool init_host_call(PyObject* module) { return PyModule_AddFunctions(module, host_call_functions) == 0; }

PyObject* py_set_host_call(PyObject*, PyObject* callable) {
    Py_XSETREF(g_host_call, Py_NewRef(callable));
    Py_RETURN_NONE;
}

}  // namespace mt::py
