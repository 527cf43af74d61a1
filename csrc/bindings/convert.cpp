// Tensors from and to Python data, the buffer protocol and DLPack.
#include <cmath>
#include <cstring>
#include <string>

#include "autograd/tape.h"
#include "bindings/dlpack.h"
#include "bindings/py.h"
#include "dispatch/gpu.h"
#include "dispatch/infer_elementwise.h"
#include "trace/plan.h"

namespace mt::py {

Observing::Observing(const char* what) : previous_(trace::observation) {
    if (trace::current) trace::current->look(what);
    trace::observation = what;
}
Observing::~Observing() { trace::observation = previous_; }

PyObject* element_to_python(const void* data, DType dtype) {
    if (dtype == DType::U64) return PyLong_FromUnsignedLongLong(*static_cast<const uint64_t*>(data));
    return scalar_to_python(load_scalar(data, dtype));
}

namespace {

void no_meta(const Tensor& tensor, const char* what) {
    if (tensor.device().type == DeviceType::Meta) fail(std::string("Cannot ") + what + ": a meta tensor has no data");
}

PyObject* nested_list(const Tensor& t, const char* data, size_t dim) {
    if (dim == t.ndim()) return element_to_python(data, t.dtype);
    PyRef list = checked(PyList_New(static_cast<Py_ssize_t>(t.sizes[dim])));
    for (int64_t i = 0; i < t.sizes[dim]; ++i) {
        PyObject* item = nested_list(t, data + i * t.strides[dim] * static_cast<int64_t>(itemsize(t.dtype)), dim + 1);
        if (!item) fail_python();
        PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), item);
    }
    return list.release();
}

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

// A tensor over an object's buffer, which it keeps alive.
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
        storage->shared = [](void* context) {
            auto* held = static_cast<LentBuffer*>(context);
            return !held->sole_owner || Py_REFCNT(held->view.obj) > 1;
        };
        return Tensor::make(std::move(storage), dtype, sizes, strides, -low);
    } catch (...) {
        release(lent);
        throw;
    }
}

// mt.tensor(data) -------------------------------------------------------------------------------------------------

struct Inferred {
    Dims sizes;
    int category = -1;  // 0 bool, 1 int, 2 float, 3 complex
    bool numpy_double = false;
};

// An item's conversion to a number runs code, which may change the list.
PyRef item_of(PyObject* sequence, Py_ssize_t i, Py_ssize_t expected) {
    if (PySequence_Fast_GET_SIZE(sequence) != expected) fail("the list changed size while it was read");
    return PyRef::borrow(PySequence_Fast_GET_ITEM(sequence, i));
}

void inspect(PyObject* data, size_t depth, Inferred& found, bool first) {
    if (depth > kMaxDims) fail_value("too many dimensions");
    if ((PyList_Check(data) || PyTuple_Check(data))) {
        Py_ssize_t n = PySequence_Fast_GET_SIZE(data);
        if (first && depth == found.sizes.size()) found.sizes.push_back(n);
        if (depth >= found.sizes.size() || found.sizes[depth] != n)
            fail_value("expected sequence of length " +
                       std::to_string(depth < found.sizes.size() ? found.sizes[depth] : 0) + " at dim " +
                       std::to_string(depth) + " (got " + std::to_string(n) + ")");
        for (Py_ssize_t i = 0; i < n; ++i) inspect(item_of(data, i, n).get(), depth + 1, found, first && i == 0);
        return;
    }
    if (depth != found.sizes.size())
        fail_value("expected sequence of length " + std::to_string(found.sizes[depth]) + " at dim " +
                   std::to_string(depth) + " (got a number)");
    int category;
    if (PyBool_Check(data)) category = 0;
    else if (PyFloat_Check(data)) category = 2;
    else if (PyLong_Check(data)) category = 1;
    else if (is_tensor(data)) {
        Tensor& t = *tensor_of(data);
        if (t.numel != 1) fail_value("only one element tensors can be converted to Python scalars");
        category = info(t.dtype).category;
    } else {
        Scalar scalar;
        if (!scalar_from(data, &scalar)) {
            std::string_view type = Py_TYPE(data)->tp_name;
            if (type == "str") fail_type("new(): invalid data type 'str'");
            fail("Could not infer dtype of " + std::string(type));
        }
        category = scalar.tag;
    }
    found.category = std::max(found.category, category);
}

void store(PyObject* data, DType dtype, const Dims& sizes, size_t depth, char*& out) {
    bool list = PyList_Check(data) || PyTuple_Check(data);
    if (list != (depth < sizes.size())) fail("the list changed while it was read");
    if (list) {
        for (Py_ssize_t i = 0; i < sizes[depth]; ++i)
            store(item_of(data, i, sizes[depth]).get(), dtype, sizes, depth + 1, out);
        return;
    }
    PyRef item;
    if (is_tensor(data)) {
        item = checked(tensor_item(*tensor_of(data)));
        data = item.get();
    }
    const DTypeInfo& type = info(dtype);
    if (dtype == DType::U64 && PyLong_Check(data)) {
        // Numbers from 2^63 on are no int64; negative ones wrap around.
        uint64_t value = PyLong_AsUnsignedLongLongMask(data);
        check_python();
        std::memcpy(out, &value, sizeof value);
        out += sizeof value;
        return;
    }
    Scalar scalar;
    if (!scalar_from(data, &scalar)) fail_type(std::string("could not convert ") + Py_TYPE(data)->tp_name);
    if (scalar.tag == Scalar::Complex && type.category != 3) fail_type("must be real number, not complex");
    if (type.category == 1) {
        if (scalar.tag == Scalar::Float && std::isnan(scalar.f)) fail_value("cannot convert float NaN to integer");
        if (!fits(scalar, dtype))
            fail(std::string("value cannot be converted to type ") + type.name + " without overflow");
    }
    store_scalar(scalar, dtype, out);
    out += itemsize(dtype);
}

class NoGrad {
  public:
    NoGrad() : previous_(std::exchange(grad_enabled, false)) {}
    ~NoGrad() { grad_enabled = previous_; }

  private:
    bool previous_;
};

Ref<Tensor> cast_to(Ref<Tensor> tensor, DType dtype, bool copy) {
    static const OpDef *cast = find_op("cast"), *clone = find_op("clone");
    trace::Suspend suspend;  // data comes in as it is now
    NoGrad no_grad;
    Ref<Tensor> result = tensor;
    if (tensor->dtype != dtype) {
        Value value;
        value.tag = Value::Type;
        value.dtype = dtype;
        result = call_op(*cast, {tensor.get()}, {value});
    } else if (copy) {
        result = call_op(*clone, {tensor.get()});
    }
    return result;
}

// tensor_from_data(data, dtype, device, copy): new memory, unless `copy` is false and data is an array that can be
// shared.
PyObject* tensor_from_data(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *data, *dtype_argument, *device_argument;
        int copy;
        if (!PyArg_ParseTuple(args, "OOOp:tensor_from_data", &data, &dtype_argument, &device_argument, &copy))
            return nullptr;
        Device device = device_argument != Py_None ? device_from(device_argument)
                        : is_tensor(data)          ? tensor_of(data)->device()
                                                   : default_device();
        bool has_dtype = dtype_argument != Py_None;
        DType dtype = has_dtype ? dtype_from(dtype_argument) : default_dtype();
        Ref<Tensor> result;
        if (is_tensor(data)) {
            Tensor& source = *tensor_of(data);
            DType wanted = has_dtype ? dtype : source.dtype;
            bool meta = source.device().type == DeviceType::Meta;
            if (meta && device.type != DeviceType::Meta)
                throw Error(ErrorKind::NotImplemented, "Cannot copy out of meta tensor; no data!");
            result = meta ? Tensor::empty(source.sizes, wanted, device) : cast_to(detach(source), wanted, copy);
        } else if (!PyList_Check(data) && !PyTuple_Check(data) && PyObject_CheckBuffer(data) && !PyBytes_Check(data)) {
            Ref<Tensor> shared = from_buffer(data, !copy);
            result = cast_to(shared, has_dtype ? dtype : shared->dtype, copy);
        } else {
            Inferred found;
            inspect(data, 0, found, true);
            if (!has_dtype)
                dtype = found.category == 0   ? DType::Bool
                        : found.category == 1 ? DType::I64
                        : found.category == 3 ? complex_dtype(default_dtype())
                                              : default_dtype();
            result = Tensor::empty(found.sizes, dtype);
            char* out = static_cast<char*>(result->storage->data);
            store(data, dtype, found.sizes, 0, out);
        }
        device = existing_device(device);
        if (device.type == DeviceType::Meta) result = Tensor::empty(result->sizes, result->dtype, device);
        else if (device.type != result->device().type || (on_gpu(device) && device != result->device()))
            result = copy_across(*result, device);
        return wrap(std::move(result));
    });
}

// to_device(tensor, device): a copy on another device, with its gradient.
PyObject* to_device(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *tensor, *device;
        if (!PyArg_ParseTuple(args, "O!O:to_device", &TensorType, &tensor, &device)) return nullptr;
        Device target = existing_device(device_from(device));
        return wrap(clone_to(*tensor_of(tensor), target));
    });
}

PyObject* from_numpy(PyObject*, PyObject* array) {
    return guarded([&]() -> PyObject* {
        if (std::string_view(Py_TYPE(array)->tp_name) != "numpy.ndarray")
            fail_type(std::string("expected np.ndarray (got ") + Py_TYPE(array)->tp_name + ")");
        return wrap(from_buffer(array, true));
    });
}

PyObject* make_empty(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *size, *dtype, *device;
        if (!PyArg_ParseTuple(args, "OOO:empty", &size, &dtype, &device)) return nullptr;
        Device place = existing_device(device == Py_None ? default_device() : device_from(device));
        return wrap(
            Tensor::empty(dims_from(size, "size"), dtype == Py_None ? default_dtype() : dtype_from(dtype), place));
    });
}

// DLPack ----------------------------------------------------------------------------------------------------------

dlpack::DataType dlpack_type(DType dtype) {
    auto bits = static_cast<uint8_t>(itemsize(dtype) * 8);
    switch (dtype) {
        case DType::Bool: return {dlpack::kBool, 8, 1};
        case DType::BF16: return {dlpack::kBfloat, 16, 1};
        default: break;
    }
    const DTypeInfo& i = info(dtype);
    uint8_t code = i.category == 3   ? dlpack::kComplex
                   : i.category == 2 ? dlpack::kFloat
                   : i.is_signed     ? dlpack::kInt
                                     : dlpack::kUInt;
    return {code, bits, 1};
}

DType dtype_of_dlpack(dlpack::DataType type) {
    for (size_t i = 0; i < static_cast<size_t>(DType::Count); ++i) {
        dlpack::DataType own = dlpack_type(static_cast<DType>(i));
        if (own.code == type.code && own.bits == type.bits && type.lanes == 1) return static_cast<DType>(i);
    }
    fail_type("from_dlpack: no supported dtype for DLPack code " + std::to_string(type.code) + " with " +
              std::to_string(type.bits) + " bits and " + std::to_string(type.lanes) + " lanes");
}

template <class Managed>
struct Exported {
    Managed managed;
    Ref<Storage> storage;
    Dims sizes, strides;
};

// The memory, for somebody outside to read and write: other threads' recorded reads of it get a copy first.
Place reachable_place(Tensor& tensor) {
    for (;;) {
        Place place = tensor.place();
        Ref<Storage> storage = tensor.storage;
        if (!storage->readers) return place;
        before_write_hook(storage.get());
    }
}

// DLPack consumers may free from any thread.
template <class Managed>
void delete_export(Managed* managed) {
    PyGILState_STATE state = PyGILState_Ensure();
    auto* exported = static_cast<Exported<Managed>*>(managed->manager_ctx);
    --exported->storage->exports;
    delete exported;
    PyGILState_Release(state);
}

template <class Managed>
PyObject* make_capsule(Ref<Tensor> tensor, const char* name, bool copied) {
    const Place place = reachable_place(*tensor);
    const bool card = on_gpu(place.device);
    void* data = card ? reinterpret_cast<void*>(place.address) : place.data;
    auto* exported = new Exported<Managed>{};
    exported->sizes = tensor->sizes;
    exported->strides = tensor->strides;
    exported->storage = tensor->storage;
    ++exported->storage->exports;
    exported->managed.dl_tensor = {data,
                                   {card ? dlpack::kCUDA : dlpack::kCPU, card ? place.device.index : 0},
                                   static_cast<int32_t>(tensor->ndim()),
                                   dlpack_type(tensor->dtype),
                                   exported->sizes.data(),
                                   exported->strides.data(),
                                   0};
    exported->managed.manager_ctx = exported;
    exported->managed.deleter = delete_export<Managed>;
    if constexpr (std::is_same_v<Managed, dlpack::ManagedTensorVersioned>) {
        exported->managed.version = {1, 0};
        exported->managed.flags = (tensor->storage->read_only ? dlpack::kReadOnly : 0) | (copied ? 2 : 0);
    }
    PyObject* capsule = PyCapsule_New(&exported->managed, name, [](PyObject* capsule) {
        const char* current = PyCapsule_GetName(capsule);
        if (!current || std::strncmp(current, "used", 4) == 0) return;
        auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, current));
        if (managed && managed->deleter) managed->deleter(managed);
    });
    if (!capsule) delete_export(&exported->managed);
    return capsule;
}

template <class Managed>
Ref<Tensor> import_capsule(PyObject* capsule, const char* name, const char* used) {
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
    if (!managed) fail_python();
    const dlpack::Tensor& t = managed->dl_tensor;
    Device device;
    if (t.device.device_type == dlpack::kCUDA && t.device.device_id >= 0 && t.device.device_id < 128)
        device = existing_device({DeviceType::CUDA, static_cast<int8_t>(t.device.device_id)});
    else if (t.device.device_type != dlpack::kCPU)
        fail("from_dlpack: only memory of the CPU and of CUDA devices can be shared, got DLPack device type " +
             std::to_string(t.device.device_type));
    DType dtype = dtype_of_dlpack(t.dtype);
    if (t.ndim < 0 || t.ndim > static_cast<int32_t>(kMaxDims) || (t.ndim && !t.shape))
        fail_value("from_dlpack: the capsule's shape is broken");
    Dims sizes(t.shape, static_cast<size_t>(t.ndim));
    byte_count(sizes, dtype);  // throws if negative or too large
    Dims strides = t.strides ? Dims(t.strides, static_cast<size_t>(t.ndim)) : contiguous_strides(sizes);
    for (int64_t stride : strides)
        if (stride < 0)
            fail_value("from_dlpack: tensors with negative strides are not supported; copy the array first");
    auto [low, high] = element_span(sizes, strides, 0);
    auto size = static_cast<int64_t>(itemsize(dtype));
    char* data = static_cast<char*>(t.data) + t.byte_offset;
    if (!data && high > low) fail_value("from_dlpack: the capsule has no memory");
    if (reinterpret_cast<uintptr_t>(data) % static_cast<size_t>(size) != 0)
        fail_value("from_dlpack: the memory is not aligned to its element size; copy the array first");
    auto release = [](void* context) {
        auto* held = static_cast<Managed*>(context);
        if (held->deleter) held->deleter(held);
    };
    bool read_only = false;
    if constexpr (std::is_same_v<Managed, dlpack::ManagedTensorVersioned>)
        read_only = managed->flags & dlpack::kReadOnly;
    if (PyCapsule_SetName(capsule, used) < 0) fail_python();
    const Place place{device, on_gpu(device) ? nullptr : data, on_gpu(device) ? reinterpret_cast<uint64_t>(data) : 0};
    Ref<Storage> storage = Storage::wrap(place, static_cast<size_t>((high - low) * size), release, managed);
    storage->read_only = read_only;
    return Tensor::make(std::move(storage), dtype, sizes, strides, 0);
}

PyObject* from_dlpack_capsule(PyObject*, PyObject* capsule) {
    return guarded([&]() -> PyObject* {
        if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
            return wrap(import_capsule<dlpack::ManagedTensorVersioned>(capsule, "dltensor_versioned",
                                                                       "used_dltensor_versioned"));
        if (PyCapsule_IsValid(capsule, "dltensor"))
            return wrap(import_capsule<dlpack::ManagedTensor>(capsule, "dltensor", "used_dltensor"));
        fail_value("from_dlpack: expected a DLPack capsule that has not been consumed");
    });
}

PyMethodDef functions[] = {
    {"tensor_from_data", tensor_from_data, METH_VARARGS, "tensor_from_data(data, dtype, device, copy)"},
    {"from_numpy", from_numpy, METH_O, "from_numpy(ndarray)\n--\n\nA tensor that shares the array's memory."},
    {"empty", make_empty, METH_VARARGS, "empty(size, dtype, device)"},
    {"to_device", to_device, METH_VARARGS, "to_device(tensor, device): a copy on another device, with its gradient."},
    {"from_dlpack_capsule", from_dlpack_capsule, METH_O, "A tensor over the memory of a DLPack capsule."},
    {}};

}  // namespace

PyObject* tensor_item(Tensor& t) {
    if (t.numel != 1) fail("a Tensor with " + std::to_string(t.numel) + " elements cannot be converted to Scalar");
    no_meta(t, "read an item");
    if (on_jit_device(t) || !on_host(t)) {
        Ref<Tensor> here = copy_across(t, Device{});
        return element_to_python(here->data(), here->dtype);
    }
    return element_to_python(t.data(), t.dtype);
}

PyObject* tensor_tolist(Tensor& t) {
    no_meta(t, "convert to a list");
    Ref<Tensor> held = on_jit_device(t) || !on_host(t)
                           ? copy_across(t, Device{})
                           : detach(t);  // the garbage collector may run, and with it what gives `t` other contents
    return nested_list(*held, static_cast<const char*>(held->data()), 0);
}

namespace {
struct BufferShape {
    Ref<Storage> storage;
    Py_ssize_t values[2 * kMaxDims];
};
}  // namespace

namespace {

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

int tensor_getbuffer(PyObject* self, Py_buffer* view, int flags) {
    return guarded(
        [&]() -> int {
            Tensor& t = *tensor_of(self);
            view->obj = nullptr;
            if (requires_grad(t))
                fail("Can't call numpy() on Tensor that requires grad. Use tensor.detach().numpy() instead.");
            no_meta(t, "share memory");
            if (!on_host(t))
                fail_type("can't convert " + device_text(t.device()) +
                          " device type tensor to numpy. Use Tensor.cpu() to copy the tensor to host memory first.");
            if (on_jit_device(t))
                fail_type("can't share the memory of a tensor on device jit_cpu. Use Tensor.cpu() first.");
            if (t.dtype == DType::BF16) fail_type("Got unsupported ScalarType BFloat16");
            if ((flags & PyBUF_WRITABLE) && t.storage->read_only) {
                PyErr_SetString(PyExc_BufferError, "the tensor's memory is read-only");
                fail_python();
            }
            auto asks = [&](int what) { return (flags & what) == what; };
            bool row_major = t.contiguous(), column_major = transposed_contiguous(t);
            if ((!asks(PyBUF_STRIDES) && !row_major) || (asks(PyBUF_C_CONTIGUOUS) && !row_major) ||
                (asks(PyBUF_F_CONTIGUOUS) && !column_major) ||
                (asks(PyBUF_ANY_CONTIGUOUS) && !row_major && !column_major)) {
                PyErr_SetString(PyExc_BufferError, "the tensor is not contiguous");
                fail_python();
            }
            Observing observing(trace::observation ? trace::observation : "numpy()");
            // Recorded reads of this memory must not see what its new owner writes.
            if (trace::recording()) trace::flush("numpy()");
            view->buf = reachable_place(t).data;
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

PyObject* tensor_dlpack(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    return guarded([&]() -> PyObject* {
        Tensor& t = *tensor_of(self);
        bool versioned = false, copy = false;
        for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k) {
            const char* name = PyUnicode_AsUTF8(PyTuple_GET_ITEM(kwnames, k));
            PyObject* value = args[nargs + k];
            if (!name) fail_python();
            std::string_view key = name;
            if (key == "max_version") {
                versioned = PyTuple_Check(value) && PyTuple_GET_SIZE(value) == 2 &&
                            PyLong_AsLong(PyTuple_GET_ITEM(value, 0)) >= 1;
                check_python();
            } else if (key == "copy") copy = value == Py_True;
            else if (key != "stream" && key != "dl_device")
                fail_type("__dlpack__() got an unexpected keyword argument '" + std::string(key) + "'");
        }
        if (requires_grad(t)) {
            PyErr_SetString(PyExc_BufferError, "Can't export tensors that require gradient, use tensor.detach()");
            return nullptr;
        }
        no_meta(t, "share memory");
        Observing observing("__dlpack__()");
        if (trace::recording()) trace::flush("__dlpack__()");
        Ref<Tensor> source = copy ? cast_to(detach(t), t.dtype, true) : Ref<Tensor>::borrow(&t);
        if (versioned)
            return make_capsule<dlpack::ManagedTensorVersioned>(std::move(source), "dltensor_versioned", copy);
        if (t.storage->read_only) {
            PyErr_SetString(PyExc_BufferError, "read-only memory needs DLPack 1.0: pass max_version=(1, 0)");
            return nullptr;
        }
        return make_capsule<dlpack::ManagedTensor>(std::move(source), "dltensor", copy);
    });
}

bool init_convert(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace mt::py
