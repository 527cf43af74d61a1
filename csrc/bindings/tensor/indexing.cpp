// x[...]: integers, slices, None and Ellipsis become views here; index tensors, masks and sequences go to Python's
// minitensor._tensor.indexing, which composes ops.
#include "bindings/py.h"
#include "dispatch/memory/overlap.h"
#include "dispatch/registry.h"

namespace mt::py {

namespace {

PyObject* advanced(const char* function, PyObject* self, PyObject* key, PyObject* value) {
    static PyObject* module = nullptr;
    if (!module) module = checked(PyImport_ImportModule("minitensor._tensor.indexing")).release();
    return value ? PyObject_CallMethod(module, function, "OOO", self, key, value)
                 : PyObject_CallMethod(module, function, "OO", self, key);
}

bool is_basic(PyObject* item) {
    if (PyLong_CheckExact(item) || PySlice_Check(item) || item == Py_None || item == Py_Ellipsis) return true;
    if (PyBool_Check(item) || is_tensor(item) || PyTuple_Check(item) || PyList_Check(item)) return false;
    return PyIndex_Check(item) && !PySequence_Check(item);
}

bool is_negative(PyObject* integer) {
    static PyObject* const zero = PyLong_FromLong(0);
    return PyObject_RichCompareBool(integer, zero, Py_LT) == 1;
}

bool slice_bound(PyObject* object, Value* out) {
    if (object == Py_None) return true;
    PyRef index = checked(is_tensor(object) ? tensor_item(*tensor_of(object)) : PyNumber_Index(object));
    int64_t value;
    if (!PyLong_Check(index.get())) fail_type("slice indices must be integers or None or have an __index__ method");
    if (!to_int64(index.get(), &value)) value = is_negative(index.get()) ? INT64_MIN : INT64_MAX;
    *out = value_of(value);
    return true;
}

// The view that a key of basic items selects; the tensor itself, as an alias, for x[...].
Ref<Tensor> basic_view(Tensor& source, PyObject* const* items, size_t count) {
    static const OpDef *select = find_op("select"), *slice = find_op("slice"), *unsqueeze = find_op("unsqueeze"),
                       *alias = find_op("alias");
    const size_t ndim = source.ndim();  // __index__ may give it other contents
    size_t consuming = 0;
    for (size_t i = 0; i < count; ++i) consuming += items[i] != Py_None && items[i] != Py_Ellipsis;
    if (consuming > ndim) fail_index("too many indices for tensor of dimension " + std::to_string(ndim));
    Ref<Tensor> current = Ref<Tensor>::borrow(&source);
    int64_t dim = 0;
    for (size_t i = 0; i < count; ++i) {
        PyObject* item = items[i];
        if (item == Py_Ellipsis) {
            dim += static_cast<int64_t>(ndim - consuming);
        } else if (item == Py_None) {
            current = call_op(*unsqueeze, {current.get()}, {value_of(dim)});
            ++dim;
        } else if (PySlice_Check(item)) {
            auto* s = reinterpret_cast<PySliceObject*>(item);
            Value start, end, step = value_of(int64_t{1});
            slice_bound(s->start, &start);
            slice_bound(s->stop, &end);
            slice_bound(s->step, &step);
            if (step.i == 0) fail_value("slice step cannot be zero");
            if (step.i < 0) fail_value("step must be greater than zero");
            // PyTorch's x[:] is a slice, x[:, :] is not.
            if (count == 1 || !(start.is_none() && end.is_none() && step.i == 1))
                current = call_op(*slice, {current.get()}, {value_of(dim), start, end, step});
            ++dim;
        } else {
            PyRef index = checked(PyNumber_Index(item));
            int64_t value = to_int64(index.get());
            // A second `...` stands for as many dimensions as the first one.
            if (dim >= static_cast<int64_t>(current->ndim()))
                fail_index("too many indices for tensor of dimension " + std::to_string(ndim));
            int64_t size = current->sizes[static_cast<size_t>(dim)];
            if (value < -size || value >= size)
                fail_index("index " + std::to_string(value) + " is out of bounds for dimension " + std::to_string(dim) +
                           " with size " + std::to_string(size));
            current = call_op(*select, {current.get()}, {value_of(dim), value_of(value)});
        }
    }
    if (current.get() == &source) current = call_op(*alias, {&source});
    return current;
}

struct Key {
    PyObject* const* items;
    size_t count;
    bool basic = true;
};

Key key_items(PyObject* const* key) {
    Key result{key, 1};
    if (PyTuple_Check(*key)) {
        result.items = reinterpret_cast<PyTupleObject*>(*key)->ob_item;
        result.count = static_cast<size_t>(PyTuple_GET_SIZE(*key));
    }
    for (size_t i = 0; i < result.count; ++i) result.basic &= is_basic(result.items[i]);
    return result;
}

// x[i] with an index tensor for the first dimension, or null: there is more to look at.
Ref<Tensor> rows_at(Tensor& source, PyObject* key) {
    static const OpDef* index_at = find_op("_index");
    if (!is_tensor(key)) return {};
    Tensor& index = *tensor_of(key);
    bool counts = (index.dtype == DType::I64 || index.dtype == DType::I32) && index.ndim() > 0;
    if (!counts || !source.ndim() || !source.sizes[0] || index.device().type != source.device().type) return {};
    return call_op(*index_at, {&source, &index}, {value_of(Dims{int64_t{0}}), Value::of(Scalar::of(false))});
}

// The node that wrote what `view` is a part of, as far as it is known.
Ref<GradNode> history_of_base(const Tensor& view) {
    return view.base && view.base->autograd ? view.base->autograd->grad_fn : Ref<GradNode>();
}

}  // namespace

PyObject* tensor_getitem(PyObject* self, PyObject* key) {
    return guarded([&]() -> PyObject* {
        Key items = key_items(&key);
        if (!items.basic) {
            Ref<Tensor> rows = rows_at(*tensor_of(self), key);
            return rows ? wrap(std::move(rows)) : advanced("getitem", self, key, nullptr);
        }
        Tensor& t = *tensor_of(self);
        if (t.ndim() == 0 && items.count == 1 && PyLong_Check(key))
            fail_index(
                "invalid index of a 0-dim tensor. Use `tensor.item()` in Python to convert a 0-dim tensor to a number");
        return wrap(basic_view(t, items.items, items.count));
    });
}

int tensor_setitem(PyObject* self, PyObject* key, PyObject* value) {
    return guarded(
        [&]() -> int {
            if (!value) fail_type("Tensor does not support deleting items");
            Key items = key_items(&key);
            if (!items.basic) {
                PyRef done = checked(advanced("setitem", self, key, value));
                return 0;
            }
            static const OpDef *fill = find_op("fill"), *copy = find_op("copy");
            Ref<Tensor> view = basic_view(*tensor_of(self), items.items, items.count);
            Operand destination, source;
            destination.tensor = view.get();
            Scalar scalar;
            if (is_tensor(value)) {
                Ref<Tensor> brought = Ref<Tensor>::borrow(tensor_of(value));
                // Leading dimensions of size 1 are dropped, as NumPy does: x[0] = row of shape (1, n).
                while (brought->ndim() > view->ndim() && brought->sizes[0] == 1) {
                    static const OpDef* select = find_op("select");
                    brought = call_op(*select, {brought.get()}, {value_of(int64_t{0}), value_of(int64_t{0})});
                }
                source.tensor = brought.get();
                call_op_inplace(*copy, *view, {destination, source});
            } else if (scalar_from(value, &scalar)) {
                check_written_once(*view);  // which an assignment needs to be, unlike fill_()
                const Ref<GradNode> before = history_of_base(*view);
                call_op_inplace(*fill, *view, {destination}, {Value::of(scalar)});
                // The number is an operand to PyTorch, unlike that of fill_().
                const Ref<GradNode> node = history_of_base(*view);
                if (node && node.get() != before.get() && node->edges.size() == 1) node->edges.emplace_back();
            } else {
                PyRef done = checked(advanced("setitem", self, key, value));
            }
            return 0;
        },
        -1);
}

}  // namespace mt::py
