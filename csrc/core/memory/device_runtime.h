// The GPUs as the core sees them: addresses that the host never dereferences, and functions that do what a GPU does,
// which are installed when the first tensor is put there.
#pragma once

#include <cstddef>
#include <cstdint>

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
// Installs `device_runtime`, or throws what is missing; see bindings/cuda.cpp.
extern void (*start_device_runtime)();

// The device with the index that it names or means; throws if it is not there.
Device existing_device(Device device);
// The number of the stream that this thread gives its work to; 0 is a GPU's default stream.
uint32_t current_stream(int index);
void set_current_stream(int index, uint32_t stream);

// Bytes of memory that may lie anywhere, as seen from here.
struct DeviceAddress {
    Device device;
    void* data = nullptr;    // of the host
    uint64_t address = 0;    // of a GPU
    DeviceAddress plus(int64_t bytes) const {
        DeviceAddress place = *this;
        if (data) place.data = static_cast<char*>(data) + bytes;
        else place.address += static_cast<uint64_t>(bytes);
        return place;
    }
};
void copy_bytes(const DeviceAddress& to, const DeviceAddress& from, size_t nbytes);

}  // namespace mt
