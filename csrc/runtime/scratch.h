// Temporary memory that a thread keeps from one call to the next.
#pragma once

#include <cstddef>
#include <new>

namespace mt {

/// A buffer that grows and is kept. Meant to be thread_local: get() then costs a comparison.
class Scratch {
  public:
    Scratch() = default;
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch();

    /// At least `bytes` bytes, 64-byte aligned, valid until the next get(). The contents are not kept. Throws
    /// std::bad_alloc.
    void* get(size_t bytes) {
        if (bytes > capacity_) grow(bytes);
        return data_;
    }

  private:
    void grow(size_t bytes);

    void* data_ = nullptr;
    size_t capacity_ = 0;
};

}  // namespace mt
