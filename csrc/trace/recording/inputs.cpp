// The memory from outside that a trace reads: in place until it changes, from a copy where others may change it.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "trace/recording/trace.h"

namespace mt::trace {

// An input over the storage, whatever part of it.
ValueRef Trace::input_over(const Storage* storage) const {
    size_t at = (reinterpret_cast<uintptr_t>(storage) >> 5) & (input_table_.size() - 1);
    for (; input_table_[at] >= 0; at = (at + 1) & (input_table_.size() - 1))
        if (inputs[static_cast<size_t>(input_table_[at])].storage.get() == storage)
            return {RefKind::Input, 0, static_cast<uint32_t>(input_table_[at])};
    return {RefKind::Input, 0, kOwnMemory};
}

ValueRef Trace::input_of(const Ref<Storage>& storage, int64_t offset, const Dims& sizes, const Dims& strides,
                         DType dtype) {
    if (inputs.size() * 2 >= input_table_.size()) {
        input_table_.assign(input_table_.size() * 2, -1);
        for (size_t i = 0; i < inputs.size(); ++i) {
            size_t at = (reinterpret_cast<uintptr_t>(inputs[i].storage.get()) >> 5) & (input_table_.size() - 1);
            while (input_table_[at] >= 0) at = (at + 1) & (input_table_.size() - 1);
            input_table_[at] = static_cast<int32_t>(i);
        }
    }
    size_t at = (reinterpret_cast<uintptr_t>(storage.get()) >> 5) & (input_table_.size() - 1);
    for (; input_table_[at] >= 0; at = (at + 1) & (input_table_.size() - 1)) {
        const TraceInput& input = inputs[static_cast<size_t>(input_table_[at])];
        if (input.is(storage, offset, sizes, strides, dtype))
            return {RefKind::Input, 0, static_cast<uint32_t>(input_table_[at])};
    }
    input_table_[at] = static_cast<int32_t>(inputs.size());
    ++storage->readers;
    inputs.push_back({storage, offset, sizes, strides, dtype});
    return {RefKind::Input, 0, static_cast<uint32_t>(inputs.size() - 1)};
}

namespace {

// The dimensions along which there are different elements, from the largest stride to the smallest.
std::vector<size_t> dims_by_stride(const Dims& sizes, const Dims& strides) {
    std::vector<size_t> order;
    for (size_t d = 0; d < sizes.size(); ++d)
        if (strides[d] != 0 && sizes[d] != 1) order.push_back(d);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return std::abs(strides[a]) > std::abs(strides[b]); });
    return order;
}

// Strides without gaps, in the order of the given ones; what is repeated stays repeated.
Dims packed_strides(const Dims& sizes, const Dims& strides) {
    const std::vector<size_t> order = dims_by_stride(sizes, strides);
    Dims packed = strides;
    int64_t step = 1;
    for (size_t k = order.size(); k-- > 0;) {
        packed[order[k]] = step;
        step *= sizes[order[k]];
    }
    return packed;
}

// The different elements of a tensor, as packed_strides lays them out. Plain loops: nothing here may run other code.
void pack(char* to, const Tensor& tensor) {
    const std::vector<size_t> order = dims_by_stride(tensor.sizes, tensor.strides);
    const size_t item = itemsize(tensor.dtype);
    size_t depth = order.size(), run = item;
    if (depth > 0 && tensor.strides[order[depth - 1]] == 1) run *= static_cast<size_t>(tensor.sizes[order[--depth]]);
    std::vector<int64_t> at(depth, 0);
    for (const char* from = static_cast<const char*>(tensor.data());; to += run) {
        std::memcpy(to, from, run);
        size_t k = depth;
        for (; k > 0; --k) {
            const int64_t step = tensor.strides[order[k - 1]] * static_cast<int64_t>(item);
            const int64_t size = tensor.sizes[order[k - 1]];
            if (++at[k - 1] < size) {
                from += step;
                break;
            }
            at[k - 1] = 0;
            from -= step * (size - 1);
        }
        if (k == 0) return;
    }
}

}  // namespace

ValueRef Trace::input_of_copy(Tensor& tensor) {
    if (tensor.numel == 0) return input_of(tensor.storage, tensor.offset, tensor.sizes, tensor.strides, tensor.dtype);
    const auto [low, high] = element_span(tensor.sizes, tensor.strides, tensor.offset);
    const auto item = static_cast<int64_t>(itemsize(tensor.dtype));
    int64_t distinct = 1;
    for (size_t d = 0; d < tensor.sizes.size(); ++d) distinct *= tensor.strides[d] == 0 ? 1 : tensor.sizes[d];
    // A view with large gaps is copied without them.
    const bool packed = high - low > 2 * distinct && !on_gpu(tensor.device());
    const Dims strides = packed ? packed_strides(tensor.sizes, tensor.strides) : tensor.strides;
    const int64_t offset = packed ? 0 : tensor.offset - low;
    auto copy = [&] {
        Ref<Storage> made = Storage::allocate(static_cast<size_t>((packed ? distinct : high - low) * item),
                                              tensor.storage->device);
        if (packed) pack(static_cast<char*>(made->data), tensor);
        else copy_bytes(made->place(), tensor.storage->place().plus(low * item), made->nbytes);
        return made;
    };
    auto unchanged = [&](const Storage& taken) {
        if (on_gpu(taken.device)) return false;
        if (packed) return std::memcmp(taken.data, copy()->data, taken.nbytes) == 0;
        return std::memcmp(taken.data, static_cast<char*>(tensor.storage->data) + low * item, taken.nbytes) == 0;
    };
    for (const Snapshot& known : snapshots_)
        if (known.source.is(tensor.storage, tensor.offset, tensor.sizes, tensor.strides, tensor.dtype) &&
            unchanged(*known.copy))
            return input_of(known.copy, offset, tensor.sizes, strides, tensor.dtype);
    snapshots_.push_back({{tensor.storage, tensor.offset, tensor.sizes, tensor.strides, tensor.dtype},
                          copy(),
                          {Py_XNewRef(source_.code), source_.lasti}});
    return input_of(snapshots_.back().copy, offset, tensor.sizes, strides, tensor.dtype);
}

void Trace::drop_unreachable() {
    std::unordered_map<Storage*, uint32_t> held;
    for (const TraceInput& input : inputs)
        if (input.storage->pending) ++held[input.storage.get()];
    for (const auto& [storage, count] : held) {
        if (storage->refcount != count || storage->pending->trace != this) continue;
        results[nodes[storage->pending->node].first_result + storage->pending->result].storage = nullptr;
        delete storage->pending;
        storage->pending = nullptr;
    }
}

bool Trace::reads(const Storage* storage) const {
    return std::any_of(inputs.begin(), inputs.end(),
                       [&](const TraceInput& input) { return input.storage.get() == storage; });
}

bool Trace::keep_input(Storage* storage) {
    if (!reads(storage)) return true;
    if (wait_until_idle()) return false;
    Ref<Storage> copy = Storage::copy(*storage);
    for (TraceInput& input : inputs) {
        if (input.storage.get() != storage) continue;
        --storage->readers;
        input.storage = copy;
        ++copy->readers;
    }
    return true;
}

}  // namespace mt::trace
