#include "core/memory/device_runtime.h"

#include <cstring>
#include <utility>
#include <vector>

namespace mt {

const DeviceRuntime* device_runtime = nullptr;
void (*start_device_runtime)() = nullptr;

namespace {

// Few, and mostly one: a thread's streams that are not the default one.
thread_local std::vector<std::pair<int, uint32_t>> t_streams;

}  // namespace

Device existing_device(Device device) {
    if (!on_gpu(device)) return device;
    if (!device_runtime) start_device_runtime();
    if (device.index < 0) device.index = static_cast<int8_t>(device_runtime->current());
    else device_runtime->require(device.index);
    return device;
}

uint32_t current_stream(int index) {
    for (const auto& [gpu, stream] : t_streams)
        if (gpu == index) return stream;
    return 0;
}

void set_current_stream(int index, uint32_t stream) {
    for (auto& [gpu, known] : t_streams)
        if (gpu == index) {
            known = stream;
            return;
        }
    t_streams.emplace_back(index, stream);
}

void copy_bytes(const DeviceAddress& to, const DeviceAddress& from, size_t nbytes) {
    if (!nbytes) return;
    const bool to_gpu = on_gpu(to.device), from_gpu = on_gpu(from.device);
    if (!to_gpu && !from_gpu) std::memcpy(to.data, from.data, nbytes);
    else if (!from_gpu) device_runtime->copy_in(to.device.index, to.address, from.data, nbytes);
    else if (!to_gpu) device_runtime->copy_out(from.device.index, to.data, from.address, nbytes);
    else device_runtime->copy_within(to.device.index, to.address, from.device.index, from.address, nbytes);
}

}  // namespace mt
