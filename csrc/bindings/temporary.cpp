#include "bindings/temporary.h"

#include <dlfcn.h>
#include <execinfo.h>

namespace mt::py {

namespace {

// Below this the look at the stack costs more than new memory from the allocator's cache.
constexpr size_t kWorthwhileBytes = 1 << 20;

// Nothing but `object` refers to its tensor, nothing but the tensor to the memory, and that is ours to give.
bool owns_all(PyObject* object) {
    if (Py_REFCNT(object) != 1 || Py_TYPE(object) != &TensorType) return false;
    auto* handle = reinterpret_cast<TensorObject*>(object);
    const Tensor& tensor = *handle->tensor;
    const Storage& storage = *tensor.storage;
    return storage.nbytes >= kWorthwhileBytes && !handle->weakrefs && tensor.refcount == 1 && storage.refcount == 1 &&
           !storage.pending && !storage.deleter && !storage.read_only && !storage.reinterpreted && !storage.exports &&
           !storage.readers && storage.device.type == DeviceType::CPU;
}

#if PY_VERSION_HEX >= 0x030E0000
bool on_the_stack_only(PyObject* object) { return PyUnstable_Object_IsUniqueReferencedTemporary(object); }
#elif defined(__GLIBC__) && !defined(Py_GIL_DISABLED)
// One reference isn't enough to know: C code may hold it and read the tensor after the operator has returned. So the
// operator must have been called by the interpreter's loop, through nothing but functions of Python's own. (NumPy
// finds temporaries in the same way.)
bool on_the_stack_only(PyObject*) {
    struct Images {
        void *ours = nullptr, *python = nullptr, *loop = nullptr;
        Images() {
            Dl_info info;
            if (dladdr(reinterpret_cast<void*>(&dying_temporaries), &info)) ours = info.dli_fbase;
            if (dladdr(reinterpret_cast<void*>(&PyNumber_Add), &info)) python = info.dli_fbase;
            loop = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
        }
    };
    static const Images images;
    if (!images.ours || !images.python || !images.loop || images.ours == images.python) return false;
    constexpr int kDepth = 10;
    void* callers[kDepth];
    int depth = backtrace(callers, kDepth);
    for (int i = 0; i < depth; ++i) {
        Dl_info info;
        if (!dladdr(callers[i], &info)) return false;
        if (info.dli_fbase == images.python) {
            if (info.dli_saddr == images.loop) return true;
        } else if (info.dli_fbase != images.ours) {
            return false;
        }
    }
    return false;
}
#else
bool on_the_stack_only(PyObject*) { return false; }
#endif

}  // namespace

uint32_t dying_temporaries(const Call& call, std::initializer_list<PyObject*> objects) {
    uint32_t dying = 0, bit = 1;
    if (current_interpreter || vmap_depth || call.op->kind != Kind::Elementwise) return 0;
    for (PyObject* object : objects) {
        if (is_tensor(object) && owns_all(object) && on_the_stack_only(object)) dying |= bit;
        bit <<= 1;
    }
    return dying;
}

}  // namespace mt::py
