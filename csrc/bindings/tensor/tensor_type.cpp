// The Python type of tensors: slots go straight to the call path.
#include "bindings/ops/overrides.h"
#include "bindings/py.h"
#include "bindings/tensor/tensor_slots.h"
#include "trace/plan/plan.h"

#include <structmember.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "autograd/tape.h"
#include "core/error.h"
#include "core/kept_object.h"
#include "core/memory/exposed.h"
#include "dispatch/thread_local_state.h"

namespace mt::py {

namespace {

int tensor_bool(PyObject* self) {
    return guarded(
        [&]() -> int {
            Tensor& t = *tensor_of(self);
            if (t.numel == 0) fail("Boolean value of Tensor with no values is ambiguous");
            if (t.numel != 1) fail("Boolean value of Tensor with more than one value is ambiguous");
            Observing observing("bool()");
            PyRef item = checked(tensor_item(t));
            return to_bool(item.get());
        },
        -1);
}

void need_one_element(PyObject* self) {
    if (tensor_of(self)->numel != 1) fail_value("only one element tensors can be converted to Python scalars");
}

PyObject* tensor_float(PyObject* self) {
    return guarded([&]() -> PyObject* {
        need_one_element(self);
        Observing observing("float()");
        PyRef item = checked(tensor_item(*tensor_of(self)));
        return PyNumber_Float(item.get());
    });
}
PyObject* tensor_int(PyObject* self) {
    return guarded([&]() -> PyObject* {
        need_one_element(self);
        Observing observing("int()");
        PyRef item = checked(tensor_item(*tensor_of(self)));
        return PyNumber_Long(item.get());
    });
}
PyObject* tensor_index(PyObject* self) {
    return guarded([&]() -> PyObject* {
        Tensor& t = *tensor_of(self);
        if (t.numel != 1 || is_floating(t.dtype) || is_complex(t.dtype))
            fail_type("only integer tensors of a single element can be converted to an index");
        Observing observing("index()");
        PyRef item = checked(tensor_item(t));
        return PyNumber_Index(item.get());
    });
}

Py_ssize_t tensor_length(PyObject* self) {
    Tensor& t = *tensor_of(self);
    if (t.ndim() == 0) {
        PyErr_SetString(PyExc_TypeError, "len() of a 0-d tensor");
        return -1;
    }
    return static_cast<Py_ssize_t>(t.sizes[0]);
}

// The method is written in Python: adding it to the type doesn't fill the slot that `in` looks at.
int tensor_contains(PyObject* self, PyObject* element) {
    PyObject* found = PyObject_CallMethod(self, "__contains__", "(O)", element);
    if (!found) return -1;
    PyRef held(found);
    return to_bool(found);
}

PyObject* tensor_iter(PyObject* self) {
    return guarded([&]() -> PyObject* {
        Tensor& t = *tensor_of(self);
        if (t.ndim() == 0) fail_type("iteration over a 0-d tensor");
        static const OpDef* select = find_op("select");
        const int64_t count = t.sizes[0];  // the tensor's own may be another one soon: the garbage collector runs
        PyRef items = checked(PyTuple_New(static_cast<Py_ssize_t>(count)));
        for (int64_t i = 0; i < count; ++i)
            PyTuple_SET_ITEM(items.get(), static_cast<Py_ssize_t>(i),
                             checked(wrap(call_op(*select, {&t}, {value_of(int64_t{0}), value_of(i)}))).release());
        return PyObject_GetIter(items.get());
    });
}

Py_hash_t tensor_hash(PyObject* self) { return static_cast<Py_hash_t>(reinterpret_cast<uintptr_t>(self) >> 4); }

PyNumberMethods number_methods;
PyMappingMethods mapping_methods;
PySequenceMethods sequence_methods{};
PyBufferProcs buffer_procs;

PyTypeObject make_tensor_type() {
    PyTypeObject type = blank_type();
    type.tp_name = "minitensor.Tensor";
    type.tp_doc = "A multi-dimensional array of one dtype, with automatic differentiation.";
    type.tp_basicsize = sizeof(TensorObject);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
    type.tp_dictoffset = offsetof(TensorObject, dict);
    type.tp_weaklistoffset = offsetof(TensorObject, weakrefs);
    return type;
}

// Tensor(): an empty one; Tensor(data): float32, as PyTorch's legacy constructor; of a tensor a view with its history.
PyObject* tensor_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
    return guarded([&]() -> PyObject* {
        if (!kwargs && PyTuple_GET_SIZE(args) == 1 && is_tensor(PyTuple_GET_ITEM(args, 0))) {
            static const OpDef* alias = find_op("alias");
            Tensor& given = *tensor_of(PyTuple_GET_ITEM(args, 0));
            checked_dense(given);
            return wrap_as(type, call_op(*alias, {&given}));
        }
        if (!kwargs && PyTuple_GET_SIZE(args) == 0) return wrap_as(type, Tensor::empty({0}, default_dtype()));
        // PyTorch's old constructor: sizes, or data.
        PyRef module(PyImport_ImportModule("minitensor._tensor.typed_tensors"));
        PyRef call(module ? PyObject_GetAttrString(module.get(), "tensor_of_default_type") : nullptr);
        PyRef made(call ? PyObject_Call(call.get(), args, kwargs) : nullptr);
        if (!made) return nullptr;
        return wrap_as(type, detach(*tensor_of(made.get())));
    });
}

}  // namespace

PyHeapTypeObject tensor_type_memory{.ht_type = make_tensor_type()};

namespace {

Tensor* unwrap(PyObject* object) { return is_tensor(object) ? tensor_of(object) : nullptr; }

// add_method(name, object): attaches what Python's rows define to the type.
PyObject* add_method(PyObject*, PyObject* args) {
    PyObject *name, *object;
    if (!PyArg_ParseTuple(args, "UO:add_method", &name, &object)) return nullptr;
    if (PyDict_SetItem(TensorType.tp_dict, name, object) < 0) return nullptr;
    PyType_Modified(&TensorType);
    Py_RETURN_NONE;
}

// The slot for repr goes through a Python function that is attached later.
PyObject* tensor_repr(PyObject* self) {
    bool computed = guarded([&] {
        Observing observing("repr()");
        Tensor& t = *tensor_of(self);
        if (t.device().type != DeviceType::Meta) trace::check_open("repr()");
        if (t.pending() && t.numel) materialize_callback(t.storage.get());
        return true;
    });
    return computed ? PyObject_CallMethod(self, "_repr", nullptr) : nullptr;
}

PyMethodDef tensor_type_functions[] = {
    {"add_method", method<add_method>(), METH_VARARGS, "Attaches a function to Tensor."}, {}};

}  // namespace

bool init_tensor(PyObject* module) {
    PyNumberMethods& n = number_methods;
    fill_arithmetic(n);
    n.nb_bool = slot<overridable_number<"__bool__", int, tensor_bool>>;
    n.nb_float = overridable<tensor_float, "__float__">;
    n.nb_int = overridable<tensor_int, "__int__">;
    n.nb_index = overridable<tensor_index, "__index__">;
    mapping_methods.mp_length = slot<overridable_number<"__len__", Py_ssize_t, tensor_length>>;
    mapping_methods.mp_subscript = overridable<tensor_getitem, "__getitem__">;
    mapping_methods.mp_ass_subscript = overridable<tensor_setitem, "__setitem__">;
    buffer_procs.bf_getbuffer = slot<tensor_getbuffer>;
    buffer_procs.bf_releasebuffer = slot<tensor_releasebuffer>;
    sequence_methods.sq_contains = slot<tensor_contains>;
    TensorType.tp_as_sequence = &sequence_methods;
    TensorType.tp_as_number = &number_methods;
    TensorType.tp_as_mapping = &mapping_methods;
    TensorType.tp_as_buffer = &buffer_procs;
    TensorType.tp_new = slot<tensor_new>;
    TensorType.tp_dealloc = slot<tensor_dealloc>;
    TensorType.tp_traverse = slot<tensor_traverse>;
    TensorType.tp_clear = slot<tensor_clear>;
    TensorType.tp_richcompare = slot<tensor_richcompare>;
    TensorType.tp_hash = slot<tensor_hash>;
    TensorType.tp_iter = overridable<tensor_iter, "__iter__">;
    TensorType.tp_repr = overridable<tensor_repr, "__repr__">;
    TensorType.tp_getset = tensor_getset;
    TensorType.tp_methods = tensor_methods;
    tensor_type_memory.ht_name = tensor_type_memory.ht_qualname = PyUnicode_InternFromString("Tensor");
    if (!tensor_type_memory.ht_name) return false;
    Py_INCREF(tensor_type_memory.ht_qualname);
    if (PyType_Ready(&TensorType) < 0) return false;
    TensorType.tp_flags &= ~Py_TPFLAGS_IMMUTABLETYPE;  // programs put methods of their own on it
    drop_object_callback = drop_object;
    wrap_callback = wrap;
    unwrap_callback = unwrap;
    value_to_python_callback = value_to_python;
    set_python_error_callback = set_error;
    return PyModule_AddFunctions(module, tensor_type_functions) == 0 && PyModule_AddType(module, &TensorType) == 0;
}

}  // namespace mt::py
