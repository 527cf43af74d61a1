// The attributes of tensors.
#include <string>

#include "autograd/tape.h"
#include "bindings/ops/overrides.h"
#include "bindings/py.h"
#include "core/error.h"
#include "dispatch/thread_local_state.h"

namespace mt::py {

namespace {

#define MT_GETTER(NAME, EXPRESSION)                        \
    PyObject* get_##NAME(PyObject* self, void*) {          \
        return guarded([&]() -> PyObject* {                \
            [[maybe_unused]] Tensor& t = *tensor_of(self); \
            return EXPRESSION;                             \
        });                                                \
    }
// Of a view of a leaf that is a view: what that one shows.
Ref<Tensor> shown_base(const Tensor& tensor) {
    Ref<Tensor> base = tensor.base;
    while (base && base->base) base = base->base;
    return base;
}

MT_GETTER(shape, size_object(t.sizes))
MT_GETTER(dtype, dtype_object(t.dtype))
MT_GETTER(device, device_object(home_of(t)))
MT_GETTER(ndim, PyLong_FromSize_t(t.ndim()))
MT_GETTER(requires_grad, PyBool_FromLong(requires_backward(t)))
MT_GETTER(is_leaf, PyBool_FromLong(is_leaf(t)))
MT_GETTER(itemsize, PyLong_FromSize_t(itemsize(t.dtype)))
MT_GETTER(nbytes, PyLong_FromLongLong(t.numel* static_cast<int64_t>(itemsize(t.dtype))))
uint32_t shown_version(const Tensor& t) {
    if (t.is_inference && !counter_of(t)) fail("Inference tensors do not track version counter.");
    return version_of(t);
}
MT_GETTER(version, PyLong_FromUnsignedLong(shown_version(t)))
MT_GETTER(output_nr, PyLong_FromUnsignedLong(t.autograd ? t.autograd->output_index : 0))
MT_GETTER(pending, PyBool_FromLong(t.pending()))
MT_GETTER(base, wrap(shown_base(t)))
Ref<Tensor> grad_of(Tensor& t) {
    note_gradient_use(t, true);
    if (!t.autograd) return {};
    const AutogradMeta& meta = *t.autograd;
    // Of the node as it is: to bring a view's up to date may be refused.
    if (!meta.grad && meta.grad_fn && !meta.retain_hook && !(meta.grad_fn->forward_only && is_leaf(t)))
        warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be "
            "populated during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf "
            "Tensor, use .retain_grad() on the non-leaf Tensor. If you access the non-leaf Tensor by mistake, make "
            "sure you access the leaf Tensor instead.");
    return meta.grad;
}
MT_GETTER(grad, wrap(grad_of(t)))
// Writes to it don't count as those to the tensor.
Ref<Tensor> data_of(const Tensor& tensor) {
    Ref<Tensor> data = detach(tensor);
    if (!(tensor.is_inference && thread_settings.inference_mode))
        autograd_meta(*data).counter = VersionCounter::from(0);
    return data;
}
MT_GETTER(data, wrap(data_of(t)))

PyObject* transposed(Tensor& t, bool last_two) {
    static const OpDef* permute = find_op("permute");
    Dims dims;
    size_t n = t.ndim();
    const auto say = [](const std::string& text) { pytorch_words ? warn_of_pytorch(text) : warn(text); };
    if (last_two && n == 0) {
        say("Tensor.mT is deprecated on 0-D tensors. This function is the identity in these cases.");
        last_two = false;
    } else if (!last_two && n != 2) {
        const std::string numbers = pytorch_words ? "minitensor.arange" : "range";
        say(n ? "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated and it "
                "will throw an error in a future release. Consider `x.mT` to transpose batches of matrices or "
                "`x.permute(*" +
                    numbers + "(x.ndim - 1, -1, -1))` to reverse the dimensions of a tensor."
              : "Tensor.T is deprecated on 0-D tensors. This function is the identity in these cases.");
    }
    if (last_two && n < 2)
        fail("tensor.mT is only supported on matrices or batches of matrices. Got " + std::to_string(n) + "-D tensor.");
    for (size_t i = 0; i < n; ++i) dims.push_back(static_cast<int64_t>(last_two ? i : n - 1 - i));
    if (last_two) std::swap(dims[n - 1], dims[n - 2]);
    const uint64_t before = latest_sequence();
    Ref<Tensor> result = call_op(*permute, {&t}, {value_of(dims)});
    if (last_two && result->autograd && result->autograd->grad_fn)
        name_node(*result->autograd->grad_fn, "TransposeBackward0", before);
    return wrap(std::move(result));
}
MT_GETTER(T, transposed(t, false))
MT_GETTER(mT, transposed(t, true))

PyObject* get_grad_fn(PyObject* self, void*) {
    return guarded([&]() -> PyObject* {
        const Ref<GradNode>& node = grad_fn(*tensor_of(self));
        if (!node) Py_RETURN_NONE;
        if (node->forward_only) {
            const Edge edge = backward_edge({node, 0});
            if (!edge.node || edge.node->type == GradNode::Type::Accumulate) Py_RETURN_NONE;
            return wrap_grad_node(edge.node);
        }
        return wrap_grad_node(node);
    });
}

int set_requires_grad_attribute(PyObject* self, PyObject* value, void*) {
    return guarded(
        [&]() -> int {
            if (!value || !PyBool_Check(value)) fail("requires_grad must be a bool");
            if (value == Py_True && !is_leaf(*tensor_of(self)))
                fail("you can only change requires_grad flags of leaf variables.");
            set_requires_grad(*tensor_of(self), value == Py_True);
            return 0;
        },
        -1);
}

int set_grad(PyObject* self, PyObject* value, void*) {
    return guarded(
        [&]() -> int {
            Tensor& t = *tensor_of(self);
            note_gradient_use(t, false);
            if (!value || value == Py_None) {
                if (t.autograd) t.autograd->grad.reset();
                return 0;
            }
            if (!is_tensor(value))
                fail_type(std::string("assigned grad expected to be a Tensor or None but got grad of type ") +
                          Py_TYPE(value)->tp_name);
            Tensor& g = *tensor_of(value);
            if (&g == &t) fail("can't assign Variable as its own grad");
            if (!(g.sizes == t.sizes))
                fail("attempting to assign a gradient of size '" + to_string(g.sizes) + "' to a tensor of size '" +
                     to_string(t.sizes) + "'. Please ensure that the gradient and the tensor are the same size");
            if (g.dtype != t.dtype)
                fail(std::string("assigned grad has data of a different type: expected ") + info(t.dtype).name +
                     ", got " + info(g.dtype).name);
            if ((home_of(g).type == DeviceType::Meta) != (home_of(t).type == DeviceType::Meta))
                fail("attempting to assign a gradient with device type '" + device_text(home_of(g)) +
                     "' to a tensor with device type '" + device_text(home_of(t)) +
                     "'. Please ensure that the gradient and the tensor are on the same device");
            autograd_meta(t).grad = Ref<Tensor>::borrow(&g);
            return 0;
        },
        -1);
}

// x.data = y: the same tensor over other contents.
int set_data(PyObject* self, PyObject* value, void*) {
    return guarded(
        [&]() -> int {
            if (!value) fail("a tensor's data can't be deleted: delete the tensor");
            if (!is_tensor(value)) fail_type("data must be a Tensor");
            Tensor &t = *tensor_of(self), &source = *tensor_of(value);
            if (is_sparse(t) != is_sparse(source))
                fail("Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible "
                     "tensor type.");
            // `x.data -= y` has written there already.
            if (t.storage == source.storage && t.dtype == source.dtype && t.sizes == source.sizes &&
                t.strides == source.strides && t.offset == source.offset)
                return 0;
            if (t.autograd && t.autograd->requires_grad && !is_floating(source.dtype) && !is_complex(source.dtype))
                fail("data set to a tensor that requires gradients must be floating point or complex dtype");
            if (batch_level(t) != batch_level(source))
                fail("a tensor's data can't be set to what vmap maps: it would outlive the vmap");
            note_beyond_replay("it sets the data of a tensor");
            // What writes to it were counted stays its own.
            if (!counter_of(t) && !(t.is_inference && thread_settings.inference_mode))
                autograd_meta(t).counter = VersionCounter::from(t.storage->version);
            t.storage = source.storage;
            t.dtype = source.dtype;
            t.is_inference = source.is_inference;
            t.sizes = source.sizes;
            t.strides = source.strides;
            t.offset = source.offset;
            t.numel = source.numel;
            if (t.autograd && t.autograd->accumulator) {
                // Gradients that come through older graphs are those of the tensor as it was, if they can be.
                OperandMeta& meta = t.autograd->accumulator->result_meta[0];
                if (t.autograd->accumulator->refcount == 1 || meta.dtype != t.dtype || meta.device != home_of(t))
                    meta = {t.sizes, t.dtype, home_of(t)};
            }
            return 0;
        },
        -1);
}

PyObject* get_class(PyObject* self, void*) { return Py_NewRef(Py_TYPE(self)); }

int set_class(PyObject* self, PyObject* value, void*) {
    return guarded(
        [&]() -> int {
            if (value && PyType_Check(value)) {
                auto* type = reinterpret_cast<PyTypeObject*>(value);
                if (type != &TensorType && PyType_IsSubtype(type, &TensorType)) prepare_class(type);
            }
            PyRef names = checked(PyObject_GetAttrString(reinterpret_cast<PyObject*>(&PyBaseObject_Type), "__dict__"));
            PyRef inherited = checked(PyMapping_GetItemString(names.get(), "__class__"));
            return Py_TYPE(inherited.get())->tp_descr_set(inherited.get(), self, value);
        },
        -1);
}

}  // namespace

PyGetSetDef tensor_getset[] = {
    {"__class__", slot<get_class>, slot<set_class>, nullptr, nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {"shape", overridable<get_shape, "shape">, nullptr, "The sizes, a Size.", nullptr},
    {"dtype", overridable<get_dtype, "dtype">, nullptr, "The type of the elements.", nullptr},
    {"device", overridable<get_device, "device">, nullptr, "Where the elements are.", nullptr},
    {"ndim", overridable<get_ndim, "ndim">, nullptr, "The number of dimensions.", nullptr},
    {"requires_grad", overridable<get_requires_grad, "requires_grad">,
     overridable<set_requires_grad_attribute, "requires_grad">, "Whether gradients are computed for this tensor.",
     nullptr},
    {"grad", overridable<get_grad, "grad">, overridable<set_grad, "grad">, "The accumulated gradient, or None.",
     nullptr},
    {"grad_fn", overridable<get_grad_fn, "grad_fn">, nullptr, "The node that computes this tensor's gradient, or None.",
     nullptr},
    {"is_leaf", overridable<get_is_leaf, "is_leaf">, nullptr,
     "Whether the tensor was made by the user rather than by a differentiable op.", nullptr},
    {"output_nr", overridable<get_output_nr, "output_nr">, nullptr, "Which result of grad_fn this is.", nullptr},
    {"data", overridable<get_data, "data">, overridable<set_data, "data">,
     "The same elements without gradient history.", nullptr},
    {"T", overridable<get_T, "T">, nullptr, "The tensor with its dimensions reversed.", nullptr},
    {"mT", overridable<get_mT, "mT">, nullptr, "The tensor with its last two dimensions swapped.", nullptr},
    {"itemsize", overridable<get_itemsize, "itemsize">, nullptr, "Bytes of one element.", nullptr},
    {"nbytes", overridable<get_nbytes, "nbytes">, nullptr, "Bytes of all elements.", nullptr},
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, nullptr, nullptr},
    {"_version", overridable<get_version, "_version">, nullptr, "Counts in-place writes to the storage.", nullptr},
    {"_is_pending", slot<get_pending>, nullptr, "Whether the value is recorded and not computed yet.", nullptr},
    {"_base", overridable<get_base, "_base">, nullptr, "The tensor this is a differentiable view of, or None.",
     nullptr},
    {}};

}  // namespace mt::py
