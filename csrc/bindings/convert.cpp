// Tensors from and to Python data.
#include <cmath>
#include <cstring>
#include <string>

#include "autograd/tape.h"
#include "bindings/py.h"
#include "bindings/shared_memory.h"
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

}  // namespace

Ref<Tensor> cast_to(Ref<Tensor> tensor, DType dtype, bool copy) {
    static const OpDef *cast = find_op("cast"), *clone = find_op("clone");
    trace::Suspend suspend;  // data comes in as it is now
    GradMode no_grad(false);
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

namespace {

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

PyObject* make_empty(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *size, *dtype, *device;
        if (!PyArg_ParseTuple(args, "OOO:empty", &size, &dtype, &device)) return nullptr;
        Device place = existing_device(device == Py_None ? default_device() : device_from(device));
        return wrap(
            Tensor::empty(dims_from(size, "size"), dtype == Py_None ? default_dtype() : dtype_from(dtype), place));
    });
}

PyMethodDef functions[] = {
    {"tensor_from_data", tensor_from_data, METH_VARARGS, "tensor_from_data(data, dtype, device, copy)"},
    {"empty", make_empty, METH_VARARGS, "empty(size, dtype, device)"},
    {"to_device", to_device, METH_VARARGS, "to_device(tensor, device): a copy on another device, with its gradient."},
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

bool init_convert(PyObject* module) { return PyModule_AddFunctions(module, functions) == 0; }

}  // namespace mt::py
