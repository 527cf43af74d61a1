// Memory of the GPUs: addresses that the host never dereferences. What a GPU does is done by functions that the
// runtime installs when the first tensor is put there; here is the cache of freed blocks, with its statistics.
//
// Work on one stream runs in the order in which it was given, so a block that was freed is given out again at once to
// work on the same stream. Blocks of other streams are kept apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/device.h"

namespace mt {

// Whether what lies on the device has an address of a GPU's instead of one of the host's.
inline bool on_gpu(Device device) { return device.type == DeviceType::CUDA || device.type == DeviceType::JitGPU; }

// Whether the host finds no elements at a storage's `data`.
inline bool beyond_host(Device device) { return device.type == DeviceType::CUDA || device.type >= DeviceType::JitGPU; }

// What drives the GPUs. All are called with the GIL held, and throw what went wrong.
struct DeviceRuntime {
    // The GPU with the index of a device that names none.
    int (*current)();
    // Throws unless there is a GPU with that index.
    void (*require)(int index);
    // New memory; 0 if there is none.
    uint64_t (*allocate)(int index, size_t nbytes);
    void (*release)(int index, uint64_t address);
    [[noreturn]] void (*out_of_memory)(int index, size_t nbytes);
    // These three are ordered with what the current stream was given before. The host's memory may be changed, or read,
    // as soon as the first two return.
    void (*copy_in)(int index, uint64_t to, const void* from, size_t nbytes);
    void (*copy_out)(int index, void* to, uint64_t from, size_t nbytes);
    void (*copy_within)(int index, uint64_t to, int from_index, uint64_t from, size_t nbytes);
    // Gives a block back once the streams that `record_stream` named are done with it.
    void (*release_later)(int index, uint32_t stream, uint64_t address, size_t nbytes);
};
extern const DeviceRuntime* device_runtime;
// Installs `device_runtime`, or throws what is missing; see bindings/tensor/device_memory.cpp.
extern void (*start_device_runtime)();

// The device with the index that it names or means; throws if it is not there.
Device existing_device(Device device);
// The number of the stream that this thread gives its work to; 0 is a GPU's default stream.
uint32_t current_stream(int index);
void set_current_stream(int index, uint32_t stream);

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

// Bytes of memory that may lie anywhere, as seen from here.
struct Place {
    Device device;
    void* data = nullptr;    // of the host
    uint64_t address = 0;    // of a GPU
    Place plus(int64_t bytes) const {
        Place place = *this;
        if (data) place.data = static_cast<char*>(data) + bytes;
        else place.address += static_cast<uint64_t>(bytes);
        return place;
    }
};
void copy_bytes(const Place& to, const Place& from, size_t nbytes);

}  // namespace mt
