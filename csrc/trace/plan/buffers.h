// The memory of every value of a trace while a plan runs it.
#pragma once

#include <vector>

#include "trace/plan/plan.h"

namespace mt::trace {

class Buffers {
  public:
    Buffers(Trace& trace, const Plan& plan);
    ~Buffers();
    Buffers(Buffers&&) = default;
    // Of the trace that took over the one that is being run.
    void belong_to(Trace& trace) { trace_ = &trace; }

    size_t flat(ValueRef value) const { return trace_->nodes[value.index].first_result + value.result; }
    size_t bytes(size_t i) const {
        return static_cast<size_t>(product(trace_->results[i].sizes)) * itemsize(trace_->results[i].dtype);
    }
    // Where a result goes; has memory from here on.
    DeviceAddress output(ValueRef value);
    // Whether a result is written over what the trace may have read.
    bool in_place(ValueRef value) const { return slots_[flat(value)].in_place; }
    // Has it computed elsewhere from here on.
    void keep_apart(ValueRef value) { slots_[flat(value)] = {}; }
    bool has(ValueRef value) const {
        const Slot& slot = slots_[flat(value)];
        return slot.place.data || slot.place.address;
    }
    // Where a value lies that has been computed, or was there before.
    DeviceAddress input(ValueRef value) const {
        if (value.kind != RefKind::Input) return slots_[flat(value)].place;
        const TraceInput& input = trace_->inputs[value.index];
        return input.storage->place().plus(input.offset * static_cast<int64_t>(itemsize(input.dtype)));
    }
    Device device_of(ValueRef value) const {
        return value.kind == RefKind::Input ? trace_->inputs[value.index].storage->device
                                            : trace_->results[flat(value)].device;
    }
    // Ends the life of a temporary value.
    void free(size_t i);
    // A tensor over a value's memory, for the kernel of a single op.
    Ref<Tensor> tensor_over(ValueRef value) const;
    const Trace& trace() const { return *trace_; }

  private:
    struct Slot {
        DeviceAddress place;
        size_t nbytes = 0;
        uint32_t stream = 0;
        bool owned = false;
        bool in_place = false;
        Storage* home = nullptr;  // of a result that lives, unless it is deferred
    };
    Trace* trace_;
    std::vector<Slot> slots_;
    std::vector<Ref<Storage>> held_;  // another thread may drop a result while it's being computed
};

// Other traces that have recorded reads of memory that this one writes get copies. True if it had to wait for one.
bool release_readers(Trace& trace);

// A launch on a GPU. False if an op inside a guarded one failed.
bool run_on_gpu(Trace& trace, const Step& step, Buffers& buffers);
// An op of a GPU that has no code for it: its CPU kernel, over copies of its operands.
void run_on_host(Trace& trace, const TraceNode& node, uint32_t index, Buffers& buffers);
// The call that a node recorded, up to its operands and results.
Call call_of(Trace& trace, const TraceNode& node, std::vector<Operand>& operands);
// Shows a launch's arrays to whoever watches them; what the observer raises ends the flush.
void observe(const Step& step, bool ran, void* const* pointers, size_t count);
// The value of an input that the host knows, as the bytes of its type.
void store_input(const Trace& trace, const InputSlot& slot, uint64_t* words);

}  // namespace mt::trace
