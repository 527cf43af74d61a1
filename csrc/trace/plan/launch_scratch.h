// The scratch memory of launches on the CPU. It is the allocator's, so that its statistics have it.
#pragma once

#include <cstddef>

#include "core/tensor.h"

namespace mt::trace {

// Scratch memory of the launch in whose scope it is: `bytes` bytes, aligned to 64, whose contents are not kept. Each
// thread keeps what its largest launch needed. A launch in the midst of another one, a signal handler's or of Python
// that compiled code calls, has memory of its own.
class LaunchScratch {
  public:
    // Throws OutOfMemory. No bytes: no memory, and nothing belongs to the launch.
    explicit LaunchScratch(size_t bytes);
    ~LaunchScratch();
    LaunchScratch(const LaunchScratch&) = delete;
    LaunchScratch& operator=(const LaunchScratch&) = delete;

    void* data() const;

    // A dict of what belongs to the launch that runs in this thread, with the interpreter's lock; it goes when the
    // launch ends, in whatever way. Borrowed; null with a Python error, or without one if no launch runs.
    static PyObject* values();
    // A part of that launch's memory, for others: none of it is used again while the storage lives. Null if no launch
    // runs or `data` is elsewhere.
    static Ref<Storage> share(void* data, size_t bytes);

  private:
    struct Block;
    struct OfThread;

    static void drop(Block* block) noexcept;

    Block* block_ = nullptr;
    PyObject* values_ = nullptr;
    LaunchScratch* outer_;
    thread_local static OfThread t_thread;
};

}  // namespace mt::trace
