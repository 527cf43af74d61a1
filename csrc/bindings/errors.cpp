// C++ errors as Python's exceptions.
#include <cctype>
#include <string>
#include <string_view>

#include "bindings/py.h"
#include "bindings/tensor/type_objects.h"

namespace mt::py {

PyObject* OutOfMemoryError = nullptr;

namespace {
// PyTorch raises RuntimeErrors for these; they are what Python calls them, too.
PyObject* g_zero_division = nullptr;
}  // namespace

void report_unraisable() {
    PyGILState_STATE state = PyGILState_Ensure();
    PyErr_WriteUnraisable(nullptr);
    PyGILState_Release(state);
}

std::string as_shown(std::string text) {
    static constexpr std::string_view kOurs = "minitensor.";
    if (!pytorch_words) return text;
    const auto in_word = [&](size_t at) {
        return at > 0 && (text[at - 1] == '.' || text[at - 1] == '_' || text[at - 1] == '/' ||
                          std::isalnum(static_cast<unsigned char>(text[at - 1])));
    };
    for (size_t at = text.find(kOurs); at != std::string::npos; at = text.find(kOurs, at + 1))
        if (!in_word(at)) text.replace(at, kOurs.size() - 1, shown_package);
    return text;
}

void set_error(const Error& error) {
    PyObject* type = PyExc_RuntimeError;
    switch (error.kind()) {
        case ErrorKind::Python: return;  // already set
        case ErrorKind::Type: type = PyExc_TypeError; break;
        case ErrorKind::Value: type = PyExc_ValueError; break;
        case ErrorKind::Index: type = PyExc_IndexError; break;
        case ErrorKind::ZeroDivision: type = g_zero_division; break;
        case ErrorKind::NotImplemented: type = PyExc_NotImplementedError; break;
        case ErrorKind::Assertion: type = PyExc_AssertionError; break;
        case ErrorKind::OutOfMemory: type = OutOfMemoryError; break;
        case ErrorKind::Runtime: break;
    }
    PyErr_SetString(type, as_shown(error.what()).c_str());
}

bool init_errors(PyObject* module) {
    PyRef bases(PyTuple_Pack(2, PyExc_RuntimeError, PyExc_ZeroDivisionError));
    if (!bases) return false;
    g_zero_division = PyErr_NewExceptionWithDoc("minitensor.ZeroDivisionError", "An integer was divided by zero.",
                                                bases.get(), nullptr);
    if (!g_zero_division) return false;
    bases = PyRef(PyTuple_Pack(2, PyExc_RuntimeError, PyExc_MemoryError));
    if (!bases) return false;
    OutOfMemoryError = PyErr_NewExceptionWithDoc("minitensor.OutOfMemoryError", "A tensor does not fit into memory.",
                                                 bases.get(), nullptr);
    return OutOfMemoryError && PyModule_AddObjectRef(module, "OutOfMemoryError", OutOfMemoryError) == 0;
}

}  // namespace mt::py
