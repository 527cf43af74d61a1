// The Python type of dtypes, and how they combine.
#include <cstring>
#include <set>
#include <string>

#include "bindings/py.h"
#include "bindings/tensor/named_dtypes.h"
#include "bindings/tensor/type_objects.h"
#include "dispatch/thread_local_state.h"

namespace mt::py {

std::string shown_package = "minitensor";

namespace {

struct DTypeObject {
    PyObject_HEAD DType dtype;
    const NamedDType* named;  // nullptr where there are tensors of it
};

PyObject* g_dtypes[static_cast<size_t>(DType::Count)];

// Static types say by `tp_name` in which module they are.
void show_places_of_static_types() {
    static auto* names = new std::set<std::string>;  // which types point into
    for (PyTypeObject* type : {&TensorType, &DTypeType, &DeviceType_, &SizeType}) {
        const std::string name = std::strrchr(type->tp_name, '.');
        type->tp_name = names->insert(shown_package + name).first->c_str();
        PyType_Modified(type);
    }
}

PyObject* py_set_shown_package(PyObject*, PyObject* name) {
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) return nullptr;
    return guarded([&] {
        std::string before = std::exchange(shown_package, text);
        pytorch_words = shown_package != "minitensor";
        show_places_of_static_types();
        show_places_of_result_types();
        return PyUnicode_FromString(before.c_str());
    });
}

PyObject* py_shown_package(PyObject*, PyObject*) { return PyUnicode_FromString(shown_package.c_str()); }

const NamedDType* named_of(PyObject* self) { return reinterpret_cast<DTypeObject*>(self)->named; }
DType dtype_of(PyObject* self) {
    if (const NamedDType* named = named_of(self))
        throw Error(ErrorKind::NotImplemented,
                    shown_package + "." + named->info.name + " is a name only: there are no tensors of this dtype");
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
    return PyUnicode_FromFormat("%s.%s", shown_package.c_str(), info_of(self).name);
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

}  // namespace

PyTypeObject DTypeType = named_type("minitensor.dtype", "The type of a tensor's elements.", sizeof(DTypeObject));

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

PyObject* py_common_dtype(PyObject*, PyObject* args) {
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

PyMethodDef dtype_functions[] = {
    {"common_dtype", method<py_common_dtype>(), METH_VARARGS, "common_dtype(tensor1, tensor2)"},
    {"promote_types", method<py_promote_types>(), METH_VARARGS, "promote_types(type1, type2)"},
    {"can_cast", method<py_can_cast>(), METH_VARARGS, "can_cast(from_, to)"},
    {"type_name", method<py_type_name>(), METH_O,
     "type_name(dtype)\n--\n\nPyTorch's name of a dtype in its messages: Float, Long, Byte."},
    {"asks_for_float8", method<py_asks_for_float8>(), METH_NOARGS,
     "Whether calls look for floats of eight bits, which takes some nanoseconds: from their first use on."},
    {"shown_package", method<py_shown_package>(), METH_NOARGS,
     "The package that dtypes, sizes and named results are shown as."},
    {"set_shown_package", method<py_set_shown_package>(), METH_O,
     "set_shown_package(name): types and what errors name are shown as that package's; the name before."},
    {}};

}  // namespace

bool init_dtypes(PyObject* module) {
    if (PyModule_AddFunctions(module, dtype_functions) < 0) return false;
    DTypeType.tp_repr = slot<dtype_repr>;
    DTypeType.tp_methods = dtype_methods;
    DTypeType.tp_getset = dtype_getset;
    if (PyType_Ready(&DTypeType) < 0) return false;
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
    return PyModule_AddType(module, &DTypeType) == 0;
}

}  // namespace mt::py
