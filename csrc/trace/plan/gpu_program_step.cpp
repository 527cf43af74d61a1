// Steps of a plan on a GPU: launches of compiled programs, and ops that run on the host for want of code.
#include <cstring>
#include <memory>

#include "core/error.h"
#include "core/memory/cuda_caching_allocator.h"
#include "dispatch/gpu.h"
#include "trace/plan/buffers.h"

namespace mt::trace {

void (*host_op_callback)(const OpDef&, int64_t) = nullptr;

namespace {

// Kernels read and write so many bytes at a time: what begins elsewhere is copied to where they can.
constexpr size_t kAlignment = 16;
constexpr size_t kHostInputBytes = 16, kScratchAlignment = 512;

// A GPU's memory for the duration of a launch: what is given to the stream next may use it again.
class GpuScratch {
  public:
    GpuScratch(Device device, size_t nbytes)
        : device_(device), nbytes_(nbytes), block_(nbytes ? device_allocate(device, nbytes) : DeviceBlock{}) {}
    ~GpuScratch() { device_free(device_, block_, nbytes_); }
    GpuScratch(const GpuScratch&) = delete;
    uint64_t address() const { return block_.address; }
    DeviceAddress place() const { return {device_, nullptr, block_.address}; }
    size_t nbytes() const { return nbytes_; }

  private:
    Device device_;
    size_t nbytes_;
    DeviceBlock block_;
};

// Host copies of arrays of a GPU, for those who look at a launch with the host's eyes.
class HostCopies {
  public:
    void add(const DeviceAddress& place, size_t nbytes) {
        Ref<Storage> copy = Storage::allocate(nbytes);
        copy_bytes(copy->place(), place, nbytes);
        pointers_.push_back(copy->data);
        held_.push_back(std::move(copy));
    }
    void* const* pointers() const { return pointers_.data(); }
    size_t size() const { return pointers_.size(); }

  private:
    std::vector<Ref<Storage>> held_;
    std::vector<void*> pointers_;
};

size_t bytes_of(const Buffers& buffers, ValueRef value) {
    if (value.kind != RefKind::Input) return buffers.bytes(buffers.flat(value));
    const TraceInput& input = buffers.trace().inputs[value.index];
    auto [low, high] = element_span(input.sizes, input.strides, 0);
    return static_cast<size_t>(high) * itemsize(input.dtype);
}

void show(const Step& step, bool ran, const Buffers& buffers, const std::vector<uint64_t>& words) {
    HostCopies copies;
    size_t known = 0;
    for (size_t i = 0; i < step.inputs.size(); ++i) {
        if (step.from_host[i])
            copies.add(DeviceAddress{Device{}, const_cast<uint64_t*>(&words[2 * known++]), 0}, kHostInputBytes);
        else copies.add(buffers.input(step.inputs[i].value), bytes_of(buffers, step.inputs[i].value));
    }
    for (ValueRef value : step.outputs) copies.add(buffers.input(value), bytes_of(buffers, value));
    observe(step, ran, copies.pointers(), copies.size());
}

}  // namespace

bool run_on_gpu(Trace& trace, const Step& step, Buffers& buffers) {
    std::vector<uint64_t> words;
    const size_t count = step.inputs.size() + step.outputs.size() + step.reports_errors + 1;
    PyRef addresses(PyTuple_New(static_cast<Py_ssize_t>(count)));
    if (!addresses) fail_python();
    Py_ssize_t at = 0;
    auto add = [&](uint64_t address) {
        PyObject* number = PyLong_FromUnsignedLongLong(address);
        if (!number) fail_python();
        PyTuple_SET_ITEM(addresses.get(), at++, number);
    };
    std::vector<std::unique_ptr<GpuScratch>> aligned;
    std::vector<std::pair<DeviceAddress, const GpuScratch*>> displaced;  // results that go where no kernel can write
    auto add_input = [&](ValueRef value) {
        const DeviceAddress place = buffers.input(value);
        if (place.address % kAlignment == 0) return add(place.address);
        aligned.push_back(std::make_unique<GpuScratch>(step.device, bytes_of(buffers, value)));
        copy_bytes(aligned.back()->place(), place, aligned.back()->nbytes());
        add(aligned.back()->address());
    };
    auto add_output = [&](ValueRef value) {
        const DeviceAddress place = buffers.output(value);
        if (place.address % kAlignment == 0) return add(place.address);
        aligned.push_back(std::make_unique<GpuScratch>(step.device, bytes_of(buffers, value)));
        displaced.emplace_back(place, aligned.back().get());
        add(aligned.back()->address());
    };
    size_t known = 0;
    for (size_t i = 0; i < step.inputs.size(); ++i) known += step.from_host[i];
    // Scratch memory, then the host's inputs, then the byte that reports errors.
    const size_t scratch_bytes = (step.scratch_bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
    const size_t tail = scratch_bytes + known * kHostInputBytes;
    GpuScratch scratch(step.device, tail + (step.reports_errors ? kHostInputBytes : 0));
    uint64_t next = scratch.address() + scratch_bytes;
    words.reserve(2 * known);
    for (size_t i = 0; i < step.inputs.size(); ++i) {
        const InputSlot& slot = step.inputs[i];
        if (!step.from_host[i]) {
            add_input(slot.value);
            continue;
        }
        uint64_t pair[2] = {0, 0};
        if (slot.random || slot.is_size || slot.value.kind == RefKind::Scalar) store_input(trace, slot, pair);
        else std::memcpy(pair, buffers.input(slot.value).data, itemsize(slot.dtype));
        words.insert(words.end(), pair, pair + 2);
        add(next);
        next += kHostInputBytes;
    }
    for (ValueRef value : step.outputs) add_output(value);
    const uint64_t flag = scratch.address() + tail;
    if (step.reports_errors) add(flag);
    add(scratch.address());
    PyRef bytes(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(words.data()),
                                          static_cast<Py_ssize_t>(words.size() * sizeof(uint64_t))));
    if (!bytes) fail_python();
    const bool observed = step.observer.get() && step.observer.get() != Py_None;
    if (observed) show(step, false, buffers, words);
    const int64_t start = launch_profile_callback ? now_ns() : 0;
    PyRef program = PyRef::borrow(step.program.get());
    PyRef ignored(PyObject_CallFunctionObjArgs(program.get(), addresses.get(), bytes.get(), nullptr));
    if (!ignored) {
        // What an op inside raised on the host is found, with its line, by running all ops one by one.
        if (!step.guarded || !PyErr_ExceptionMatches(PyExc_ArithmeticError)) fail_python();
        PyErr_Clear();
        return false;
    }
    for (const auto& [place, made] : displaced) copy_bytes(place, made->place(), made->nbytes());
    if (launch_profile_callback) launch_profile_callback(trace, step, start, now_ns());
    if (step.reports_errors) {
        uint8_t failed = 0;
        copy_bytes(DeviceAddress{Device{}, &failed, 0}, DeviceAddress{step.device, nullptr, flag}, 1);
        if (failed) return false;
    }
    if (observed) show(step, true, buffers, words);
    return true;
}

void run_on_host(Trace& trace, const TraceNode& node, uint32_t index, Buffers& buffers) {
    std::vector<Operand> operands(node.operand_count);
    Call call = call_of(trace, node, operands);
    std::vector<Ref<Tensor>> held;
    int64_t copied = 0;
    for (uint32_t i = 0; i < node.operand_count; ++i) {
        ValueRef value = trace.operands[node.first_operand + i];
        if (value.kind == RefKind::Scalar || value.kind == RefKind::None) continue;
        Ref<Tensor> there = buffers.tensor_over(value);
        if (on_gpu(there->device())) {
            copied += there->numel * static_cast<int64_t>(itemsize(there->dtype));
            there = copy_as_it_lies(*there);
        }
        held.push_back(std::move(there));
        operands[i].tensor = held.back().get();
    }
    infer(call);
    for (uint32_t r = 0; r < node.result_count; ++r) {
        const ResultInfo& info = trace.results[node.first_result + r];
        held.push_back(Tensor::empty(info.sizes, info.dtype));
        call.outputs[r] = held.back().get();
    }
    call.result_count = node.result_count;
    run_kernel(call);
    for (uint32_t r = 0; r < node.result_count; ++r) {
        ValueRef value{RefKind::Node, static_cast<uint8_t>(r), index};
        const DeviceAddress there = buffers.output(value);
        const size_t nbytes = buffers.bytes(buffers.flat(value));
        const int64_t start = copy_profile_callback ? now_ns() : 0;
        copy_bytes(there, call.outputs[r]->storage->place(), nbytes);
        if (copy_profile_callback)
            copy_profile_callback(Device{}, there.device, static_cast<int64_t>(nbytes), start, now_ns());
        copied += static_cast<int64_t>(nbytes);
    }
    if (host_op_callback) host_op_callback(*node.op, copied);
}

}  // namespace mt::trace
