#include "core/memory/cuda_caching_allocator.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "core/error.h"
#include "core/memory/allocator.h"

namespace mt {

namespace {

constexpr size_t kSmallest = 512;

// All with the GIL held: no lock.
struct Gpu {
    DeviceMemoryStats stats;
    // Free blocks by stream and size.
    std::map<std::pair<uint32_t, size_t>, std::vector<uint64_t>> free;
    std::map<size_t, int64_t> in_use;
};

Gpu& gpu(int index) {
    static auto* gpus = new std::map<int, Gpu>;  // leaked: tensors may outlive static destruction
    return (*gpus)[index];
}

void raise(int64_t& peak, int64_t value) {
    if (value > peak) peak = value;
}

void note_use(Gpu& c, size_t size, size_t nbytes) {
    DeviceMemoryStats& s = c.stats;
    s.requested += static_cast<int64_t>(nbytes);
    s.allocated += static_cast<int64_t>(size);
    s.total_allocated += static_cast<int64_t>(size);
    ++s.blocks;
    raise(s.peak_requested, s.requested);
    raise(s.peak_allocated, s.allocated);
    raise(s.peak_blocks, s.blocks);
    ++c.in_use[size];
}

uint64_t from_driver(int index, Gpu& c, size_t size) {
    uint64_t address = device_runtime->allocate(index, size);
    if (!address) return 0;
    DeviceMemoryStats& s = c.stats;
    s.reserved += static_cast<int64_t>(size);
    s.total_reserved += static_cast<int64_t>(size);
    ++s.segments;
    raise(s.peak_reserved, s.reserved);
    raise(s.peak_segments, s.segments);
    return address;
}

}  // namespace

size_t device_rounded_size(size_t nbytes) { return rounded_size(std::max(nbytes, kSmallest)); }

DeviceBlock device_allocate(Device device, size_t nbytes) {
    if (!device_runtime) start_device_runtime();
    const int index = device.index;
    if (nbytes > SIZE_MAX / 2) device_runtime->out_of_memory(index, nbytes);
    Gpu& c = gpu(index);
    const size_t size = device_rounded_size(nbytes);
    const uint32_t stream = current_stream(index);
    ++c.stats.allocations;
    auto known = c.free.find({stream, size});
    if (known != c.free.end() && !known->second.empty()) {
        uint64_t address = known->second.back();
        known->second.pop_back();
        ++c.stats.cache_hits;
        note_use(c, size, nbytes);
        return {address, stream};
    }
    uint64_t address = from_driver(index, c, size);
    if (!address) {
        ++c.stats.retries;
        device_empty_cache(index);
        address = from_driver(index, c, size);
    }
    if (!address) {
        ++c.stats.failures;
        device_runtime->out_of_memory(index, nbytes);
    }
    note_use(c, size, nbytes);
    return {address, stream};
}

void device_free(Device device, DeviceBlock block, size_t nbytes, bool shared) noexcept {
    if (!block.address) return;
    Gpu& c = gpu(device.index);
    const size_t size = device_rounded_size(nbytes);
    DeviceMemoryStats& s = c.stats;
    s.requested -= static_cast<int64_t>(nbytes);
    s.allocated -= static_cast<int64_t>(size);
    s.total_freed += static_cast<int64_t>(size);
    --s.blocks;
    ++s.frees;
    if (auto known = c.in_use.find(size); --known->second == 0) c.in_use.erase(known);
    if (shared && device_runtime) device_runtime->release_later(device.index, block.stream, block.address, nbytes);
    else device_reuse(device.index, block, nbytes);
}

void device_reuse(int index, DeviceBlock block, size_t nbytes) noexcept {
    gpu(index).free[{block.stream, device_rounded_size(nbytes)}].push_back(block.address);
}

void device_empty_cache(int index) {
    if (!device_runtime) return;
    Gpu& c = gpu(index);
    auto free = std::exchange(c.free, {});
    for (const auto& [key, addresses] : free)
        for (uint64_t address : addresses) {
            c.stats.reserved -= static_cast<int64_t>(key.second);
            c.stats.total_released += static_cast<int64_t>(key.second);
            --c.stats.segments;
            device_runtime->release(index, address);
        }
}

DeviceMemoryStats& device_memory_stats(int index) { return gpu(index).stats; }

void device_reset_peaks(int index) {
    DeviceMemoryStats& s = gpu(index).stats;
    s.peak_requested = s.requested;
    s.peak_allocated = s.allocated;
    s.peak_reserved = s.reserved;
    s.peak_blocks = s.blocks;
    s.peak_segments = s.segments;
}

BlockCounts device_blocks_in_use(int index) {
    const Gpu& c = gpu(index);
    return {c.in_use.begin(), c.in_use.end()};
}

BlockCounts device_blocks_cached(int index) {
    std::map<size_t, int64_t> counts;
    for (const auto& [key, addresses] : gpu(index).free)
        if (!addresses.empty()) counts[key.second] += static_cast<int64_t>(addresses.size());
    return {counts.begin(), counts.end()};
}

}  // namespace mt
