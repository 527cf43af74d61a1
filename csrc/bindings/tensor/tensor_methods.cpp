// Methods of tensors that are written in C++: what is asked for often, and what looks at an object's own memory.
#include <algorithm>
#include <string>

#include "autograd/tape.h"
#include "bindings/ops/overrides.h"
#include "bindings/py.h"
#include "bindings/tensor/tensor_slots.h"
#include "core/error.h"
#include "core/memory/exposed.h"
#include "dispatch/thread_local_state.h"
#include "trace/plan/plan.h"

namespace mt::py {

const Tensor& checked_dense(const Tensor& tensor) {
    if (is_sparse(tensor)) fail_type("a tensor in a sparse layout can't be one of another class");
    return tensor;
}

namespace {

// How many arguments a method with one parameter gets by name: none, or that one.
Py_ssize_t one_named(const char* method, const char* parameter, Py_ssize_t nargs, PyObject* kwnames) {
    Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    if (nargs + named > 1)
        fail_type(std::string(method) + "() takes at most 1 argument (" + std::to_string(nargs + named) + " given)");
    if (named && PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), parameter) != 0)
        fail_type(std::string(method) + "() got an unexpected keyword argument");
    return named;
}

PyObject* method_size(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    return guarded([&]() -> PyObject* {
        nargs += one_named("size", "dim", nargs, kwnames);
        Tensor& t = *tensor_of(self);
        if (nargs == 0 || args[0] == Py_None) return size_object(t.sizes);
        int64_t dim = to_int64(args[0]);
        if (t.ndim() == 0)
            fail_index("Dimension specified as " + std::to_string(dim) + " but tensor has no dimensions");
        return PyLong_FromLongLong(t.sizes[static_cast<size_t>(normalize_dim(dim, t.ndim()))]);
    });
}

PyObject* method_stride(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    return guarded([&]() -> PyObject* {
        nargs += one_named("stride", "dim", nargs, kwnames);
        Tensor& t = *tensor_of(self);
        if (nargs == 0 || args[0] == Py_None) return dims_to_tuple(t.strides);
        int64_t dim = to_int64(args[0]);
        return PyLong_FromLongLong(t.strides[static_cast<size_t>(normalize_dim(dim, t.ndim()))]);
    });
}

#define MT_METHOD(NAME, EXPRESSION)                        \
    PyObject* method_##NAME(PyObject* self, PyObject*) {   \
        return guarded([&]() -> PyObject* {                \
            [[maybe_unused]] Tensor& t = *tensor_of(self); \
            return EXPRESSION;                             \
        });                                                \
    }
MT_METHOD(dim, PyLong_FromSize_t(t.ndim()))
MT_METHOD(numel, PyLong_FromLongLong(t.numel))
MT_METHOD(storage_offset, PyLong_FromLongLong(t.offset))
MT_METHOD(is_contiguous, PyBool_FromLong(t.contiguous()))
MT_METHOD(element_size, PyLong_FromSize_t(itemsize(t.dtype)))
MT_METHOD(is_floating_point, PyBool_FromLong(is_floating(t.dtype)))
MT_METHOD(is_complex, PyBool_FromLong(is_complex(t.dtype)))
MT_METHOD(is_inference, PyBool_FromLong(t.is_inference))
MT_METHOD(is_view, PyBool_FromLong(static_cast<bool>(t.base)))
MT_METHOD(storage_id, PyLong_FromVoidPtr(t.storage.get()))

PyObject* method_data_ptr(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        Observing observing("data_ptr()");
        Tensor& t = *tensor_of(self);
        if (t.device().type == DeviceType::Meta) return PyLong_FromLong(0);
        trace::check_open("data_ptr()");
        const DeviceAddress place = t.place();
        if (!t.numel) return PyLong_FromLong(0);
        expose(*t.storage);
        return place.address ? PyLong_FromUnsignedLongLong(place.address) : PyLong_FromVoidPtr(place.data);
    });
}

// _address(): the same for who neither keeps it nor writes there.
PyObject* method_address(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        Observing observing("_address()");
        const Tensor& t = *tensor_of(self);
        return PyLong_FromVoidPtr(t.numel ? t.place().data : nullptr);
    });
}

PyObject* method_item(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        Observing observing("item()");
        return tensor_item(*tensor_of(self));
    });
}

PyObject* method_tolist(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        Observing observing("tolist()");
        return tensor_tolist(*tensor_of(self));
    });
}

PyObject* method_detach(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* { return wrap(detach_deeply(*tensor_of(self))); });
}

PyObject* method_detach_(PyObject* self, PyObject*) {
    return guarded([&]() -> PyObject* {
        Tensor& t = *tensor_of(self);
        if (thread_settings.inference_mode) return Py_NewRef(self);  // autograd isn't asked
        if (t.base) fail("Can't detach views in-place. Use detach() instead.");
        if (t.autograd && !t.is_inference) detach_in_place(t);  // whose flag is not one of autograd's
        return Py_NewRef(self);
    });
}

PyObject* method_requires_grad_(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    return guarded([&]() -> PyObject* {
        Py_ssize_t total = nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0);
        if (total > 1) fail_type("requires_grad_() takes at most one argument");
        if (kwnames && PyTuple_GET_SIZE(kwnames) &&
            PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, 0), "requires_grad") != 0)
            fail_type("requires_grad_() got an unexpected keyword argument");
        if (total && !PyBool_Check(args[0]))
            fail_type(std::string("requires_grad_(): argument 'requires_grad' must be bool, not ") +
                      Py_TYPE(args[0])->tp_name);
        set_requires_grad(*tensor_of(self), total == 0 || args[0] == Py_True);
        return Py_NewRef(self);
    });
}

// Makes a tensor of this class over the contents of `data`: what Parameter is.
PyObject* method_as_subclass(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *cls, *data;
        int wants_grad = 0, keeps_history = 0;
        if (!PyArg_ParseTuple(args, "OO|pp:_as_subclass", &cls, &data, &wants_grad, &keeps_history)) return nullptr;
        if (!PyType_Check(cls) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), &TensorType) ||
            !is_tensor(data))
            fail_type("_as_subclass(cls, data, requires_grad) takes a subclass of Tensor and a Tensor");
        checked_dense(*tensor_of(data));
        static const OpDef* alias = find_op("alias");
        Ref<Tensor> fresh = keeps_history ? call_op(*alias, {tensor_of(data)}) : detach(*tensor_of(data));
        if (!keeps_history) set_requires_grad(*fresh, wants_grad != 0);
        return wrap_as(reinterpret_cast<PyTypeObject*>(cls), std::move(fresh));
    });
}

// view(*size) or view(dtype): a method of C++, since it is called more often than all others.
PyObject* method_view(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    static PyObject *const as_sizes = Py_XNewRef(PyDict_GetItemString(TensorType.tp_dict, "_view_sizes")),
                           *const as_dtype = Py_XNewRef(PyDict_GetItemString(TensorType.tp_dict, "_view_dtype"));
    Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
    for (Py_ssize_t i = 0; i < nargs + named && !may_override(); ++i)  // else they have been asked
        if (!PyLong_CheckExact(args[i]) && !PyTuple_CheckExact(args[i]) && class_overrides(Py_TYPE(args[i]))) {
            std::vector<PyObject*> given{self};
            given.insert(given.end(), args, args + nargs + named);
            PyObject* result;
            if (method_overridden("view", given.data(), static_cast<size_t>(nargs) + 1, kwnames, &result))
                return result;
        }
    bool dtype = nargs == 1 && is_dtype(args[0]);
    for (Py_ssize_t k = 0; k < named; ++k)
        dtype |= PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, k), "dtype") == 0;
    constexpr Py_ssize_t kMost = static_cast<Py_ssize_t>(kMaxDims) + 2;
    if (nargs + named > kMost) {
        PyErr_SetString(PyExc_TypeError, "view(): too many arguments");
        return nullptr;
    }
    PyObject* all[kMost + 1];
    all[0] = self;
    std::copy(args, args + nargs + named, all + 1);
    return PyObject_Vectorcall(dtype ? as_dtype : as_sizes, all, static_cast<size_t>(nargs + 1), kwnames);
}

}  // namespace

PyMethodDef tensor_methods[] = {
    {"size", overridable_method<method_size, "size">(), METH_FASTCALL | METH_KEYWORDS,
     "size(dim=None)\n--\n\nThe sizes, or one of them."},
    {"stride", overridable_method<method_stride, "stride">(), METH_FASTCALL | METH_KEYWORDS,
     "stride(dim=None)\n--\n\nThe strides in elements."},
    {"dim", overridable_method<method_dim, "dim">(), METH_NOARGS, "dim()\n--\n\nThe number of dimensions."},
    {"ndimension", overridable_method<method_dim, "ndimension">(), METH_NOARGS,
     "ndimension()\n--\n\nThe number of dimensions."},
    {"numel", overridable_method<method_numel, "numel">(), METH_NOARGS, "numel()\n--\n\nThe number of elements."},
    {"nelement", overridable_method<method_numel, "nelement">(), METH_NOARGS,
     "nelement()\n--\n\nThe number of elements."},
    {"storage_offset", overridable_method<method_storage_offset, "storage_offset">(), METH_NOARGS,
     "storage_offset()\n--\n\nThe first element's place in the storage."},
    {"is_contiguous", overridable_method<method_is_contiguous, "is_contiguous">(), METH_NOARGS,
     "is_contiguous()\n--\n\nWhether the elements lie in row-major order."},
    {"element_size", overridable_method<method_element_size, "element_size">(), METH_NOARGS,
     "element_size()\n--\n\nBytes of one element."},
    {"is_floating_point", overridable_method<method_is_floating_point, "is_floating_point">(), METH_NOARGS,
     "is_floating_point()\n--\n\nWhether the dtype is a floating-point type."},
    {"is_complex", overridable_method<method_is_complex, "is_complex">(), METH_NOARGS,
     "is_complex()\n--\n\nWhether the dtype is complex."},
    {"is_inference", overridable_method<method_is_inference, "is_inference">(), METH_NOARGS,
     "is_inference()\n--\n\nWhether it was made in inference mode."},
    {"_is_view", overridable_method<method_is_view, "_is_view">(), METH_NOARGS,
     "_is_view()\n--\n\nWhether it is a differentiable view of another tensor, its `_base`."},
    {"_storage_id", method<method_storage_id>(), METH_NOARGS,
     "_storage_id()\n--\n\nIdentifies the storage: equal for views of it."},
    {"data_ptr", overridable_method<method_data_ptr, "data_ptr">(), METH_NOARGS,
     "data_ptr()\n--\n\nThe address of the first element.\n\nFrom then on the memory may change unseen, as that of an "
     "array of NumPy's: recorded reads copy it,\nand a recorded write to it runs at once."},
    {"_address", method<method_address>(), METH_NOARGS, nullptr},
    {"item", overridable_method<method_item, "item">(), METH_NOARGS,
     "item()\n--\n\nThe value of a tensor of one element as a Python number."},
    {"tolist", overridable_method<method_tolist, "tolist">(), METH_NOARGS,
     "tolist()\n--\n\nThe elements as nested lists."},
    {"detach", overridable_method<method_detach, "detach">(), METH_NOARGS,
     "detach()\n--\n\nThe same elements without gradient history."},
    {"detach_", overridable_method<method_detach_, "detach_">(), METH_NOARGS,
     "detach_()\n--\n\nDrops this tensor's gradient history."},
    {"requires_grad_", overridable_method<method_requires_grad_, "requires_grad_">(), METH_FASTCALL | METH_KEYWORDS,
     "requires_grad_(requires_grad=True)\n--\n\nSets requires_grad and returns the tensor."},
    {"view", overridable_method<method_view, "view">(), METH_FASTCALL | METH_KEYWORDS,
     "view(*size) or view(dtype)\n--\n\nThe same elements in another shape, or the same bytes as elements of another "
     "dtype, without a copy."},
    {"__dlpack__", overridable_method<tensor_dlpack, "__dlpack__">(), METH_FASTCALL | METH_KEYWORDS,
     "__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\nA DLPack capsule over the same "
     "memory."},
    {"_as_subclass", method<method_as_subclass>(), METH_VARARGS | METH_STATIC,
     "_as_subclass(cls, data, requires_grad=False, keeps_history=False)\n--\n\nA tensor of class cls over data's "
     "contents."},
    {}};

}  // namespace mt::py
