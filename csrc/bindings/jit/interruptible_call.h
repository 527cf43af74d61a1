// Calls of Python that Ctrl-C can end: the compiler runs on a thread of its own, and the program's waits for it.
#pragma once

#include "bindings/py.h"

namespace mt::py {

// callable(*args), where no exception from outside can come in: Python runs the handlers of signals in the main thread,
// and what is raised in a thread by its number is meant for the program's. Here they find this thread waiting; what a
// handler raises ends that, and the call goes on for nobody. The callee has this thread's options and context
// variables. If this thread is in the middle of an import, which the callee might wait for, it calls by itself.
PyRef call_interruptibly(PyObject* callable, PyObject* args);
bool init_interruptible_call(PyObject* module);
bool init_llvm_calls(PyObject* module);
bool init_process_group(PyObject* module);

}  // namespace mt::py
