#include "dispatch/call.h"

#include <time.h>

#include <algorithm>

#include "core/error.h"

namespace mt {

MT_THREAD_LOCAL Interpreter* current_interpreter = nullptr;
MT_THREAD_LOCAL bool grad_enabled = true;
MT_THREAD_LOCAL bool inference_mode = false;
void (*tape_hook)(Call&, Ref<Tensor>*, Tensor*) = nullptr;
bool (*check_inplace_hook)(Call&, Tensor&) = nullptr;
void (*profile_hook)(const OpDef*, const Call&, int64_t, int64_t) = nullptr;

void (*python_kernel_hook)(Call&, Device, Ref<Tensor>*) = nullptr;

int64_t now_ns() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

Generator& default_generator() {
    static Generator generator;
    return generator;
}

namespace {

constexpr int64_t kReleaseGilElements = 1 << 15;
constexpr size_t kMaxInplaceOperands = 4;

std::string device_text(Device device) {
    static const char* names[] = {"cpu", "cuda", "meta", "jit_cpu", "jit_gpu"};
    std::string text = names[static_cast<size_t>(device.type)];
    return device.index >= 0 ? text + ":" + std::to_string(device.index) : text;
}

// The device of the results: the operands' one device (0-d CPU tensors go anywhere), or the `device` parameter.
Device result_device(const Call& call) {
    Device device;
    bool found = false;
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Tensor* t = call.operands[i].tensor;
        if (!t) continue;
        Device own = t->device();
        if (!found || (device.type == DeviceType::CPU && own.type != DeviceType::CPU)) {
            device = own;
            found = true;
        } else if (!(own == device) && !(own.type == DeviceType::CPU && t->ndim() == 0)) {
            fail("Expected all tensors to be on the same device, but found at least two devices, " + device_text(device) +
                 " and " + device_text(own) + "! (when calling " + call.op->name + ")");
        }
    }
    for (size_t i = 0; i < call.param_count && !found; ++i)
        if (call.params[i].tag == Value::Dev) return call.params[i].device;
    return device;
}

int64_t work_of(const Call& call) {
    int64_t most = call.outputs[0] ? call.outputs[0]->numel : 0;
    for (size_t i = 0; i < call.operand_count; ++i)
        if (call.operands[i].tensor) most = std::max(most, call.operands[i].tensor->numel);
    return most;
}

// Inputs that a recorder left pending are computed now, before a kernel reads them.
void need_operands(Call& call) {
    for (size_t i = 0; i < call.operand_count; ++i)
        if (Tensor* t = call.operands[i].tensor; t && t->pending()) materialize_hook(t->storage.get());
}

void reserve_random(Call& call) {
    Generator& generator = default_generator();
    call.seed = generator.seed;
    call.philox_offset = generator.offset++;
}

bool may_overlap(const Tensor& a, const Tensor& b) {
    if (!(a.storage == b.storage)) return false;
    auto x = element_span(a.sizes, a.strides, a.offset), y = element_span(b.sizes, b.strides, b.offset);
    return x.first < y.second && y.first < x.second;
}

bool same_view(const Tensor& a, const Tensor& b) {
    return a.storage == b.storage && a.offset == b.offset && a.sizes == b.sizes && a.strides == b.strides &&
           a.dtype == b.dtype;
}

void check_writable(const Call& call, const Tensor& destination) {
    if (destination.storage->read_only)
        fail_value("cannot write in place: the memory of this tensor is read-only (op " + call.op->name + ")");
    for (size_t i = 0; i < destination.ndim(); ++i)
        if (destination.strides[i] == 0 && destination.sizes[i] > 1)
            fail("unsupported operation: more than one element of the written-to tensor refers to a single memory "
                 "location. Please clone() the tensor before performing the operation.");
}

void check_result_fits(const Call& call, const Tensor& destination) {
    if (!(call.results[0].sizes == destination.sizes))
        fail("output with shape " + to_string(destination.sizes) + " doesn't match the broadcast shape " +
             to_string(call.results[0].sizes) + " (in-place " + call.op->name + ")");
    if (info(call.results[0].dtype).category > info(destination.dtype).category)
        fail(std::string("result type ") + info(call.results[0].dtype).name +
             " can't be cast to the desired output type " + info(destination.dtype).name + " (in-place " +
             call.op->name + ")");
}

}  // namespace

void infer(Call& call) {
    if (call.op->infer) call.op->infer(call);
}

void run_kernel(Call& call) {
    KernelFn kernel = call.op->cpu;
    if (!kernel)
        throw Error(ErrorKind::NotImplemented, "op '" + call.op->name + "' has no kernel for device cpu");
    if (__builtin_expect(profile_hook != nullptr, 0)) {
        int64_t start = now_ns();
        kernel(call);
        profile_hook(call.op, call, start, now_ns());
        return;
    }
    MaybeReleaseGil gil(work_of(call) >= kReleaseGilElements);
    kernel(call);
}

void dispatch(Call& call, Ref<Tensor>* results) {
    const OpDef& op = *call.op;
    if (op.infer) op.infer(call);
    if (op.kind == Kind::View) {
        // A view is metadata: made at once under every interpreter.
        const ResultMeta& meta = call.results[0];
        results[0] = Tensor::view(call.in(0), meta.sizes, meta.strides, meta.offset);
        if (call.in(0).is_inference) results[0]->is_inference = true;
    } else {
        Device device = result_device(call);
        if (op.kind == Kind::Random) reserve_random(call);
        if (current_interpreter && op.infer && device.type == DeviceType::CPU) {
            current_interpreter->run(call, results);
        } else if (device.type == DeviceType::Meta) {
            if (!op.infer) fail("op '" + op.name + "' has a result whose shape depends on data: not on device meta");
            for (size_t i = 0; i < call.result_count; ++i)
                results[i] = Tensor::empty(call.results[i].sizes, call.results[i].dtype, device);
        } else {
            if (current_interpreter) current_interpreter->passing_by(call);
            need_operands(call);
            if (device.type != DeviceType::CPU)
                throw Error(ErrorKind::NotImplemented,
                            "op '" + op.name + "' has no kernel for device " + device_text(device));
            if (!op.cpu && op.python_kernel[static_cast<size_t>(device.type)]) {
                python_kernel_hook(call, device, results);
            } else {
                for (size_t i = 0; i < call.result_count; ++i) {
                    results[i] = Tensor::empty(call.results[i].sizes, call.results[i].dtype, device);
                    call.outputs[i] = results[i].get();
                }
                run_kernel(call);
            }
        }
        if (inference_mode)
            for (size_t i = 0; i < call.result_count; ++i) results[i]->is_inference = true;
    }
    if (tape_hook && grad_enabled) tape_hook(call, results, nullptr);
}

void dispatch_inplace(Call& call, Tensor& destination) {
    infer(call);
    check_writable(call, destination);
    check_result_fits(call, destination);
    bool taped = check_inplace_hook && check_inplace_hook(call, destination);
    Device device = result_device(call);
    if (call.op->kind == Kind::Random) reserve_random(call);
    // An operand that overlaps the destination is read from a copy, unless each element is read just before it's written. What the
    // gradient formula reads is kept too; that copy has the operand's history, for second derivatives.
    Tensor* operands[kMaxInplaceOperands];
    Ref<Tensor> copies[kMaxInplaceOperands], before[kMaxInplaceOperands];
    if (call.operand_count > kMaxInplaceOperands) fail("in-place " + call.op->name + ": too many operands");
    for (size_t i = 0; i < call.operand_count; ++i) {
        Tensor* t = operands[i] = call.operands[i].tensor;
        if (!t || !may_overlap(*t, destination)) continue;
        bool in_step = i == 0 || call.op->kind == Kind::Elementwise;
        bool read_apart = t != &destination && !same_view(*t, destination);
        bool saved = taped && i < call.op->vjp_saves_operand.size() && call.op->vjp_saves_operand[i];
        if (!read_apart && in_step && !saved) continue;
        static const OpDef* clone = find_op("clone");
        bool enabled = grad_enabled;
        grad_enabled = saved;
        copies[i] = call_op(*clone, {t});
        grad_enabled = enabled;
        if (saved) before[i] = copies[i];
        if (read_apart || !in_step) call.operands[i].tensor = copies[i].get();
    }
    if (current_interpreter && device.type == DeviceType::CPU) {
        current_interpreter->run_inplace(call, destination);
    } else if (device.type != DeviceType::Meta) {
        need_operands(call);
        if (destination.pending()) materialize_hook(destination.storage.get());
        destination.storage->ensure_memory();
        if (destination.storage->readers) before_write_hook(destination.storage.get());
        call.outputs[0] = &destination;
        call.result_count = 1;
        run_kernel(call);
    }
    ++destination.storage->version;
    for (size_t i = 0; i < call.operand_count; ++i) call.operands[i].tensor = operands[i];
    if (taped) tape_hook(call, before, &destination);
}

Ref<Tensor> call_op(const OpDef& op, std::initializer_list<Tensor*> operands, std::initializer_list<Value> params) {
    Operand slots[8];
    Value values[8];
    Call call;
    call.op = &op;
    call.operands = slots;
    for (Tensor* t : operands) slots[call.operand_count++].tensor = t;
    call.params = values;
    for (const Value& v : params) values[call.param_count++] = v;
    Ref<Tensor> results[kMaxResults];
    dispatch(call, results);
    return std::move(results[0]);
}

void call_op_inplace(const OpDef& op, Tensor& destination, std::initializer_list<Operand> operands,
                     std::initializer_list<Value> params) {
    Operand slots[8];
    Value values[8];
    Call call;
    call.op = &op;
    call.operands = slots;
    for (const Operand& o : operands) slots[call.operand_count++] = o;
    call.params = values;
    for (const Value& v : params) values[call.param_count++] = v;
    dispatch_inplace(call, destination);
}

Value value_of(const Dims& ints) {
    Value v;
    v.tag = Value::Ints;
    v.ints = ints;
    return v;
}

Value value_of(int64_t i) {
    Value v;
    v.tag = Value::Int;
    v.i = i;
    return v;
}

}  // namespace mt
