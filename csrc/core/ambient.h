// What a call means beside its operands and parameters: one value that it carries, so that inference, kernels and
// compiled code read nothing else. A recorded node keeps it, and it is a part of the signature.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace mt {

// How the operands of float32 products may be rounded (set_float32_matmul_precision).
enum class MatmulPrecision : uint8_t { Highest, High, Medium };

class Ambient {
  public:
    constexpr Ambient() = default;
    constexpr DType default_dtype() const { return static_cast<DType>(word_ & 0xFF); }
    DType default_complex_dtype() const { return complex_dtype(default_dtype()); }
    constexpr MatmulPrecision matmul_precision() const { return static_cast<MatmulPrecision>(word_ >> 8 & 0xFF); }
    constexpr Ambient with(DType default_dtype) const {
        return Ambient((word_ & ~uint32_t{0xFF}) | static_cast<uint32_t>(default_dtype));
    }
    constexpr Ambient with(MatmulPrecision precision) const {
        return Ambient((word_ & ~uint32_t{0xFF00}) | static_cast<uint32_t>(precision) << 8);
    }
    // All of it.
    constexpr uint32_t word() const { return word_; }
    constexpr bool operator==(const Ambient&) const = default;

  private:
    explicit constexpr Ambient(uint32_t word) : word_(word) {}
    uint32_t word_ = static_cast<uint32_t>(DType::F32);
};

}  // namespace mt
