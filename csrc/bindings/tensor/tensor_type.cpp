// The Python type of tensors: slots go straight to the call path.
#include "bindings/ops/overrides.h"
#include "bindings/py.h"
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

constexpr size_t kFreelist = 256;
PyObject* g_free[kFreelist];
size_t g_free_count = 0;

destructor common_dealloc();
void tensor_dealloc(PyObject* self);

PyObject* allocate_object(PyTypeObject* type) {
    if (type == &TensorType && g_free_count) {
        PyObject* object = g_free[--g_free_count];
        Py_SET_TYPE(object, type);
        _Py_NewReference(object);
        return object;
    }
    if (type == &TensorType) return reinterpret_cast<PyObject*>(PyObject_GC_New(TensorObject, type));
    prepare_class(type);
    return type->tp_alloc(type, 0);
}

// A tensor that C++ still holds takes its object over, if that can be told from a new one.
bool keep(PyObject* self) {
    auto* object = reinterpret_cast<TensorObject*>(self);
    Tensor* tensor = object->tensor;
    if (!tensor || tensor->pyobject != self) return false;
    if (Py_TYPE(self) == &TensorType && !object->dict && !object->weakrefs) return false;
    if (tensor->refcount == 1) {
        if (!tensor->autograd || !keep_leaf_hook(*tensor)) return false;
        ++tensor->refcount;
    }
    Py_SET_REFCNT(self, 1);
    object->kept = true;
    --tensor->refcount;
    return true;
}

void drop_object(Tensor* tensor) {
    auto* object = reinterpret_cast<TensorObject*>(tensor->pyobject);
    tensor->refcount = 1;
    object->kept = false;
    if (Py_IsInitialized() || interpreter_ends()) Py_DECREF(tensor->pyobject);
}

// The object of a tensor whose only owner is another tensor that only its own object owns.
PyObject* own_gradient(Tensor* tensor) {
    if (!tensor || tensor->refcount != 1 || !tensor->autograd || !tensor->autograd->grad) return nullptr;
    Tensor& gradient = *tensor->autograd->grad;
    return gradient.refcount == 1 ? gradient.pyobject : nullptr;
}

void destroy_object(PyObject* self) {
    auto* object = reinterpret_cast<TensorObject*>(self);
    PyObject_GC_UnTrack(self);
    // First: code that runs from here on may meet the tensor elsewhere, and must not be given this object.
    if (object->tensor && object->tensor->pyobject == self) object->tensor->pyobject = nullptr;
    if (object->weakrefs) PyObject_ClearWeakRefs(self);
    Py_CLEAR(object->dict);
    Ref<Tensor> dying(std::exchange(object->tensor, nullptr));
    dying.reset();
    if (Py_TYPE(self) == &TensorType && g_free_count < kFreelist) g_free[g_free_count++] = self;
    else Py_TYPE(self)->tp_free(self);
}

// Of classes made in Python: what CPython does for these, but that a tensor may keep its object.
void dealloc_of_subclass(PyObject* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    Py_TRASHCAN_BEGIN(self, slot<tensor_dealloc>);  // chains through slots may be of any length
    bool alive = false;
    if (type->tp_finalize) {
        PyObject_GC_Track(self);
        alive = PyObject_CallFinalizerFromDealloc(self) < 0;
        if (!alive) PyObject_GC_UnTrack(self);
    }
    if (!alive) {
        for (PyTypeObject* base = type; base != &TensorType; base = base->tp_base)
            for (PyMemberDef* member = base->tp_members; member && member->name; ++member)
                if (member->type == T_OBJECT_EX && !(member->flags & READONLY))
                    Py_CLEAR(*reinterpret_cast<PyObject**>(reinterpret_cast<char*>(self) + member->offset));
        destroy_object(self);
        Py_DECREF(type);
    }
    Py_TRASHCAN_END;
}

// One function for all classes: by it CPython knows that objects of one can become such of another.
void tensor_dealloc(PyObject* self) {
    const bool plain = Py_TYPE(self) == &TensorType;
    if (!plain && Py_TYPE(self)->tp_dealloc != slot<tensor_dealloc>) return destroy_object(self);  // the rest is done
    if (keep(self)) return;
    if (plain) destroy_object(self);
    else dealloc_of_subclass(self);
}

// What CPython gives to classes made in Python.
destructor common_dealloc() {
    PyType_Slot none[] = {{0, nullptr}};
    PyType_Spec spec{"minitensor._C._Subclass", 0, 0, Py_TPFLAGS_DEFAULT, none};
    PyRef bases = checked(PyTuple_Pack(1, &TensorType));
    PyRef type = checked(PyType_FromSpecWithBases(&spec, bases.get()));
    return reinterpret_cast<PyTypeObject*>(type.get())->tp_dealloc;
}

// The autograd node that only this object keeps alive: what it refers to is the garbage collector's business. Hooks
// that capture their own tensor are found so.
GradNode* own_node(Tensor* tensor, bool accumulator) {
    if (!tensor || tensor->refcount != 1 || !tensor->autograd) return nullptr;
    const Ref<GradNode>& node = accumulator ? tensor->autograd->accumulator : tensor->autograd->grad_fn;
    return node && node->refcount == 1 ? node.get() : nullptr;
}

int tensor_traverse(PyObject* self, visitproc visit, void* arg) {
    auto* object = reinterpret_cast<TensorObject*>(self);
    Py_VISIT(object->dict);
    Py_VISIT(own_gradient(object->tensor));
    for (bool accumulator : {false, true})
        if (GradNode* node = own_node(object->tensor, accumulator)) {
            Py_VISIT(node->callable);
            for (Hook& hook : node->hooks) Py_VISIT(hook.callable);
        }
    return 0;
}

int tensor_clear(PyObject* self) {
    auto* object = reinterpret_cast<TensorObject*>(self);
    Py_CLEAR(object->dict);
    if (own_gradient(object->tensor)) Ref<Tensor> dying = std::move(object->tensor->autograd->grad);
    for (bool accumulator : {false, true})
        if (GradNode* node = own_node(object->tensor, accumulator)) {
            // The node goes with all its references; they are let go of when nothing points at them any more.
            Ref<GradNode> dying = std::exchange(
                accumulator ? object->tensor->autograd->accumulator : object->tensor->autograd->grad_fn, {});
            if (accumulator) node->leaf = nullptr;
        }
    return 0;
}

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

// Methods ---------------------------------------------------------------------------------------------------------

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
        if (t.autograd && !t.is_inference) {  // whose flag is not one of autograd's
            t.autograd->grad_fn.reset();
            t.autograd->requires_grad = false;
        }
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
        set_requires_grad(*tensor_of(self), total == 0 || to_bool(args[0]));
        return Py_NewRef(self);
    });
}

const Tensor& checked_dense(const Tensor& tensor) {
    if (is_sparse(tensor)) fail_type("a tensor in a sparse layout can't be one of another class");
    return tensor;
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

void prepare_class(PyTypeObject* type) {
    static const destructor common = common_dealloc();
    if (type->tp_dealloc == common) type->tp_dealloc = slot<tensor_dealloc>;
    note_class(type);
}

PyObject* wrap_as(PyTypeObject* type, Ref<Tensor> tensor) {
    auto* object = reinterpret_cast<TensorObject*>(allocate_object(type));
    if (!object) return nullptr;
    object->dict = nullptr;
    object->weakrefs = nullptr;
    object->kept = false;
    object->tensor = tensor.release();
    object->tensor->pyobject = reinterpret_cast<PyObject*>(object);
    if (type == &TensorType) PyObject_GC_Track(object);
    return reinterpret_cast<PyObject*>(object);
}

Ref<Tensor> made_now(Ref<Tensor> tensor) {
    tensor->is_inference = thread_settings.inference_mode;
    return tensor;
}

PyObject* wrap(Ref<Tensor> tensor) {
    if (!tensor) Py_RETURN_NONE;
    // A subclass's object without counts is being deallocated.
    if (PyObject* known = tensor->pyobject; known && Py_REFCNT(known) > 0) {
        if (__builtin_expect(held_by_python(*tensor), 1)) return Py_NewRef(known);
        reinterpret_cast<TensorObject*>(known)->kept = false;
        tensor.release();
        return known;
    }
    return wrap_as(&TensorType, std::move(tensor));
}

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
        if (t.pending() && t.numel) materialize_hook(t.storage.get());
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
    drop_object_hook = drop_object;
    wrap_hook = wrap;
    unwrap_hook = unwrap;
    value_to_python_hook = value_to_python;
    set_python_error_hook = set_error;
    return PyModule_AddFunctions(module, tensor_type_functions) == 0 && PyModule_AddType(module, &TensorType) == 0;
}

}  // namespace mt::py
