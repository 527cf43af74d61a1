#include "bindings/tensor/temporary.h"

#include <dlfcn.h>
#include <execinfo.h>

#include <algorithm>
#include <array>

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
    return storage.nbytes >= kWorthwhileBytes && !handle->weakrefs && owned_once(tensor) && !storage.pending &&
           !storage.deleter && !storage.read_only && !storage.reinterpreted && !storage.exports && !storage.readers &&
           storage.device.type == DeviceType::CPU;
}

#if PY_VERSION_HEX >= 0x030E0000
bool on_the_stack_only(PyObject* object) { return PyUnstable_Object_IsUniqueReferencedTemporary(object); }
#elif defined(__GLIBC__) && !defined(Py_GIL_DISABLED)
// One reference isn't enough to know: it may be C code's, which reads the tensor after the operator has returned, or a
// tuple's, as in `operator.add(*operands)`. So the operator's function must have been called by the interpreter's loop,
// whose stack holds what it is called with. (NumPy looks for temporaries in a similar way.)
struct Images {
    void *ours = nullptr, *python = nullptr, *loop = nullptr;
    std::array<void*, 15> operators{
        fn(PyNumber_Add),
        fn(PyNumber_Subtract),
        fn(PyNumber_Multiply),
        fn(PyNumber_TrueDivide),
        fn(PyNumber_And),
        fn(PyNumber_Or),
        fn(PyNumber_Xor),
        fn(PyNumber_FloorDivide),
        fn(PyNumber_Lshift),
        fn(PyNumber_Rshift),
        fn(PyNumber_MatrixMultiply),
        fn(PyNumber_Remainder),
        fn(PyNumber_Negative),
        fn(PyNumber_Invert),
        fn(PyNumber_Power),
    };

    Images() {
        Dl_info info;
        if (dladdr(fn(elidable_temporaries), &info)) ours = info.dli_fbase;
        if (dladdr(fn(PyNumber_Add), &info)) python = info.dli_fbase;
        loop = dlsym(RTLD_DEFAULT, "_PyEval_EvalFrameDefault");
    }
    template <class F>
    static void* fn(F* function) {
        return reinterpret_cast<void*>(function);
    }
    bool is_operator(void* start) const {
        return std::find(operators.begin(), operators.end(), start) != operators.end();
    }
};

bool on_the_stack_only(PyObject*) {
    static const Images images;
    if (!images.ours || !images.python || !images.loop || images.ours == images.python) return false;
    constexpr int kDepth = 10;
    void* callers[kDepth];
    const int depth = backtrace(callers, kDepth);
    int pythons = 0;
    void* last = nullptr;
    for (int i = 0; i < depth; ++i) {
        Dl_info info;
        if (!dladdr(callers[i], &info)) return false;
        if (info.dli_fbase == images.ours && !pythons) continue;
        if (info.dli_fbase != images.python) return false;
        // A function that only passes the operand on has left no trace of itself.
        if (info.dli_saddr == images.loop) return !pythons || images.is_operator(last);
        // The operator's function, and one that several of them share.
        if (++pythons > 2) return false;
        last = info.dli_saddr;
    }
    return false;
}
#else
bool on_the_stack_only(PyObject*) { return false; }
#endif

}  // namespace

uint32_t elidable_temporaries(const Call& call, std::initializer_list<PyObject*> objects) {
    uint32_t dying = 0, bit = 1;
    if (records_calls() || vmap_depth || call.op->kind != Kind::Elementwise) return 0;
    for (PyObject* object : objects) {
        if (is_tensor(object) && owns_all(object) && on_the_stack_only(object)) dying |= bit;
        bit <<= 1;
    }
    return dying;
}

}  // namespace mt::py
