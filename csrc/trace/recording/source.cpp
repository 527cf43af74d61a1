// Source positions: a frame walk that costs tens of nanoseconds; files and lines are resolved only when somebody asks.
#include <Python.h>

#include "trace/recording/trace.h"

namespace mt::trace {

namespace {

std::vector<std::string>& prefixes() {
    static auto* list = new std::vector<std::string>;
    return *list;
}

#if PY_VERSION_HEX >= 0x030C0000
#define MT_CODE_INDEX PyUnstable_Eval_RequestCodeExtraIndex
#define MT_CODE_GET PyUnstable_Code_GetExtra
#define MT_CODE_SET PyUnstable_Code_SetExtra
#else
#define MT_CODE_INDEX _PyEval_RequestCodeExtraIndex
#define MT_CODE_GET _PyCode_GetExtra
#define MT_CODE_SET _PyCode_SetExtra
#endif

constexpr uintptr_t kUser = 1, kInternal = 2;

// Whether the code is the framework's own, remembered on the code object.
bool is_internal(PyCodeObject* code) {
    static const Py_ssize_t index = MT_CODE_INDEX(nullptr);
    void* extra = nullptr;
    auto* object = reinterpret_cast<PyObject*>(code);
    if (index >= 0 && MT_CODE_GET(object, index, &extra) == 0 && extra)
        return reinterpret_cast<uintptr_t>(extra) == kInternal;
    bool internal = false;
    Py_ssize_t length = 0;
    if (const char* name = PyUnicode_AsUTF8AndSize(code->co_filename, &length)) {
        std::string_view file(name, static_cast<size_t>(length));
        for (const std::string& prefix : prefixes()) internal |= file.starts_with(prefix);
    } else {
        PyErr_Clear();
    }
    if (index >= 0) MT_CODE_SET(object, index, reinterpret_cast<void*>(internal ? kInternal : kUser));
    return internal;
}

}  // namespace

void set_internal_prefixes(std::vector<std::string> list) { prefixes() = std::move(list); }

void capture_source(SourceRef* source, const PyObject* known_code) {
    if (source_override) {
        source->code = Py_NewRef(source_override->code);
        source->lasti = source_override->lasti;
        return;
    }
    PyFrameObject* frame = PyEval_GetFrame();
    if (!frame) return;
    Py_INCREF(frame);
    while (frame) {
        PyCodeObject* code = PyFrame_GetCode(frame);
        if (reinterpret_cast<PyObject*>(code) == known_code || !is_internal(code)) {
            source->code = reinterpret_cast<PyObject*>(code);
            source->lasti = PyFrame_GetLasti(frame);
            Py_DECREF(frame);
            return;
        }
        Py_DECREF(code);
        PyFrameObject* back = PyFrame_GetBack(frame);
        Py_DECREF(frame);
        frame = back;
    }
}

}  // namespace mt::trace
