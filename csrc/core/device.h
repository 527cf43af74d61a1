#pragma once

#include <cstdint>

namespace mt {

enum class DeviceType : uint8_t { CPU, CUDA, Meta, JitCPU, JitGPU, Count };

struct Device {
    DeviceType type = DeviceType::CPU;
    int8_t index = -1;
    bool operator==(const Device&) const = default;
};

// Where this thread makes tensors that say nothing of it.
Device default_device();
void set_default_device(Device device);

}  // namespace mt
