#pragma once

#include <cstdint>

namespace mt {

enum class DeviceType : uint8_t { CPU, CUDA, Meta, JitCPU, JitGPU, Count };

struct Device {
    DeviceType type = DeviceType::CPU;
    int8_t index = -1;
    bool operator==(const Device&) const = default;
};

}  // namespace mt
