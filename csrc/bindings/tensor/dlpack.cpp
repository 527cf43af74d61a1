// DLPack: tensors as capsules, and over the memory of others' capsules.
#include "bindings/tensor/dlpack.h"

#include <string>

#include "autograd/tape.h"
#include "bindings/tensor/shared_memory.h"
#include "dispatch/gpu.h"
#include "trace/plan/plan.h"

namespace mt::py {

namespace {

dlpack::DataType dlpack_type(DType dtype) {
    auto bits = static_cast<uint8_t>(itemsize(dtype) * 8);
    switch (dtype) {
        case DType::Bool: return {dlpack::kBool, 8, 1};
        case DType::BF16: return {dlpack::kBfloat, 16, 1};
        default: break;
    }
    // The standard numbers its floats of eight bits in the order of ours.
    if (is_float8(dtype)) {
        const int place = static_cast<int>(dtype) - static_cast<int>(DType::F8E4M3FN);
        return {static_cast<uint8_t>(dlpack::kFloat8E4m3fn + place), bits, 1};
    }
    const DTypeInfo& i = info(dtype);
    uint8_t code = i.category == kComplex    ? dlpack::kComplex
                   : i.category == kFloating ? dlpack::kFloat
                   : i.is_signed             ? dlpack::kInt
                                             : dlpack::kUInt;
    return {code, bits, 1};
}

DType dtype_of_dlpack(dlpack::DataType type) {
    for (size_t i = 0; i < static_cast<size_t>(DType::Count); ++i) {
        dlpack::DataType own = dlpack_type(static_cast<DType>(i));
        if (own.code != type.code || own.bits != type.bits || type.lanes != 1) continue;
        if (is_float8(static_cast<DType>(i))) float8_was_named = true;
        return static_cast<DType>(i);
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
void drop_capsule(PyObject* capsule) {
    const char* current = PyCapsule_GetName(capsule);
    if (!current || std::strncmp(current, "used", 4) == 0) return;
    auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, current));
    if (managed && managed->deleter) managed->deleter(managed);
}

template <class Managed>
PyObject* make_capsule(Ref<Tensor> tensor, const char* name, bool copied) {
    const DeviceAddress place = reachable_place(*tensor);
    const bool gpu = on_gpu(place.device);
    void* data = gpu ? reinterpret_cast<void*>(place.address) : place.data;
    auto* exported = new Exported<Managed>{};
    exported->sizes = tensor->sizes;
    exported->strides = tensor->strides;
    exported->storage = tensor->storage;
    ++exported->storage->exports;
    exported->managed.dl_tensor = {data,
                                   {gpu ? dlpack::kCUDA : dlpack::kCPU, gpu ? place.device.index : 0},
                                   static_cast<int32_t>(tensor->ndim()),
                                   dlpack_type(tensor->dtype),
                                   exported->sizes.data(),
                                   exported->strides.data(),
                                   0};
    exported->managed.manager_ctx = exported;
    exported->managed.deleter = slot<delete_export<Managed>>;
    if constexpr (std::is_same_v<Managed, dlpack::ManagedTensorVersioned>) {
        exported->managed.version = {1, 0};
        exported->managed.flags = (tensor->storage->read_only ? dlpack::kReadOnly : 0) | (copied ? 2 : 0);
    }
    PyObject* capsule = PyCapsule_New(&exported->managed, name, slot<drop_capsule<Managed>>);
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
    const DeviceAddress place{device, on_gpu(device) ? nullptr : data,
                              on_gpu(device) ? reinterpret_cast<uint64_t>(data) : 0};
    Ref<Storage> storage = Storage::wrap(place, static_cast<size_t>((high - low) * size), release, managed);
    storage->read_only = read_only;
    return made_now(Tensor::make(std::move(storage), dtype, sizes, strides, 0));
}

PyObject* from_dlpack_capsule(PyObject*, PyObject* capsule) {
    return guarded([&]() -> PyObject* {
        if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
            return wrap(import_capsule<dlpack::ManagedTensorVersioned>(capsule, "dltensor_versioned",
                                                                       "used_dltensor_versioned"));
        if (PyCapsule_IsValid(capsule, "dltensor"))
            return wrap(import_capsule<dlpack::ManagedTensor>(capsule, "dltensor", "used_dltensor"));
        fail("from_dlpack: expected a DLPack capsule that has not been consumed");
    });
}

PyMethodDef dlpack_functions[] = {
    {"from_dlpack_capsule", method<from_dlpack_capsule>(), METH_O, "A tensor over the memory of a DLPack capsule."},
    {}};

}  // namespace

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
                            to_int64(PyTuple_GET_ITEM(value, 0)) >= 1;
            } else if (key == "copy") {
                copy = value == Py_True;
            } else if (key == "stream") {
                if (value == Py_None) continue;
                if (!PyLong_Check(value) || PyBool_Check(value)) fail_type("stream must be ``int`` or ``none``");
                if (to_int64(value) != -1 && t.device().type == DeviceType::CPU) {
                    PyErr_SetString(PyExc_AssertionError, "stream should be None on cpu.");
                    return nullptr;
                }
            } else if (key == "dl_device") {
                if (value == Py_None) continue;
                PyRef own = checked(PyObject_CallMethod(self, "__dlpack_device__", nullptr));
                int same = PyObject_RichCompareBool(own.get(), value, Py_EQ);
                if (same < 0) fail_python();
                if (!same) {
                    PyErr_Format(PyExc_BufferError, "a tensor on DLPack device %R can't be exported to device %R",
                                 own.get(), value);
                    return nullptr;
                }
            } else fail_type("__dlpack__() got an unexpected keyword argument '" + std::string(key) + "'");
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

bool init_dlpack(PyObject* module) { return PyModule_AddFunctions(module, dlpack_functions) == 0; }

}  // namespace mt::py
