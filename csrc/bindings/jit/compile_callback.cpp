// A trace as Python's compiler sees it, and the plan that it gives back.
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "bindings/jit/interruptible_call.h"
#include "bindings/jit/trace_python.h"
#include "dispatch/thread_local_state.h"
#include "trace/plan/plan_format.h"

namespace mt::py {

using namespace mt::trace;

namespace {

PyObject* g_compile = nullptr;
PyObject* g_recall = nullptr;
PyObject* g_kept = nullptr;
PyObject* g_submit = nullptr;

PyObject* value_ref(ValueRef value) {
    static const char* kinds[] = {"none", "node", "input", "scalar"};
    return Py_BuildValue("(sII)", kinds[static_cast<size_t>(value.kind)], value.index,
                         static_cast<unsigned>(value.result));
}

// Where code for the device runs: the JIT's devices are a way to use the others.
const char* place_of(Device device, char (&text)[16]) {
    if (!on_gpu(device)) return "cpu";
    std::snprintf(text, sizeof text, "cuda:%d", device.index);
    return text;
}

// (op, operands, params, results, compute dtype, (compile, must, scope), source, device, default dtype, whether
// products of float32 may be rounded) for every node.
PyObject* describe_node(const Trace& trace, const TraceNode& node) {
    PyRef operands = checked(PyList_New(0)), params = checked(PyList_New(0)), results = checked(PyList_New(0));
    for (uint32_t i = 0; i < node.operand_count; ++i) {
        PyRef item = checked(value_ref(trace.operands[node.first_operand + i]));
        PyList_Append(operands.get(), item.get());
    }
    for (uint32_t i = 0; i < node.param_count; ++i) {
        PyRef item = checked(value_to_python(trace.params[node.first_param + i]));
        PyList_Append(params.get(), item.get());
    }
    for (uint32_t i = 0; i < node.result_count; ++i) {
        const ResultInfo& result = trace.results[node.first_result + i];
        int home = -1;
        for (size_t input = 0; result.storage && result.storage->has_memory() && input < trace.inputs.size(); ++input)
            if (trace.inputs[input].storage.get() == result.storage) {
                home = static_cast<int>(input);
                break;
            }
        PyRef item = checked(Py_BuildValue("(sNOi)", info(result.dtype).hlo_name, dims_to_tuple(result.sizes),
                                           result.storage ? Py_True : Py_False, home));
        PyList_Append(results.get(), item.get());
    }
    char device[16];
    return Py_BuildValue("(sOOOs(iii)NssO)", node.op->name.c_str(), operands.get(), params.get(), results.get(),
                         info(node.compute).hlo_name, static_cast<int>(node.tag.compile),
                         static_cast<int>(node.tag.must), static_cast<int>(node.tag.scope), source_tuple(node.source),
                         place_of(node.device, device), info(node.ambient.default_dtype()).hlo_name,
                         node.ambient.matmul_precision() == MatmulPrecision::Highest ? Py_False : Py_True);
}

}  // namespace

PyObject* source_tuple(const SourceRef& source) {
    if (!source.code) Py_RETURN_NONE;
    auto* code = reinterpret_cast<PyCodeObject*>(source.code);
    return Py_BuildValue("(OiO)", code->co_filename, PyCode_Addr2Line(code, source.lasti), code->co_name);
}

PyRef describe(const Trace& trace) {
    PyRef nodes = list_of(trace.nodes, [&](const TraceNode& node) { return describe_node(trace, node); });
    size_t index = 0;
    PyRef inputs = list_of(trace.inputs, [&](const TraceInput& input) {
        size_t same = index;
        for (size_t j = 0; j < index; ++j)
            if (trace.inputs[j].storage == input.storage) {
                same = j;
                break;
            }
        ++index;
        char device[16];
        return Py_BuildValue("(sNNLns)", info(input.dtype).hlo_name, dims_to_tuple(input.sizes),
                             dims_to_tuple(input.strides), static_cast<long long>(input.offset),
                             static_cast<Py_ssize_t>(same), place_of(input.storage->device, device));
    });
    PyRef scalars = list_of(trace.scalars, [](const ScalarInput& s) {
        return Py_BuildValue("(NO)", scalar_to_python(s.scalar), s.baked ? Py_True : Py_False);
    });
    return checked(Py_BuildValue("(OOO)", nodes.get(), inputs.get(), scalars.get()));
}

namespace {

// As PyArg_ParseTuple, for parts of plans, which may be no tuples.
template <class... Targets>
void parse(PyObject* object, const char* what, const char* format, Targets... targets) {
    if (!PyTuple_Check(object))
        fail_type(std::string(what) + " of a plan must be a tuple, not " + Py_TYPE(object)->tp_name);
    if (!PyArg_ParseTuple(object, format, targets...)) fail_python();
}

void check_below(size_t index, size_t count, const char* what) {
    if (index >= count)
        fail_value("a plan names " + std::string(what) + " " + std::to_string(index) + " of " + std::to_string(count));
}

ValueRef value_from(const Trace& trace, PyObject* object) {
    const char* text;
    unsigned index, result;
    parse(object, "a value", "sII", &text, &index, &result);
    const std::string_view kind = text;
    ValueRef value;
    if (kind == "node") {
        value.kind = RefKind::Node;
        check_below(index, trace.nodes.size(), "node");
        check_below(result, trace.nodes[index].result_count, "result");
    } else if (kind == "input") {
        value.kind = RefKind::Input;
        check_below(index, trace.inputs.size(), "input");
    } else if (kind == "scalar") {
        value.kind = RefKind::Scalar;
        check_below(index, trace.scalars.size(), "scalar");
    } else if (kind != "none") {
        fail_value("a plan has a value of kind '" + std::string(kind) + "'");
    }
    value.index = index;
    value.result = static_cast<uint8_t>(result);
    return value;
}

DType dtype_of_hlo(const char* name) {
    for (size_t i = 0; i < static_cast<size_t>(DType::Count); ++i)
        if (std::string_view(info(static_cast<DType>(i)).hlo_name) == name) return static_cast<DType>(i);
    fail_value(std::string("unknown HLO type ") + name);
}

// The number of a node, or the fields of minitensor_jit/compiler/plan_steps.py's LaunchStep.
Step step_from(const Trace& trace, PyObject* object) {
    Step step;
    if (PyLong_Check(object)) {
        size_t node = to_uint64(object);
        check_below(node, trace.nodes.size(), "node");
        step.node = static_cast<uint32_t>(node);
        return step;
    }
    if (!PyTuple_Check(object)) fail_type("a step of a plan must be a node's number or a tuple");
    step.type = Step::Type::Launch;
    unsigned long long entry, scratch;
    long long work;
    PyObject *inputs, *outputs, *executable, *inside, *observer, *program;
    const char* name;
    int reports_errors, guarded, may_lose, gpu;
    parse(object, "a step", "KOOKLOsOppOpOi", &entry, &inputs, &outputs, &scratch, &work, &executable, &name, &inside,
          &reports_errors, &guarded, &observer, &may_lose, &program, &gpu);
    if (program != Py_None) {
        step.program = PyRef::borrow(program);
        step.device = {DeviceType::CUDA, static_cast<int8_t>(gpu)};
    }
    step.entry = reinterpret_cast<EntryFn>(entry);
    each(inputs, [&](PyObject* item) {
        PyObject* value;
        const char* dtype;
        parse(item, "an input", "Os", &value, &dtype);
        if (!PyTuple_Check(value) || PyTuple_GET_SIZE(value) < 2) fail_type("a value of a plan must be a tuple");
        const char* kind = PyUnicode_AsUTF8(PyTuple_GET_ITEM(value, 0));
        if (!kind) fail_python();
        InputSlot slot;
        if (kind == std::string_view("random")) {
            slot.random = true;
            slot.value = {RefKind::None, 0, static_cast<uint32_t>(to_uint64(PyTuple_GET_ITEM(value, 1)))};
        } else if (kind == std::string_view("size")) {
            slot.is_size = true;
            slot.size = to_int64(PyTuple_GET_ITEM(value, 1));
        } else {
            slot.value = value_from(trace, value);
            slot.dtype = dtype_of_hlo(dtype);
        }
        step.inputs.push_back(slot);
    });
    each(outputs, [&](PyObject* item) { step.outputs.push_back(value_from(trace, item)); });
    step.scratch_bytes = scratch;
    step.work_bytes = work;
    step.executable = PyRef::borrow(executable);
    step.name = name;
    each(inside, [&](PyObject* number) {
        size_t index = to_uint64(number);
        check_below(index, trace.nodes.size(), "node");
        step.inside.push_back(static_cast<uint32_t>(index));
    });
    step.reports_errors = reports_errors;
    step.guarded = guarded;
    step.may_lose = may_lose;
    step.observer = PyRef::borrow(observer);
    return step;
}

// An exception from outside in the middle of the compiler, or of the imports that it begins with, would leave it in a
// state that nobody foresaw. What drives GPUs belongs to its thread.
PyRef ask(const Trace& trace, PyObject* callable, PyObject* args) {
    const bool interruptible = std::none_of(trace.nodes.begin(), trace.nodes.end(),
                                            [](const TraceNode& node) { return on_gpu(node.device); });
    OverridesOff overrides_off;
    return interruptible ? call_interruptibly(callable, args) : checked(PyObject_Call(callable, args, nullptr));
}

std::shared_ptr<Plan> plan_from(const Trace& trace, PyObject* returned, PyObject* signature) {
    auto plan = std::make_shared<Plan>();
    PyObject *steps, *deferred, *checks, *record, *keep;
    int measured;
    parse(returned, "what the compiler gave", "OOOOpO", &steps, &deferred, &checks, &record, &measured, &keep);
    plan->record = PyRef::borrow(record);
    each(steps, [&](PyObject* item) { plan->steps.push_back(step_from(trace, item)); });
    each(deferred, [&](PyObject* item) {
        plan->deferred.push_back(value_from(trace, item));
        if (plan->deferred.back().kind != RefKind::Node) fail_value("a plan defers what no node gives");
    });
    each(checks, [&](PyObject* item) {
        BoundsCheck check;
        long long low, high, ignored;
        parse(item, "a check", "ILLL", &check.input, &low, &high, &ignored);
        check_below(check.input, trace.inputs.size(), "input");
        check.low = low;
        check.high = high;
        check.ignored = ignored;
        plan->checks.push_back(check);
    });
    if (!plan->makes_all(trace)) fail_value("a plan leaves out a value that is read");
    plan->complete(trace);
    if (keep != Py_None && signature) {
        std::string text = plan_to_bytes(*plan);
        PyRef bytes = checked(PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size())));
        ask(trace, keep, checked(PyTuple_Pack(2, signature, bytes.get())).get());
    }
    if (measured) begin_contest(*plan);
    return plan;
}

// What an earlier process kept: (plan, [(entry, executable)], name). Null if it is no plan for the trace.
std::shared_ptr<Plan> plan_from_disk(const Trace& trace, PyObject* found) {
    Py_buffer bytes;
    PyObject* code;
    const char* name;
    parse(found, "what was recalled", "y*O!s", &bytes, &PyList_Type, &code, &name);
    std::shared_ptr<Plan> plan = plan_from_bytes(trace,
                                                 {static_cast<const char*>(bytes.buf), static_cast<size_t>(bytes.len)});
    PyBuffer_Release(&bytes);
    if (!plan) return nullptr;
    Py_ssize_t next = 0;
    for (Step& step : plan->steps) {
        if (step.type != Step::Type::Launch) continue;
        if (next == PyList_GET_SIZE(code)) return nullptr;
        unsigned long long entry;
        PyObject* executable;
        parse(PyList_GET_ITEM(code, next++), "what was recalled", "KO", &entry, &executable);
        step.entry = reinterpret_cast<EntryFn>(entry);
        step.executable = PyRef::borrow(executable);
        step.observer = PyRef::borrow(Py_None);
        step.name = name;
    }
    plan->record = PyRef::borrow(Py_None);
    return next == PyList_GET_SIZE(code) ? plan : nullptr;
}

// Without its last two words, which are for this process only: the options' number and the owner.
PyRef lasting_signature(const Trace& trace) {
    return checked(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(trace.signature.data()),
                                             static_cast<Py_ssize_t>((trace.signature.size() - 2) * sizeof(uint64_t))));
}

std::shared_ptr<Plan> recall(Trace& trace) {
    PyRef recaller = PyRef::borrow(g_recall), signature = lasting_signature(trace);
    PyRef question = checked(PyTuple_Pack(1, signature.get()));
    PyRef found = ask(trace, recaller.get(), question.get());
    return found.get() == Py_None ? nullptr : plan_from_disk(trace, found.get());
}

// What a helper has kept for a run of the program; else what the compiler, if it is loaded, finds on disk.
std::shared_ptr<Plan> recall_run(Trace& trace, uint64_t number) {
    if (g_kept) {
        PyRef recaller = PyRef::borrow(g_kept), signature = lasting_signature(trace);
        PyRef question = checked(Py_BuildValue("(KO)", static_cast<unsigned long long>(number), signature.get()));
        PyRef found = ask(trace, recaller.get(), question.get());
        if (found.get() != Py_None)
            if (std::shared_ptr<Plan> plan = plan_from_disk(trace, found.get())) return plan;
    }
    return g_recall ? recall(trace) : nullptr;
}

bool submit(const Trace& trace, uint64_t number, bool put_off) {
    PyRef submitter = PyRef::borrow(g_submit), signature = lasting_signature(trace), described = describe(trace);
    PyRef question = checked(Py_BuildValue("(KOOO)", static_cast<unsigned long long>(number), signature.get(),
                                           described.get(), put_off ? Py_True : Py_False));
    return ask(trace, submitter.get(), question.get()).get() == Py_True;
}

std::shared_ptr<Plan> compile(Trace& trace, uint64_t number) {
    PyRef compiler = PyRef::borrow(g_compile);
    if (std::shared_ptr<Plan> plan = recall(trace)) return plan;
    PyRef signature = lasting_signature(trace);
    PyRef described = describe(trace);
    PyRef question = checked(Py_BuildValue("(OOOK)", PyTuple_GET_ITEM(described.get(), 0),
                                           PyTuple_GET_ITEM(described.get(), 1), PyTuple_GET_ITEM(described.get(), 2),
                                           static_cast<unsigned long long>(number)));
    PyRef returned = ask(trace, compiler.get(), question.get());
    return returned.get() == Py_None ? nullptr : plan_from(trace, returned.get(), signature.get());
}

PyObject* py_set_compile_callback(PyObject*, PyObject* args) {
    PyObject *compiler, *recaller;
    if (!PyArg_ParseTuple(args, "OO:set_compile_callback", &compiler, &recaller)) return nullptr;
    Py_XSETREF(g_compile, Py_NewRef(compiler));
    Py_XSETREF(g_recall, Py_NewRef(recaller));
    compile_callback = compile;
    recall_callback = recall_run;
    Py_RETURN_NONE;
}

PyObject* py_set_recall_callback(PyObject*, PyObject* recaller) {
    Py_XSETREF(g_kept, recaller == Py_None ? nullptr : Py_NewRef(recaller));
    recall_callback = recall_run;
    Py_RETURN_NONE;
}

PyObject* py_set_submit_callback(PyObject*, PyObject* submitter) {
    Py_XSETREF(g_submit, submitter == Py_None ? nullptr : Py_NewRef(submitter));
    submit_callback = g_submit ? submit : nullptr;
    Py_RETURN_NONE;
}

// A plan as bytes, in a process that has not recorded its trace.
PyObject* py_plan_bytes(PyObject*, PyObject* args) {
    PyObject *results, *returned;
    Py_ssize_t inputs, scalars;
    if (!PyArg_ParseTuple(args, "OnnO:plan_bytes", &results, &inputs, &scalars, &returned)) return nullptr;
    return guarded([&]() -> PyObject* {
        if (inputs < 0 || scalars < 0) fail_value("plan_bytes: expected how many inputs and scalars there are");
        Trace form;
        each(results, [&](PyObject* count) {
            const uint64_t some = to_uint64(count);
            if (some > kMaxResults) fail_value("plan_bytes: an op has " + std::to_string(some) + " results");
            TraceNode& node = form.nodes.emplace_back();
            node = {};
            node.first_result = static_cast<uint32_t>(form.results.size());
            node.result_count = static_cast<uint32_t>(some);
            form.results.resize(form.results.size() + some);
        });
        form.inputs.resize(static_cast<size_t>(inputs));
        form.scalars.resize(static_cast<size_t>(scalars));
        const std::string text = plan_to_bytes(*plan_from(form, returned, nullptr));
        return PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
    });
}

PyMethodDef compile_callback_functions[] = {
    {"set_submit_callback", method<py_set_submit_callback>(), METH_O,
     "set_submit_callback(f | None): f(number, signature, (nodes, inputs, scalars), put_off) has another process "
     "compile a trace, at once or when the program has ended, and returns whether it will."},
    {"set_recall_callback", method<py_set_recall_callback>(), METH_O,
     "set_recall_callback(f | None): f(number, signature) -> (plan, [(entry, what keeps the code)], name) or None: "
     "what "
     "another process has compiled for a run of this program."},
    {"plan_bytes", method<py_plan_bytes>(), METH_VARARGS,
     "plan_bytes(results of each node, inputs, scalars, plan) -> the plan as bytes that a recalled one is made of."},
    {"set_compile_callback", method<py_set_compile_callback>(), METH_VARARGS,
     "set_compile_callback(f, recall): f(nodes, inputs, scalars, number) -> (steps, deferred, checks, record, whether "
     "launches are timed against their ops, keep), where keep(signature, plan) gets the plan as bytes; None if a "
     "thread "
     "compiles it, which then calls plan_made(number); a number of 0 is compiled now. "
     "recall(signature) -> (plan, [(entry, executable)], name) or None."},
    {}};

}  // namespace

bool init_compile_callback(PyObject* module) { return PyModule_AddFunctions(module, compile_callback_functions) == 0; }

}  // namespace mt::py
