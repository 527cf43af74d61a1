// Temporary memory that a thread keeps from one call to the next.
#pragma once

#include <cstddef>
#include <new>

#include "core/process/interrupt.h"

namespace mt {

/// A buffer that grows and is kept. Meant to be thread_local: get() then costs two comparisons, and a thread's memory
/// has one pointer of it, as the loader has little room for that (tests/project/test_installation.py).
class Scratch {
  public:
    Scratch() = default;
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;
    ~Scratch();

    /// At least `bytes` bytes, 64-byte aligned, valid until the next get(). The contents are not kept. Throws
    /// std::bad_alloc. A signal's handler gets memory of its own: the computation in whose middle it runs goes on.
    void* get(size_t bytes);

    /// The same, but null where there is no memory.
    void* try_get(size_t bytes) noexcept {
        try {
            return get(bytes);
        } catch (...) { return nullptr; }
    }

  private:
    struct Block;

    void grow(size_t bytes);
    void* get_aside(size_t bytes);

    Block* block_ = nullptr;
};

struct Scratch::Block {
    void* data = nullptr;
    size_t capacity = 0;
    Scratch aside;  // of handlers that run in the middle of what uses this
};

inline void* Scratch::get(size_t bytes) {
    if (__builtin_expect(t_handlers != 0, 0)) return get_aside(bytes);
    if (block_ == nullptr || bytes > block_->capacity) grow(bytes);
    return block_->data;
}

}  // namespace mt
