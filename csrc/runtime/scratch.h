// Temporary memory that a thread keeps from one call to the next.
#pragma once

#include <cstddef>
#include <new>

#include "core/interrupt.h"

namespace mt {

/// A buffer that grows and is kept. Meant to be thread_local: get() then costs a comparison.
class Scratch {
  public:
    Scratch() = default;
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch();

    /// At least `bytes` bytes, 64-byte aligned, valid until the next get(). The contents are not kept. Throws
    /// std::bad_alloc. A signal's handler gets memory of its own: the computation in whose middle it runs goes on.
    void* get(size_t bytes) {
        if (__builtin_expect(t_handlers != 0, 0)) return get_aside(bytes);
        if (bytes > capacity_) grow(bytes);
        return data_;
    }

    /// The same, but null where there is no memory.
    void* try_get(size_t bytes) noexcept {
        try {
            return get(bytes);
        } catch (...) { return nullptr; }
    }

  private:
    void grow(size_t bytes);
    void* get_aside(size_t bytes);

    Scratch* aside_ = nullptr;  // of handlers that run in the middle of what uses this
    void* data_ = nullptr;
    size_t capacity_ = 0;
};

}  // namespace mt
