#include "trace/launch_scratch.h"

#include <atomic>
#include <utility>

#include "core/ahead.h"
#include "core/allocator.h"
#include "core/interrupt.h"
#include "runtime/scratch.h"

namespace mt::trace {

namespace {

struct Memory {
    void* data = nullptr;
    size_t capacity = 0, largest = 0;

    ~Memory() { release(); }
    void release() {
        if (data) finish_ahead();
        deallocate(std::exchange(data, nullptr), std::exchange(capacity, 0));
        largest = 0;
    }
    void grow(size_t bytes) {
        release();
        data = take_ahead(bytes, &capacity);
        if (data) return;
        data = allocate(bytes);
        capacity = bytes;
    }
};

std::atomic<size_t> g_largest{0};

}  // namespace

void* launch_scratch(size_t bytes) {
    thread_local Memory memory;
    if (__builtin_expect(t_handlers != 0, 0)) {
        thread_local Scratch of_handlers;
        return of_handlers.get(bytes);
    }
    if (bytes > memory.largest) {
        if (bytes > memory.capacity) memory.grow(bytes);
        memory.largest = bytes;
        size_t known = g_largest.load(std::memory_order_relaxed);
        while (known < bytes && !g_largest.compare_exchange_weak(known, bytes, std::memory_order_relaxed)) {}
    }
    return memory.data;
}

size_t largest_launch_scratch() noexcept { return g_largest.load(std::memory_order_relaxed); }

}  // namespace mt::trace
