#include "trace/plan/buffers.h"

#include "core/memory/allocator.h"
#include "core/memory/cuda_caching_allocator.h"

namespace mt::trace {

bool release_readers(Trace& trace) {
    for (size_t i = 0; i < trace.results.size(); ++i) {
        Storage* storage = trace.results[i].storage;
        if (!storage || !storage->has_memory() || !storage->readers) continue;
        Ref<Storage> held = Ref<Storage>::borrow(storage);
        if (keep_inputs(storage, &trace)) return true;
    }
    return false;
}

Buffers::Buffers(Trace& trace, const Plan& plan) : trace_(&trace) {
    slots_.resize(trace.results.size());
    std::vector<bool> deferred(trace.results.size(), false);
    for (ValueRef value : plan.deferred) deferred[flat(value)] = true;
    while (release_readers(trace)) {}
    for (size_t i = 0; i < trace.results.size(); ++i) {
        Storage* storage = trace.results[i].storage;
        if (!storage || deferred[i]) continue;
        slots_[i].home = storage;
        slots_[i].in_place = storage->has_memory();
        if (slots_[i].in_place) slots_[i].place = storage->place();
        held_.push_back(Ref<Storage>::borrow(storage));
    }
}

Buffers::~Buffers() {
    for (size_t i = 0; i < slots_.size(); ++i) free(i);
}

DeviceAddress Buffers::output(ValueRef value) {
    size_t i = flat(value);
    Slot& slot = slots_[i];
    if (slot.place.data || slot.place.address) return slot.place;
    if (slot.home) {
        slot.home->ensure_memory();
        return slot.place = slot.home->place();
    }
    slot.nbytes = bytes(i);
    slot.place.device = trace_->results[i].device;
    if (on_gpu(slot.place.device)) {
        DeviceBlock block = device_allocate(slot.place.device, slot.nbytes);
        slot.place.address = block.address;
        slot.stream = block.stream;
    } else {
        slot.place.data = allocate(slot.nbytes);
    }
    slot.owned = true;
    return slot.place;
}

void Buffers::free(size_t i) {
    Slot& slot = slots_[i];
    if (!slot.owned) return;
    if (slot.place.address) device_free(slot.place.device, {slot.place.address, slot.stream}, slot.nbytes);
    else deallocate(slot.place.data, slot.nbytes);
    slot = {};
}

Ref<Tensor> Buffers::tensor_over(ValueRef value) const {
    if (value.kind == RefKind::Input) {
        const TraceInput& input = trace_->inputs[value.index];
        // The storage may have a recorded value by now; a kernel must see the memory, not wait for that value.
        return Tensor::make(Storage::alias(*input.storage), input.dtype, input.sizes, input.strides, input.offset);
    }
    const ResultInfo& result = trace_->results[flat(value)];
    Ref<Storage> storage = Storage::wrap(input(value), bytes(flat(value)), [](void*) {}, nullptr);
    return Tensor::make(std::move(storage), result.dtype, result.sizes, contiguous_strides(result.sizes), 0);
}

}  // namespace mt::trace
