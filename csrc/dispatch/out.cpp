#include "dispatch/out.h"

#include <algorithm>

#include "core/error.h"
#include "dispatch/infer/elementwise.h"
#include "dispatch/memory/overlap.h"
#include "dispatch/python/python.h"
#include "dispatch/thread_local_state.h"

namespace mt {

bool (*requires_grad_callback)(const Tensor&) = nullptr;
void (*check_inference_callback)(const Tensor&) = nullptr;

namespace {

void grow(Storage& storage, size_t nbytes) {
    if (storage.pending) materialize_callback(&storage);
    if (storage.readers) before_write_callback(&storage);
    storage.resize(nbytes);
}

bool shows_one_element(const Tensor& t) {
    return t.numel && t.ndim() && std::all_of(t.strides.begin(), t.strides.end(), [](int64_t s) { return s == 0; });
}

// Makes `out` as large as a result, warning where it held something.
void fit(Tensor& out, const Dims& sizes) {
    if (out.sizes == sizes) return;
    if (out.numel) {
        std::string message = "An output with one or more elements was resized since it had shape " +
                              to_string(out.sizes) + ", which does not match the required output shape " +
                              to_string(sizes) +
                              ". This behavior is deprecated, and in a future PyTorch release outputs will not be "
                              "resized unless they have zero elements. You can explicitly reuse an out tensor t by "
                              "resizing it, inplace, to zero elements with t.resize_(0).";
        warn(message);
    }
    resize(out, sizes);
}

void check_same_device(const Tensor& out, Device device) {
    if (out.device().type != device.type)
        fail("Expected all tensors to be on the same device, but got out is on " + device_text(out.device()) +
             ", different from other tensors on " + device_text(device));
}

// Whether the kernel may write straight to `out`: it has the result's layout, and nothing that is read lies there.
bool kernel_may_write(Call& call, const Tensor& out) {
    if (!call.op->cpu || call.op->kind == Kind::Random || out.pending() || out.storage->readers ||
        out.storage->read_only || !out.storage->data || out.dtype != call.results[0].dtype || !out.contiguous())
        return false;
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Tensor* t = call.operands[i].tensor;
        if (t && (t->storage == out.storage || t->pending() || t->device().type != DeviceType::CPU)) return false;
    }
    if (out.device().type != DeviceType::CPU) return false;
    return !current_interpreter || (current_interpreter->eager_budget && current_interpreter->should_run_eagerly(call));
}

}  // namespace

void resize(Tensor& tensor, const Dims& sizes) {
    if (tensor.sizes == sizes) return;
    int64_t count = product(sizes);
    int64_t end = 0;
    if (__builtin_add_overflow(count, tensor.offset, &end))
        fail("a tensor of shape " + to_string(sizes) + " is too large");
    size_t needed = count ? byte_count(Dims{end}, tensor.dtype) : 0;
    // Held: other threads may run while a recorded value is computed.
    Ref<Storage> storage = tensor.storage;
    if (needed > storage->nbytes) grow(*storage, needed);
    tensor.sizes = sizes;
    tensor.strides = contiguous_strides(sizes);
    tensor.numel = count;
}

void check_castable(DType from, DType to) {
    const DTypeInfo &x = info(from), &y = info(to);
    if (x.category > y.category)
        fail(std::string("result type ") + torch_type_name(from) + " can't be cast to the desired output type " +
             torch_type_name(to));
}

void check_out_needs_no_gradient(const char* op, const Tensor* const* tensors, size_t count) {
    if (!thread_settings.records_backward()) return;
    for (size_t i = 0; i < count; ++i)
        if (tensors[i] && requires_grad_callback(*tensors[i]))
            fail(std::string(op) +
                 "(): functions with out=... arguments don't support automatic differentiation, but one of the "
                 "arguments requires grad.");
}

void check_out_is_apart(const Tensor& out, const Tensor* const* operands, size_t count) {
    check_written_once(out);
    for (size_t i = 0; i < count; ++i)
        if (operands[i] && (operands[i] == &out || (operands[i]->numel && out.numel && may_overlap(out, *operands[i]))))
            fail("unsupported operation: some elements of the input tensor and the written-to tensor refer to a "
                 "single memory location. Please clone() the tensor before performing the operation.");
}

void check_out(const Tensor& out, DType result, const Dims& sizes, bool exact) {
    check_castable(result, out.dtype);
    if (exact && result != out.dtype)
        fail(std::string("Expected out tensor to have dtype ") + info(result).name + ", but got " +
             info(out.dtype).name + " instead");
    if (!(out.sizes == sizes)) check_written_once(out);
}

void store_outs(Tensor* const* outs, Ref<Tensor>* results, size_t count, OutRule rule) {
    const bool exact = rule == OutRule::Exact || (rule == OutRule::SeveralExact && count > 1);
    for (size_t i = 0; i < count; ++i) {
        check_inference_callback(*outs[i]);
        check_out(*outs[i], results[i]->dtype, results[i]->sizes, exact);
        check_same_device(*outs[i], results[i]->device());
        if (!shows_one_element(*results[i])) check_written_once(*outs[i]);
    }
    for (size_t i = 0; i < count; ++i) store_out(*outs[i], *results[i]);
}

void store_out(Tensor& out, Tensor& result) {
    static const OpDef *copy = find_op("copy"), *as_strided = find_op("as_strided");
    check_inference_callback(out);
    check_castable(result.dtype, out.dtype);
    check_same_device(out, result.device());
    GradMode mode(false);
    fit(out, result.sizes);
    Operand self, source;
    self.tensor = &out;
    source.tensor = &result;
    Ref<Tensor> once, value;
    if (shows_one_element(result) && !out.contiguous()) {
        // Of one value it doesn't matter which of the places in `out` that are the same one is written.
        Dims sizes = out.sizes;
        for (size_t d = 0; d < sizes.size(); ++d)
            if (out.strides[d] == 0) sizes[d] = 1;
        once = call_op(*as_strided, {&out}, {value_of(sizes), value_of(out.strides), value_of(out.offset)});
        value = call_op(*as_strided, {&result}, {value_of(Dims{}), value_of(Dims{}), value_of(result.offset)});
        self.tensor = once.get();
        source.tensor = value.get();
    }
    call_op_inplace(*copy, *self.tensor, {self, source});
}

void dispatch_out(Call& call, Tensor* const* outs, size_t out_count) {
    const OpDef& op = *call.op;
    const NoAutocast no_autocast;  // as in PyTorch: the dtype is that of `out`
    SmallVector<const Tensor*, 8> all;
    for (size_t i = 0; i < out_count; ++i) {
        check_inference_callback(*outs[i]);
        all.push_back(outs[i]);
    }
    for (size_t i = 0; i < call.operand_count; ++i) all.push_back(call.operands[i].tensor);
    if (op.differentiable()) check_out_needs_no_gradient(op.name.c_str(), all.data(), all.size());
    // What is put together of other tensors' elements can't be written over them.
    if (op.kind == Kind::Opaque || op.kind == Kind::Index || op.operand_list)
        for (size_t i = 0; i < out_count; ++i)
            check_out_is_apart(*outs[i], all.data() + out_count, all.size() - out_count);
    GradMode mode(false);
    if (op.infer && out_count == 1) {
        Tensor& out = *outs[0];
        op.infer(call);
        check_out(out, call.results[0].dtype, call.results[0].sizes, op.out == OutRule::Exact);
        bool aliased = false;
        for (size_t i = 0; i < call.operand_count; ++i) {
            const Tensor* t = call.operands[i].tensor;
            aliased |= t && t->storage == out.storage;
            if (t == &out && op.kind == Kind::Elementwise && !(out.sizes == call.results[0].sizes))
                fail("output with shape " + to_string(out.sizes) + " doesn't match the broadcast shape " +
                     to_string(call.results[0].sizes));
        }
        // Resizing would change an operand that shares the memory.
        if (call.result_count == 1 && (!aliased || out.sizes == call.results[0].sizes)) {
            if (op.kind == Kind::Elementwise) {
                if (is_complex(call.results[0].dtype) && !is_complex(call.compute) &&
                    out.dtype != call.results[0].dtype)
                    fail(std::string("Expected object of scalar type ") + torch_type_name(call.results[0].dtype) +
                         " but got scalar type " + torch_type_name(out.dtype) + " for argument 'out'");
                fit(out, call.results[0].sizes);
                dispatch_inplace(call, out);
                return;
            }
            if (out.sizes == call.results[0].sizes && kernel_may_write(call, out)) {
                call.outputs[0] = &out;
                run_kernel(call);
                ++version_of(out);
                return;
            }
        }
    }
    Ref<Tensor> results[kMaxResults];
    dispatch(call, results);
    if (call.result_count != out_count)
        fail_type(op.name + "(): argument 'out' must be " +
                  (call.result_count == 1 ? "Tensor" : "tuple of " + std::to_string(call.result_count) + " Tensors"));
    store_outs(outs, results, out_count, op.out);
}

}  // namespace mt
