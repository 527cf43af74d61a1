// vmap: mapped tensors, and the way from a call on them to the rule that runs it on what is behind them.
//
// A mapped tensor is a handle with the shape of one slice and no memory; its autograd meta has the tensor with the
// mapped dimension first. Calls on such handles infer shapes and dtypes as always, so a program under vmap sees its
// own view of the world, and the tape records it there; instead of a kernel a rule of minitensor._vmap runs. Levels
// nest: what is behind a handle may be a handle of an outer level.
#include <string>

#include "bindings/py.h"
#include "dispatch/python/override_state.h"

namespace mt::py {

namespace {

PyObject* g_rule = nullptr;

int level_of(const Call& call, const Tensor* destination) {
    int level = destination ? batch_level(*destination) : 0;
    for (size_t i = 0; i < call.operand_count; ++i)
        if (call.operands[i].tensor) level = std::max(level, batch_level(*call.operands[i].tensor));
    return level;
}

[[noreturn]] void refuse_escaped() {
    fail("a tensor was used outside of the vmap that it was made in, where it stood for any one of its slices. Return "
         "it from the mapped function instead of keeping it elsewhere.");
}

void check_escaped(const Call& call, const Tensor* destination) {
    if (level_of(call, destination) > vmap_depth) refuse_escaped();
}

bool is_mapped(const Call& call, const Tensor* destination) {
    return call.op->kind == Kind::Random || level_of(call, destination) > 0;
}

const Storage* memory_behind(const Tensor& t) {
    const Tensor* behind = &t;
    while (batch_level(*behind)) behind = behind->autograd->batch_value.get();
    return behind->storage.get();
}

// `base`: what it may be a view of. A view has its base's memory, as far as handles have any: it begins somewhere in
// it, and writes to the one are writes to the other.
Ref<Tensor> mapped(Ref<Tensor> behind, int level, const Tensor* base = nullptr) {
    Dims sizes, strides;
    for (size_t i = 1; i < behind->ndim(); ++i) {
        sizes.push_back(behind->sizes[i]);
        strides.push_back(behind->strides[i]);
    }
    const Tensor* whole = base ? base->autograd->batch_value.get() : nullptr;
    Ref<Storage> storage;
    int64_t offset = 0;
    if (whole && memory_behind(*behind) == memory_behind(*whole)) {
        // Parts of complex numbers, and others of another type, are counted in other units.
        auto from = static_cast<int64_t>(itemsize(whole->dtype)), to = static_cast<int64_t>(itemsize(behind->dtype));
        offset = behind->offset + (base->offset - whole->offset) * from / to;
        storage = base->storage;
    } else {
        auto elements = static_cast<size_t>(element_span(sizes, strides, 0).second);
        storage = Storage::unbacked(elements * itemsize(behind->dtype), Device{DeviceType::Meta, -1});
    }
    Ref<Tensor> handle = Tensor::make(std::move(storage), behind->dtype, sizes, strides, offset);
    AutogradMeta& meta = autograd_meta(*handle);
    meta.batch_level = level;
    meta.batch_value = std::move(behind);
    return handle;
}

// rule(row, operands, mapped, params, size, compute dtype, destination) -> ((tensor, whether mapped), ...). The
// destination is None, or what is written and whether it is mapped; then there are no results.
void run_mapped(Call& call, Ref<Tensor>* results, Tensor* destination) {
    const OpDef& op = *call.op;
    int level = level_of(call, destination);
    if (level > vmap_depth) refuse_escaped();
    if (op.kind == Kind::Random && !level) level = vmap_depth;
    else if (destination && batch_level(*destination) < level)
        fail("vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in "
             "extra_args that has more elements than `self`. This happened due to `other` being vmapped over but "
             "`self` not being vmapped over in a vmap. Please try to use out-of-place operators instead of inplace "
             "arithmetic. (" +
             op.name + "_)");
    PyRef operands(PyList_New(0)), flags(PyList_New(0)), params(PyList_New(0));
    int64_t size = 0;
    auto add = [](PyRef& list, PyObject* owned) {
        PyRef item = checked(owned);
        if (PyList_Append(list.get(), item.get()) < 0) fail_python();
    };
    auto behind = [&](Tensor& t, bool* here) {
        *here = level && batch_level(t) == level;
        if (*here) size = t.autograd->batch_value->sizes[0];
        return wrap(*here ? t.autograd->batch_value : Ref<Tensor>::borrow(&t));
    };
    bool here = false;
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Operand& operand = call.operands[i];
        if (operand.tensor) {
            add(operands, behind(*operand.tensor, &here));
            add(flags, PyBool_FromLong(here));
            continue;
        }
        add(operands, operand.is_scalar ? scalar_to_python(operand.scalar) : Py_NewRef(Py_None));
        add(flags, Py_NewRef(Py_False));
    }
    PyRef written = PyRef::borrow(Py_None);
    if (destination) {
        PyRef tensor = checked(behind(*destination, &here));
        written = checked(PyTuple_Pack(2, tensor.get(), here ? Py_True : Py_False));
    }
    const Tensor* base = op.kind == Kind::View && batch_level(call.in(0)) == level ? &call.in(0) : nullptr;
    static const OpDef* as_strided = find_op("as_strided");
    for (size_t i = 0; i < call.param_count; ++i) {
        Value param = call.params[i];
        // Behind the tensor its slices begin at other places: offsets count from there.
        if (base && &op == as_strided && i == 2) param = value_of(param.is_none() ? 0 : param.i - base->offset);
        add(params, value_to_python(param));
    }
    PyRef compute = checked(dtype_object(op.infer ? call.compute : DType::F32));
    OverridesOff overrides_off;
    PyRef returned(PyObject_CallFunction(g_rule, "OOOOLOO", op.row, operands.get(), flags.get(), params.get(),
                                         static_cast<long long>(size), compute.get(), written.get()));
    if (!returned) fail_python();
    if (destination) return;
    PyRef items = tuple_of(returned.get());
    call.result_count = static_cast<size_t>(PyTuple_GET_SIZE(items.get()));
    if (call.result_count == 0 || call.result_count > kMaxResults)
        fail("vmap: the rule of '" + op.name + "' gave " + std::to_string(call.result_count) + " results");
    for (size_t i = 0; i < call.result_count; ++i) {
        PyObject* item = PyTuple_GET_ITEM(items.get(), static_cast<Py_ssize_t>(i));
        PyObject* tensor = PyTuple_Check(item) && PyTuple_GET_SIZE(item) == 2 ? PyTuple_GET_ITEM(item, 0) : nullptr;
        if (!tensor || !is_tensor(tensor)) fail_type("vmap: the rule of '" + op.name + "' must give tensors");
        results[i] = Ref<Tensor>::borrow(tensor_of(tensor));
        if (PyTuple_GET_ITEM(item, 1) != Py_True) continue;
        if (!results[i]->ndim()) fail_type("vmap: a mapped result of '" + op.name + "' needs a dimension");
        results[i] = mapped(std::move(results[i]), level, base);
    }
}

PyObject* py_set_rule(PyObject*, PyObject* rule) {
    Py_XSETREF(g_rule, Py_NewRef(rule));
    Py_RETURN_NONE;
}

// set_vmap_depth(n) -> the previous depth
PyObject* py_set_depth(PyObject*, PyObject* value) {
    return PyLong_FromLong(std::exchange(vmap_depth, static_cast<int>(to_int64(value))));
}
PyObject* py_depth(PyObject*, PyObject*) { return PyLong_FromLong(vmap_depth); }

// vmap_wrap(tensor, level): the handle for slices along the tensor's first dimension.
PyObject* py_wrap(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject* tensor;
        int level;
        if (!PyArg_ParseTuple(args, "O!i:vmap_wrap", &TensorType, &tensor, &level)) return nullptr;
        if (is_sparse(*tensor_of(tensor))) fail("vmap doesn't map tensors in a sparse layout");
        if (tensor_of(tensor)->ndim() == 0 || level < 1) fail_value("vmap_wrap: needs a dimension and a level");
        return wrap(mapped(Ref<Tensor>::borrow(tensor_of(tensor)), level));
    });
}

// vmap_unwrap(tensor, level) -> (what is behind it, True), or (tensor, False) if it isn't of that level
PyObject* py_unwrap(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject* object;
        int level;
        if (!PyArg_ParseTuple(args, "O!i:vmap_unwrap", &TensorType, &object, &level)) return nullptr;
        Tensor& t = *tensor_of(object);
        if (level < 1 || batch_level(t) != level) return Py_BuildValue("(OO)", object, Py_False);
        return Py_BuildValue("(NO)", wrap(t.autograd->batch_value), Py_True);
    });
}

// The tensor without history of its own; what is behind a mapped tensor keeps its.
PyObject* py_detach_handle(PyObject*, PyObject* object) {
    return guarded([&]() -> PyObject* {
        if (!is_tensor(object)) fail_type("detach_handle takes a Tensor");
        return wrap(detach(*tensor_of(object)));
    });
}

// The tensor once for every slice of `like`, at all its levels: what a formula writes a mapped gradient into.
Ref<Tensor> mapped_like(Ref<Tensor> tensor, const Tensor& like) {
    const int level = batch_level(like), own = batch_level(*tensor);
    if (!level) return tensor;
    const Tensor& behind = *like.autograd->batch_value;
    if (own >= level) {
        const Ref<Tensor>& inner = tensor->autograd->batch_value;
        Ref<Tensor> made = mapped_like(inner, own == level ? behind : like);
        return made.get() == inner.get() ? tensor : mapped(std::move(made), own);
    }
    static const OpDef *expand = find_op("expand"), *clone = find_op("_row_major");
    Dims sizes{behind.sizes[0]};
    for (int64_t size : tensor->sizes) sizes.push_back(size);
    Ref<Tensor> each = call_op(*clone, {call_op(*expand, {tensor.get()}, {value_of(sizes)}).get()});
    return mapped(mapped_like(std::move(each), behind), level);
}

PyObject* py_mapped_like(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *tensor, *like;
        if (!PyArg_ParseTuple(args, "O!O!:mapped_like", &TensorType, &tensor, &TensorType, &like)) return nullptr;
        return wrap(mapped_like(Ref<Tensor>::borrow(tensor_of(tensor)), *tensor_of(like)));
    });
}

// What is behind a tensor at all levels: the values of every slice.
PyObject* py_all_slices(PyObject*, PyObject* object) {
    return guarded([&]() -> PyObject* {
        if (!is_tensor(object)) fail_type("all_slices takes a Tensor");
        Ref<Tensor> behind = Ref<Tensor>::borrow(tensor_of(object));
        while (batch_level(*behind)) behind = behind->autograd->batch_value;
        return wrap(std::move(behind));
    });
}

PyObject* py_level(PyObject*, PyObject* object) {
    return PyLong_FromLong(is_tensor(object) ? batch_level(*tensor_of(object)) : 0);
}

PyMethodDef vmap_functions[] = {
    {"set_vmap_rule", method<py_set_rule>(), METH_O, "Sets the function that runs calls on mapped tensors."},
    {"set_vmap_depth", method<py_set_depth>(), METH_O, "Sets how many vmaps are nested and returns what it was."},
    {"vmap_depth", method<py_depth>(), METH_NOARGS, "How many vmaps are nested."},
    {"vmap_wrap", method<py_wrap>(), METH_VARARGS, "vmap_wrap(tensor, level): a handle for its slices."},
    {"vmap_unwrap", method<py_unwrap>(), METH_VARARGS,
     "vmap_unwrap(tensor, level) -> (tensor, whether it was of that level)"},
    {"detach_handle", method<py_detach_handle>(), METH_O, "Without history of its own, whatever is behind it."},
    {"mapped_like", method<py_mapped_like>(), METH_VARARGS, "mapped_like(tensor, like): mapped if `like` is."},
    {"all_slices", method<py_all_slices>(), METH_O,
     "What is behind a mapped tensor at all its levels; others as they are."},
    {"vmap_level", method<py_level>(), METH_O, "The level of a mapped tensor, 0 for others."},
    {}};

}  // namespace

bool init_vmap(PyObject* module) {
    is_mapped_callback = is_mapped;
    run_mapped_callback = run_mapped;
    refuse_escaped_callback = check_escaped;
    return PyModule_AddFunctions(module, vmap_functions) == 0;
}

}  // namespace mt::py
