#include "bindings/py.h"
#include "core/isa.h"
#include "core/parallel.h"

#ifndef MT_VERSION
#define MT_VERSION "unknown"
#endif

namespace {

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "minitensor._C",
                          "The C++ core of minitensor.",
                          -1,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

PyMODINIT_FUNC PyInit__C() {
    using namespace mt::py;
    PyObject* module = PyModule_Create(&definition);
    if (!module) return nullptr;
    // A wrong MT_ISA or MT_NUM_THREADS is an error here, not in the middle of compiled code.
    bool valid = guarded([] {
        mt::isa();
        mt::num_threads();
        return true;
    });
    bool ready = valid && init_dtypes(module) && init_tensor(module) && init_ops(module) && init_convert(module) &&
                 init_autograd(module) && init_functions(module) && init_trace(module) && init_function(module);
    if (!ready || PyModule_AddStringConstant(module, "version", MT_VERSION) < 0) {
        Py_DECREF(module);
        return nullptr;
    }
    return module;
}
