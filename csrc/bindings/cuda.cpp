// What drives the GPUs, in Python, as the core calls it; and the core's cache of their memory as Python sees it.
#include <sys/syscall.h>
#include <unistd.h>

#include "bindings/py.h"
#include "core/memory/cuda_caching_allocator.h"
#include "trace/plan/plan.h"

namespace mt::py {

namespace {

PyObject* g_runtime = nullptr;
PyObject* g_host_op = nullptr;

class Gil {
  public:
    Gil() : state_(PyGILState_Ensure()) {}
    ~Gil() { PyGILState_Release(state_); }
    Gil(const Gil&) = delete;

  private:
    PyGILState_STATE state_;
};

template <class... Arguments>
PyRef call(const char* method, const char* format, Arguments... arguments) {
    return checked(PyObject_CallMethod(g_runtime, method, format, arguments...));
}

unsigned long long number(uint64_t value) { return value; }

unsigned long long number(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }

// Of calls that must not fail, since memory is freed where nobody can handle an error: it is shown.
template <class... Arguments>
void notify(const char* method, const char* format, Arguments... arguments) {
    Gil gil;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyRef ignored(PyObject_CallMethod(g_runtime, method, format, arguments...));
    if (!ignored) PyErr_WriteUnraisable(g_runtime);
    PyErr_Restore(type, value, traceback);
}

const DeviceRuntime kRuntime = {
    [] {
        PyRef index = call("current_device", nullptr);
        return static_cast<int>(to_int64(index.get()));
    },
    [](int index) { call("require", "i", index); },
    [](int index, size_t nbytes) -> uint64_t {
        PyRef address = call("allocate", "iK", index, number(nbytes));
        return to_uint64(address.get());
    },
    [](int index, uint64_t address) { notify("release", "iK", index, number(address)); },
    [](int index, size_t nbytes) {
        call("out_of_memory", "iK", index, number(nbytes));
        fail("cuda: out of memory");
    },
    [](int index, uint64_t to, const void* from, size_t nbytes) {
        call("copy_in", "iKKK", index, number(to), number(from), number(nbytes));
    },
    [](int index, void* to, uint64_t from, size_t nbytes) {
        call("copy_out", "iKKK", index, number(to), number(from), number(nbytes));
    },
    [](int index, uint64_t to, int from_index, uint64_t from, size_t nbytes) {
        call("copy_within", "iKiKK", index, number(to), from_index, number(from), number(nbytes));
    },
    [](int index, uint32_t stream, uint64_t address, size_t nbytes) {
        notify("release_later", "iIKK", index, stream, number(address), number(nbytes));
    },
};

void start() {
    PyRef entry_points = checked(PyImport_ImportModule("minitensor._jit.entry_points"));
    PyRef ignored = checked(PyObject_CallMethod(entry_points.get(), "start_cuda", nullptr));
    if (!device_runtime) fail("start_cuda() installed no runtime");
}

PyObject* py_set_cuda_runtime(PyObject*, PyObject* runtime) {
    Py_XSETREF(g_runtime, Py_NewRef(runtime));
    device_runtime = runtime == Py_None ? nullptr : &kRuntime;
    Py_RETURN_NONE;
}

int index_from(PyObject* object) {
    int64_t index = to_int64(object);
    if (index < 0 || index > 127) fail("invalid device index " + std::to_string(index));
    return static_cast<int>(index);
}

PyObject* py_set_cuda_stream(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject* index;
        unsigned stream;
        if (!PyArg_ParseTuple(args, "OI:set_cuda_stream", &index, &stream)) return nullptr;
        set_current_stream(index_from(index), stream);
        Py_RETURN_NONE;
    });
}

PyObject* py_cuda_stream(PyObject*, PyObject* index) {
    return guarded([&]() -> PyObject* { return PyLong_FromUnsignedLong(current_stream(index_from(index))); });
}

PyObject* py_cuda_memory_stats(PyObject*, PyObject* index) {
    return guarded([&]() -> PyObject* {
        const DeviceMemoryStats& s = device_memory_stats(index_from(index));
        PyRef stats = checked(PyDict_New());
        auto add = [&](const char* name, int64_t value) {
            PyRef number = checked(PyLong_FromLongLong(value));
            if (PyDict_SetItemString(stats.get(), name, number.get()) < 0) fail_python();
        };
        add("requested", s.requested);
        add("peak_requested", s.peak_requested);
        add("allocated", s.allocated);
        add("peak_allocated", s.peak_allocated);
        add("reserved", s.reserved);
        add("peak_reserved", s.peak_reserved);
        add("blocks", s.blocks);
        add("peak_blocks", s.peak_blocks);
        add("segments", s.segments);
        add("peak_segments", s.peak_segments);
        add("total_allocated", s.total_allocated);
        add("total_freed", s.total_freed);
        add("total_reserved", s.total_reserved);
        add("total_released", s.total_released);
        add("allocations", s.allocations);
        add("frees", s.frees);
        add("cache_hits", s.cache_hits);
        add("retries", s.retries);
        add("failures", s.failures);
        return stats.release();
    });
}

PyRef counts_object(const BlockCounts& counts) {
    PyRef list = checked(PyList_New(0));
    for (auto [size, count] : counts) {
        PyRef item = checked(Py_BuildValue("(KL)", number(size), static_cast<long long>(count)));
        if (PyList_Append(list.get(), item.get()) < 0) fail_python();
    }
    return list;
}

PyObject* py_cuda_blocks(PyObject*, PyObject* object) {
    return guarded([&]() -> PyObject* {
        int index = index_from(object);
        return Py_BuildValue("(NN)", counts_object(device_blocks_in_use(index)).release(),
                             counts_object(device_blocks_cached(index)).release());
    });
}

PyObject* py_cuda_empty_cache(PyObject*, PyObject* index) {
    return guarded([&]() -> PyObject* {
        device_empty_cache(index_from(index));
        Py_RETURN_NONE;
    });
}

PyObject* py_cuda_reset_peaks(PyObject*, PyObject* index) {
    return guarded([&]() -> PyObject* {
        device_reset_peaks(index_from(index));
        Py_RETURN_NONE;
    });
}

PyObject* py_cuda_reuse(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject* index;
        unsigned stream;
        unsigned long long address, nbytes;
        if (!PyArg_ParseTuple(args, "OIKK:cuda_reuse", &index, &stream, &address, &nbytes)) return nullptr;
        device_reuse(index_from(index), {address, stream}, nbytes);
        Py_RETURN_NONE;
    });
}

// note_other_stream(tensor) -> (address of its memory, the stream that it was allocated on)
PyObject* py_note_other_stream(PyObject*, PyObject* object) {
    return guarded([&]() -> PyObject* {
        if (!is_tensor(object)) fail_type("record_stream() takes a Tensor");
        Tensor& t = *tensor_of(object);
        trace::check_open("record_stream()");
        t.place();  // computes a recorded value
        if (!on_gpu(t.device())) fail("record_stream() needs a tensor on a CUDA device");
        t.storage->other_streams = true;
        return Py_BuildValue("(KI)", number(t.storage->address), t.storage->stream);
    });
}

// pinned(address, nbytes, owner): a vector of uint8 over page-locked host memory, which `owner` keeps. That there is
// such memory is the caller's word.
PyObject* py_pinned(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        unsigned long long address, nbytes;
        PyObject* owner;
        if (!PyArg_ParseTuple(args, "KKO:pinned", &address, &nbytes, &owner)) return nullptr;
        if (!address || nbytes > static_cast<unsigned long long>(INT64_MAX)) fail_value("pinned: no such memory");
        auto release = [](void* context) {
            Gil gil;
            Py_DECREF(static_cast<PyObject*>(context));
        };
        Ref<Storage> storage = Storage::wrap(reinterpret_cast<void*>(address), nbytes, release, Py_NewRef(owner));
        storage->shared = [](void*) { return false; };
        storage->pinned = true;
        return wrap(
            Tensor::make(std::move(storage), DType::U8, Dims{static_cast<int64_t>(nbytes)}, Dims{int64_t{1}}, 0));
    });
}

PyObject* py_is_pinned(PyObject*, PyObject* object) {
    return guarded([&]() -> PyObject* {
        if (!is_tensor(object)) fail_type("is_pinned() takes a Tensor");
        return PyBool_FromLong(tensor_of(object)->storage->pinned);
    });
}

void on_host_op(const OpDef& op, int64_t bytes) {
    PyRef callable = PyRef::borrow(g_host_op);
    PyRef ignored = checked(
        PyObject_CallFunction(callable.get(), "sL", op.name.c_str(), static_cast<long long>(bytes)));
}

PyObject* py_set_host_op_callback(PyObject*, PyObject* callable) {
    Py_XSETREF(g_host_op, callable == Py_None ? nullptr : Py_NewRef(callable));
    trace::host_op_callback = g_host_op ? on_host_op : nullptr;
    Py_RETURN_NONE;
}

// PyCUDA ends the process where a thread dies inside a GPU's context, and at the end of the process the interpreter
// has daemon threads die wherever they are. Those wait here for the end; what the thread has of PyCUDA is taken apart
// later.
struct Inside {
    bool a_gpu = false;
    ~Inside() {
        while (a_gpu && syscall(SYS_gettid) != getpid()) pause();
    }
};
thread_local Inside inside;

PyObject* py_set_inside_gpu(PyObject*, PyObject* entered) {
    inside.a_gpu = entered == Py_True;
    Py_RETURN_NONE;
}

PyMethodDef cuda_functions[] = {
    {"set_inside_gpu", method<py_set_inside_gpu>(), METH_O,
     "set_inside_gpu(entered): whether a GPU's context is current on this thread."},
    {"set_cuda_runtime", method<py_set_cuda_runtime>(), METH_O,
     "set_cuda_runtime(object or None): what drives the GPUs."},
    {"set_host_op_callback", method<py_set_host_op_callback>(), METH_O,
     "set_host_op_callback(f | None): f(op, bytes) for an op of a GPU that ran on the host, with what was copied."},
    {"set_cuda_stream", method<py_set_cuda_stream>(), METH_VARARGS,
     "set_cuda_stream(GPU, number): the stream that this thread gives its work to."},
    {"cuda_stream", method<py_cuda_stream>(), METH_O, "cuda_stream(GPU): the number of this thread's stream."},
    {"cuda_memory_stats", method<py_cuda_memory_stats>(), METH_O, "Statistics of a GPU's memory, in bytes and counts."},
    {"cuda_blocks", method<py_cuda_blocks>(), METH_O,
     "([(bytes, count)] of the blocks in use, [(bytes, count)] of cached ones)."},
    {"cuda_empty_cache", method<py_cuda_empty_cache>(), METH_O, "Gives a GPU's cached memory back to the driver."},
    {"cuda_reset_peaks", method<py_cuda_reset_peaks>(), METH_O, "Starts the peaks anew from what is in use."},
    {"cuda_reuse", method<py_cuda_reuse>(), METH_VARARGS,
     "cuda_reuse(GPU, stream, address, nbytes): a block that other streams are done with."},
    {"note_other_stream", method<py_note_other_stream>(), METH_O,
     "The tensor's memory may be freed only once other streams are done: (address, stream)."},
    {"pinned", method<py_pinned>(), METH_VARARGS,
     "pinned(address, nbytes, owner): a uint8 tensor over page-locked memory."},
    {"is_pinned", method<py_is_pinned>(), METH_O, "Whether the tensor's memory is page-locked."},
    {}};

}  // namespace

bool init_cuda(PyObject* module) {
    start_device_runtime = start;
    return PyModule_AddFunctions(module, cuda_functions) == 0;
}

}  // namespace mt::py
