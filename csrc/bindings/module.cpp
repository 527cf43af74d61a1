#include "bindings/py.h"
#include "core/interrupt.h"
#include "core/isa.h"
#include "core/parallel.h"

#ifndef MT_VERSION
#define MT_VERSION "unknown"
#endif

namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr const char* kSanitizer = "address";
#elif defined(__SANITIZE_THREAD__)
constexpr const char* kSanitizer = "thread";
#else
constexpr const char* kSanitizer = "";
#endif

#ifdef __OPTIMIZE__
constexpr bool kOptimized = true;
#else
constexpr bool kOptimized = false;
#endif

#ifdef NDEBUG
constexpr bool kAssertions = false;
#else
constexpr bool kAssertions = true;
#endif

#ifdef __clang__
constexpr const char* kCompiler = __VERSION__;
#else
constexpr const char* kCompiler = "GCC " __VERSION__;
#endif

PyObject* build_config(PyObject*, PyObject*) {
    return Py_BuildValue("{ss sl sO sO ss ss ss}", "compiler", kCompiler, "cplusplus", static_cast<long>(__cplusplus),
                         "optimized", kOptimized ? Py_True : Py_False, "assertions", kAssertions ? Py_True : Py_False,
                         "sanitizer", kSanitizer, "isa", mt::isa_name(mt::isa()), "detected_isa",
                         mt::isa_name(mt::detected_isa()));
}

unsigned long main_thread = 0;

// Of the thread that Python runs the handlers of signals in.
unsigned long find_main_thread() {
    PyObject* threading = PyImport_ImportModule("threading");
    PyObject* thread = threading ? PyObject_CallMethod(threading, "main_thread", nullptr) : nullptr;
    PyObject* number = thread ? PyObject_GetAttrString(thread, "ident") : nullptr;
    unsigned long found = number ? PyLong_AsUnsignedLong(number) : 0;
    PyErr_Clear();
    Py_XDECREF(number);
    Py_XDECREF(thread);
    Py_XDECREF(threading);
    return found;
}

// In other threads there is nothing to ask.
void run_signal_handlers() {
    if (PyThread_get_thread_ident() != main_thread || !Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    // An error that is set already is on its way.
    bool raised = !PyErr_Occurred() && PyErr_CheckSignals() < 0;
    PyGILState_Release(state);
    if (raised) mt::fail_python();
}

PyMethodDef functions[] = {
    {"build_config", build_config, METH_NOARGS, "How the extension was built, and the instruction set that it uses."},
    {}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "minitensor._C",
                          "The C++ core of minitensor.",
                          -1,
                          functions,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__C() {
    using namespace mt::py;
    PyObject* module = PyModule_Create(&definition);
    if (!module) return nullptr;
    // A wrong setting is an error here, not in the middle of compiled code.
    bool valid = guarded([] {
        mt::check_isa();
        mt::num_threads();
        mt::wakes_threads_always();
        return true;
    });
    if (!valid) {
        Py_DECREF(module);
        return nullptr;
    }
    main_thread = find_main_thread();
    mt::signals_hook = run_signal_handlers;
    bool ready = init_dtypes(module) && init_tensor(module) && init_ops(module) && init_convert(module) &&
                 init_buffer(module) && init_dlpack(module) && init_autograd(module) && init_vmap(module) &&
                 init_foreach(module) && init_geometry(module) && init_device_memory(module) &&
                 init_functions(module) && init_results(module) && init_trace(module) && init_scope(module) &&
                 init_options_scope(module) && init_compile_hook(module) && init_compiled_code(module) &&
                 init_profile(module) && init_process_state(module) && init_file_stamps(module) &&
                 init_function(module) && init_structure(module) && init_generator(module) && init_extend(module) &&
                 init_out_form(module) && init_shortcut(module) && init_composed(module);
    if (!ready || PyModule_AddStringConstant(module, "version", MT_VERSION) < 0) {
        Py_DECREF(module);
        return nullptr;
    }
    return module;
}
