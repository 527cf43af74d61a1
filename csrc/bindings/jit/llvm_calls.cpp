// Calls of LLVM, which ends the process where it meets what it has no code for.
#include <string>

#include "bindings/jit/interruptible_call.h"
#include "core/process/expendable.h"
#include "core/process/faults.h"

namespace mt::py {

namespace {

// The functions of llvmlite's library that the compiler needs.
using Parse = void* (*)(void* context, const char* text, const char** error);
using Emit = void* (*)(void* machine, void* module, int object, const char** error);

struct Job {
    Parse parse;
    Emit emit;
    void *context, *machine;
    const char* text;
    int object;
    void *module = nullptr, *buffer = nullptr;
    const char* error = nullptr;
};

void run_job(void* argument) {
    Job& job = *static_cast<Job*>(argument);
    fault_point(FaultPlace::Llvm);
    job.module = job.parse(job.context, job.text, &job.error);
    if (job.module) job.buffer = job.emit(job.machine, job.module, job.object, &job.error);
}

PyObject* py_llvm_emit(PyObject*, PyObject* args) {
    unsigned long long parse, emit, context, machine;
    const char* text;
    int object;
    if (!PyArg_ParseTuple(args, "KKKKyp:_llvm_emit", &parse, &emit, &context, &machine, &text, &object)) return nullptr;
    return guarded([&]() -> PyObject* {
        Job job{reinterpret_cast<Parse>(parse),
                reinterpret_cast<Emit>(emit),
                reinterpret_cast<void*>(context),
                reinterpret_cast<void*>(machine),
                text,
                object};
        int how;
        {
            ReleaseGil gil;
            how = run_expendable(run_job, &job);
        }
        if (how >= 0) return PyLong_FromLong(how);
        return Py_BuildValue("KKz", reinterpret_cast<unsigned long long>(job.module),
                             reinterpret_cast<unsigned long long>(job.buffer), job.error);
    });
}

PyMethodDef llvm_calls_functions[] = {
    {"_llvm_emit", method<py_llvm_emit>(), METH_VARARGS,
     "_llvm_emit(parse, emit, context, machine, text, object) -> (module, buffer, error), or the number of the signal "
     "that would have ended the process. With the addresses of LLVM's functions."},
    {}};

}  // namespace

bool init_llvm_calls(PyObject* module) { return PyModule_AddFunctions(module, llvm_calls_functions) == 0; }

}  // namespace mt::py
