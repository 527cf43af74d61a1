// The DLPack ABI, version 1: the structures that its specification fixes.
#pragma once

#include <cstdint>

namespace mt::dlpack {

enum DeviceCode : int32_t { kCPU = 1, kCUDA = 2 };
enum TypeCode : uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6, kFloat8E4m3fn = 10 };

struct Device {
    int32_t device_type;
    int32_t device_id;
};

struct DataType {
    uint8_t code;
    uint8_t bits;
    uint16_t lanes;
};

struct Tensor {
    void* data;
    Device device;
    int32_t ndim;
    DataType dtype;
    int64_t* shape;
    int64_t* strides;
    uint64_t byte_offset;
};

struct ManagedTensor {
    Tensor dl_tensor;
    void* manager_ctx;
    void (*deleter)(ManagedTensor* self);
};

struct Version {
    uint32_t major;
    uint32_t minor;
};

struct ManagedTensorVersioned {
    Version version;
    void* manager_ctx;
    void (*deleter)(ManagedTensorVersioned* self);
    uint64_t flags;
    Tensor dl_tensor;
};
constexpr uint64_t kReadOnly = 1;

}  // namespace mt::dlpack
