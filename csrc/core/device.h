#pragma once

#include <cstdint>

namespace mt {

// Sparse is no place: so is marked the storage of a tensor in a sparse layout, which has no memory. Its elements are
// those of other tensors; its index says where these are.
enum class DeviceType : uint8_t { CPU, CUDA, Meta, JitCPU, JitGPU, Sparse, Count };

struct Device {
    DeviceType type = DeviceType::CPU;
    int8_t index = -1;
    bool operator==(const Device&) const = default;
};

// The mark of a tensor in a sparse layout whose components are on `device`, and back.
inline Device sparse_mark(Device device) {
    const int place = device.type == DeviceType::CUDA ? device.index : -1 - static_cast<int>(device.type);
    return {DeviceType::Sparse, static_cast<int8_t>(place)};
}
inline Device place_of_components(Device device) {
    if (device.type != DeviceType::Sparse) return device;
    if (device.index >= 0) return {DeviceType::CUDA, device.index};
    return {static_cast<DeviceType>(-1 - device.index), -1};
}

}  // namespace mt
