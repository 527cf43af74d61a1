#include "trace/plan/launch_scratch.h"

#include <utility>

#include "core/memory/allocator.h"
#include "core/process/interrupt.h"
#include "runtime/scratch.h"

namespace mt::trace {

namespace {

struct Memory {
    void* data = nullptr;
    size_t capacity = 0;

    ~Memory() { release(); }
    void release() { deallocate(std::exchange(data, nullptr), std::exchange(capacity, 0)); }
};

}  // namespace

void* launch_scratch(size_t bytes) {
    thread_local Memory memory;
    if (__builtin_expect(t_handlers != 0, 0)) {  // in the midst of a launch, whose memory stays as it is
        thread_local Scratch of_handlers;
        return of_handlers.get(bytes);
    }
    if (bytes > memory.capacity) {
        memory.release();
        memory.data = allocate(bytes);
        memory.capacity = bytes;
    }
    return memory.data;
}

}  // namespace mt::trace
