// Running a plan: its launches and ops in order, with memory for what they make.
#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/process/faults.h"
#include "core/process/interrupt.h"
#include "dispatch/gpu.h"
#include "runtime/errors.h"
#include "trace/plan/launch_scratch.h"
#include "trace/plan/stopped.h"
#include "trace/policy/rental.h"

namespace mt::trace {

void (*launch_profile_callback)(const Trace&, const Step&, int64_t, int64_t) = nullptr;

namespace {

constexpr int64_t kReleaseGilBytes = 1 << 18;

class OverrideSource {
  public:
    explicit OverrideSource(const SourceRef& source) : previous_(source_override) { source_override = &source; }
    ~OverrideSource() { source_override = previous_; }

  private:
    const SourceRef* previous_;
};

void run_op(Trace& trace, const TraceNode& node, uint32_t index, Buffers& buffers) {
    OverrideSource source(node.source);
    if (on_gpu(node.device)) return run_on_host(trace, node, index, buffers);
    std::vector<Operand> operands(node.operand_count);
    Call call = call_of(trace, node, operands);
    std::vector<Ref<Tensor>> held;
    for (uint32_t i = 0; i < node.operand_count; ++i) {
        ValueRef value = trace.operands[node.first_operand + i];
        if (value.kind == RefKind::Scalar || value.kind == RefKind::None) continue;
        held.push_back(buffers.tensor_over(value));
        operands[i].tensor = held.back().get();
    }
    infer(call);
    for (uint32_t r = 0; r < node.result_count; ++r) {
        const ResultInfo& recorded = trace.results[node.first_result + r];
        if (call.results[r].dtype != recorded.dtype || !(call.results[r].sizes == recorded.sizes))
            fail("the results of '" + node.op->name + "' are others than when it was recorded");
        ValueRef value{RefKind::Node, static_cast<uint8_t>(r), index};
        buffers.output(value);
        held.push_back(buffers.tensor_over(value));
        call.outputs[r] = held.back().get();
    }
    call.result_count = node.result_count;
    run_kernel(call);
}

}  // namespace

Call call_of(Trace& trace, const TraceNode& node, std::vector<Operand>& operands) {
    for (uint32_t i = 0; i < node.operand_count; ++i) {
        ValueRef value = trace.operands[node.first_operand + i];
        operands[i].is_scalar = value.kind == RefKind::Scalar;
        if (operands[i].is_scalar) operands[i].scalar = trace.scalars[value.index].scalar;
    }
    Call call(node.ambient);
    call.op = node.op;
    call.operands = operands.data();
    call.operand_count = operands.size();
    call.params = trace.params.data() + node.first_param;
    call.param_count = node.param_count;
    call.seed = node.seed;
    call.philox_offset = node.philox_offset;
    return call;
}

void store_input(const Trace& trace, const InputSlot& slot, uint64_t* words) {
    if (slot.is_size) {
        words[0] = static_cast<uint64_t>(slot.size);
    } else if (slot.random) {
        words[0] = trace.nodes[slot.value.index].seed;
        words[1] = trace.nodes[slot.value.index].philox_offset;
    } else {
        store_scalar(trace.scalars[slot.value.index].scalar, slot.dtype, words);
    }
}

void observe(const Step& step, bool ran, void* const* pointers, size_t count) {
    PyRef addresses(PyTuple_New(static_cast<Py_ssize_t>(count)));
    if (!addresses) fail_python();
    for (size_t i = 0; i < count; ++i) {
        PyObject* address = PyLong_FromVoidPtr(pointers[i]);
        if (!address) fail_python();
        PyTuple_SET_ITEM(addresses.get(), static_cast<Py_ssize_t>(i), address);
    }
    PyRef ignored(
        PyObject_CallFunctionObjArgs(step.observer.get(), ran ? Py_True : Py_False, addresses.get(), nullptr));
    if (!ignored) fail_python();
}

namespace {

// False if an op inside a guarded launch failed.
bool run_launch(Trace& trace, const Step& step, Progress& run) {
    fault_point(FaultPlace::Launch);
    Buffers& buffers = *run.buffers;
    if (step.program) {
        run.entered = true;
        return run_on_gpu(trace, step, buffers);
    }
    SmallVector<void*, 32> pointers;
    SmallVector<uint64_t, 32> scalar_words;
    scalar_words.resize(2 * step.inputs.size());
    for (size_t i = 0; i < step.inputs.size(); ++i) {
        const InputSlot& slot = step.inputs[i];
        if (slot.random || slot.is_size || slot.value.kind == RefKind::Scalar) {
            store_input(trace, slot, &scalar_words[2 * i]);
            pointers.push_back(&scalar_words[2 * i]);
        } else {
            pointers.push_back(buffers.input(slot.value).data);
        }
    }
    for (ValueRef value : step.outputs) pointers.push_back(buffers.output(value).data);
    uint8_t failed = 0;
    if (step.reports_errors) pointers.push_back(&failed);
    LaunchScratch scratch(step.scratch_bytes);
    pointers.push_back(scratch.data());
    const bool observed = step.observer.get() != Py_None;
    const size_t arrays = step.inputs.size() + step.outputs.size();
    if (observed) observe(step, false, pointers.data(), arrays);
    int64_t start = launch_profile_callback ? now_ns() : 0;
    int32_t status;
    forget_runtime_error();
    run.entered = true;
    {
        MaybeReleaseGil gil(step.work_bytes >= kReleaseGilBytes);
        status = step.entry(pointers.data(), mt_runtime());
    }
    // What Python raised, Ctrl-C's handler say, ends the step whether or not another run of it would succeed.
    if (step.guarded && (failed || t_runtime_error) && !PyErr_Occurred()) {
        forget_runtime_error();
        return false;
    }
    rethrow_runtime_error();
    if (launch_profile_callback) launch_profile_callback(trace, step, start, now_ns());
    if (status != 0) fail("the compiled cluster " + step.name + " failed with status " + std::to_string(status));
    run.left = true;
    if (observed) observe(step, true, pointers.data(), arrays);
    return true;
}

// Whether `fits` holds for all elements of an input.
template <class T, class F> bool all_fit(const TraceInput& input, F&& fits) {
    const T* data = static_cast<const T*>(input.storage->data) + input.offset;
    int64_t count = product(input.sizes);
    if (input.strides == contiguous_strides(input.sizes))
        return std::all_of(data, data + count, [&](T value) { return fits(static_cast<int64_t>(value)); });
    std::vector<int64_t> at(input.sizes.size(), 0);
    for (int64_t i = 0; i < count; ++i) {
        int64_t position = 0;
        for (size_t d = 0; d < at.size(); ++d) position += at[d] * input.strides[d];
        if (!fits(static_cast<int64_t>(data[position]))) return false;
        for (size_t d = at.size(); d-- > 0;) {
            if (++at[d] < input.sizes[d]) break;
            at[d] = 0;
        }
    }
    return true;
}

// An input with its elements where the host can read them.
TraceInput on_host(const TraceInput& input) {
    if (!on_gpu(input.storage->device)) return input;
    Ref<Tensor> there = Tensor::make(Storage::alias(*input.storage), input.dtype, input.sizes, input.strides,
                                     input.offset);
    Ref<Tensor> here = copy_across(*there, Device{});
    return {here->storage, 0, here->sizes, here->strides, here->dtype};
}

// Whether all indices that compiled code will use unchecked are within their bounds.
bool within_bounds(const Trace& trace, const BoundsCheck& check) {
    const TraceInput input = on_host(trace.inputs[check.input]);
    if (check.low >= check.high && check.ignored == check.low) return product(input.sizes) == 0;
    auto fits = [&](int64_t value) { return (value >= check.low && value < check.high) || value == check.ignored; };
    switch (input.dtype) {
        case DType::I64: return all_fit<int64_t>(input, fits);
        case DType::I32: return all_fit<int32_t>(input, fits);
        case DType::I16: return all_fit<int16_t>(input, fits);
        case DType::I8: return all_fit<int8_t>(input, fits);
        case DType::U8: return all_fit<uint8_t>(input, fits);
        default: return false;
    }
}

void add_source_note(const SourceRef& source, const OpDef& op) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (source.code) {
        auto* code = reinterpret_cast<PyCodeObject*>(source.code);
        int line = PyCode_Addr2Line(code, source.lasti);
        PyRef note(PyUnicode_FromFormat("recorded as '%s' at %U:%d", op.name.c_str(), code->co_filename, line));
        if (note && value) {
            PyRef ignored(PyObject_CallMethod(value, "add_note", "O", note.get()));
            if (!ignored) PyErr_Clear();
        }
    }
    PyErr_Restore(type, value, traceback);
}

// Runs body for a node; the exception is raised at the flush, and a note says where the failing op was called.
template <class F>
void located(const Trace& trace, uint32_t node, F&& body) {
    try {
        body();
    } catch (const Error& error) {
        if (error.kind() != ErrorKind::Python) set_python_error_callback(error);
        add_source_note(trace.nodes[node].source, *trace.nodes[node].op);
        fail_python();
    }
}

void write_deferred(Trace& trace, const Plan& plan, Buffers& buffers) {
    for (ValueRef value : plan.deferred) {
        Storage* storage = trace.results[buffers.flat(value)].storage;
        if (!storage) continue;
        storage->ensure_memory();
        copy_bytes(storage->place(), buffers.input(value), buffers.bytes(buffers.flat(value)));
    }
}

}  // namespace

bool writes_in_place(const Trace& trace, const Step& step, const Buffers& buffers) {
    auto in_place = [&](ValueRef value) { return buffers.in_place(value); };
    if (step.type == Step::Type::Launch) return std::any_of(step.outputs.begin(), step.outputs.end(), in_place);
    for (uint32_t r = 0; r < trace.nodes[step.node].result_count; ++r)
        if (in_place({RefKind::Node, static_cast<uint8_t>(r), step.node})) return true;
    return false;
}

void run_node(Trace& trace, uint32_t node, Buffers& buffers) {
    located(trace, node, [&] { run_op(trace, trace.nodes[node], node, buffers); });
}

bool run_step(Trace& trace, const Step& step, Progress& run) {
    run.entered = run.left = false;
    // What is half written over could be neither computed nor left as it was.
    HandlersWait wait(writes_in_place(trace, step, *run.buffers));
    if (step.type == Step::Type::Launch) return run_launch(trace, step, run);
    run_node(trace, step.node, *run.buffers);
    return true;
}

void replay(Trace& trace, Plan& plan, Progress& run) {
    if (!run.buffers) {
        std::vector<uint32_t> refused;
        for (const BoundsCheck& check : plan.checks)
            if (!within_bounds(trace, check)) refused.push_back(check.input);
        if (++plan.replays == 2 && plan.structure) note_reuse(plan.structure);
        run.buffers.emplace(trace, plan);
        run.spent.assign(plan.fastest.size(), 0);
        if (!refused.empty()) return finish_run(trace, plan, run, std::nullopt, refused);
    }
    Buffers& buffers = *run.buffers;
    for (; run.step < plan.steps.size(); ++run.step) {
        const Step& step = plan.steps[run.step];
        const bool timed = (step.group >= 0 && !run.spent.empty()) || plan.op_by_op;
        const int64_t started = timed ? policy_clock() : 0;
        bool ran = false;
        try {
            ran = run_step(trace, step, run);
        } catch (const std::exception&) {
            Failure failure = Failure::current();
            if (failure.from_outside()) failure.raise();
            return finish_run(trace, plan, run, std::move(failure), {});
        }
        if (!ran) return finish_run(trace, plan, run, Failure(), {});
        if (plan.op_by_op) plan.ops_ns += policy_clock() - started;
        else if (timed) run.spent[static_cast<size_t>(step.group)] += policy_clock() - started;
        auto done = [&](ValueRef value) {
            if (value.kind == RefKind::Node && plan.last_use[buffers.flat(value)] == static_cast<int32_t>(run.step))
                buffers.free(buffers.flat(value));
        };
        if (step.type == Step::Type::Launch) {
            for (const InputSlot& slot : step.inputs) done(slot.value);
        } else {
            const TraceNode& node = trace.nodes[step.node];
            for (uint32_t i = 0; i < node.operand_count; ++i) done(trace.operands[node.first_operand + i]);
        }
    }
    write_deferred(trace, plan, buffers);
    // The contest may have ended while the run was put aside.
    for (size_t g = 0; g < std::min(run.spent.size(), plan.fastest.size()); ++g)
        plan.fastest[g] = std::min(plan.fastest[g], run.spent[g]);
}

void replay(Trace& trace, Plan& plan) {
    Progress run;
    replay(trace, plan, run);
}

}  // namespace mt::trace
