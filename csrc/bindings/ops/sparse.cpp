// Tensors in a sparse layout: C++ has their sizes, dtype and place in the graph; minitensor/sparse has the rest.
#include <string>
#include <vector>

#include "autograd/accumulate_grad.h"
#include "bindings/py.h"
#include "core/error.h"
#include "dispatch/thread_local_state.h"

namespace mt::py {

namespace {

PyRef function_of_sparse(const char* name) {
    PyRef module(PyImport_ImportModule("minitensor.sparse._engine"));
    return checked(module ? PyObject_GetAttrString(module.get(), name) : nullptr);
}

// make_sparse(cls, sizes, dtype, device): an object of the class without components.
PyObject* py_make_sparse(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *cls, *sizes, *dtype, *device;
        if (!PyArg_ParseTuple(args, "OOOO:make_sparse", &cls, &sizes, &dtype, &device)) return nullptr;
        if (!PyType_Check(cls) || !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), &TensorType) ||
            cls == reinterpret_cast<PyObject*>(&TensorType))
            fail_type("make_sparse(cls, sizes, dtype, device) takes a subclass of Tensor");
        const Dims dims = dims_from(sizes, "size");
        Dims strides(dims.size(), 0);
        for (size_t i = dims.size(), step = 1; i-- > 0; step *= static_cast<size_t>(dims[i] ? dims[i] : 1))
            strides[i] = static_cast<int64_t>(step);
        const Device mark = sparse_mark(device_from(device));
        Ref<Tensor> made = Tensor::make(Storage::unbacked(0, mark), dtype_from(dtype), dims, strides, 0);
        made->is_inference = thread_settings.inference_mode;
        return wrap_as(reinterpret_cast<PyTypeObject*>(cls), std::move(made));
    });
}

// A call that C++ makes, or that nobody took over, by what Python has for the op.
void run_sparse(Call& call, Ref<Tensor>* results) {
    PyRef operands = checked(PyTuple_New(static_cast<Py_ssize_t>(call.operand_count)));
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Operand& operand = call.operands[i];
        PyObject* item = operand.tensor      ? wrap(Ref<Tensor>::borrow(operand.tensor))
                         : operand.is_scalar ? scalar_to_python(operand.scalar)
                                             : Py_NewRef(Py_None);
        PyTuple_SET_ITEM(operands.get(), static_cast<Py_ssize_t>(i), checked(item).release());
    }
    PyRef params = checked(PyTuple_New(static_cast<Py_ssize_t>(call.param_count)));
    for (size_t i = 0; i < call.param_count; ++i)
        PyTuple_SET_ITEM(params.get(), static_cast<Py_ssize_t>(i), checked(value_to_python(call.params[i])).release());
    OverridesOff overrides_off;
    PyRef run = function_of_sparse("run_op");
    PyRef returned = checked(
        PyObject_CallFunction(run.get(), "sOO", call.op->name.c_str(), operands.get(), params.get()));
    if (!is_tensor(returned.get())) fail_type("op '" + call.op->name + "' of sparse tensors gave no tensor");
    call.result_count = 1;
    results[0] = Ref<Tensor>::borrow(tensor_of(returned.get()));
}

// What a leaf's gradient is after another one came, where one of them is sparse; `before` may be null.
Ref<Tensor> add_sparse_gradient(Ref<Tensor> before, Ref<Tensor> gradient) {
    OverridesOff overrides_off;
    PyRef add = function_of_sparse("add_gradient");
    PyRef first = checked(wrap(std::move(before))), second = checked(wrap(std::move(gradient)));
    PyRef sum = checked(PyObject_CallFunctionObjArgs(add.get(), first.get(), second.get(), nullptr));
    if (!is_tensor(sum.get())) fail_type("a gradient must be a tensor");
    return Ref<Tensor>::borrow(tensor_of(sum.get()));
}

PyObject* py_is_sparse(PyObject*, PyObject* object) {
    return PyBool_FromLong(is_tensor(object) && is_sparse(*tensor_of(object)));
}

PyMethodDef sparse_functions[] = {
    {"is_sparse_storage", method<py_is_sparse>(), METH_O, "Whether it is a tensor in a sparse layout."},
    {"make_sparse", method<py_make_sparse>(), METH_VARARGS,
     "make_sparse(cls, sizes, dtype, device): a tensor in a sparse layout, without components."},
    {}};

}  // namespace

bool init_sparse(PyObject* module) {
    sparse_callback = run_sparse;
    add_sparse_gradient_callback = add_sparse_gradient;
    return PyModule_AddFunctions(module, sparse_functions) == 0;
}

}  // namespace mt::py
