// Calls in place: results that are written into a tensor that is there.
#include <span>

#include "core/error.h"
#include "dispatch/call.h"
#include "dispatch/call_steps.h"
#include "dispatch/float8_calls.h"
#include "dispatch/generator.h"
#include "dispatch/gpu.h"
#include "dispatch/infer/shape/order.h"
#include "dispatch/jit_device.h"
#include "dispatch/memory/overlap.h"
#include "dispatch/memory/shared_writes.h"
#include "dispatch/out.h"
#include "dispatch/thread_local_state.h"

namespace mt {

namespace {

constexpr size_t kMaxInplaceOperands = 4;

// Leaves `destination` with memory that may be written, and the operands computed.
void materialize(Call& call, Tensor& destination) {
    for (;;) {
        // Each of these may let other threads run, which may undo what the one before did.
        if (need_operands(call)) continue;
        Ref<Storage> storage = destination.storage;
        if (storage->pending) materialize_callback(storage.get());
        else if (storage->readers) before_write_callback(storage.get());
        else {
            storage->ensure_memory();
            return;
        }
    }
}

// x[k] += y ends with x[k] = x[k].
bool copies_itself(const Call& call, const Tensor& destination) {
    static const OpDef* copy = find_op("copy");
    return call.op == copy && call.operands[1].tensor && same_view(*call.operands[1].tensor, destination);
}

void check_writable(const Call& call, const Tensor& destination) {
    if (destination.storage->read_only)
        fail_value("cannot write in place: the memory of this tensor is read-only (op " + call.op->name + ")");
}

// Whether the call writes a tensor that shows an element twice, and must care.
bool writes_shared(const Call& call, const Tensor& destination) {
    static const OpDef* fill = find_op("fill");
    if (call.op == fill || !has_internal_overlap(destination)) return false;
    if (!may_write_shared(*call.op)) refuse_shared();
    return true;
}

void check_result_fits(const Call& call, const Tensor& destination) {
    if (!(call.results[0].sizes == destination.sizes))
        fail("output with shape " + to_string(destination.sizes) + " doesn't match the broadcast shape " +
             to_string(call.results[0].sizes));
    check_scan_inplace(call, destination);
    check_castable(call.results[0].dtype, destination.dtype);
}

}  // namespace

// x.copy_(y) with y on another device: y is copied to x's, with its history.
static void dispatch_inplace_from(Call& call, Tensor& destination, size_t operand) {
    Tensor* original = call.operands[operand].tensor;
    Ref<Tensor> copied = clone_to(*original, destination.device());
    call.operands[operand].tensor = copied.get();
    dispatch_inplace(call, destination);
    call.operands[operand].tensor = original;
}

void dispatch_inplace(Call& call, Tensor& destination) {
    static const OpDef* copy = find_op("copy");
    if (__builtin_expect(function_log != nullptr, 0)) {
        touch_operands(call);
        function_log->touch(destination);
    }
    Device device = destination.device();
    const bool mapped = vmap_depth != 0 && is_mapped_callback(call, &destination);
    // What is mapped has no memory of its own either: its rule copies.
    bool meta = device.type == DeviceType::Meta && !mapped;
    if (!mapped && (device.type == DeviceType::CPU || on_gpu(device) || meta))
        for (size_t i = 0; i < call.operand_count; ++i)
            if (Tensor* t = call.operands[i].tensor; t && call.op == copy && !same_device(t->device(), device) &&
                                                     (meta || on_jit_device(*t) || on_gpu(t->device()) ||
                                                      on_gpu(device) || t->device().type == DeviceType::Meta))
                return dispatch_inplace_from(call, destination, i);
    call.device = device;
    // What is written in place while the JIT's device is the default one is compiled too, where it lies.
    bool jit = is_jit_device(device) || (device.type == DeviceType::CPU && default_device().type == DeviceType::JitCPU);
    bool gpu = on_gpu(device) && !jit;
    const bool float8 = is_float8(destination.dtype) || reads_float8(call);
    if (float8 && (jit || gpu)) refuse_float8_on(device);
    bool record = current_interpreter && !float8 && (device.type == DeviceType::CPU || gpu) &&
                  !destination.storage->reinterpreted;
    if (current_interpreter && !record && !jit && !gpu) current_interpreter->on_fallback(call);
    if (record && !jit && !gpu && current_interpreter->should_run_eagerly(call)) record = false;
    const bool materializes = !record && !jit && device.type != DeviceType::Meta;
    if (materializes) materialize(call, destination);
    infer(call);
    if (float8 && checked_float8(call) && !mapped && device.type == DeviceType::CPU && call.operand_count == 2 &&
        computes_with_float8(call)) {
        check_result_fits(call, destination);
        const Ref<Tensor> made = call_op(*call.op, {call.operands[0].tensor, call.operands[1].tensor},
                                         std::span<const Value>(call.params, call.param_count));
        return call_op_inplace(*copy, destination, {{&destination}, {made.get()}});
    }
    check_writable(call, destination);
    const bool shared = !copies_itself(call, destination) && writes_shared(call, destination);
    check_result_fits(call, destination);
    if (__builtin_expect(shared, 0)) {
        if (mapped) refuse_shared();
        return write_shared(call, destination);
    }
    TapedCall tape = check_inplace_callback ? check_inplace_callback(call, destination) : TapedCall{};
    bool reads = false;
    for (size_t i = 0; i < call.operand_count; ++i) reads |= call.operands[i].tensor != nullptr;
    if (reads && !mapped && !jit && !same_device(result_device(call), device))
        fail("Expected all tensors to be on the same device, but found at least two devices, " + device_text(device) +
             " and " + device_text(result_device(call)) + "! (in-place " + call.op->name + ")");
    if (call.op->kind == Kind::Random && !mapped) reserve_random(call, record || jit || gpu);
    // An operand that overlaps the destination is read from a copy, unless each element is read just before it's
    // written. What the gradient formula reads is kept too; that copy has the operand's history, for second
    // derivatives.
    Tensor* operands[kMaxInplaceOperands];
    Ref<Tensor> copies[kMaxInplaceOperands], before[kMaxInplaceOperands];
    if (call.operand_count > kMaxInplaceOperands) fail("in-place " + call.op->name + ": too many operands");
    const bool changes = mapped || !copies_itself(call, destination);
    for (size_t i = 0; i < call.operand_count; ++i) {
        Tensor* t = operands[i] = call.operands[i].tensor;
        if (!t || !changes || !may_overlap(*t, destination)) continue;
        bool in_step = i == 0 || call.op->kind == Kind::Elementwise;
        bool read_apart = t != &destination && !same_view(*t, destination);
        bool saved = tape.reads >> i & 1;
        if (!read_apart && in_step && !saved) continue;
        static const OpDef* clone = find_op("clone");
        GradMode mode(saved);
        HoldGil hold;  // what was inferred must still be true afterwards
        copies[i] = call_op(*clone, {t});
        if (saved) before[i] = copies[i];
        if (read_apart || !in_step) call.operands[i].tensor = copies[i].get();
        if (materializes) materialize(call, destination);  // the copy may have been recorded
    }
    // Counted first: what an exception leaves half written is another content all the same. What is recorded is
    // written by the run of the recording; memory that is shared outside has it run at once.
    const bool counts_first = !record || destination.storage->external();
    version_of(destination) += counts_first;
    try {
        if (mapped) {
            run_mapped_callback(call, nullptr, &destination);
        } else if (!changes) {
            // Only the version is another.
        } else if (jit) {
            run_on_jit_device(call, nullptr, &destination);
        } else if (gpu) {
            check_recordable(call);
            run_on_gpu_callback(call, nullptr, &destination);
        } else if (record) {
            check_recordable(call);
            current_interpreter->run_inplace(call, destination);
        } else if (device.type != DeviceType::Meta) {
            if (device.type != DeviceType::CPU)
                throw Error(ErrorKind::NotImplemented,
                            "op '" + call.op->name + "' has no kernel for device " + device_text(device));
            call.outputs[0] = &destination;
            call.result_count = 1;
            run_kernel(call);
        } else {
            refuse_escaped_callback(call, &destination);
        }
    } catch (const Error& error) {
        // No kernel has written: there is none for these operands, or it has refused what it was to write, as an index
        // out of bounds. Those that go by elements find out at one of them, as where an integer is divided by zero.
        const bool refused = error.kind() == ErrorKind::NotImplemented ||
                             (call.op->kind != Kind::Elementwise && call.op->cpu && error.kind() != ErrorKind::Python);
        if (!mapped && refused) version_of(destination) -= counts_first;
        throw;
    }
    uint32_t& version = version_of(destination);
    version += !counts_first;
    if (__builtin_expect(function_log != nullptr, 0)) function_log->writes.push_back(&version);
    for (size_t i = 0; i < call.operand_count; ++i) call.operands[i].tensor = operands[i];
    if (tape.taped) tape_callback(call, before, &destination);
}

}  // namespace mt
