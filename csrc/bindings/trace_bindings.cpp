// The trace as Python's compiler sees it, the plan it gives back, and the account of both.
#include <algorithm>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "bindings/py.h"
#include "core/allocator.h"
#include "core/parallel.h"
#include "dispatch/jit_device.h"
#include "kernels/cpu/loop_library.h"
#include "runtime/errors.h"
#include "runtime/object_code.h"
#include "trace/plan.h"

namespace mt::py {

PyObject* py_set_host_call(PyObject*, PyObject* callable);  // host_call.cpp

namespace {

using namespace mt::trace;

PyObject* g_compile = nullptr;
PyObject* g_recall = nullptr;
PyObject* g_flush = nullptr;
PyObject* g_refuse = nullptr;
PyObject* g_eager = nullptr;

PyObject* source_tuple(const SourceRef& source) {
    if (!source.code) Py_RETURN_NONE;
    auto* code = reinterpret_cast<PyCodeObject*>(source.code);
    return Py_BuildValue("(OiO)", code->co_filename, PyCode_Addr2Line(code, source.lasti), code->co_name);
}

PyObject* value_ref(ValueRef value) {
    static const char* kinds[] = {"none", "node", "leaf", "scalar"};
    return Py_BuildValue("(sII)", kinds[static_cast<size_t>(value.kind)], value.index,
                         static_cast<unsigned>(value.result));
}

template <class Range, class Make>
PyRef list_of(const Range& range, Make&& make) {
    PyRef list = checked(PyList_New(0));
    for (const auto& item : range) {
        PyRef object = checked(make(item));
        if (PyList_Append(list.get(), object.get()) < 0) fail_python();
    }
    return list;
}

// Where code for the device runs: the JIT's devices are a way to use the others.
const char* place_of(Device device, char (&text)[16]) {
    if (!on_gpu(device)) return "cpu";
    std::snprintf(text, sizeof text, "cuda:%d", device.index);
    return text;
}

// (op, operands, params, results, compute dtype, (compile, must, scope), source, device) for every node.
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
        for (size_t leaf = 0; result.storage && result.storage->has_memory() && leaf < trace.leaves.size(); ++leaf)
            if (trace.leaves[leaf].storage.get() == result.storage) {
                home = static_cast<int>(leaf);
                break;
            }
        PyRef item = checked(Py_BuildValue("(sNOi)", info(result.dtype).hlo_name, dims_to_tuple(result.sizes),
                                           result.storage ? Py_True : Py_False, home));
        PyList_Append(results.get(), item.get());
    }
    char device[16];
    return Py_BuildValue("(sOOOs(iii)Ns)", node.op->name.c_str(), operands.get(), params.get(), results.get(),
                         info(node.compute).hlo_name, static_cast<int>(node.tag.compile),
                         static_cast<int>(node.tag.must), static_cast<int>(node.tag.scope), source_tuple(node.source),
                         place_of(node.device, device));
}

PyRef describe(const Trace& trace) {
    PyRef nodes = list_of(trace.nodes, [&](const TraceNode& node) { return describe_node(trace, node); });
    size_t index = 0;
    PyRef leaves = list_of(trace.leaves, [&](const Leaf& leaf) {
        size_t same = index;
        for (size_t j = 0; j < index; ++j)
            if (trace.leaves[j].storage == leaf.storage) {
                same = j;
                break;
            }
        ++index;
        char device[16];
        return Py_BuildValue("(sNNLns)", info(leaf.dtype).hlo_name, dims_to_tuple(leaf.sizes),
                             dims_to_tuple(leaf.strides), static_cast<long long>(leaf.offset),
                             static_cast<Py_ssize_t>(same), place_of(leaf.storage->device, device));
    });
    PyRef scalars = list_of(trace.scalars, [](const ScalarInput& s) {
        return Py_BuildValue("(NO)", scalar_to_python(s.scalar), s.baked ? Py_True : Py_False);
    });
    return checked(Py_BuildValue("(OOO)", nodes.get(), leaves.get(), scalars.get()));
}

ValueRef value_from(PyObject* object) {
    const char* kind;
    unsigned index, result;
    if (!PyTuple_Check(object)) fail_type("a value of a plan must be a tuple");
    if (!PyArg_ParseTuple(object, "sII", &kind, &index, &result)) fail_python();
    ValueRef value;
    value.kind = kind[0] == 'n' && kind[2] == 'd' ? RefKind::Node
                 : kind[0] == 'l'                 ? RefKind::Leaf
                 : kind[0] == 's'                 ? RefKind::Scalar
                                                  : RefKind::None;
    value.index = index;
    value.result = static_cast<uint8_t>(result);
    return value;
}

template <class F>
void each(PyObject* sequence, F&& body) {
    PyRef fast = checked(PySequence_Fast(sequence, "plan"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) body(PySequence_Fast_GET_ITEM(fast.get(), i));
}

DType dtype_of_hlo(const char* name) {
    for (size_t i = 0; i < static_cast<size_t>(DType::Count); ++i)
        if (std::string_view(info(static_cast<DType>(i)).hlo_name) == name) return static_cast<DType>(i);
    fail_value(std::string("unknown HLO type ") + name);
}

// (name, op, file, line) of nodes, by their numbers.
PyRef launch_names(const Trace& trace, PyObject* numbers) {
    PyRef names = checked(PyList_New(0));
    each(numbers, [&](PyObject* number) {
        size_t index = PyLong_AsSize_t(number);
        check_python();
        if (index >= trace.nodes.size()) fail_value("a plan names a node that the trace does not have");
        const TraceNode& node = trace.nodes[index];
        PyRef source = checked(source_tuple(node.source));
        const bool known = source.get() != Py_None;
        PyRef name = checked(PyUnicode_FromFormat("%s_%zu", node.op->name.c_str(), index));
        PyRef item = checked(Py_BuildValue(
            "(OsOO)", name.get(), node.op->name.c_str(), known ? PyTuple_GET_ITEM(source.get(), 0) : Py_None,
            known ? PyTuple_GET_ITEM(source.get(), 1) : checked(PyLong_FromLong(0)).get()));
        if (PyList_Append(names.get(), item.get()) < 0) fail_python();
    });
    return names;
}

// ("op", node, group) or ("launch", entry, [(value, dtype)], [value], scratch bytes, work bytes, executable, name,
//  children, whether it reports errors, whether it is guarded, observer, group, program or None, card); the children
//  may be nodes' numbers
Step step_from(const Trace& trace, PyObject* object) {
    Step step;
    const char* type = PyUnicode_AsUTF8(PyTuple_GET_ITEM(object, 0));
    if (!type) fail_python();
    if (type[0] == 'o') {
        unsigned node;
        if (!PyArg_ParseTuple(object, "sIi", &type, &node, &step.group)) fail_python();
        step.node = node;
        return step;
    }
    step.type = Step::Type::Launch;
    unsigned long long entry, scratch;
    long long work;
    PyObject *inputs, *outputs, *executable, *children, *observer, *program;
    const char* name;
    int reports_errors, guarded, card;
    if (!PyArg_ParseTuple(object, "sKOOKLOsOppOiOi", &type, &entry, &inputs, &outputs, &scratch, &work, &executable,
                          &name, &children, &reports_errors, &guarded, &observer, &step.group, &program, &card))
        fail_python();
    if (program != Py_None) {
        step.program = PyRef::borrow(program);
        step.device = {DeviceType::CUDA, static_cast<int8_t>(card)};
    }
    step.entry = reinterpret_cast<EntryFn>(entry);
    each(inputs, [&](PyObject* item) {
        PyObject* value;
        const char* dtype;
        if (!PyArg_ParseTuple(item, "Os", &value, &dtype)) fail_python();
        const char* kind = PyUnicode_AsUTF8(PyTuple_GET_ITEM(value, 0));
        if (!kind) fail_python();
        InputSlot slot;
        if (kind == std::string_view("random")) {
            slot.random = true;
            slot.value = {RefKind::None, 0, static_cast<uint32_t>(PyLong_AsUnsignedLong(PyTuple_GET_ITEM(value, 1)))};
            check_python();
        } else if (kind == std::string_view("size")) {
            slot.is_size = true;
            slot.size = PyLong_AsLongLong(PyTuple_GET_ITEM(value, 1));
            check_python();
        } else {
            slot.value = value_from(value);
            slot.dtype = dtype_of_hlo(dtype);
        }
        step.inputs.push_back(slot);
    });
    each(outputs, [&](PyObject* item) { step.outputs.push_back(value_from(item)); });
    step.scratch_bytes = scratch;
    step.work_bytes = work;
    step.executable = PyRef::borrow(executable);
    step.name = name;
    step.children = PyList_Check(children) && PyList_GET_SIZE(children) && PyLong_Check(PyList_GET_ITEM(children, 0))
                        ? launch_names(trace, children)
                        : PyRef::borrow(children);
    step.reports_errors = reports_errors;
    step.guarded = guarded;
    step.observer = PyRef::borrow(observer);
    return step;
}

// Which inputs of launches on cards the host knows.
void find_host_inputs(const Trace& trace, Plan& plan) {
    for (Step& step : plan.steps) {
        if (!step.program) continue;
        for (const InputSlot& slot : step.inputs) {
            bool host = slot.random || slot.is_size || slot.value.kind == RefKind::Scalar;
            if (slot.value.kind == RefKind::Leaf) host = !on_gpu(trace.leaves[slot.value.index].storage->device);
            if (slot.value.kind == RefKind::Node) host = !on_gpu(trace.nodes[slot.value.index].device);
            step.from_host.push_back(host);
        }
    }
}

void count_last_uses(const Trace& trace, Plan& plan) {
    plan.last_use.assign(trace.results.size(), -1);
    auto use = [&](ValueRef value, size_t s) {
        if (value.kind == RefKind::Node)
            plan.last_use[trace.nodes[value.index].first_result + value.result] = static_cast<int32_t>(s);
    };
    for (size_t s = 0; s < plan.steps.size(); ++s) {
        const Step& step = plan.steps[s];
        if (step.type == Step::Type::Launch) {
            for (const InputSlot& slot : step.inputs) use(slot.value, s);
        } else {
            const TraceNode& node = trace.nodes[step.node];
            for (uint32_t i = 0; i < node.operand_count; ++i) use(trace.operands[node.first_operand + i], s);
        }
    }
    for (ValueRef value : plan.deferred) plan.last_use[trace.nodes[value.index].first_result + value.result] = -1;
}

std::shared_ptr<Plan> compile_with(Trace& trace, PyObject* policy) {
    PyRef returned, compiler = PyRef::borrow(g_compile);
    if (policy == Py_None) {
        // Without its last two words, which are for this process only: the options' number and the owner.
        PyRef signature = checked(
            PyBytes_FromStringAndSize(reinterpret_cast<const char*>(trace.signature.data()),
                                      static_cast<Py_ssize_t>((trace.signature.size() - 2) * sizeof(uint64_t))));
        PyRef recall = PyRef::borrow(g_recall);
        returned = checked(PyObject_CallOneArg(recall.get(), signature.get()));
        if (returned.get() == Py_None) {
            PyRef description = describe(trace);
            PyRef keywords = checked(Py_BuildValue("{sO}", "signature", signature.get()));
            returned = checked(PyObject_Call(compiler.get(), description.get(), keywords.get()));
        }
    } else {
        // A plan that follows another is made of what the policy knows.
        PyRef description = checked(Py_BuildValue("(OOO)", Py_None, Py_None, Py_None));
        PyRef keywords = checked(Py_BuildValue("{sO}", "policy", policy));
        returned = checked(PyObject_Call(compiler.get(), description.get(), keywords.get()));
    }
    auto plan = std::make_shared<Plan>();
    PyObject *steps, *deferred, *checks, *record, *next, *counters, *held;
    long long revisit;
    int measured;
    if (!PyArg_ParseTuple(returned.get(), "OOOOOLiOO", &steps, &deferred, &checks, &record, &next, &revisit, &measured,
                          &counters, &held))
        fail_python();
    each(counters, [&](PyObject* item) {
        plan->counters.push_back(static_cast<int64_t*>(PyLong_AsVoidPtr(item)));
        check_python();
    });
    plan->held = PyRef::borrow(held);
    plan->record = PyRef::borrow(record);
    plan->policy = PyRef::borrow(next);
    if (next != Py_None && revisit >= 0) plan->revisit = static_cast<uint64_t>(revisit);
    plan->fastest.assign(static_cast<size_t>(measured), INT64_MAX);
    each(steps, [&](PyObject* item) { plan->steps.push_back(step_from(trace, item)); });
    each(deferred, [&](PyObject* item) { plan->deferred.push_back(value_from(item)); });
    each(checks, [&](PyObject* item) {
        BoundsCheck check;
        long long low, high;
        if (!PyArg_ParseTuple(item, "ILLI", &check.leaf, &low, &high, &check.node)) fail_python();
        check.low = low;
        check.high = high;
        plan->checks.push_back(check);
    });
    count_last_uses(trace, *plan);
    find_host_inputs(trace, *plan);
    return plan;
}

std::shared_ptr<Plan> compile(Trace& trace) { return compile_with(trace, Py_None); }

// policy.ask(nanoseconds of each cluster or None) -> after how many more runs to ask again, or None for another plan.
std::shared_ptr<Plan> revise(Trace& trace, Plan& plan) {
    PyRef times = list_of(plan.fastest, [](int64_t t) {
        return t == INT64_MAX ? Py_NewRef(Py_None) : PyLong_FromLongLong(static_cast<long long>(t));
    });
    PyRef policy = PyRef::borrow(plan.policy.get());
    PyRef answer = checked(PyObject_CallMethod(policy.get(), "ask", "O", times.get()));
    if (answer.get() == Py_None) return compile_with(trace, policy.get());
    plan.revisit = plan.replays + PyLong_AsUnsignedLongLong(answer.get());
    check_python();
    return nullptr;
}

void on_refuse(const char* op, const char* reason) {
    PyRef refuse = PyRef::borrow(g_refuse);
    PyRef done(PyObject_CallFunction(refuse.get(), "ss", op, reason));
    fail_python();
}

void on_eager(const char* op) {
    SourceRef source;
    capture_source(&source);
    PyRef where(source_tuple(source));
    Py_XDECREF(source.code);
    PyRef hook = PyRef::borrow(g_eager);
    if (!hook) return;  // taken away by a finalizer just now
    PyRef done(PyObject_CallFunction(hook.get(), "sO", op, where.get()));
    if (!done) fail_python();
}

void on_flush(const Trace& trace, const Plan& plan, const char* reason, bool hit) {
    SourceRef source;
    capture_source(&source);
    PyRef where(source_tuple(source));
    Py_XDECREF(source.code);
    PyRef copies = list_of(trace.snapshots(), [](const Trace::Snapshot& one) {
        return Py_BuildValue("(nN)", static_cast<Py_ssize_t>(one.copy->nbytes), source_tuple(one.place));
    });
    PyRef hook = PyRef::borrow(g_flush);
    if (!hook) return;
    PyRef done(PyObject_CallFunction(hook.get(), "sOOnOO", reason, where.get(), hit ? Py_True : Py_False,
                                     static_cast<Py_ssize_t>(trace.nodes.size()),
                                     plan.record ? plan.record.get() : Py_None, copies.get()));
    if (!done) fail_python();
}

PyObject* py_begin_recording(PyObject*, PyObject*) {
    begin_recording();
    Py_RETURN_NONE;
}
PyObject* py_end_recording(PyObject*, PyObject* reason) {
    return guarded([&]() -> PyObject* {
        const char* text = PyUnicode_AsUTF8(reason);
        if (!text) fail_python();
        end_recording(text);
        Py_RETURN_NONE;
    });
}
PyObject* py_flush(PyObject*, PyObject* reason) {
    return guarded([&]() -> PyObject* {
        const char* text = PyUnicode_AsUTF8(reason);
        if (!text) fail_python();
        flush(text);
        Py_RETURN_NONE;
    });
}
PyObject* py_is_recording(PyObject*, PyObject*) { return PyBool_FromLong(recording()); }

// swap_tag((compile, must, scope)) -> the previous one
PyObject* py_swap_tag(PyObject*, PyObject* tag) {
    int compile, must, scope;
    if (!PyTuple_Check(tag)) {
        PyErr_SetString(PyExc_TypeError, "swap_tag takes a tuple");
        return nullptr;
    }
    if (!PyArg_ParseTuple(tag, "iii:swap_tag", &compile, &must, &scope)) return nullptr;
    Tag previous = current_tag;
    set_tag({static_cast<int8_t>(compile), must != 0, scope});
    return Py_BuildValue("(iii)", static_cast<int>(previous.compile), static_cast<int>(previous.must),
                         static_cast<int>(previous.scope));
}

PyObject* py_swap_options_id(PyObject*, PyObject* id) {
    uint64_t previous = options_id(), next = PyLong_AsUnsignedLongLongMask(id);
    if (PyErr_Occurred()) return nullptr;
    set_options_id(next);
    return PyLong_FromUnsignedLongLong(previous);
}

PyObject* py_set_compile_hook(PyObject*, PyObject* args) {
    PyObject *compiler, *recall;
    if (!PyArg_ParseTuple(args, "OO:set_compile_hook", &compiler, &recall)) return nullptr;
    Py_XSETREF(g_compile, Py_NewRef(compiler));
    Py_XSETREF(g_recall, Py_NewRef(recall));
    compile_hook = compile;
    revise_hook = revise;
    Py_RETURN_NONE;
}

PyObject* py_set_flush_hook(PyObject*, PyObject* callable) {
    Py_XSETREF(g_flush, callable == Py_None ? nullptr : Py_NewRef(callable));
    flush_hook = g_flush ? on_flush : nullptr;
    Py_RETURN_NONE;
}

PyObject* py_set_eager_hook(PyObject*, PyObject* callable) {
    Py_XSETREF(g_eager, callable == Py_None ? nullptr : Py_NewRef(callable));
    eager_hook = g_eager ? on_eager : nullptr;
    Py_RETURN_NONE;
}

PyObject* py_set_refuse_hook(PyObject*, PyObject* callable) {
    Py_XSETREF(g_refuse, Py_NewRef(callable));
    refuse_hook = on_refuse;
    Py_RETURN_NONE;
}

// The number of the next scope in what is being recorded; scopes of a program get the same numbers in every run of it.
PyObject* py_next_scope(PyObject*, PyObject*) { return PyLong_FromLong(current ? ++current->scopes : 1); }

PyObject* py_plan_cache_info(PyObject*, PyObject*) {
    PlanCacheInfo i = plan_cache_info();
    return Py_BuildValue("{sKsKsKsKsKsK}", "hits", static_cast<unsigned long long>(i.hits), "misses",
                         static_cast<unsigned long long>(i.misses), "size", static_cast<unsigned long long>(i.size),
                         "bytes", static_cast<unsigned long long>(i.bytes), "limit",
                         static_cast<unsigned long long>(i.limit), "evicted",
                         static_cast<unsigned long long>(i.evicted));
}
PyObject* py_set_plan_cache_limit(PyObject*, PyObject* bytes) {
    return guarded([&]() -> PyObject* {
        unsigned long long limit = PyLong_AsUnsignedLongLong(bytes);
        check_python();
        set_plan_cache_limit(limit);
        Py_RETURN_NONE;
    });
}
// (nodes, leaves, scalars) of what this thread has recorded so far.
PyObject* py_describe_recording(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        if (!current) fail("describe_recording: nothing is being recorded");
        current->drop_unreachable();
        return describe(*current).release();
    });
}

PyObject* py_clear_plan_cache(PyObject*, PyObject*) {
    clear_plan_cache();
    Py_RETURN_NONE;
}
constexpr const char* kObjectCode = "minitensor.ObjectCode";

void free_object_code(PyObject* capsule) {
    delete static_cast<ObjectCode*>(PyCapsule_GetPointer(capsule, kObjectCode));
}

PyObject* py_load_object_code(PyObject*, PyObject* args) {
    const char* symbol;
    PyObject *bytes, *imports;
    if (!PyArg_ParseTuple(args, "SsO!", &bytes, &symbol, &PyDict_Type, &imports)) return nullptr;
    return guarded([&]() -> PyObject* {
        std::unordered_map<std::string, uint64_t> known;
        PyObject *name, *address;
        for (Py_ssize_t at = 0; PyDict_Next(imports, &at, &name, &address);) {
            const char* text = PyUnicode_AsUTF8(name);
            if (!text) fail_python();
            known[text] = PyLong_AsUnsignedLongLong(address);
            check_python();
        }
        auto code = std::make_unique<ObjectCode>(
            std::string_view(PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))), known);
        uint64_t entry = code->address(symbol);
        if (!entry) fail(std::string("object code: it has no ") + symbol);
        PyRef capsule = checked(PyCapsule_New(code.get(), kObjectCode, free_object_code));
        code.release();
        return Py_BuildValue("KO", static_cast<unsigned long long>(entry), capsule.get());
    });
}

PyObject* py_runtime_address(PyObject*, PyObject*) { return PyLong_FromVoidPtr(const_cast<MtRuntime*>(mt_runtime())); }
PyObject* py_elementwise_loop(PyObject*, PyObject* args) {
    const char *name, *dtype;
    if (!PyArg_ParseTuple(args, "ss", &name, &dtype)) return nullptr;
    const cpu::NamedLoop* named = cpu::find_loop(name);
    if (!named) Py_RETURN_NONE;
    for (size_t i = 0; i < static_cast<size_t>(DType::Count); ++i) {
        if (std::string_view(info(static_cast<DType>(i)).hlo_name) != dtype) continue;
        cpu::Loop loop = named->find(static_cast<DType>(i));
        if (!loop.function) break;
        return Py_BuildValue("NIs", PyLong_FromVoidPtr(const_cast<void*>(loop.function)), named->inputs,
                             info(loop.result).hlo_name);
    }
    Py_RETURN_NONE;
}
PyObject* py_has_native_kernel(PyObject*, PyObject* name) {
    const char* text = PyUnicode_AsUTF8(name);
    if (!text) return nullptr;
    const OpDef* op = find_op(text);
    return PyBool_FromLong(op && op->cpu && op->infer && op->kind != Kind::View);
}
PyObject* py_raise_runtime_error(PyObject*, PyObject*) {
    return guarded([]() -> PyObject* {
        rethrow_runtime_error();
        Py_RETURN_NONE;
    });
}
PyObject* py_set_internal_prefixes(PyObject*, PyObject* list) {
    return guarded([&]() -> PyObject* {
        std::vector<std::string> prefixes;
        each(list, [&](PyObject* item) {
            const char* text = PyUnicode_AsUTF8(item);
            if (!text) fail_python();
            prefixes.emplace_back(text);
        });
        set_internal_prefixes(std::move(prefixes));
        Py_RETURN_NONE;
    });
}
PyObject* py_caller(PyObject*, PyObject*) {
    SourceRef source;
    capture_source(&source);
    PyObject* result = source_tuple(source);
    Py_XDECREF(source.code);
    return result;
}

// Profiles --------------------------------------------------------------------------------------------------------

struct Event {
    std::string name, op;
    int64_t start, end;
    unsigned long thread;
    SourceRef source;
    PyObject* children;
    std::vector<std::string> inputs;
    int64_t bytes;
};
std::vector<Event>* g_events = nullptr;

// A finalizer may have ended the profile since the kernel began.
void note(Event event) {
    if (g_events) {
        g_events->push_back(std::move(event));
    } else {
        Py_XDECREF(event.source.code);
        Py_XDECREF(event.children);
    }
}

std::string meta_text(const Tensor& t) {
    std::string text = std::string(info(t.dtype).hlo_name) + to_string(t.sizes);
    return text;
}

void on_kernel(const OpDef* op, const Call& call, int64_t start, int64_t end) {
    Event event{op->name, op->name, start, end, PyThread_get_thread_ident(), {}, nullptr, {}, 0};
    capture_source(&event.source);
    for (size_t i = 0; i < call.operand_count; ++i)
        if (const Tensor* t = call.operands[i].tensor) {
            event.inputs.push_back(meta_text(*t));
            event.bytes += t->numel * static_cast<int64_t>(itemsize(t->dtype));
        }
    for (size_t i = 0; i < call.result_count; ++i)
        if (const Tensor* t = call.outputs[i]) event.bytes += t->numel * static_cast<int64_t>(itemsize(t->dtype));
    note(std::move(event));
}

void on_launch(const Step& step, int64_t start, int64_t end) {
    Event event{step.name, "_JitLaunch",   start, end, PyThread_get_thread_ident(), {}, Py_XNewRef(step.children.get()),
                {},        step.work_bytes};
    capture_source(&event.source);
    note(std::move(event));
}

void on_copy(Device from, Device to, int64_t bytes, int64_t start, int64_t end) {
    auto name = [](Device device) {
        std::string text = device_text(device);
        return device.index < 0 ? text + ":0" : text;
    };
    Event event{"copy " + name(from) + " to " + name(to),
                "_Copy",
                start,
                end,
                PyThread_get_thread_ident(),
                {},
                nullptr,
                {},
                bytes};
    capture_source(&event.source);
    note(std::move(event));
}

PyObject* py_start_profile(PyObject*, PyObject*) {
    if (g_events) {
        PyErr_SetString(PyExc_RuntimeError, "a profile is being taken already");
        return nullptr;
    }
    g_events = new std::vector<Event>;
    profile_hook = on_kernel;
    launch_profile_hook = on_launch;
    copy_profile_hook = on_copy;
    Py_RETURN_NONE;
}

// [(name, op, start_ns, end_ns, thread, file, line, children, inputs, bytes)]
PyObject* py_stop_profile(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        if (!g_events) fail("no profile is being taken");
        profile_hook = nullptr;
        launch_profile_hook = nullptr;
        copy_profile_hook = nullptr;
        std::vector<Event> events = std::move(*g_events);
        delete std::exchange(g_events, nullptr);
        PyRef list = list_of(events, [](const Event& e) {
            PyRef inputs = list_of(e.inputs,
                                   [](const std::string& text) { return PyUnicode_FromString(text.c_str()); });
            PyRef where(source_tuple(e.source));
            bool known = where.get() != Py_None;
            return Py_BuildValue("(ssLLkOOOOL)", e.name.c_str(), e.op.c_str(), static_cast<long long>(e.start),
                                 static_cast<long long>(e.end), e.thread,
                                 known ? PyTuple_GET_ITEM(where.get(), 0) : Py_None,
                                 known ? PyTuple_GET_ITEM(where.get(), 1) : Py_None, e.children ? e.children : Py_None,
                                 inputs.get(), static_cast<long long>(e.bytes));
        });
        for (Event& e : events) {
            Py_XDECREF(e.source.code);
            Py_XDECREF(e.children);
        }
        return list.release();
    });
}

// In a forked child: the other threads, and what they were running, are gone.
PyObject* py_after_fork(PyObject*, PyObject*) {
    trace::abandon_other_threads();
    Py_RETURN_NONE;
}

// Process-wide state ----------------------------------------------------------------------------------------------

PyObject* py_allocator_stats(PyObject*, PyObject*) {
    AllocatorStats s = allocator_stats();
    return Py_BuildValue("{sLsLsLsLsL}", "allocated_bytes", static_cast<long long>(s.allocated_bytes),
                         "peak_allocated_bytes", static_cast<long long>(s.peak_allocated_bytes), "reserved_bytes",
                         static_cast<long long>(s.reserved_bytes), "allocations", static_cast<long long>(s.allocations),
                         "cache_hits", static_cast<long long>(s.cache_hits));
}
PyObject* py_rounded_size(PyObject*, PyObject* nbytes) {
    size_t size = PyLong_AsSize_t(nbytes);
    if (PyErr_Occurred()) return nullptr;
    return PyLong_FromSize_t(rounded_size(size));
}
PyObject* py_empty_cache(PyObject*, PyObject*) {
    empty_cache();
    Py_RETURN_NONE;
}
PyObject* py_reset_peak(PyObject*, PyObject*) {
    reset_peak_stats();
    Py_RETURN_NONE;
}
PyObject* py_num_threads(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* { return PyLong_FromLong(num_threads()); });
}
PyObject* py_set_num_threads(PyObject*, PyObject* count) {
    return guarded([&]() -> PyObject* {
        if (!PyLong_Check(count))
            fail_type(std::string("set_num_threads expects an int, but got ") + Py_TYPE(count)->tp_name);
        long n = PyLong_AsLong(count);
        if (n == -1) check_python();
        if (n < 1 || n > 4096)
            fail("set_num_threads expects a positive integer (at most 4096), got " + std::to_string(n));
        set_num_threads(static_cast<int>(n));
        Py_RETURN_NONE;
    });
}
PyObject* py_default_dtype(PyObject*, PyObject*) { return dtype_object(default_dtype()); }
PyObject* py_set_default_dtype(PyObject*, PyObject* dtype) {
    return guarded([&]() -> PyObject* {
        DType value = dtype_from(dtype);
        if (!is_floating(value)) fail_type("only floating-point types are supported as the default type");
        set_default_dtype(value);
        Py_RETURN_NONE;
    });
}

PyMethodDef functions[] = {
    {"begin_recording", py_begin_recording, METH_NOARGS, "Ops are recorded from here on; nests."},
    {"end_recording", py_end_recording, METH_O,
     "Ends what begin_recording began; the outermost end runs the recording."},
    {"flush", py_flush, METH_O, "flush(reason): runs what is recorded."},
    {"is_recording", py_is_recording, METH_NOARGS, "Whether ops are being recorded."},
    {"swap_tag", py_swap_tag, METH_O,
     "swap_tag((compile, must, scope)): the tag of ops recorded from here on; returns the previous one."},
    {"swap_options_id", py_swap_options_id, METH_O,
     "swap_options_id(id): the options in force, part of every signature; returns the previous one."},
    {"set_compile_hook", py_set_compile_hook, METH_VARARGS,
     "set_compile_hook(f, recall): f(nodes, leaves, scalars, policy=None, signature=b'') -> (steps, deferred, checks, "
     "record, policy, revisit, measured, counters, held); recall(signature) -> the same or None."},
    {"set_flush_hook", py_set_flush_hook, METH_O,
     "set_flush_hook(f | None): f(reason, source, hit, ops, record, copies)."},
    {"set_eager_hook", py_set_eager_hook, METH_O,
     "set_eager_hook(f | None): f(op, source) for what ran eagerly since it can't be recorded."},
    {"set_refuse_hook", py_set_refuse_hook, METH_O,
     "set_refuse_hook(f): f(op, reason) raises for what must be compiled and can't."},
    {"next_scope", py_next_scope, METH_NOARGS, "The number of the next scope in what is being recorded."},
    {"plan_cache_info", py_plan_cache_info, METH_NOARGS, "Hits, misses and size of the cache of launch plans."},
    {"clear_plan_cache", py_clear_plan_cache, METH_NOARGS, "Forgets all launch plans."},
    {"load_object_code", py_load_object_code, METH_VARARGS,
     "The address of a symbol of an object that was loaded, and what keeps the object in memory."},
    {"set_plan_cache_limit", py_set_plan_cache_limit, METH_O,
     "set_plan_cache_limit(bytes): how much memory launch plans may take."},
    {"describe_recording", py_describe_recording, METH_NOARGS,
     "(nodes, leaves, scalars) of what this thread has recorded so far."},
    {"runtime_address", py_runtime_address, METH_NOARGS, "The address of the table that compiled code calls."},
    {"elementwise_loop", py_elementwise_loop, METH_VARARGS,
     "elementwise_loop(name, dtype): address, number of inputs and result type of an eager inner loop, or None."},
    {"has_native_kernel", py_has_native_kernel, METH_O,
     "has_native_kernel(op): whether compiled code can call the kernel of the op with that name."},
    {"set_host_call", py_set_host_call, METH_O,
     "set_host_call(callable): what computes an instruction for compiled code, from its text and an address."},
    {"raise_runtime_error", py_raise_runtime_error, METH_NOARGS,
     "Raises what the runtime's table caught, if anything."},
    {"set_internal_prefixes", py_set_internal_prefixes, METH_O, "Folders whose frames are not the user's."},
    {"caller", py_caller, METH_NOARGS, "(file, line, function) of the innermost frame that is the user's."},
    {"start_profile", py_start_profile, METH_NOARGS, "Starts to note every kernel and launch."},
    {"stop_profile", py_stop_profile, METH_NOARGS, "The events since start_profile."},
    {"allocator_stats", py_allocator_stats, METH_NOARGS, "Statistics of the host allocator, in bytes and counts."},
    {"rounded_size", py_rounded_size, METH_O, "rounded_size(nbytes): bytes that the allocator takes for a request."},
    {"empty_cache", py_empty_cache, METH_NOARGS, "empty_cache()\n--\n\nGives cached free memory back to the system."},
    {"reset_peak_memory_stats", py_reset_peak, METH_NOARGS,
     "reset_peak_memory_stats()\n--\n\nStarts the peak anew from what is in use."},
    {"get_num_threads", py_num_threads, METH_NOARGS,
     "get_num_threads()\n--\n\nThe number of threads that kernels use."},
    {"set_num_threads", py_set_num_threads, METH_O,
     "set_num_threads(n, /)\n--\n\nSets the number of threads that kernels use. Results do not depend on it."},
    {"get_default_dtype", py_default_dtype, METH_NOARGS,
     "get_default_dtype()\n--\n\nThe dtype of new floating-point tensors."},
    {"set_default_dtype", py_set_default_dtype, METH_O,
     "set_default_dtype(dtype, /)\n--\n\nSets the dtype of new floating-point tensors."},
    {}};

}  // namespace

bool init_trace(PyObject* module) {
    trace::install();
    static PyMethodDef after_fork = {"_after_fork", py_after_fork, METH_NOARGS, nullptr};
    PyRef os(PyImport_ImportModule("os")), function(PyCFunction_New(&after_fork, nullptr)), none(PyTuple_New(0));
    PyRef enroll(os ? PyObject_GetAttrString(os.get(), "register_at_fork") : nullptr);
    PyRef keywords(function ? Py_BuildValue("{sO}", "after_in_child", function.get()) : nullptr);
    PyRef enrolled(enroll && keywords && none ? PyObject_Call(enroll.get(), none.get(), keywords.get()) : nullptr);
    return enrolled && PyModule_AddFunctions(module, functions) == 0;
}

}  // namespace mt::py
