// State of the whole process: the host allocator, the number of threads, the default dtype.
#include <string>

#include "bindings/py.h"
#include "core/memory/allocator.h"
#include "core/process/parallel.h"
#include "dispatch/thread_local_state.h"

namespace mt::py {

namespace {

PyObject* py_allocator_stats(PyObject*, PyObject*) {
    AllocatorStats s = allocator_stats();
    return Py_BuildValue("{sLsLsLsLsL}", "allocated_bytes", static_cast<long long>(s.allocated_bytes),
                         "peak_allocated_bytes", static_cast<long long>(s.peak_allocated_bytes), "reserved_bytes",
                         static_cast<long long>(s.reserved_bytes), "allocations", static_cast<long long>(s.allocations),
                         "cache_hits", static_cast<long long>(s.cache_hits));
}
PyObject* py_rounded_size(PyObject*, PyObject* nbytes) { return PyLong_FromSize_t(rounded_size(to_uint64(nbytes))); }
PyObject* py_empty_cache(PyObject*, PyObject*) {
    empty_cache();
    Py_RETURN_NONE;
}
PyObject* py_reset_peak(PyObject*, PyObject*) {
    reset_peak_stats();
    Py_RETURN_NONE;
}
PyObject* py_num_threads(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* { return PyLong_FromLong(num_threads()); });
}
PyObject* py_set_num_threads(PyObject*, PyObject* count) {
    return guarded([&]() -> PyObject* {
        if (!PyLong_Check(count))
            fail_type(std::string("set_num_threads expects an int, but got ") + Py_TYPE(count)->tp_name);
        int64_t n = to_int64(count);
        if (n < 1 || n > 4096)
            fail("set_num_threads expects a positive integer (at most 4096), got " + std::to_string(n));
        set_num_threads(static_cast<int>(n));
        Py_RETURN_NONE;
    });
}
PyObject* py_default_dtype(PyObject*, PyObject*) { return dtype_object(default_dtype()); }
PyObject* py_set_default_dtype(PyObject*, PyObject* dtype) {
    return guarded([&]() -> PyObject* {
        DType value = dtype_from(dtype);
        if (!is_floating(value) || is_float8(value))
            fail_type("only floating-point types are supported as the default type");
        set_ambient(ambient().with(value));
        Py_RETURN_NONE;
    });
}

PyObject* py_matmul_precision(PyObject*, PyObject*) {
    return PyLong_FromLong(static_cast<long>(ambient().matmul_precision()));
}
PyObject* py_set_matmul_precision(PyObject*, PyObject* number) {
    const int64_t value = to_int64(number);
    if (value < 0 || value > static_cast<long>(MatmulPrecision::Medium)) {
        PyErr_SetString(PyExc_ValueError, "set_matmul_precision expects 0 (highest), 1 (high) or 2 (medium)");
        return nullptr;
    }
    set_ambient(ambient().with(static_cast<MatmulPrecision>(value)));
    Py_RETURN_NONE;
}

PyMethodDef process_state_functions[] = {
    {"allocator_stats", method<py_allocator_stats>(), METH_NOARGS,
     "Statistics of the host allocator, in bytes and counts."},
    {"rounded_size", method<py_rounded_size>(), METH_O,
     "rounded_size(nbytes): bytes that the allocator takes for a request."},
    {"empty_cache", method<py_empty_cache>(), METH_NOARGS,
     "empty_cache()\n--\n\nGives cached free memory back to the system."},
    {"reset_peak_memory_stats", method<py_reset_peak>(), METH_NOARGS,
     "reset_peak_memory_stats()\n--\n\nStarts the peak anew from what is in use."},
    {"get_num_threads", method<py_num_threads>(), METH_NOARGS,
     "get_num_threads()\n--\n\nThe number of threads that kernels use."},
    {"set_num_threads", method<py_set_num_threads>(), METH_O,
     "set_num_threads(n, /)\n--\n\nSets the number of threads that kernels use. Results do not depend on it.\n\n"
     "A short kernel (up to about 50 us) uses others that sleep only if there were many such kernels in the last\n"
     "millisecond, since it would be done before they are awake; with MT_WAKE_THREADS=always in the environment it\n"
     "always does."},
    {"matmul_precision", method<py_matmul_precision>(), METH_NOARGS,
     "How the operands of float32 products may be rounded: 0 (highest), 1 (high) or 2 (medium)."},
    {"set_matmul_precision", method<py_set_matmul_precision>(), METH_O, "set_matmul_precision(number): sets it."},
    {"get_default_dtype", method<py_default_dtype>(), METH_NOARGS,
     "get_default_dtype()\n--\n\nThe dtype of new floating-point tensors."},
    {"set_default_dtype", method<py_set_default_dtype>(), METH_O,
     "set_default_dtype(dtype, /)\n--\n\nSets the dtype of new floating-point tensors."},
    {}};

}  // namespace

bool init_process_state(PyObject* module) { return PyModule_AddFunctions(module, process_state_functions) == 0; }

}  // namespace mt::py
