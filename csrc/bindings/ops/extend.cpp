// Ops whose kernel and shape rule are Python callables, and which are recorded like any other op.
#include <utility>

#include "bindings/py.h"
#include "dispatch/call.h"
#include "dispatch/registry.h"
#include "dispatch/thread_local_state.h"
#include "trace/recording/trace.h"

namespace mt::py {

namespace {

// Shape rules and kernels may be called from any thread, in the midst of anything.
class InPython {
  public:
    explicit InPython(const Call& call) : settings_(call.ambient) {}
    InPython(const InPython&) = delete;

  private:
    struct Gil {
        PyGILState_STATE state = PyGILState_Ensure();
        ~Gil() { PyGILState_Release(state); }
    } gil_;
    trace::Suspend suspend_;
    CarriedSettings settings_;
};

PyRef without_data(const Operand& operand) {
    if (const Tensor* t = operand.tensor)
        return checked(wrap(Tensor::empty(t->sizes, t->dtype, Device{DeviceType::Meta})));
    return checked(operand.is_scalar ? scalar_to_python(operand.scalar) : Py_NewRef(Py_None));
}

// The rule gets operands without data and the parameters, and gives tensors without data.
void infer_in_python(Call& call) {
    InPython in_python(call);
    std::vector<PyRef> owned;
    for (size_t i = 0; i < call.operand_count; ++i) owned.push_back(without_data(call.operands[i]));
    for (size_t i = 0; i < call.param_count; ++i) owned.push_back(checked(value_to_python(call.params[i])));
    std::vector<PyObject*> raw;
    for (PyRef& ref : owned) raw.push_back(ref.get());
    PyRef returned = checked(PyObject_Vectorcall(call.op->python_infer, raw.data(), raw.size(), nullptr));
    auto take = [&](PyObject* object, size_t i) {
        if (!is_tensor(object))
            fail_type("the shape rule of '" + call.op->name + "' must return tensors, got " + Py_TYPE(object)->tp_name);
        call.results[i].sizes = tensor_of(object)->sizes;
        call.results[i].dtype = tensor_of(object)->dtype;
    };
    if (PyTuple_Check(returned.get())) {
        call.result_count = static_cast<size_t>(PyTuple_GET_SIZE(returned.get()));
        if (call.result_count == 0 || call.result_count > std::size(call.results))
            fail("the shape rule of '" + call.op->name + "' must return 1 to " +
                 std::to_string(std::size(call.results)) + " tensors");
        for (size_t i = 0; i < call.result_count; ++i)
            take(PyTuple_GET_ITEM(returned.get(), static_cast<Py_ssize_t>(i)), i);
    } else {
        call.result_count = 1;
        take(returned.get(), 0);
    }
    call.compute = call.results[0].dtype;
}

// What a kernel gives is the first content of a result, and no write that versions count.
class FirstContent {
  public:
    explicit FirstContent(Tensor& result)
        : result_(result), version_(version_of(result)), log_(std::exchange(function_log, nullptr)) {}
    FirstContent(const FirstContent&) = delete;
    ~FirstContent() {
        version_of(result_) = version_;
        function_log = log_;
    }

  private:
    Tensor& result_;
    uint32_t version_;
    FunctionLog* log_;
};

void run_in_python(Call& call) {
    InPython in_python(call);
    size_t promised = call.result_count;
    Ref<Tensor> results[std::size(call.results)];
    python_kernel_callback(call, call.outputs[0]->device(), results);
    if (call.result_count != promised)
        fail("the kernel of '" + call.op->name + "' returned " + std::to_string(call.result_count) +
             " tensors, its shape rule " + std::to_string(promised));
    for (size_t i = 0; i < promised; ++i) {
        const Tensor &got = *results[i], &wanted = *call.outputs[i];
        if (!(got.sizes == wanted.sizes) || got.dtype != wanted.dtype)
            fail("the kernel of '" + call.op->name + "' returned a tensor of shape " + to_string(got.sizes) +
                 " and dtype " + info(got.dtype).name + "; its shape rule says " + to_string(wanted.sizes) + " and " +
                 info(wanted.dtype).name);
        static const OpDef& copy = *find_op("copy");
        Operand destination, source;
        destination.tensor = call.outputs[i];
        source.tensor = results[i].get();
        FirstContent first(*call.outputs[i]);
        call_op_inplace(copy, *call.outputs[i], {destination, source});
    }
}

// set_shape_rule(op, rule, direct=False): the op's shape rule; its Python kernel runs wherever a native one would. A
// direct op's kernel gives new tensors that the rule is right about: eagerly they are the results, and nothing else is
// asked.
PyObject* py_set_shape_rule(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyObject *object, *rule;
        int direct = 0;
        if (!PyArg_ParseTuple(args, "OO|p:set_shape_rule", &object, &rule, &direct)) return nullptr;
        OpDef& op = op_of(object);
        if (!op.python_kernel[0]) fail_value("op '" + op.name + "' has no kernel in Python");
        if (!PyCallable_Check(rule)) fail_type("the shape rule must be callable");
        Py_XSETREF(op.python_infer, Py_NewRef(rule));
        op.infer = infer_in_python;
        op.cpu = direct ? nullptr : run_in_python;
        python_step_callback = run_in_python;
        op.takes = Takes::Any;
        Py_RETURN_NONE;
    });
}

PyMethodDef extend_functions[] = {
    {"set_shape_rule", method<py_set_shape_rule>(), METH_VARARGS,
     "set_shape_rule(op, rule, direct=False): `rule(*operands, *params)` gives results without data."},
    {}};

}  // namespace

bool init_extend(PyObject* module) { return PyModule_AddFunctions(module, extend_functions) == 0; }

}  // namespace mt::py
