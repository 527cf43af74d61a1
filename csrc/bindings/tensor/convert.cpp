// Tensors from and to Python data.
#include <cmath>
#include <cstring>
#include <string>

#include "autograd/tape.h"
#include "bindings/py.h"
#include "bindings/tensor/shared_memory.h"
#include "dispatch/gpu.h"
#include "dispatch/infer/elementwise.h"
#include "dispatch/thread_local_state.h"
#include "trace/plan/plan.h"

namespace mt::py {

Observing::Observing(const char* what) : previous_(trace::observation) {
    if (trace::current) trace::current->observe(what);
    trace::observation = what;
}
Observing::~Observing() { trace::observation = previous_; }

PyObject* value_to_python(const Value& value) {
    switch (value.tag) {
        case Value::None: return Py_NewRef(Py_None);
        case Value::Bool: return PyBool_FromLong(value.i != 0);
        case Value::Int: return PyLong_FromLongLong(value.i);
        case Value::Float: return PyFloat_FromDouble(value.f);
        case Value::Type: return dtype_object(value.dtype);
        case Value::Complex: return PyComplex_FromDoubles(value.f, value.imag);
        case Value::Ints: return dims_to_tuple(value.ints);
        case Value::Dev: return device_object(value.device);
    }
    Py_RETURN_NONE;
}

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
    int dtype = -1;

    void promote_with(DType other) {
        dtype = static_cast<int>(dtype < 0 ? other : promote(static_cast<DType>(dtype), other));
    }
};

// NumPy's arrays and scalars, and what behaves like them.
bool is_array(PyObject* object) {
    static PyObject* const name = PyUnicode_InternFromString("__array_interface__");
    return _PyType_Lookup(Py_TYPE(object), name);
}

DType dtype_of_array(PyObject* array) {
    PyRef dtype = checked(PyObject_GetAttrString(array, "dtype")),
          name = checked(PyObject_GetAttrString(dtype.get(), "name"));
    const char* text = PyUnicode_AsUTF8(name.get());
    if (!text) fail_python();
    for (int i = 0; i < static_cast<int>(DType::Count); ++i)
        if (std::string_view(info(static_cast<DType>(i)).name) == text) return static_cast<DType>(i);
    fail_type(std::string("can't convert np.ndarray of type numpy.") + text +
              ". The only supported types are: float64, float32, float16, complex64, complex128, int64, int32, int16, "
              "int8, uint64, uint32, uint16, uint8, and bool.");
}

// The elements of a sequence as a list or tuple; null for what is none. Those of an array are numbers, or lists of
// them.
PyRef sequence_of(PyObject* object) {
    if (PyList_Check(object) || PyTuple_Check(object)) return PyRef::borrow(object);
    if (is_tensor(object) || PyFloat_CheckExact(object) || PyLong_CheckExact(object)) return {};
    if (PyUnicode_Check(object) || PyBytes_Check(object))
        fail_type(std::string("new(): invalid data type '") + Py_TYPE(object)->tp_name + "'");
    if (is_array(object)) {
        if (!PySequence_Check(object)) return {};
        PyRef numbers = checked(PyObject_CallMethod(object, "tolist", nullptr));
        return PyList_Check(numbers.get()) ? std::move(numbers) : PyRef{};
    }
    return PySequence_Check(object) ? checked(PySequence_List(object)) : PyRef{};
}

// An item's conversion to a number runs code, which may change the list.
PyRef item_of(PyObject* sequence, Py_ssize_t i, Py_ssize_t expected) {
    if (PySequence_Fast_GET_SIZE(sequence) != expected) fail("the list changed size while it was read");
    return PyRef::borrow(PySequence_Fast_GET_ITEM(sequence, i));
}

// `typed`: an array around it has said the dtype.
void inspect(PyObject* data, size_t depth, Inferred& found, bool first, bool typed) {
    if (depth > kMaxDims) fail_value("too many dimensions");
    if (first && depth > 0 && PyUnicode_Check(data)) fail_value("too many dimensions 'str'");  // texts of texts
    if (PyRef sequence = sequence_of(data)) {
        Py_ssize_t n = PySequence_Fast_GET_SIZE(sequence.get());
        if (first && depth == found.sizes.size()) found.sizes.push_back(n);
        if (depth >= found.sizes.size() || found.sizes[depth] != n)
            fail_value("expected sequence of length " +
                       std::to_string(depth < found.sizes.size() ? found.sizes[depth] : 0) + " at dim " +
                       std::to_string(depth) + " (got " + std::to_string(n) + ")");
        if (!typed && is_array(data)) {
            found.promote_with(dtype_of_array(data));
            typed = true;
        }
        for (Py_ssize_t i = 0; i < n; ++i)
            inspect(item_of(sequence.get(), i, n).get(), depth + 1, found, first && i == 0, typed);
        return;
    }
    if (depth != found.sizes.size())
        fail_value("expected sequence of length " + std::to_string(found.sizes[depth]) + " at dim " +
                   std::to_string(depth) + " (got a number)");
    if (typed) return;
    if (PyFloat_CheckExact(data)) {
        found.promote_with(default_dtype());
    } else if (PyBool_Check(data)) {
        found.promote_with(DType::Bool);
    } else if (PyLong_CheckExact(data)) {
        found.promote_with(DType::I64);
    } else if (is_tensor(data)) {
        Tensor& t = *tensor_of(data);
        if (t.numel != 1) fail_value("only one element tensors can be converted to Python scalars");
        found.promote_with(t.dtype);
    } else if (is_array(data)) {
        found.promote_with(dtype_of_array(data));
    } else {
        Scalar scalar;
        if (!scalar_from(data, &scalar)) fail("Could not infer dtype of " + std::string(Py_TYPE(data)->tp_name));
        found.promote_with(scalar.tag == Scalar::Complex ? complex_dtype(default_dtype())
                           : scalar.tag == Scalar::Float ? default_dtype()
                           : scalar.tag == Scalar::Bool  ? DType::Bool
                                                         : DType::I64);
    }
}

void store(PyObject* data, DType dtype, const Dims& sizes, size_t depth, char*& out) {
    PyRef sequence = sequence_of(data);
    if (static_cast<bool>(sequence) != (depth < sizes.size())) fail("the list changed while it was read");
    if (sequence) {
        for (Py_ssize_t i = 0; i < sizes[depth]; ++i)
            store(item_of(sequence.get(), i, sizes[depth]).get(), dtype, sizes, depth + 1, out);
        return;
    }
    PyRef item;
    if (is_tensor(data)) {
        item = checked(tensor_item(*tensor_of(data)));
        data = item.get();
    } else if (dtype == DType::U64 && PyIndex_Check(data)) {
        item = checked(PyNumber_Index(data));
        data = item.get();
    }
    const DTypeInfo& type = info(dtype);
    if (dtype == DType::U64 && PyLong_Check(data)) {
        // Numbers from 2^63 on are no int64; negative ones wrap around.
        uint64_t value = to_bits(data);
        std::memcpy(out, &value, sizeof value);
        out += sizeof value;
        return;
    }
    Scalar scalar;
    if (!scalar_from(data, &scalar)) fail_type(std::string("could not convert ") + Py_TYPE(data)->tp_name);
    if (scalar.tag == Scalar::Complex && type.category != kComplex) fail_type("must be real number, not complex");
    if (type.category == kInteger) {
        if (scalar.tag == Scalar::Float && std::isnan(scalar.f)) fail_value("cannot convert float NaN to integer");
        if (!fits(scalar, dtype))
            fail(std::string("value cannot be converted to type ") + type.name + " without overflow");
    }
    store_scalar(scalar, dtype, out);
    out += itemsize(dtype);
}

}  // namespace

Ref<Tensor> cast_to(Ref<Tensor> tensor, DType dtype, bool copy) {
    trace::Suspend suspend;  // data comes in as it is now
    return copied(std::move(tensor), dtype, copy);
}

Ref<Tensor> copied(Ref<Tensor> tensor, DType dtype, bool copy) {
    static const OpDef *cast = find_op("cast"), *clone = find_op("clone");
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
            bool meta = source.device().type == DeviceType::Meta && !batch_level(source);
            if (meta && device.type != DeviceType::Meta)
                throw Error(ErrorKind::NotImplemented, "Cannot copy out of meta tensor; no data!");
            result = meta ? Tensor::empty(source.sizes, wanted, device) : copied(detach(source), wanted, copy);
        } else if (!PyList_Check(data) && !PyTuple_Check(data) && PyObject_CheckBuffer(data) && is_array(data)) {
            Ref<Tensor> shared = from_buffer(data, !copy);
            result = cast_to(shared, has_dtype ? dtype : shared->dtype, copy);
        } else {
            Inferred found;
            inspect(data, 0, found, true, has_dtype);
            if (!has_dtype && found.dtype >= 0) dtype = static_cast<DType>(found.dtype);
            result = Tensor::empty(found.sizes, dtype);
            char* out = static_cast<char*>(result->storage->data);
            store(data, dtype, found.sizes, 0, out);
        }
        device = existing_device(device);
        if (device.type == DeviceType::Meta) result = Tensor::empty(result->sizes, result->dtype, device);
        else if (device.type != result->device().type || (on_gpu(device) && device != result->device()))
            result = copy_across(*result, device);
        return wrap(made_now(std::move(result)));
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
        return wrap(made_now(
            Tensor::empty(dims_from(size, "size"), dtype == Py_None ? default_dtype() : dtype_from(dtype), place)));
    });
}

PyMethodDef convert_functions[] = {
    {"tensor_from_data", method<tensor_from_data>(), METH_VARARGS, "tensor_from_data(data, dtype, device, copy)"},
    {"empty", method<make_empty>(), METH_VARARGS, "empty(size, dtype, device)"},
    {"to_device", method<to_device>(), METH_VARARGS,
     "to_device(tensor, device): a copy on another device, with its gradient."},
    {}};

}  // namespace

PyObject* tensor_item(Tensor& t) {
    if (t.numel != 1) fail("a Tensor with " + std::to_string(t.numel) + " elements cannot be converted to Scalar");
    no_meta(t, "read an item");
    trace::check_open("item()");
    if (on_jit_device(t) || !on_host(t)) {
        Ref<Tensor> here = copy_across(t, Device{});
        return element_to_python(here->data(), here->dtype);
    }
    return element_to_python(t.data(), t.dtype);
}

PyObject* tensor_tolist(Tensor& t) {
    no_meta(t, "convert to a list");
    trace::check_open("tolist()");
    Ref<Tensor> held = on_jit_device(t) || !on_host(t)
                           ? copy_across(t, Device{})
                           : detach(t);  // the garbage collector may run, and with it what gives `t` other contents
    return nested_list(*held, static_cast<const char*>(held->data()), 0);
}

bool init_convert(PyObject* module) { return PyModule_AddFunctions(module, convert_functions) == 0; }

}  // namespace mt::py
