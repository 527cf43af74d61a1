#include "core/error.h"
#include "core/process/interrupt.h"
#include "trace/plan/stopped.h"

namespace mt::trace {

Failure Failure::current() {
    try {
        throw;
    } catch (const Error& error) {
        if (error.kind() != ErrorKind::Python) set_python_error_callback(error);
    } catch (const std::bad_alloc&) {
        PyErr_SetString(PyExc_MemoryError, "cannot allocate memory for a computation");
    } catch (const std::exception& error) { PyErr_SetString(PyExc_RuntimeError, error.what()); }
    return of_python();
}

Failure Failure::of_python() {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    Failure failure;
    failure.type_ = PyRef(type);
    failure.value_ = PyRef(value);
    failure.traceback_ = PyRef(traceback);
    return failure;
}

bool Failure::from_outside() const {
    return value_.get() == t_interruption || !PyErr_GivenExceptionMatches(type_.get(), PyExc_Exception);
}

bool Failure::is_memory_error() const { return PyErr_GivenExceptionMatches(type_.get(), PyExc_MemoryError); }

std::string Failure::text() const {
    std::string text = reinterpret_cast<PyTypeObject*>(type_.get())->tp_name;
    PyRef message(value_ ? PyObject_Str(value_.get()) : nullptr);
    const char* words = message ? PyUnicode_AsUTF8(message.get()) : nullptr;
    if (words && *words) text += std::string(": ") + words;
    PyRef notes(value_ ? PyObject_GetAttrString(value_.get(), "__notes__") : nullptr);
    if (notes && PyList_Check(notes.get()) && PyList_GET_SIZE(notes.get())) {
        PyObject* last = PyList_GET_ITEM(notes.get(), PyList_GET_SIZE(notes.get()) - 1);
        const char* note = PyUnicode_Check(last) ? PyUnicode_AsUTF8(last) : nullptr;
        if (note) text += std::string(" (") + note + ")";
    }
    PyErr_Clear();
    return text;
}

void Failure::raise() {
    PyErr_Restore(type_.release(), value_.release(), traceback_.release());
    fail_python();
}

}  // namespace mt::trace
