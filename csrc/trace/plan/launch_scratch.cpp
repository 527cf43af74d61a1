#include "trace/plan/launch_scratch.h"

#include <Python.h>

#include <atomic>
#include <functional>
#include <utility>

#include "core/memory/allocator.h"

namespace mt::trace {

struct LaunchScratch::Block {
    void* data;
    size_t capacity;
    // The thread or launch that it is of, and the storages that were given to others; these may die on any thread.
    std::atomic<int> owners{1};

    explicit Block(size_t bytes) : data(allocate(bytes)), capacity(bytes) {}
    ~Block() { deallocate(data, capacity); }
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
};

struct LaunchScratch::OfThread {
    Block* block = nullptr;  // null while a launch has it
    LaunchScratch* running = nullptr;

    ~OfThread() {
        if (block) drop(block);
    }
};

constinit thread_local LaunchScratch::OfThread LaunchScratch::t_thread;

void LaunchScratch::drop(Block* block) noexcept {
    if (block->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) delete block;
}

LaunchScratch::LaunchScratch(size_t bytes) : outer_(t_thread.running) {
    if (bytes == 0) return;
    Block* known = std::exchange(t_thread.block, nullptr);
    if (known && known->capacity < bytes) drop(std::exchange(known, nullptr));
    block_ = known ? known : new Block(bytes);
    t_thread.running = this;
}

LaunchScratch::~LaunchScratch() {
    if (!block_) return;
    t_thread.running = outer_;
    Py_XDECREF(values_);
    if (outer_ || block_->owners.load(std::memory_order_acquire) != 1) drop(block_);
    else t_thread.block = block_;
}

void* LaunchScratch::data() const { return block_ ? block_->data : nullptr; }

PyObject* LaunchScratch::values() {
    LaunchScratch* running = t_thread.running;
    if (running && !running->values_) running->values_ = PyDict_New();
    return running ? running->values_ : nullptr;
}

Ref<Storage> LaunchScratch::share(void* data, size_t bytes) {
    Block* block = t_thread.running ? t_thread.running->block_ : nullptr;
    if (!block || std::less<>()(data, block->data)) return {};
    const auto offset = static_cast<size_t>(static_cast<char*>(data) - static_cast<char*>(block->data));
    if (offset > block->capacity || bytes > block->capacity - offset) return {};
    block->owners.fetch_add(1, std::memory_order_relaxed);
    auto release = [](void* context) { drop(static_cast<Block*>(context)); };
    try {
        return Storage::wrap(data, bytes, release, block);
    } catch (...) {
        drop(block);
        throw;
    }
}

}  // namespace mt::trace
