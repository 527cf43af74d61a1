// The caching allocator of the GPUs: freed blocks by GPU, stream and size, with statistics.
//
// Work on one stream runs in the order in which it was given, so a block that was freed is given out again at once to
// work on the same stream. Blocks of other streams are kept apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/memory/device_runtime.h"

namespace mt {

struct DeviceBlock {
    uint64_t address = 0;
    uint32_t stream = 0;
};
// Throws OutOfMemory, after giving back what is cached and trying again.
DeviceBlock device_allocate(Device device, size_t nbytes);
// `shared`: other streams read it too.
void device_free(Device device, DeviceBlock block, size_t nbytes, bool shared = false) noexcept;
// What `release_later` was told of goes back into the cache.
void device_reuse(int index, DeviceBlock block, size_t nbytes) noexcept;
void device_empty_cache(int index);
// Bytes that a request for `nbytes` takes.
size_t device_rounded_size(size_t nbytes);

struct DeviceMemoryStats {
    int64_t requested = 0, peak_requested = 0;  // bytes that tensors asked for
    int64_t allocated = 0, peak_allocated = 0;  // what they take, as rounded
    int64_t reserved = 0, peak_reserved = 0;    // what was obtained from the driver
    int64_t blocks = 0, peak_blocks = 0, segments = 0, peak_segments = 0;
    int64_t total_allocated = 0, total_freed = 0, total_reserved = 0, total_released = 0;  // bytes since the start
    int64_t allocations = 0, frees = 0, cache_hits = 0, retries = 0, failures = 0;
};
DeviceMemoryStats& device_memory_stats(int index);
void device_reset_peaks(int index);
// (bytes, how many) of the blocks in use, and of those in the cache, by size.
using BlockCounts = std::vector<std::pair<size_t, int64_t>>;
BlockCounts device_blocks_in_use(int index);
BlockCounts device_blocks_cached(int index);

}  // namespace mt
