// The buffer protocol: tensors over the memory of NumPy arrays and the like, and theirs over that of tensors.
#include <string>

#include "autograd/tape.h"
#include "bindings/tensor/shared_memory.h"
#include "dispatch/gpu.h"
#include "dispatch/thread_local_state.h"
#include "trace/plan/plan.h"

namespace mt::py {

namespace {

DType dtype_of_format(const char* format, Py_ssize_t itemsize) {
    std::string_view text = format ? format : "B";
    if (!text.empty() && (text[0] == '@' || text[0] == '=' || text[0] == '<')) text.remove_prefix(1);
    if (!text.empty() && (text[0] == '>' || text[0] == '!'))
        fail_value("given numpy array has byte order different from the native byte order. Conversion between byte "
                   "orders is currently not supported.");
    if (text.size() == 1) {
        switch (text[0]) {
            case '?': return DType::Bool;
            case 'B':
            case 'H':
            case 'I':
            case 'L':
            case 'Q':
            case 'N':
                return itemsize == 1 ? DType::U8 : itemsize == 2 ? DType::U16 : itemsize == 4 ? DType::U32 : DType::U64;
            case 'b':
            case 'h':
            case 'i':
            case 'l':
            case 'q':
            case 'n':
                return itemsize == 1 ? DType::I8 : itemsize == 2 ? DType::I16 : itemsize == 4 ? DType::I32 : DType::I64;
            case 'e': return DType::F16;
            case 'f': return DType::F32;
            case 'd': return DType::F64;
            default: break;
        }
    }
    if (text == "Zf") return DType::C64;
    if (text == "Zd") return DType::C128;
    fail_type("can't convert an array with elements of format '" + std::string(text) +
              "' to a tensor. The supported types are: float64, float32, float16, complex64, complex128, int64, int32, "
              "int16, "
              "int8, uint64, uint32, uint16, uint8, and bool.");
}

struct LentBuffer {
    Py_buffer view;
    bool sole_owner;  // the object's memory is its own: once we hold the only reference, nobody else can write it
};

// A NumPy array that is not a view of another.
bool owns_its_memory(PyObject* object) {
    if (std::string_view(Py_TYPE(object)->tp_name) != "numpy.ndarray") return false;
    PyRef base(PyObject_GetAttrString(object, "base"));
    if (!base) PyErr_Clear();
    return base.get() == Py_None;
}

struct BufferShape {
    Ref<Storage> storage;
    Py_ssize_t values[2 * kMaxDims];
};

// Whether the elements lie in column-major order.
bool transposed_contiguous(const Tensor& t) {
    Dims sizes, strides;
    for (size_t i = t.ndim(); i-- > 0;) {
        sizes.push_back(t.sizes[i]);
        strides.push_back(t.strides[i]);
    }
    return is_contiguous(sizes, strides);
}

}  // namespace

void no_meta(const Tensor& tensor, const char* what) {
    if (tensor.device().type != DeviceType::Meta) return;
    if (batch_level(tensor))
        fail(std::string("Cannot ") + what +
             ": a tensor that vmap maps has no value of its own, since it stands for each of its slices. What depends "
             "on values must be an op, such as where()");
    fail(std::string("Cannot ") + what + ": a meta tensor has no data");
}

DeviceAddress reachable_place(Tensor& tensor) {
    trace::check_open("numpy()");
    for (;;) {
        DeviceAddress place = tensor.place();
        Ref<Storage> storage = tensor.storage;
        if (!storage->readers) return place;
        before_write_callback(storage.get());
    }
}

Ref<Tensor> from_buffer(PyObject* object, bool strict) {
    auto* lent = new LentBuffer;
    Py_buffer* view = &lent->view;
    if (PyObject_GetBuffer(object, view, PyBUF_FULL_RO) < 0) {
        delete lent;
        fail_python();
    }
    lent->sole_owner = owns_its_memory(object);
    auto release = [](void* context) {
        auto* held = static_cast<LentBuffer*>(context);
        PyBuffer_Release(&held->view);
        delete held;
    };
    try {
        DType dtype = dtype_of_format(view->format, view->itemsize);
        if (view->suboffsets)
            for (int i = 0; i < view->ndim; ++i)
                if (view->suboffsets[i] >= 0) fail_value("can't convert a buffer with suboffsets");
        Dims sizes, strides;
        for (int i = 0; i < view->ndim; ++i) {
            sizes.push_back(view->shape[i]);
            int64_t bytes = view->strides ? view->strides[i] : 0;
            if (strict && bytes < 0)
                fail_value(
                    "At least one stride in the given numpy array is negative, and tensors with negative strides are "
                    "not currently "
                    "supported. (You can probably work around this by making a copy of your array with array.copy().)");
            if (view->strides && bytes % view->itemsize != 0 && view->shape[i] > 1)
                fail_value("given numpy array strides not a multiple of the element byte size. Copy array to "
                           "reallocate the memory.");
            strides.push_back(bytes / view->itemsize);
        }
        if (!view->strides) strides = contiguous_strides(sizes);
        byte_count(sizes, dtype);  // throws on overflow
        if (reinterpret_cast<uintptr_t>(view->buf) % itemsize(dtype) != 0)
            fail_value("the array's memory is not aligned to its element size; copy it first");
        auto [low, high] = element_span(sizes, strides, 0);
        if (low < 0 && strict) fail_value("negative strides");
        auto size = static_cast<int64_t>(itemsize(dtype));
        Ref<Storage> storage = Storage::wrap(static_cast<char*>(view->buf) + low * size,
                                             static_cast<size_t>((high - low) * size), release, lent);
        storage->read_only = view->readonly;
        if (strict && view->readonly && pytorch_words)
            warn_of_pytorch(
                "The given NumPy array is not writable, and PyTorch does not support non-writable tensors. This means "
                "writing to this tensor will result in undefined behavior. You may want to copy the array to protect "
                "its data or make it writable before converting it to a tensor. This type of warning will be "
                "suppressed for the rest of this program.");
        storage->shared = [](void* context) {
            auto* held = static_cast<LentBuffer*>(context);
            return !held->sole_owner || Py_REFCNT(held->view.obj) > 1;
        };
        return made_now(Tensor::make(std::move(storage), dtype, sizes, strides, -low));
    } catch (...) {
        release(lent);
        throw;
    }
}

int tensor_getbuffer(PyObject* self, Py_buffer* view, int flags) {
    return guarded(
        [&]() -> int {
            Tensor& t = *tensor_of(self);
            view->obj = nullptr;
            if (thread_settings.records_backward() && requires_grad(t))
                fail("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
            no_meta(t, "share memory");
            if (!on_host(t))
                fail_type("can't convert " + device_text(t.device()) +
                          " device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.");
            if (on_jit_device(t))
                fail_type("can't share the memory of a tensor on device jit_cpu. Use Tensor.cpu() first.");
            if (!*info(t.dtype).format)
                fail_type(std::string("Got unsupported ScalarType ") + torch_type_name(t.dtype));
            if ((flags & PyBUF_WRITABLE) && t.storage->read_only) {
                PyErr_SetString(PyExc_BufferError, "the tensor's memory is read-only");
                fail_python();
            }
            Observing observing(trace::observation ? trace::observation : "numpy()");
            // Recorded reads of this memory must not see what its new owner writes.
            if (trace::recording()) trace::flush("numpy()");
            // From here on no Python code runs that could give the tensor another geometry.
            view->buf = reachable_place(t).data;
            auto asks = [&](int what) { return (flags & what) == what; };
            bool row_major = t.contiguous(), column_major = transposed_contiguous(t);
            if ((!asks(PyBUF_STRIDES) && !row_major) || (asks(PyBUF_C_CONTIGUOUS) && !row_major) ||
                (asks(PyBUF_F_CONTIGUOUS) && !column_major) ||
                (asks(PyBUF_ANY_CONTIGUOUS) && !row_major && !column_major)) {
                PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous");
                fail_python();
            }
            auto* shape = new BufferShape;
            shape->storage = t.storage;
            auto size = static_cast<Py_ssize_t>(itemsize(t.dtype));
            for (size_t i = 0; i < t.ndim(); ++i) {
                shape->values[i] = t.sizes[i];
                shape->values[kMaxDims + i] = t.strides[i] * size;
            }
            view->obj = Py_NewRef(self);
            view->len = static_cast<Py_ssize_t>(t.numel) * size;
            view->readonly = t.storage->read_only;
            view->itemsize = size;
            view->format = flags & PyBUF_FORMAT ? const_cast<char*>(info(t.dtype).format) : nullptr;
            view->ndim = static_cast<int>(t.ndim());
            view->shape = shape->values;
            view->strides = shape->values + kMaxDims;
            view->suboffsets = nullptr;
            view->internal = shape;
            ++t.storage->exports;
            return 0;
        },
        -1);
}

void tensor_releasebuffer(PyObject*, Py_buffer* view) {
    auto* shape = static_cast<BufferShape*>(view->internal);
    --shape->storage->exports;
    delete shape;
}

namespace {

PyObject* from_numpy(PyObject*, PyObject* array) {
    return guarded([&]() -> PyObject* {
        // Subclasses, such as a memory map, are arrays too. NumPy itself need not be imported to tell.
        const PyTypeObject* type = Py_TYPE(array);
        while (type && std::string_view(type->tp_name) != "numpy.ndarray") type = type->tp_base;
        if (!type) fail_type(std::string("expected np.ndarray (got ") + Py_TYPE(array)->tp_name + ")");
        return wrap(from_buffer(array, true));
    });
}

PyMethodDef buffer_functions[] = {
    {"from_numpy", method<from_numpy>(), METH_O, "from_numpy(ndarray)\n--\n\nA tensor that shares the array's memory."},
    {}};

}  // namespace

bool init_buffer(PyObject* module) { return PyModule_AddFunctions(module, buffer_functions) == 0; }

}  // namespace mt::py
