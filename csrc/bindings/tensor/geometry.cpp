// What changes a tensor's geometry or storage in place, and storages as tensors of bytes.
#include <algorithm>

#include "bindings/py.h"
#include "dispatch/memory/memory_order.h"
#include "dispatch/thread_local_state.h"

namespace mt::py {

namespace {

// Has the contents in memory: nothing recorded is pending, and nobody's recorded reads see what comes.
void materialize(Tensor& t) {
    while (t.storage->pending || t.storage->readers) {
        Ref<Storage> storage = t.storage;
        if (storage->pending) materialize_callback(storage.get());
        else before_write_callback(storage.get());
    }
    t.storage->ensure_memory();
}

void check_geometry_change(const Tensor& t) {
    check_inference(t);
    if (thread_settings.records_backward() && requires_grad(t)) check_written(t);
}

// take_view(tensor, view, name): the tensor becomes what `view`, a view of it, is: transpose_, squeeze_ and so on.
PyObject* py_take_view(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *object, *view_object;
        const char* name;
        if (!PyArg_ParseTuple(args, "O!O!s:take_view", &TensorType, &object, &TensorType, &view_object, &name))
            return nullptr;
        Tensor &t = *tensor_of(object), &view = *tensor_of(view_object);
        check_geometry_change(t);
        if (!(t.storage == view.storage) || t.dtype != view.dtype) fail("take_view: not a view of the tensor");
        if (batch_level(t) != batch_level(view)) fail("take_view: a view of another level");
        note_other_geometry(t);
        t.sizes = view.sizes;
        t.strides = view.strides;
        t.offset = view.offset;
        t.numel = view.numel;
        if (batch_level(view)) autograd_meta(t).batch_value = view.autograd->batch_value;
        if (thread_settings.grad_enabled && view.autograd && view.autograd->grad_fn) {
            set_history(t, view.autograd->grad_fn, view.autograd->output_index);
            note_history_made(t, version_of(t) + 1, is_unrecorded(t));
        }
        ++version_of(t);
        return Py_NewRef(object);
    });
}

// Graphs of a leaf that had another shape end where they are, in a node that calls `without_derivative`: the gradient
// is no gradient of the leaf any more, and shall not be lost silently. Those from now on have an end of their own.
void forget_other_shape(Tensor& leaf, PyObject* without_derivative) {
    Ref<GradNode>& accumulator = leaf.autograd->accumulator;
    if (accumulator->result_meta[0].sizes == leaf.sizes || !accumulator->hooks.empty() ||
        leaf.autograd->stands_for_leaf)
        return;
    accumulator->leaf = nullptr;
    accumulator->type = GradNode::Type::Python;
    accumulator->callable = Py_NewRef(without_derivative);
    accumulator.reset();
}

// set_contents(tensor, contents, source, without_derivative): `tensor.data = contents`, counted and refused as a write.
// Where the tensor or the source wants a gradient the write is one of a node that calls `without_derivative`.
PyObject* py_set_contents(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *object, *source, *given, *without_derivative;
        if (!PyArg_ParseTuple(args, "O!O!OO:set_contents", &TensorType, &object, &TensorType, &source, &given,
                              &without_derivative))
            return nullptr;
        Tensor& t = *tensor_of(object);
        check_geometry_change(t);
        if (const bool from = is_tensor(given) && requires_grad(*tensor_of(given));
            thread_settings.records_backward() && !thread_settings.inference_mode && (from || requires_grad(t))) {
            check_written(t);
            Ref<GradNode> node(new GradNode);
            node->type = GradNode::Type::Python;
            node->sequence = next_sequence();
            node->callable = Py_NewRef(without_derivative);
            node->edges.push_back(requires_grad(t) ? grad_edge(t) : Edge{});
            node->edges.push_back(from ? grad_edge(*tensor_of(given)) : Edge{});
            const Tensor& contents = *tensor_of(source);
            if (t.base) node->result_meta.push_back({t.sizes, t.dtype, home_of(t)});
            else node->result_meta.push_back({contents.sizes, contents.dtype, home_of(contents)});
            rebase_history(t, node, 0, 0);
        }
        const bool is_inference = t.is_inference;
        if (PyObject_SetAttrString(object, "data", source) < 0) fail_python();
        t.is_inference = is_inference;
        if (t.autograd && t.autograd->accumulator) forget_other_shape(t, without_derivative);
        ++version_of(t);
        if (t.autograd && t.autograd->grad_fn && !t.base) note_history_made(t, version_of(t), is_unrecorded(t));
        return Py_NewRef(object);
    });
}

// storage_bytes(tensor): the whole storage as a vector of uint8.
PyObject* py_storage_bytes(PyObject*, PyObject* object) {
    return guarded([&]() -> PyObject* {
        if (!is_tensor(object)) fail_type("storage_bytes() takes a Tensor");
        Tensor& t = *tensor_of(object);
        if (batch_level(t)) fail("a tensor inside of vmap stands for any one of its slices and has no storage");
        if (t.device().type != DeviceType::Meta) materialize(t);
        return wrap(
            Tensor::make(t.storage, DType::U8, Dims{static_cast<int64_t>(t.storage->nbytes)}, Dims{int64_t{1}}, 0));
    });
}

// resize_storage(bytes, nbytes): the storage under a tensor of storage_bytes gets another length.
PyObject* py_resize_storage(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject* object;
        Py_ssize_t nbytes;
        if (!PyArg_ParseTuple(args, "O!n:resize_storage", &TensorType, &object, &nbytes)) return nullptr;
        if (nbytes < 0) fail("a storage can't have a negative size");
        Tensor& t = *tensor_of(object);
        if (t.dtype != DType::U8 || t.ndim() != 1 || t.offset || !t.contiguous())
            fail("resize_storage() takes what storage_bytes() gave");
        note_other_geometry(t);
        if (t.device().type != DeviceType::Meta) materialize(t);
        t.storage->resize(static_cast<size_t>(nbytes));
        t.sizes = Dims{static_cast<int64_t>(nbytes)};
        t.numel = nbytes;
        return Py_NewRef(object);
    });
}

// over_storage(bytes, dtype, offset, sizes, strides): a tensor over the storage of `bytes`; strides may be None.
PyObject* py_over_storage(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *object, *dtype_of, *size, *stride;
        long long offset;
        if (!PyArg_ParseTuple(args, "O!OLOO:over_storage", &TensorType, &object, &dtype_of, &offset, &size, &stride))
            return nullptr;
        Tensor& bytes = *tensor_of(object);
        if (bytes.device().type != DeviceType::Meta) materialize(bytes);
        DType dtype = dtype_from(dtype_of);
        Dims sizes = dims_from(size, "size");
        Dims strides = stride == Py_None ? contiguous_strides(sizes) : dims_from(stride, "stride");
        if (sizes.size() != strides.size())
            fail("mismatch in length of strides and shape: " + to_string(sizes) + " and " + to_string(strides));
        if (offset < 0) fail("Tensor: invalid storage offset " + std::to_string(offset));
        for (int64_t s : sizes)
            if (s < 0) fail("negative sizes are not supported, got " + to_string(sizes));
        for (int64_t s : strides)
            if (s < 0) fail("negative strides are not supported, got " + to_string(strides));
        if (product(sizes)) {
            int64_t last = offset, reach;
            bool overflow = false;
            for (size_t d = 0; d < sizes.size(); ++d) {
                overflow |= __builtin_mul_overflow(sizes[d] - 1, strides[d], &reach);
                overflow |= __builtin_add_overflow(last, reach, &last);
            }
            auto room = static_cast<int64_t>(bytes.storage->nbytes / itemsize(dtype));
            if (overflow || last >= room)
                fail("setStorage: sizes " + to_string(sizes) + ", strides " + to_string(strides) + ", storage offset " +
                     std::to_string(offset) + ", and itemsize " + std::to_string(itemsize(dtype)) +
                     " are out of bounds for storage of size " + std::to_string(bytes.storage->nbytes));
        }
        return wrap(made_now(Tensor::make(bytes.storage, dtype, sizes, strides, offset)));
    });
}

// memory_order(tensor): the dimensions, outermost in memory first, of a tensor laid out like this one without gaps;
// None for row-major.
PyObject* py_memory_order(PyObject*, PyObject* object) {
    return guarded([&]() -> PyObject* {
        if (!is_tensor(object)) fail_type("memory_order() needs a tensor");
        const Tensor* tensor = tensor_of(object);
        Dims order;
        if (tensor->contiguous() || !memory_order(&tensor, 1, tensor->sizes, order)) Py_RETURN_NONE;
        return dims_to_tuple(order);
    });
}

// out_of_order(tensor, order): the same memory, with the tensor's dimensions taken for `order` of the result's.
PyObject* py_out_of_order(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *object, *dims;
        if (!PyArg_ParseTuple(args, "OO:out_of_order", &object, &dims)) return nullptr;
        if (!is_tensor(object)) fail_type("out_of_order() needs a tensor");
        const Tensor& t = *tensor_of(object);
        Dims order = dims_from(dims, "order");
        if (order.size() != t.ndim()) fail("out_of_order() needs all dimensions");
        Dims sorted = order;
        std::sort(sorted.begin(), sorted.end());
        for (size_t i = 0; i < sorted.size(); ++i)
            if (sorted[i] != static_cast<int64_t>(i)) fail("out_of_order(): " + to_string(order) + " is no order");
        return wrap(
            Tensor::make(t.storage, t.dtype, out_of_order(t.sizes, order), out_of_order(t.strides, order), t.offset));
    });
}

PyMethodDef geometry_functions[] = {
    {"memory_order", method<py_memory_order>(), METH_O,
     "memory_order(tensor): its dimensions as they lie; None if row-major."},
    {"out_of_order", method<py_out_of_order>(), METH_VARARGS, "out_of_order(tensor, order): what lies in that order."},
    {"take_view", method<py_take_view>(), METH_VARARGS,
     "take_view(tensor, view, name): the tensor becomes a view of itself."},
    {"set_contents", method<py_set_contents>(), METH_VARARGS,
     "set_contents(tensor, contents, source, without_derivative): the tensor shows what the other one does."},
    {"storage_bytes", method<py_storage_bytes>(), METH_O, "storage_bytes(tensor): the whole storage as uint8."},
    {"resize_storage", method<py_resize_storage>(), METH_VARARGS, "resize_storage(bytes, nbytes): another length."},
    {"over_storage", method<py_over_storage>(), METH_VARARGS,
     "over_storage(bytes, dtype, offset, sizes, strides): a tensor over the storage."},
    {}};

}  // namespace

bool init_geometry(PyObject* module) { return PyModule_AddFunctions(module, geometry_functions) == 0; }

}  // namespace mt::py
