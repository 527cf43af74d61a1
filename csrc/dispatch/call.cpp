// Calls of ops: inference, the interpreter, the tape.
#include "dispatch/call.h"

#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "core/error.h"
#include "core/hash.h"
#include "dispatch/call_steps.h"
#include "dispatch/float8_calls.h"
#include "dispatch/generator.h"
#include "dispatch/gpu.h"
#include "dispatch/memory/memory_order.h"
#include "dispatch/memory/overlap.h"
#include "dispatch/out.h"
#include "dispatch/thread_local_state.h"

namespace mt {

MT_THREAD_LOCAL Interpreter* current_interpreter = nullptr;
MT_THREAD_LOCAL ThreadSettings thread_settings;
std::atomic<Ambient> process_ambient{};
MT_THREAD_LOCAL Ambient* pinned_ambient = nullptr;

void set_ambient(Ambient ambient) {
    if (pinned_ambient) *pinned_ambient = ambient;
    else process_ambient.store(ambient, std::memory_order_relaxed);
}

std::atomic<bool> float8_was_named = false;
MT_THREAD_LOCAL FunctionLog* function_log = nullptr;
MT_THREAD_LOCAL int vmap_depth = 0;
bool (*is_mapped_callback)(const Call&, const Tensor*) = nullptr;
void (*run_mapped_callback)(Call&, Ref<Tensor>*, Tensor*) = nullptr;
void (*refuse_escaped_callback)(const Call&, const Tensor*) = nullptr;
MT_THREAD_LOCAL bool MaybeReleaseGil::gil_held = false;
void (*tape_callback)(Call&, Ref<Tensor>*, Tensor*) = nullptr;
void (*view_callback)(Tensor&, Tensor&) = nullptr;
uint32_t& (*version_callback)(const Tensor&) = nullptr;
TapedCall (*check_inplace_callback)(Call&, Tensor&) = nullptr;
bool (*autocast_callback)(Call&, Ref<Tensor>*) = nullptr;
void (*profile_callback)(const OpDef*, const Call&, int64_t, int64_t) = nullptr;

void (*widen_callback)(Call&) = nullptr;
void (*python_kernel_callback)(Call&, Device, Ref<Tensor>*) = nullptr;
void (*python_step_callback)(Call&) = nullptr;
void (*sparse_callback)(Call&, Ref<Tensor>*) = nullptr;
MT_THREAD_LOCAL bool calls_are_watched = false;
void (*run_watched_callback)(Call&, Ref<Tensor>*) = nullptr;

void ReleaseGil::take_back(PyThreadState* state) noexcept {
    try {
        PyEval_RestoreThread(state);
    } catch (...) {
        // The interpreter is shutting down and unwinds this thread to end it. The frames above hold references that
        // must not be touched without the GIL: wait here for the end of the process.
        for (;;) pause();
    }
}

void wait_if_unwound() noexcept {
    if (PyGILState_Check()) return;
    for (;;) pause();
}

int64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

std::string device_text(Device device) {
    static const char* names[] = {"cpu", "cuda", "meta", "jit_cpu", "jit_gpu", "sparse"};
    std::string text = names[static_cast<size_t>(device.type)];
    return device.index >= 0 ? text + ":" + std::to_string(device.index) : text;
}

namespace {

[[noreturn]] void refuse_device(const OpDef& op, Device device) {
    throw Error(ErrorKind::NotImplemented, "op '" + op.name + "' has no kernel for device " + device_text(device));
}

// Runs an elementwise kernel on no elements, which raises if it has no loop for the dtype.
void try_kernel(const Call& call) {
    std::vector<Operand> operands(call.operands, call.operands + call.operand_count);
    std::vector<Ref<Tensor>> empty;
    auto like = [&](DType dtype) { return empty.emplace_back(Tensor::empty(Dims{0}, dtype)).get(); };
    for (Operand& operand : operands)
        if (operand.tensor) operand.tensor = like(operand.tensor->dtype);
    Call trial = call;
    trial.operands = operands.data();
    for (size_t i = 0; i < call.result_count; ++i) {
        trial.results[i].sizes = Dims{0};
        trial.outputs[i] = like(call.results[i].dtype);
    }
    call.op->cpu(trial);
}

// A view of other elements over the same memory. Recorded values are arrays of one dtype, so there must be memory.
Ref<Tensor> reinterpreted(Call& call) {
    if (current_interpreter && call.in(0).device().type == DeviceType::CPU) current_interpreter->on_fallback(call);
    need_operands(call);
    const ResultMeta& meta = call.results[0];
    Ref<Storage> storage = call.in(0).storage;
    storage->reinterpreted = true;
    return Tensor::make(std::move(storage), meta.dtype, meta.sizes, meta.strides, meta.offset);
}

// The memory of an operand that dies with the call, for a result that goes through it element by element; null: none.
Ref<Tensor> in_dying_operand(const Call& call) {
    const ResultMeta& meta = call.results[0];
    if (call.op->kind != Kind::Elementwise || call.result_count != 1) return {};
    for (size_t i = 0; thread_settings.grad_enabled && i < call.operand_count; ++i)
        if (call.operands[i].tensor && call.operands[i].tensor->autograd) return {};  // the tape may keep any operand
    for (size_t i = 0; i < call.operand_count; ++i) {
        if (!(call.dying >> i & 1)) continue;
        const Tensor& t = call.in(i);
        if (t.dtype == meta.dtype && t.sizes == meta.sizes && t.offset == 0 && t.contiguous() &&
            t.storage->nbytes == byte_count(t.sizes, t.dtype))
            return Tensor::make(t.storage, t.dtype, t.sizes, t.strides, 0);
    }
    return {};
}

}  // namespace

Device result_device(const Call& call) {
    auto goes_anywhere = [](const Tensor& t) { return t.ndim() == 0 && t.device().type == DeviceType::CPU; };
    const Tensor* decides = nullptr;
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Tensor* t = call.operands[i].tensor;
        if (!t) continue;
        if (on_jit_device(*t)) return t->device();
        if (!decides || (goes_anywhere(*decides) && !goes_anywhere(*t))) decides = t;
        else if (!same_device(t->device(), decides->device()) && !goes_anywhere(*t)) {
            if (is_sparse(*decides)) return decides->device();
            if (is_sparse(*t)) return t->device();
            fail("Expected all tensors to be on the same device, but found at least two devices, " +
                 device_text(decides->device()) + " and " + device_text(t->device()) + "! (when calling " +
                 call.op->name + ")");
        }
    }
    if (decides && decides->device().type == DeviceType::CPU) {
        Device device = default_device();
        if (__builtin_expect(is_jit_device(device), 0)) return existing_device(device);
    }
    if (decides) return decides->device();
    for (size_t i = 0; i < call.param_count; ++i)
        if (call.params[i].tag == Value::Dev) return existing_device(call.params[i].device);
    return existing_device(default_device());
}

bool need_operands(Call& call) {
    bool any = false;
    for (size_t i = 0; i < call.operand_count; ++i)
        while (call.operands[i].tensor && call.operands[i].tensor->pending()) {
            // Held: a new content (x.data = y) may drop it.
            Ref<Storage> storage = call.operands[i].tensor->storage;
            materialize_callback(storage.get());
            any = true;
            i = 0;
        }
    return any;
}

void check_recordable(const Call& call) {
    if (!call.op->cpu) return;
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Tensor* t = call.operands[i].tensor;
        if (!t || !is_complex(t->dtype)) continue;
        if (call.op->takes < Takes::Any) refuse_dtype(*call.op, t->dtype);
        if (call.op->kind == Kind::Elementwise) return try_kernel(call);
    }
    for (size_t i = 0; i < call.result_count; ++i)
        if (call.op->takes < Takes::Any && is_complex(call.results[i].dtype))
            refuse_dtype(*call.op, call.results[i].dtype);
}

uint64_t hash_of(const Value* values, size_t count) {
    uint64_t hash = count;
    for (const Value* value = values; value != values + count; ++value) {
        hash = mixed(hash, static_cast<uint64_t>(value->tag) << 32 | static_cast<uint64_t>(value->dtype) << 24 |
                               static_cast<uint64_t>(value->device.type) << 16 |
                               static_cast<uint8_t>(value->device.index));
        hash = mixed(hash, static_cast<uint64_t>(value->i));
        if (value->tag == Value::Complex) hash = mixed(hash, __builtin_bit_cast(uint64_t, value->imag));
        if (value->tag != Value::Ints) continue;
        hash = mixed(hash, value->ints.size());
        for (int64_t i : value->ints) hash = mixed(hash, static_cast<uint64_t>(i));
    }
    return hash;
}

void infer(Call& call) {
    if (call.op->infer) call.op->infer(call);
}

// An op on a GPU whose results' shapes depend on the data, or that has a kernel in Python for GPUs.
static void run_apart(Call& call, Ref<Tensor>* results) {
    if (current_interpreter) current_interpreter->on_fallback(call);
    if (need_operands(call) && call.op->infer) call.op->infer(call);
    if (call.op->python_kernel[static_cast<size_t>(call.device.type)])
        return python_kernel_callback(call, call.device, results);
    run_over_host(call, results);
}

bool checked_float8(const Call& call) {
    if (!float8_was_named.load(std::memory_order_relaxed)) return false;
    auto check = [&](DType dtype) {
        if (is_float8(dtype) && call.op->takes < Takes::Stored && call.op->kind != Kind::View &&
            !computes_with_float8(call))
            refuse_dtype(*call.op, dtype);
        return is_float8(dtype);
    };
    bool any = false;
    for (size_t i = 0; i < call.operand_count; ++i)
        if (const Tensor* t = call.operands[i].tensor) any |= check(t->dtype);
    for (size_t i = 0; i < call.result_count && call.op->infer; ++i) any |= check(call.results[i].dtype);
    return any;
}

void refuse_float8_on(Device device) {
    throw Error(ErrorKind::NotImplemented, "floats of eight bits are on the CPU only, not on " + device_text(device));
}

static void interpret(Call& call, Ref<Tensor>* results) {
    const OpDef& op = *call.op;
    const bool float8 = checked_float8(call);
    Device device = result_device(call);
    // For this op only: what it makes run, as a recording, has devices of its own.
    if (const Device* target = std::exchange(clone_target, nullptr); __builtin_expect(target != nullptr, 0)) {
        const Tensor& source = call.in(0);
        device = *target;
        // What is put on the JIT's devices is an op there.
        const bool moves = !same_device(device, source.device());
        if (moves && (on_jit_device(source) || on_gpu(source.device()) || on_gpu(device)) && !is_jit_device(device)) {
            results[0] = copy_across(source, device);
            return;
        }
    }
    call.device = device;
    if (float8 && (is_jit_device(device) || on_gpu(device))) refuse_float8_on(device);
    if (float8 && device.type == DeviceType::CPU && computes_with_float8(call)) {
        results[0] = computed_wider(call);
        return;
    }
    if (__builtin_expect(device.type == DeviceType::Sparse, 0)) return sparse_callback(call, results);
    if (__builtin_expect(on_gpu(device), 0) && !is_jit_device(device) &&
        (!op.infer || op.python_kernel[static_cast<size_t>(device.type)]))
        return run_apart(call, results);
    const bool later = is_jit_device(device) || on_gpu(device);
    const bool recordable = current_interpreter && op.infer && device.type == DeviceType::CPU &&
                            !draws_by_values(call) && !float8;
    const bool left = recordable && !later && current_interpreter->should_run_eagerly(call);
    if (op.kind == Kind::Random) reserve_random(call, later || (recordable && !left));
    if (is_jit_device(device)) return run_on_jit_device(call, results, nullptr);
    if (on_gpu(device)) {
        check_recordable(call);
        return run_on_gpu_callback(call, results, nullptr);
    }
    if (recordable && !left) {
        check_recordable(call);
        current_interpreter->run(call, results);
        return;
    }
    if (device.type == DeviceType::Meta) {
        refuse_escaped_callback(call, nullptr);
        if (!op.infer) fail("op '" + op.name + "' has a result whose shape depends on data: not on device meta");
        for (size_t i = 0; i < call.result_count; ++i)
            results[i] = Tensor::empty(call.results[i].sizes, call.results[i].dtype, device);
        return;
    }
    bool others_ran = current_interpreter && !left;
    if (others_ran) current_interpreter->on_fallback(call);
    others_ran |= need_operands(call);
    if (others_ran && op.infer) op.infer(call);
    if (device.type != DeviceType::CPU) refuse_device(op, device);
    if (!op.cpu && op.python_kernel[static_cast<size_t>(device.type)]) {
        python_kernel_callback(call, device, results);
        return;
    }
    if (__builtin_expect(call.dying != 0, 0)) results[0] = in_dying_operand(call);
    for (size_t i = 0; i < call.result_count; ++i) {
        if (!results[i]) results[i] = Tensor::empty(call.results[i].sizes, call.results[i].dtype, device);
        call.outputs[i] = results[i].get();
    }
    run_kernel(call);
}

// Whether the results of a Python kernel tell all that inference would, sooner.
static bool tells_itself(const Call& call) {
    return call.op->python_infer && !call.op->cpu && !records_calls() && vmap_depth == 0 &&
           result_device(call).type == DeviceType::CPU;
}

void touch_operands(const Call& call) {
    for (size_t i = 0; i < call.operand_count; ++i)
        if (Tensor* t = call.operands[i].tensor) function_log->touch(*t);
}

void dispatch(Call& call, Ref<Tensor>* results) {
    if (__builtin_expect(thread_settings.autocasts(), 0) && autocast_callback(call, results)) return;
    dispatch_as_given(call, results);
}

void run_inferred(Call& call, Ref<Tensor>* results) {
    if (call.op->infer && has_strided_operand(call) && keeps_order(call)) {
        InMemoryOrder ordered(call);
        interpret(call, results);
        ordered.finish(results);
    } else {
        interpret(call, results);
    }
}

// What it is told of a call that it might record as it did an earlier one.
static bool is_followed(Call& call, Ref<Tensor>* results) {
    return current_interpreter->follows && !vmap_depth && !calls_are_watched && !clone_target &&
           current_interpreter->follow(call, results);
}

// Whether the tape may have anything to say of a call that is no view.
static bool has_history(const Call& call) {
    for (size_t i = 0; i < call.operand_count; ++i)
        if (const Tensor* t = call.operands[i].tensor; t && (t->autograd || t->base)) return true;
    return false;
}

static void mark_inference(const Call& call, Ref<Tensor>* results) {
    if (thread_settings.inference_mode)
        for (size_t i = 0; i < call.result_count; ++i) results[i]->is_inference = true;
}

void dispatch_as_given(Call& call, Ref<Tensor>* results) {
    const OpDef& op = *call.op;
    if (__builtin_expect(function_log != nullptr, 0)) touch_operands(call);
    if (records_calls()) {
        if (is_followed(call, results)) {
            mark_inference(call, results);
            if (has_history(call) && tape_callback && thread_settings.records_gradients())
                tape_callback(call, results, nullptr);
            return;
        }
        call.given = hash_of(call.params, call.param_count);
    }
    if (op.infer && !tells_itself(call)) op.infer(call);
    if (__builtin_expect(vmap_depth != 0, 0) && is_mapped_callback(call, nullptr)) {
        run_mapped_callback(call, results, nullptr);
    } else if (op.kind == Kind::View) {
        // A view is metadata: made at once under every interpreter.
        const ResultMeta& meta = call.results[0];
        const DeviceType device = call.in(0).device().type;
        const bool is_inference = call.in(0).is_inference;
        if (device == DeviceType::Meta) refuse_escaped_callback(call, nullptr);
        if (__builtin_expect(device == DeviceType::Sparse, 0)) {
            sparse_callback(call, results);
            if (is_inference) results[0]->is_inference = true;
        } else if (meta.dtype == call.in(0).dtype) {
            results[0] = Tensor::view(call.in(0), meta.sizes, meta.strides, meta.offset);
            if (is_inference) results[0]->is_inference = true;
        } else {
            results[0] = reinterpreted(call);
            // No gradient goes through the bits of another type: they are a tensor of their own.
            static const OpDef* as_dtype = find_op("_view_dtype");
            results[0]->is_inference = &op == as_dtype ? thread_settings.inference_mode : is_inference;
        }
    } else {
        if (__builtin_expect(calls_are_watched, 0)) run_watched_callback(call, results);
        else run_inferred(call, results);
        mark_inference(call, results);
    }
    if (!tape_callback || (op.kind != Kind::View && !has_history(call))) return;
    if (thread_settings.records_gradients()) tape_callback(call, results, nullptr);
    else if (op.kind == Kind::View && !vmap_depth) view_callback(*call.operands[0].tensor, *results[0]);
}

}  // namespace mt
