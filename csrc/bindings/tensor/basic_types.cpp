// dtype, device, Size and the exceptions.
#include <cctype>
#include <climits>
#include <cstring>
#include <string>
#include <vector>

#include "bindings/py.h"
#include "bindings/tensor/named_dtypes.h"
#include "core/memory/device_runtime.h"
#include "dispatch/thread_local_state.h"

namespace mt::py {

PyObject* OutOfMemoryError = nullptr;

namespace {
// PyTorch raises RuntimeErrors for these; they are what Python calls them, too.
PyObject* g_zero_division = nullptr;
}  // namespace

void report_unraisable() {
    PyGILState_STATE state = PyGILState_Ensure();
    PyErr_WriteUnraisable(nullptr);
    PyGILState_Release(state);
}

void set_error(const Error& error) {
    PyObject* type = PyExc_RuntimeError;
    switch (error.kind()) {
        case ErrorKind::Python: return;  // already set
        case ErrorKind::Type: type = PyExc_TypeError; break;
        case ErrorKind::Value: type = PyExc_ValueError; break;
        case ErrorKind::Index: type = PyExc_IndexError; break;
        case ErrorKind::ZeroDivision: type = g_zero_division; break;
        case ErrorKind::NotImplemented: type = PyExc_NotImplementedError; break;
        case ErrorKind::Assertion: type = PyExc_AssertionError; break;
        case ErrorKind::OutOfMemory: type = OutOfMemoryError; break;
        case ErrorKind::Runtime: break;
    }
    PyErr_SetString(type, error.what());
}

namespace {

struct DTypeObject {
    PyObject_HEAD DType dtype;
    const NamedDType* named;  // nullptr where there are tensors of it
};

struct DeviceObject {
    PyObject_HEAD Device device;
};

PyObject* g_dtypes[static_cast<size_t>(DType::Count)];

// Whose name dtypes, sizes, layouts and memory formats are shown with: PyTorch's, where a program imported this package
// under it.
std::string g_shown_package = "minitensor";

PyObject* py_set_shown_package(PyObject*, PyObject* name) {
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) return nullptr;
    return guarded([&] {
        std::string before = std::exchange(g_shown_package, text);
        return PyUnicode_FromString(before.c_str());
    });
}

PyObject* py_shown_package(PyObject*, PyObject*) { return PyUnicode_FromString(g_shown_package.c_str()); }

const NamedDType* named_of(PyObject* self) { return reinterpret_cast<DTypeObject*>(self)->named; }
DType dtype_of(PyObject* self) {
    if (const NamedDType* named = named_of(self))
        throw Error(ErrorKind::NotImplemented,
                    g_shown_package + "." + named->info.name + " is a name only: there are no tensors of this dtype");
    const DType dtype = reinterpret_cast<DTypeObject*>(self)->dtype;
    if (__builtin_expect(is_float8(dtype), 0)) float8_was_named = true;
    return dtype;
}
// What is only described is no reason to ask every call for floats of eight bits.
const DTypeInfo& info_of(PyObject* self) {
    return named_of(self) ? named_of(self)->info : info(reinterpret_cast<DTypeObject*>(self)->dtype);
}
uint8_t category_of(PyObject* self) { return info_of(self).category; }

PyObject* dtype_repr(PyObject* self) {
    return PyUnicode_FromFormat("%s.%s", g_shown_package.c_str(), info_of(self).name);
}
PyObject* dtype_reduce(PyObject* self, PyObject*) { return PyUnicode_FromString(info_of(self).name); }
PyObject* dtype_itemsize(PyObject* self, void*) { return PyLong_FromSize_t(info_of(self).itemsize); }
PyObject* dtype_is_floating(PyObject* self, void*) { return PyBool_FromLong(category_of(self) == kFloating); }
PyObject* dtype_is_complex(PyObject* self, void*) { return PyBool_FromLong(category_of(self) == kComplex); }
PyObject* dtype_is_signed(PyObject* self, void*) { return PyBool_FromLong(info_of(self).is_signed); }
PyObject* dtype_compute(PyObject* self, void*) {
    return guarded([&] { return dtype_object(loop_dtype(dtype_of(self))); });
}
PyObject* dtype_to_real(PyObject* self, PyObject*) {
    if (!named_of(self)) return dtype_object(real_dtype(dtype_of(self)));
    return category_of(self) == kComplex ? dtype_object(DType::F16) : Py_NewRef(self);
}
PyObject* dtype_to_complex(PyObject* self, PyObject*) {
    return guarded([&] {
        if (named_of(self) && category_of(self) == kComplex) return Py_NewRef(self);
        DType dtype = dtype_of(self);
        if (info(dtype).category < kFloating || is_float8(dtype))
            fail(std::string("Unknown Complex ScalarType for ") + torch_type_name(dtype));
        return dtype_object(complex_dtype(dtype));
    });
}
PyObject* dtype_abbreviation(PyObject* self, void*) {
    static constexpr const char* names[] = {"b8",  "u8",  "i8",   "u16", "i16", "u32", "i32", "u64",
                                            "i64", "f16", "bf16", "f32", "f64", "c64", "c128"};
    const size_t place = named_of(self) ? std::size(names) : static_cast<size_t>(dtype_of(self));
    return PyUnicode_FromString(named_of(self)             ? named_of(self)->abbreviation
                                : place < std::size(names) ? names[place]
                                                           : info_of(self).hlo_name);
}
PyObject* dtype_name(PyObject* self, void*) { return PyUnicode_FromString(info_of(self).name); }
PyObject* dtype_hlo(PyObject* self, void*) { return PyUnicode_FromString(info_of(self).hlo_name); }

PyMethodDef dtype_methods[] = {
    {"__reduce__", method<dtype_reduce>(), METH_NOARGS, "Pickled by name."},
    {"to_real", method<dtype_to_real>(), METH_NOARGS, "The type of a complex type's parts; others give themselves."},
    {"to_complex", method<dtype_to_complex>(), METH_NOARGS, "The complex type whose parts are of this one."},
    {}};
PyGetSetDef dtype_getset[] = {
    {"itemsize", slot<dtype_itemsize>, nullptr, "Bytes of one element.", nullptr},
    {"is_floating_point", slot<dtype_is_floating>, nullptr, "Whether it is a floating-point type.", nullptr},
    {"is_complex", slot<dtype_is_complex>, nullptr, "Whether it is a complex type.", nullptr},
    {"is_signed", slot<dtype_is_signed>, nullptr, "Whether it can hold negative numbers.", nullptr},
    {"abbr", slot<dtype_abbreviation>, nullptr, "A short name: 'f32'.", nullptr},
    {"compute", slot<dtype_compute>, nullptr, "The type that arithmetic on such elements is done in.", nullptr},
    {"name", slot<dtype_name>, nullptr, "Its name: 'float32'.", nullptr},
    {"hlo_name", slot<dtype_hlo>, nullptr, "Its name in HLO text: 'f32'.", nullptr},
    {}};

constexpr const char* kDeviceNames[] = {"cpu", "cuda", "meta", "jit_cpu", "jit_gpu"};

Device device_of(PyObject* self) { return reinterpret_cast<DeviceObject*>(self)->device; }

std::string device_string(Device device) {
    std::string text = kDeviceNames[static_cast<size_t>(device.type)];
    if (device.index >= 0) text.append(":").append(std::to_string(device.index));
    return text;
}

// TensorFlow's names, such as "/job:localhost/replica:0/task:0/device:JIT_CPU:0" and "/device:CPU:0", in this
// framework's form.
std::string plain_device_name(const char* text) {
    std::string name = text;
    bool upper = name.starts_with("JIT_CPU") || name.starts_with("JIT_GPU");
    if (name.starts_with("/")) {
        size_t at = name.find("/device:");
        if (at == std::string::npos) return name;
        const std::string before = name.substr(0, at);
        if (!before.empty() && before != "/job:localhost/replica:0/task:0")
            fail("Invalid device string: '" + name + "': there is only /job:localhost/replica:0/task:0");
        name = name.substr(at + 8);
        upper = true;
        if (name.starts_with("GPU")) name.replace(0, 3, "cuda");
    }
    if (upper)
        for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return name;
}

Device parse_device(const char* given) {
    const std::string name = plain_device_name(given);
    const char* text = name.c_str();
    const char* colon = std::strchr(text, ':');
    size_t length = colon ? static_cast<size_t>(colon - text) : std::strlen(text);
    Device device;
    bool known = false, in_range = true;
    for (size_t i = 0; i < std::size(kDeviceNames); ++i)
        if (std::strlen(kDeviceNames[i]) == length && std::strncmp(kDeviceNames[i], text, length) == 0) {
            device.type = static_cast<DeviceType>(i);
            known = true;
        }
    if (colon) {
        const size_t digits = std::strspn(colon + 1, "0123456789");
        const long index = std::strtol(colon + 1, nullptr, 10);
        in_range = digits > 0 && !colon[1 + digits] && (digits == 1 || colon[1] != '0') && index <= 127;
        device.index = static_cast<int8_t>(index);
    }
    if (length && !known)
        fail("Expected one of cpu, cuda, meta, jit_cpu, jit_gpu device type at start of device string: " +
             std::string(text, length));
    if (!known || !in_range) fail(std::string("Invalid device string: '") + given + "'");
    return device;
}

PyObject* device_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    return guarded([&]() -> PyObject* {
        PyObject* name = nullptr;
        constexpr int kNone = INT_MIN;
        int index = kNone;
        static const char* keywords[] = {"type", "index", nullptr};
        if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|i:device", const_cast<char**>(keywords), &name, &index))
            return nullptr;
        Device device = device_from(name);
        if (index != kNone) {
            if (PyUnicode_Check(name) && device.index >= 0)
                fail("type (string) must not include an index because index was passed explicitly: " +
                     device_string(device));
            if (index < 0) fail("Device index must not be negative");
            if (index > 127) fail("Invalid device index: " + std::to_string(index));
            device.index = static_cast<int8_t>(index);
        }
        PyRef self = checked(type->tp_alloc(type, 0));
        reinterpret_cast<DeviceObject*>(self.get())->device = device;
        return self.release();
    });
}

PyObject* device_repr(PyObject* self) {
    Device device = device_of(self);
    if (device.index >= 0)
        return PyUnicode_FromFormat("device(type='%s', index=%d)", kDeviceNames[static_cast<size_t>(device.type)],
                                    device.index);
    return PyUnicode_FromFormat("device(type='%s')", kDeviceNames[static_cast<size_t>(device.type)]);
}
PyObject* device_str(PyObject* self) { return PyUnicode_FromString(device_string(device_of(self)).c_str()); }
PyObject* device_type(PyObject* self, void*) {
    return PyUnicode_FromString(kDeviceNames[static_cast<size_t>(device_of(self).type)]);
}
PyObject* device_index(PyObject* self, void*) {
    int index = device_of(self).index;
    return index < 0 ? Py_NewRef(Py_None) : PyLong_FromLong(index);
}
PyObject* device_compare(PyObject* a, PyObject* b, int op) {
    if (!PyObject_TypeCheck(b, &DeviceType_) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
    return PyBool_FromLong((device_of(a) == device_of(b)) == (op == Py_EQ));
}
Py_hash_t device_hash(PyObject* self) {
    return static_cast<Py_hash_t>(device_of(self).type) * 257 + device_of(self).index + 2;
}
PyObject* device_reduce(PyObject* self, PyObject*) {
    return Py_BuildValue("O(s)", &DeviceType_, device_string(device_of(self)).c_str());
}

// `with device:` makes it the default one of this thread. One object may be entered twice.
thread_local std::vector<Device> t_entered;

PyObject* device_enter(PyObject* self, PyObject*) {
    t_entered.push_back(default_device());
    thread_settings.default_device = device_of(self);
    return Py_NewRef(self);
}
PyObject* device_exit(PyObject*, PyObject*) {
    if (t_entered.empty()) {
        PyErr_SetString(PyExc_RuntimeError, "no device was entered");
        return nullptr;
    }
    thread_settings.default_device = t_entered.back();
    t_entered.pop_back();
    Py_RETURN_NONE;
}

PyMethodDef device_methods[] = {
    {"__reduce__", method<device_reduce>(), METH_NOARGS, "Pickled by name."},
    {"__enter__", method<device_enter>(), METH_NOARGS, "Tensors are made on this device from here on."},
    {"__exit__", method<device_exit>(), METH_VARARGS, "The default device is again what it was before."},
    {}};
PyGetSetDef device_getset[] = {
    {"type", slot<device_type>, nullptr, "'cpu', 'cuda', 'meta', 'jit_cpu' or 'jit_gpu'.", nullptr},
    {"index", slot<device_index>, nullptr, "The device's number, or None.", nullptr},
    {}};

// Whatever is an integer becomes an int: a bool, NumPy's, a tensor of one.
PyObject* size_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    return guarded([&]() -> PyObject* {
        PyRef self = checked(PyTuple_Type.tp_new(type, args, kwargs));
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self.get()); ++i) {
            PyObject* item = PyTuple_GET_ITEM(self.get(), i);
            if (!PyLong_Check(item) || PyBool_Check(item)) {  // a size that varies is an int of a class of its own
                PyRef number(PyNumber_Index(item));
                if (!number && !PyErr_ExceptionMatches(PyExc_TypeError)) fail_python();
                if (!number) {
                    PyErr_Clear();
                    fail_type(g_shown_package + ".Size() takes an iterable of 'int' (item " + std::to_string(i) +
                              " is '" + Py_TYPE(item)->tp_name + "')");
                }
                if (PyBool_Check(number.get())) number = checked(PyNumber_Long(number.get()));
                PyTuple_SET_ITEM(self.get(), i, number.release());
                Py_DECREF(item);
                item = PyTuple_GET_ITEM(self.get(), i);
            }
            int64_t value;
            if (!to_int64(item, &value)) fail_value("Overflow when unpacking long long");
        }
        return self.release();
    });
}

PyObject* size_repr(PyObject* self) {
    PyRef list(PySequence_List(self));
    return list ? PyUnicode_FromFormat("%s.Size(%R)", g_shown_package.c_str(), list.get()) : nullptr;
}
PyObject* size_numel(PyObject* self, PyObject*) {
    PyRef count(PyLong_FromLong(1));
    for (Py_ssize_t i = 0; count && i < PyTuple_GET_SIZE(self); ++i)
        count = PyRef(PyNumber_Multiply(count.get(), PyTuple_GET_ITEM(self, i)));
    return count.release();
}
// Sums, multiples and slices of sizes are sizes.
PyObject* size_from(PyObject* tuple) {
    if (!tuple || !PyTuple_CheckExact(tuple)) return tuple;
    PyRef held(tuple);
    return PyObject_CallOneArg(reinterpret_cast<PyObject*>(&SizeType), tuple);
}
PyObject* size_add(PyObject* a, PyObject* b) {
    if (!PyTuple_Check(a) || !PyTuple_Check(b)) Py_RETURN_NOTIMPLEMENTED;
    return size_from(PyTuple_Type.tp_as_sequence->sq_concat(a, b));
}
PyObject* size_repeat(PyObject* self, Py_ssize_t n) {
    PyRef plain(PyTuple_GetSlice(self, 0, PyTuple_GET_SIZE(self)));
    if (!plain) return nullptr;
    return size_from(PyTuple_Type.tp_as_sequence->sq_repeat(plain.get(), n));
}
PyObject* size_subscript(PyObject* self, PyObject* key) {
    return size_from(PyTuple_Type.tp_as_mapping->mp_subscript(self, key));
}
PyNumberMethods size_number;
PySequenceMethods size_sequence;
PyMappingMethods size_mapping;

PyMethodDef size_methods[] = {{"numel", method<size_numel>(), METH_NOARGS, "The product of the sizes."}, {}};

PyTypeObject make_type(const char* name, const char* doc, Py_ssize_t size) {
    PyTypeObject type = blank_type();
    type.tp_name = name;
    type.tp_doc = doc;
    type.tp_basicsize = size;
    type.tp_flags = Py_TPFLAGS_DEFAULT;
    return type;
}

}  // namespace

PyTypeObject DTypeType = make_type("minitensor.dtype", "The type of a tensor's elements.", sizeof(DTypeObject));
PyTypeObject DeviceType_ = make_type("minitensor.device", "device(type, index=None)\n--\n\nWhere a tensor lives.",
                                     sizeof(DeviceObject));
PyTypeObject SizeType = make_type("minitensor.Size", "The shape of a tensor: a tuple of ints.", 0);

PyObject* dtype_object(DType dtype) { return Py_NewRef(g_dtypes[static_cast<size_t>(dtype)]); }
bool is_dtype(PyObject* object) { return Py_TYPE(object) == &DTypeType; }

DType dtype_from(PyObject* object) {
    DType dtype;
    if (is_dtype(object)) dtype = dtype_of(object);
    else if (object == reinterpret_cast<PyObject*>(&PyFloat_Type)) dtype = default_dtype();
    else if (object == reinterpret_cast<PyObject*>(&PyLong_Type)) dtype = DType::I64;
    else if (object == reinterpret_cast<PyObject*>(&PyBool_Type)) dtype = DType::Bool;
    else if (object == reinterpret_cast<PyObject*>(&PyComplex_Type)) dtype = complex_dtype(default_dtype());
    else fail_type(std::string("dtype must be a minitensor.dtype, got ") + Py_TYPE(object)->tp_name);
    return dtype;
}

PyObject* device_object(Device device) {
    PyObject* self = DeviceType_.tp_alloc(&DeviceType_, 0);
    if (self) reinterpret_cast<DeviceObject*>(self)->device = device;
    return self;
}

Device device_from(PyObject* object) {
    if (Py_TYPE(object) == &DeviceType_) return device_of(object);
    if (PyLong_Check(object) && !PyBool_Check(object)) {  // a GPU's number
        int64_t index = to_int64(object);
        if (index < 0 || index > 127) fail("Device index must be from 0 to 127, got " + std::to_string(index));
        Device device = parse_device("cuda");
        try {
            existing_device(device);
        } catch (const Error&) {
            PyErr_Clear();
            fail("Cannot access accelerator device when none is available.");
        }
        device.index = static_cast<int8_t>(index);
        return device;
    }
    if (!PyUnicode_Check(object))
        fail_type(std::string("device must be a minitensor.device or its name, got ") + Py_TYPE(object)->tp_name);
    const char* text = PyUnicode_AsUTF8(object);
    if (!text) fail_python();
    return parse_device(text);
}

PyObject* size_object(Dims dims) {
    PyObject* self = SizeType.tp_alloc(&SizeType, static_cast<Py_ssize_t>(dims.size()));
    if (!self) return nullptr;
    for (size_t i = 0; i < dims.size(); ++i)
        PyTuple_SET_ITEM(self, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(dims[i]));
    return self;
}

PyObject* dims_to_tuple(Dims dims) {
    PyObject* tuple = PyTuple_New(static_cast<Py_ssize_t>(dims.size()));
    if (!tuple) return nullptr;
    for (size_t i = 0; i < dims.size(); ++i)
        PyTuple_SET_ITEM(tuple, static_cast<Py_ssize_t>(i), PyLong_FromLongLong(dims[i]));
    return tuple;
}

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

namespace {

// A tensor or number in result_type, as PyTorch ranks them.
void add_to(ResultType& type, PyObject* object) {
    Scalar scalar;
    if (is_tensor(object)) {
        const Tensor& t = *tensor_of(object);
        if (t.wrapped_number) type.add_scalar(t.dtype);
        else type.add_tensor(t.dtype, t.ndim() == 0);
    } else if (scalar_from(object, &scalar)) {
        type.add_scalar(scalar.dtype(ambient()));
    } else {
        fail_type(std::string("result_type(): arguments must be Tensors or Numbers, not ") + Py_TYPE(object)->tp_name);
    }
}

PyObject* py_result_type(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *a, *b;
        if (!PyArg_ParseTuple(args, "OO:result_type", &a, &b)) return nullptr;
        ResultType type;
        add_to(type, a);
        add_to(type, b);
        return dtype_object(type.get(ambient()));
    });
}

bool two_dtypes(PyObject* args, const char* name, DType* a, DType* b) {
    PyObject *first, *second;
    if (!PyArg_UnpackTuple(args, name, 2, 2, &first, &second)) return false;
    *a = dtype_from(first);
    *b = dtype_from(second);
    return true;
}

PyObject* py_promote_types(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        DType a, b;
        return two_dtypes(args, "promote_types", &a, &b) ? dtype_object(promote(a, b)) : nullptr;
    });
}

PyObject* py_can_cast(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        DType a, b;
        return two_dtypes(args, "can_cast", &a, &b) ? PyBool_FromLong(can_cast(a, b)) : nullptr;
    });
}

PyObject* py_type_name(PyObject*, PyObject* object) {
    return guarded([&] {
        const bool plain = is_dtype(object) && !named_of(object);
        const DType dtype = plain ? reinterpret_cast<DTypeObject*>(object)->dtype : dtype_from(object);
        return PyUnicode_FromString(torch_type_name(dtype));
    });
}

PyObject* py_asks_for_float8(PyObject*, PyObject*) { return PyBool_FromLong(float8_was_named); }

PyObject* py_default_device(PyObject*, PyObject*) { return device_object(default_device()); }
PyObject* py_set_default_device(PyObject*, PyObject* device) {
    return guarded([&]() -> PyObject* {
        thread_settings.default_device = device == Py_None ? Device{} : device_from(device);
        Py_RETURN_NONE;
    });
}

PyMethodDef dtype_functions[] = {
    {"common_dtype", method<py_result_type>(), METH_VARARGS, "common_dtype(tensor1, tensor2)"},
    {"promote_types", method<py_promote_types>(), METH_VARARGS, "promote_types(type1, type2)"},
    {"can_cast", method<py_can_cast>(), METH_VARARGS, "can_cast(from_, to)"},
    {"type_name", method<py_type_name>(), METH_O,
     "type_name(dtype)\n--\n\nPyTorch's name of a dtype in its messages: Float, Long, Byte."},
    {"asks_for_float8", method<py_asks_for_float8>(), METH_NOARGS,
     "Whether calls look for floats of eight bits, which takes some nanoseconds: from their first use on."},
    {"shown_package", method<py_shown_package>(), METH_NOARGS, "The package that dtypes and sizes are shown as."},
    {"set_shown_package", method<py_set_shown_package>(), METH_O,
     "set_shown_package(name): dtypes and sizes are shown as that package's; the name before."},
    {"get_default_device", method<py_default_device>(), METH_NOARGS,
     "get_default_device()\n--\n\nThe device on which this thread makes tensors that name none."},
    {"set_default_device", method<py_set_default_device>(), METH_O,
     "set_default_device(device, /)\n--\n\nSets the device on which this thread makes tensors that name none."},
    {}};

}  // namespace

bool init_dtypes(PyObject* module) {
    if (PyModule_AddFunctions(module, dtype_functions) < 0) return false;
    DTypeType.tp_repr = slot<dtype_repr>;
    DTypeType.tp_methods = dtype_methods;
    DTypeType.tp_getset = dtype_getset;
    DeviceType_.tp_new = slot<device_new>;
    DeviceType_.tp_repr = slot<device_repr>;
    DeviceType_.tp_str = slot<device_str>;
    DeviceType_.tp_richcompare = slot<device_compare>;
    DeviceType_.tp_hash = slot<device_hash>;
    DeviceType_.tp_methods = device_methods;
    DeviceType_.tp_getset = device_getset;
    SizeType.tp_base = &PyTuple_Type;
    SizeType.tp_new = slot<size_new>;
    SizeType.tp_repr = slot<size_repr>;
    SizeType.tp_methods = size_methods;
    size_number.nb_add = slot<size_add>;
    size_sequence.sq_repeat = slot<size_repeat>;
    size_mapping.mp_subscript = slot<size_subscript>;
    SizeType.tp_as_number = &size_number;
    SizeType.tp_as_sequence = &size_sequence;
    SizeType.tp_as_mapping = &size_mapping;
    if (PyType_Ready(&DTypeType) < 0 || PyType_Ready(&DeviceType_) < 0 || PyType_Ready(&SizeType) < 0) return false;
    for (size_t i = 0; i < static_cast<size_t>(DType::Count); ++i) {
        PyObject* object = DTypeType.tp_alloc(&DTypeType, 0);
        if (!object) return false;
        reinterpret_cast<DTypeObject*>(object)->dtype = static_cast<DType>(i);
        g_dtypes[i] = object;
        if (PyModule_AddObjectRef(module, info(static_cast<DType>(i)).name, object) < 0) return false;
    }
    for (const NamedDType& named : kNamedDTypes) {
        PyRef object(DTypeType.tp_alloc(&DTypeType, 0));
        if (!object) return false;
        reinterpret_cast<DTypeObject*>(object.get())->named = &named;
        if (PyModule_AddObjectRef(module, named.info.name, object.get()) < 0) return false;
    }
    PyRef bases(PyTuple_Pack(2, PyExc_RuntimeError, PyExc_ZeroDivisionError));
    if (!bases) return false;
    g_zero_division = PyErr_NewExceptionWithDoc("minitensor.ZeroDivisionError", "An integer was divided by zero.",
                                                bases.get(), nullptr);
    if (!g_zero_division) return false;
    bases = PyRef(PyTuple_Pack(2, PyExc_RuntimeError, PyExc_MemoryError));
    if (!bases) return false;
    OutOfMemoryError = PyErr_NewExceptionWithDoc("minitensor.OutOfMemoryError", "A tensor does not fit into memory.",
                                                 bases.get(), nullptr);
    return OutOfMemoryError && PyModule_AddObjectRef(module, "OutOfMemoryError", OutOfMemoryError) == 0 &&
           PyModule_AddType(module, &DTypeType) == 0 && PyModule_AddType(module, &DeviceType_) == 0 &&
           PyModule_AddType(module, &SizeType) == 0;
}

}  // namespace mt::py
