// Composed functions of a few ops without a Python frame between them, as the targets of shortcuts. Each knows the
// usual calls and gives NotImplemented for the others, which are then left to the function's Python body.
#include "autograd/tape.h"
#include "bindings/py.h"
#include "dispatch/generator.h"
#include "dispatch/registry.h"
#include "dispatch/thread_local_state.h"

namespace mt::py {

namespace {

PyObject* declined() { return Py_NewRef(Py_NotImplemented); }

// The arguments of a call. A shortcut's pattern has checked them; others who call are told what is wrong.
class Given {
  public:
    Given(const char* name, PyObject* const* args, Py_ssize_t nargs, Py_ssize_t least)
        : name_(name), args_(args), nargs_(nargs) {
        if (nargs < least)
            fail_type(std::string(name) + " takes at least " + std::to_string(least) + " arguments, got " +
                      std::to_string(nargs));
    }
    PyObject* operator[](Py_ssize_t i) const { return args_[i]; }
    bool has(Py_ssize_t i) const { return i < nargs_; }
    Tensor& tensor(Py_ssize_t i) const {
        if (!is_tensor(args_[i]))
            fail_type(std::string(name_) + ": argument " + std::to_string(i + 1) + " must be a Tensor, not " +
                      Py_TYPE(args_[i])->tp_name);
        return *tensor_of(args_[i]);
    }
    // One that may be absent or None.
    Tensor* optional_tensor(Py_ssize_t i) const { return has(i) && args_[i] != Py_None ? &tensor(i) : nullptr; }

  private:
    const char* name_;
    PyObject* const* args_;
    Py_ssize_t nargs_;
};

// False: an int too large for a float.
bool number(PyObject* object, double* value) {
    try {
        *value = to_double(object);
        return true;
    } catch (const Error&) {
        if (!PyErr_ExceptionMatches(PyExc_OverflowError)) throw;
        PyErr_Clear();
        return false;
    }
}

Operand operand(Tensor* tensor) {
    Operand made;
    made.tensor = tensor;
    return made;
}
Operand operand(double number) {
    Operand made;
    made.scalar = Scalar::of(number);
    made.is_scalar = true;
    return made;
}

Ref<Tensor> binary(const OpDef& op, Operand a, Operand b) {
    Operand operands[2] = {a, b};
    Call call(ambient());
    call.op = &op;
    call.operands = operands;
    call.operand_count = 2;
    Ref<Tensor> results[kMaxResults];
    dispatch(call, results);
    return std::move(results[0]);
}

// stack(tensors): joined along the first dimension, and seen with one more.
PyObject* py_stack(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        const Given given("stack", args, nargs, 1);
        static const OpDef *cat = find_op("cat"), *view = find_op("view");
        PyRef held = tuple_of(given[0]);  // a list may change while the op runs
        Py_ssize_t count = PyTuple_GET_SIZE(held.get());
        SmallVector<Operand, 8> operands;
        for (Py_ssize_t i = 0; i < count; ++i) {
            PyObject* item = PyTuple_GET_ITEM(held.get(), i);
            if (!is_tensor(item)) return declined();
            operands.push_back(operand(tensor_of(item)));
            if (!(tensor_of(item)->sizes == operands[0].tensor->sizes)) return declined();
        }
        if (!count || operands[0].tensor->ndim() == 0) return declined();
        Dims sizes = operands[0].tensor->sizes;
        sizes.insert(0, count);
        Value dim = value_of(int64_t{0});
        Call call(ambient());
        call.op = cat;
        call.operands = operands.data();
        call.operand_count = operands.size();
        call.params = &dim;
        call.param_count = 1;
        Ref<Tensor> joined[kMaxResults];
        dispatch(call, joined);
        Ref<Tensor> stacked = call_op(*view, {joined[0].get()}, {value_of(sizes)});
        stacked->base.reset();  // the memory is its own
        return wrap(std::move(stacked));
    });
}

// split(tensor, size, dim): views of `size` each, the last smaller.
PyObject* py_split(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        const Given given("split", args, nargs, 3);
        static const OpDef* slice = find_op("slice");
        Tensor& t = given.tensor(0);
        int64_t size, dim;
        if (!to_int64(given[1], &size) || !to_int64(given[2], &dim) || size <= 0 || !t.ndim()) return declined();
        dim = normalize_dim(dim, t.ndim());
        int64_t n = t.sizes[static_cast<size_t>(dim)];
        if (n == 0) return declined();
        int64_t count = (n - 1) / size + 1;
        PyRef parts = checked(PyTuple_New(count));
        const uint64_t before = latest_sequence();
        for (int64_t i = 0; i < count; ++i) {
            Ref<Tensor> part = call_op(*slice, {&t},
                                       {value_of(dim), value_of(i * size),
                                        value_of(std::min(n - i * size, size) + i * size), value_of(int64_t{1})});
            if (part->autograd && part->autograd->grad_fn)
                name_node(*part->autograd->grad_fn, "SplitBackward0", before);
            PyTuple_SET_ITEM(parts.get(), i, checked(wrap(std::move(part))).release());
        }
        return parts.release();
    });
}

// converted(tensor, dtype): the tensor itself if it has the dtype.
PyObject* py_converted(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        const Given given("converted", args, nargs, 2);
        static const OpDef* cast = find_op("cast");
        Tensor& t = given.tensor(0);
        Value dtype;
        dtype.tag = Value::Type;
        dtype.dtype = dtype_from(given[1]);
        if (t.dtype == dtype.dtype) return Py_NewRef(given[0]);
        if (is_complex(t.dtype)) return declined();  // there is something to warn of
        return wrap(call_op(*cast, {&t}, {dtype}));
    });
}

// linear(input, weight, bias): a product with the transposed weights, and the bias added in the same pass.
PyObject* py_linear(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        const Given given("linear", args, nargs, 2);
        static const OpDef *transpose = find_op("transpose"), *matmul = find_op("matmul"), *addmm = find_op("_addmm");
        Tensor &x = given.tensor(0), &w = given.tensor(1);
        Tensor* b = given.optional_tensor(2);
        if (w.ndim() != 2) return declined();
        if (b && (x.ndim() < 2 || b->ndim() != 1 || (b->sizes[0] != 1 && b->sizes[0] != w.sizes[0]) ||
                  !is_floating(x.dtype) || itemsize(x.dtype) == 1 || w.dtype != x.dtype || b->dtype != x.dtype))
            return declined();
        const uint64_t before = latest_sequence();
        Ref<Tensor> matrix = call_op(*transpose, {&w}, {value_of(int64_t{0}), value_of(int64_t{1})});
        if (matrix->autograd && matrix->autograd->grad_fn) name_node(*matrix->autograd->grad_fn, "TBackward0", before);
        if (!b) return wrap(call_op(*matmul, {&x, matrix.get()}));
        Value one = Value::of(Scalar::of(1.0));
        return wrap(call_op(*addmm, {b, &x, matrix.get()}, {one, one}));
    });
}

// cross_entropy(input, target): the mean over rows, of which each has one class.
PyObject* py_cross_entropy(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        const Given given("cross_entropy", args, nargs, 2);
        static const OpDef *log_softmax = find_op("log_softmax"), *mean = find_op("nll_loss_mean");
        Tensor &x = given.tensor(0), &target = given.tensor(1);
        if (x.ndim() != 2 || target.ndim() != 1 || x.sizes[0] != target.sizes[0] || target.dtype == DType::U8)
            return declined();
        Ref<Tensor> logs = call_op(*log_softmax, {&x}, {value_of(int64_t{1}), Value()});
        return wrap(call_op(*mean, {logs.get(), &target}, {value_of(int64_t{-100})}));
    });
}

// layer_norm(input, (size,), weight, bias, eps): rows along the last dimension.
PyObject* py_layer_norm(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        const Given given("layer_norm", args, nargs, 2);
        static const OpDef *norm = find_op("group_norm"), *view = find_op("view");
        Tensor& x = given.tensor(0);
        Tensor *w = given.optional_tensor(2), *b = given.optional_tensor(3);
        if (!PyTuple_CheckExact(given[1]) || PyTuple_GET_SIZE(given[1]) != 1 || x.ndim() < 2) return declined();
        int64_t size;
        if (!to_int64(PyTuple_GET_ITEM(given[1], 0), &size) || !x.numel || x.sizes.back() != size ||
            is_complex(x.dtype))
            return declined();
        for (Tensor* t : {w, b})
            if (t && (t->ndim() != 1 || t->sizes[0] != size)) return declined();
        Value groups = value_of(int64_t{1}), eps = Value::of(Scalar::of(1e-5)), centered = Value::of(Scalar::of(true));
        if (given.has(4) && !number(given[4], &eps.f)) return declined();
        if (x.ndim() == 2) return wrap(call_op(*norm, {&x, w, b}, {groups, eps, centered}));
        if (!x.contiguous()) return declined();
        Ref<Tensor> rows = call_op(*view, {&x}, {value_of(Dims{x.numel / size, size})});
        Ref<Tensor> result = call_op(*norm, {rows.get(), w, b}, {groups, eps, centered});
        return wrap(call_op(*view, {result.get()}, {value_of(x.sizes)}));
    });
}

// dropout(input, p, training, inplace): times 1 / (1 - p) where a number drawn is at least p, times 0 elsewhere.
PyObject* py_dropout(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        const Given given("dropout", args, nargs, 4);
        static const OpDef *uniform = find_op("uniform"), *ge = find_op("ge"), *mul = find_op("mul");
        Tensor& x = given.tensor(0);
        double p;
        // Bools times a number are of the default dtype.
        // A mapped tensor's device is not where its numbers are drawn.
        if (vmap_depth || !number(given[1], &p) || !(p > 0.0 && p < 1.0) || given[2] != Py_True ||
            given[3] == Py_True || !x.numel || x.dtype != DType::F32 || default_dtype() != DType::F32)
            return declined();
        Value dtype, device;
        dtype.tag = Value::Type;
        dtype.dtype = DType::F32;
        device.tag = Value::Dev;
        device.device = x.device();
        if (x.device().type == DeviceType::CPU && default_generator().draws_as_torch) {
            static const OpDef *bernoulli = find_op("_mt19937_bernoulli"), *div = find_op("div");
            if (!x.contiguous()) return declined();
            Ref<Tensor> noise = call_op(*bernoulli, {},
                                        {value_of(x.sizes), Value::of(Scalar::of(1.0 - p)), dtype, device});
            Ref<Tensor> scaled = binary(*div, operand(noise.get()), operand(1.0 - p));
            return wrap(binary(*mul, operand(&x), operand(scaled.get())));
        }
        Ref<Tensor> drawn = call_op(
            *uniform, {}, {value_of(x.sizes), Value::of(Scalar::of(0.0)), Value::of(Scalar::of(1.0)), dtype, device});
        Ref<Tensor> kept = binary(*ge, operand(drawn.get()), operand(p));
        Ref<Tensor> factors = binary(*mul, operand(kept.get()), operand(1.0 / (1.0 - p)));
        return wrap(binary(*mul, operand(&x), operand(factors.get())));
    });
}

PyMethodDef composed_functions[] = {
    {"dropout", method<py_dropout>(), METH_FASTCALL, "dropout(input, p, training, inplace): of single elements."},
    {"stack", method<py_stack>(), METH_FASTCALL, "stack(tensors): tensors of one shape along a new first dimension."},
    {"split", method<py_split>(), METH_FASTCALL, "split(tensor, size, dim): in parts of one size."},
    {"converted", method<py_converted>(), METH_FASTCALL, "converted(tensor, dtype): real numbers in another dtype."},
    {"linear", method<py_linear>(), METH_FASTCALL, "linear(input, weight, bias): input @ weight.T + bias."},
    {"cross_entropy", method<py_cross_entropy>(), METH_FASTCALL,
     "cross_entropy(input, target): of a class for each row."},
    {"layer_norm", method<py_layer_norm>(), METH_FASTCALL, "layer_norm(input, (size,), weight, bias, eps): of rows."},
    {}};

}  // namespace

bool init_composed(PyObject* module) { return PyModule_AddFunctions(module, composed_functions) == 0; }

}  // namespace mt::py
