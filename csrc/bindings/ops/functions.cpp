// Functions on tensors that are not ops.
#include "autograd/engine.h"
#include "bindings/py.h"
#include "dispatch/gpu.h"
#include "dispatch/infer/shape/view.h"
#include "dispatch/memory/shared_writes.h"
#include "kernels/cpu/index/nonzero.h"
#include "trace/plan/plan.h"

namespace mt::py {

namespace {

// can_view(tensor, size): whether `size`, with at most one -1, is a view of the tensor.
PyObject* py_can_view(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *object, *size;
        if (!PyArg_ParseTuple(args, "O!O:can_view", &TensorType, &object, &size)) return nullptr;
        Tensor& t = *tensor_of(object);
        Dims sizes = dims_from(size, "shape"), strides;
        int64_t known = 1, unknown = -1;
        for (size_t i = 0; i < sizes.size(); ++i) {
            if (sizes[i] == -1) unknown = static_cast<int64_t>(i);
            else if (sizes[i] < 0 || __builtin_mul_overflow(known, sizes[i], &known)) Py_RETURN_TRUE;  // as below
        }
        if (unknown >= 0) {
            if (known == 0 || t.numel % known) Py_RETURN_TRUE;  // `view` explains what is wrong
            sizes[static_cast<size_t>(unknown)] = t.numel / known;
        } else if (known != t.numel) {
            Py_RETURN_TRUE;
        }
        return PyBool_FromLong(compute_view_strides(t.sizes, t.strides, sizes, strides));
    });
}

PyObject* py_needs_gradient(PyObject*, PyObject* position) {
    return guarded([&]() -> PyObject* {
        return PyBool_FromLong(operand_needs_gradient(static_cast<size_t>(to_int64(position))));
    });
}

Tensor& concrete(PyObject* object) {
    if (!is_tensor(object)) fail_type(std::string("expected a Tensor, got ") + Py_TYPE(object)->tp_name);
    Tensor& t = *tensor_of(object);
    if (t.device().type == DeviceType::Meta)
        fail("the shape of the result depends on data, which a meta tensor doesn't have");
    trace::check_open("a result whose shape depends on data");
    return t;
}

// What a kernel of the CPU makes of tensors wherever they are: on a GPU's over copies.
template <class Kernel>
PyObject* over_host(std::initializer_list<PyObject*> objects, Kernel&& kernel) {
    std::vector<Ref<Tensor>> here;
    Device device = concrete(*objects.begin()).device();
    bool copied = false;
    for (PyObject* object : objects) {
        Tensor& t = concrete(object);
        copied |= on_gpu(t.device());
        here.push_back(on_gpu(t.device()) ? copy_across(t, Device{}) : Ref<Tensor>::borrow(&t));
    }
    Ref<Tensor> result = kernel(here);
    return wrap(copied ? copy_across(*result, device) : std::move(result));
}

void expect(Py_ssize_t nargs, Py_ssize_t count) {
    if (nargs != count) fail_type("takes " + std::to_string(count) + " tensors, got " + std::to_string(nargs));
}

PyObject* py_nonzero(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        expect(nargs, 1);
        return over_host({args[0]}, [](auto& t) { return nonzero(*t[0]); });
    });
}

PyObject* py_masked_select(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        expect(nargs, 2);
        return over_host({args[0], args[1]}, [](auto& t) { return masked_select(*t[0], *t[1]); });
    });
}

PyObject* py_repeat_places(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        expect(nargs, 1);
        return over_host({args[0]}, [](auto& t) { return repeat_places(*t[0]); });
    });
}

// write_as(method, write, *arguments): what `write` gives; warnings of writes within it name the method.
PyObject* py_write_as(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* {
        const char* method = nargs < 2 || !PyUnicode_Check(args[0]) ? nullptr : PyUnicode_AsUTF8(args[0]);
        if (!method) fail_type("write_as takes the name of a method, a function and its arguments");
        const char* outer = std::exchange(writing_method, method);
        PyObject* result = PyObject_Vectorcall(args[1], args + 2, static_cast<size_t>(nargs - 2), nullptr);
        writing_method = outer;
        return result;
    });
}

PyMethodDef op_functions[] = {
    {"write_as", method<py_write_as>(), METH_FASTCALL,
     "write_as(method, write, *arguments): write(*arguments), whose warnings name the method."},
    {"can_view", method<py_can_view>(), METH_VARARGS,
     "can_view(tensor, size): whether it can be viewed in that shape."},
    {"needs_gradient", method<py_needs_gradient>(), METH_O,
     "Within a vjp: whether the operand at that position needs its gradient."},
    {"nonzero", method<py_nonzero>(), METH_FASTCALL, "The kernel of nonzero."},
    {"masked_select", method<py_masked_select>(), METH_FASTCALL, "The kernel of masked_select."},
    {"repeat_places", method<py_repeat_places>(), METH_FASTCALL, "Every place as often as the vector says."},
    {}};

}  // namespace

bool init_functions(PyObject* module) { return PyModule_AddFunctions(module, op_functions) == 0; }

}  // namespace mt::py
