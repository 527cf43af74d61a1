#include <algorithm>
#include <csignal>
#include <string_view>

#include "bindings/jit/interruptible_call.h"
#include "core/isa.h"
#include "core/process/faults.h"
#include "core/process/interrupt.h"
#include "core/process/parallel.h"

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
    PyObject* built = PyList_New(0);
    if (!built) return nullptr;
    for (mt::Isa level : {mt::Isa::Baseline, mt::Isa::Avx2, mt::Isa::Avx512}) {
        if (!mt::isa_built(level)) continue;
        PyObject* name = PyUnicode_FromString(mt::isa_name(level));
        const bool added = name && PyList_Append(built, name) == 0;
        Py_XDECREF(name);
        if (!added) {
            Py_DECREF(built);
            return nullptr;
        }
    }
    return Py_BuildValue("{ss sl sO sO ss ss ss sN}", "compiler", kCompiler, "cplusplus",
                         static_cast<long>(__cplusplus), "optimized", kOptimized ? Py_True : Py_False, "assertions",
                         kAssertions ? Py_True : Py_False, "sanitizer", kSanitizer, "isa", mt::isa_name(mt::isa()),
                         "detected_isa", mt::isa_name(mt::detected_isa()), "built_isas", built);
}

unsigned long main_thread = 0;

// Of the thread that Python runs the handlers of signals in.
unsigned long find_main_thread() {
    using namespace mt::py;
    auto number = [] {
        mt::PyRef threading = checked(PyImport_ImportModule("threading"));
        mt::PyRef thread = checked(PyObject_CallMethod(threading.get(), "main_thread", nullptr));
        return to_uint64(checked(PyObject_GetAttrString(thread.get(), "ident")).get());
    };
    unsigned long found = guarded(number);
    PyErr_Clear();
    return found;
}

void note_interruption() {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    mt::t_interruption = value;
    PyErr_Restore(type, value, traceback);
}

// Of `_signal`, which is in C: of Python's instructions any may run handlers.
PyObject* getsignal = nullptr;
PyObject* default_int_handler = nullptr;

bool find_int_handler() {
    mt::PyRef module(PyImport_ImportModule("_signal"));
    getsignal = module ? PyObject_GetAttrString(module.get(), "getsignal") : nullptr;
    default_int_handler = getsignal ? PyObject_GetAttrString(module.get(), "default_int_handler") : nullptr;
    return default_int_handler;
}

// Whether Ctrl-C has come, and raises KeyboardInterrupt.
bool ends_by_interrupt() {
    mt::PyRef handler(PyObject_CallFunction(getsignal, "i", SIGINT));
    if (!handler) PyErr_Clear();
    if (handler.get() != default_int_handler || !PyOS_InterruptOccurred()) return false;
    PyErr_SetInterrupt();  // asking took it back
    return true;
}

// In other threads there is nothing to ask.
void run_signal_handlers() {
    if (mt::t_handlers_wait || PyThread_get_thread_ident() != main_thread || !Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    // An error that is set already is on its way.
    bool raised = !PyErr_Occurred() && (!mt::t_values_due || ends_by_interrupt()) && PyErr_CheckSignals() < 0;
    if (raised) note_interruption();
    PyGILState_Release(state);
    if (raised) mt::fail_python();
}

PyObject* py_note_interruption(PyObject*, PyObject* exception) {
    mt::t_interruption = exception;
    Py_RETURN_NONE;
}

PyObject* py_arm_fault(PyObject*, PyObject* args) {
    const char* place;
    long long at;
    int interrupts = 0;
    if (!PyArg_ParseTuple(args, "sL|p:_arm_fault", &place, &at, &interrupts)) return nullptr;
    static constexpr std::string_view names[] = {"allocation", "kernel", "launch", "compiler", "llvm", ""};
    const auto* found = std::find(std::begin(names), std::end(names), place);
    if (found == std::end(names)) return PyErr_Format(PyExc_ValueError, "no faults come from '%s'", place);
    mt::arm_fault(static_cast<mt::FaultPlace>(found - names), at, interrupts != 0);
    Py_RETURN_NONE;
}

PyObject* py_fault_passages(PyObject*, PyObject*) { return PyLong_FromLongLong(mt::fault_passages()); }

PyObject* py_compiler_point(PyObject*, PyObject*) {
    return mt::py::guarded([&]() -> PyObject* {
        mt::fault_point(mt::FaultPlace::Compiler);
        Py_RETURN_NONE;
    });
}

PyMethodDef functions[] = {
    {"_arm_fault", mt::py::method<py_arm_fault>(), METH_VARARGS,
     "_arm_fault(place, at, interrupts=False): for tests. The at-th passage of a place ('allocation', 'kernel', "
     "'launch', 'compiler', 'llvm') raises, or acts as Ctrl-C; '' for none."},
    {"_fault_passages", mt::py::method<py_fault_passages>(), METH_NOARGS,
     "How often the armed place was passed since."},
    {"_compiler_point", mt::py::method<py_compiler_point>(), METH_NOARGS,
     "Where a fault on purpose may come from in the compiler."},
    {"_note_interruption", mt::py::method<py_note_interruption>(), METH_O,
     "_note_interruption(exception): it comes from outside, and is no error of the op that it ends."},
    {"build_config", mt::py::method<build_config>(), METH_NOARGS,
     "How the extension was built, and the instruction set that it uses."},
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

namespace mt::py {
bool init_module_base(PyObject* module);
}

static PyObject* make_module() {
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
    if (!find_int_handler()) {
        Py_DECREF(module);
        return nullptr;
    }
    mt::signals_callback = run_signal_handlers;
    bool ready = init_errors(module) && init_dtypes(module) && init_devices(module) && init_sizes(module) &&
                 init_tensor(module) && init_ops(module) && init_convert(module) && init_buffer(module) &&
                 init_dlpack(module) && init_autograd(module) && init_vmap(module) && init_foreach(module) &&
                 init_whole_step(module) && init_geometry(module) && init_cuda(module) && init_functions(module) &&
                 init_results(module) && init_trace(module) && init_scope(module) && init_options_scope(module) &&
                 init_compile_callback(module) && init_compiled_code(module) && init_host_call(module) &&
                 init_profile(module) && init_process_state(module) && init_file_stamps(module) &&
                 init_function(module) && init_recorded_call(module) && init_structure(module) &&
                 init_generator(module) && init_extend(module) && init_sparse(module) && init_watched_calls(module) &&
                 init_out_form(module) && init_shortcut(module) && init_composed(module) && init_module_base(module) &&
                 init_observer(module) && init_guards(module) && init_bound_number(module) &&
                 init_interruptible_call(module) && init_overrides(module) && init_llvm_calls(module) &&
                 init_process_group(module);
    if (!ready || PyModule_AddStringConstant(module, "version", MT_VERSION) < 0) {
        Py_DECREF(module);
        return nullptr;
    }
    return module;
}

PyMODINIT_FUNC PyInit__C() { return mt::py::slot<make_module>(); }
