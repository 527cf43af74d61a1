// Frames and code of the interpreter, as each version of CPython keeps them.
#pragma once

#include "bindings/py.h"

// 3.14 keeps other things on a frame's stack than pointers to objects.
#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030E0000 && !defined(Py_GIL_DISABLED)
#define MT_CAN_OBSERVE 1
#define Py_BUILD_CORE 1
#undef HAVE_STD_ATOMIC   // it is C's
#undef _PyGC_FINALIZED  // what it stands for outside
extern "C" {
#include <internal/pycore_frame.h>
#include <internal/pycore_runtime.h>
}
#undef Py_BUILD_CORE

namespace mt::py {

using Frame = _PyInterpreterFrame;

#if PY_VERSION_HEX >= 0x030D0000
inline PyCodeObject* code_of(const Frame* frame) { return reinterpret_cast<PyCodeObject*>(frame->f_executable); }
inline PyObject* function_of(const Frame* frame) { return frame->f_funcobj; }
inline Frame* current_frame(PyThreadState* thread) { return thread->current_frame; }
#elif PY_VERSION_HEX >= 0x030C0000
inline PyCodeObject* code_of(const Frame* frame) { return frame->f_code; }
inline PyObject* function_of(const Frame* frame) { return frame->f_funcobj; }
inline Frame* current_frame(PyThreadState* thread) { return thread->cframe->current_frame; }
#else
inline PyCodeObject* code_of(const Frame* frame) { return frame->f_code; }
inline PyObject* function_of(const Frame* frame) { return reinterpret_cast<PyObject*>(frame->f_func); }
inline Frame* current_frame(PyThreadState* thread) { return thread->cframe->current_frame; }
#endif

#if PY_VERSION_HEX >= 0x030C0000
constexpr auto request_code_extra = PyUnstable_Eval_RequestCodeExtraIndex;
constexpr auto code_extra = PyUnstable_Code_GetExtra;
constexpr auto set_code_extra = PyUnstable_Code_SetExtra;
#else
constexpr auto request_code_extra = _PyEval_RequestCodeExtraIndex;
constexpr auto code_extra = _PyCode_GetExtra;
constexpr auto set_code_extra = _PyCode_SetExtra;
#endif

// One that runs Python code, and has begun to.
inline bool is_complete(Frame* frame) {
#if PY_VERSION_HEX >= 0x030C0000
    if (frame->owner == FRAME_OWNED_BY_CSTACK) return false;
#endif
    return !_PyFrame_IsIncomplete(frame);
}

inline Frame* complete_frame(Frame* frame) {
    while (frame && !is_complete(frame)) frame = frame->previous;
    return frame;
}

inline PyObject** stack_of(Frame* frame) { return frame->localsplus + code_of(frame)->co_nlocalsplus; }

inline unsigned long& main_thread() { return _PyRuntime.main_thread; }

}  // namespace mt::py

#else
#define MT_CAN_OBSERVE 0
#endif
