#include "core/ahead.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "core/allocator.h"
#include "core/error.h"
#include "core/fork.h"
#include "core/parallel.h"

#if defined(__linux__) && !defined(MADV_POPULATE_WRITE)
#define MADV_POPULATE_WRITE 23  // Linux 5.14; older ones refuse it, and nothing is touched
#endif

namespace mt {

namespace {

constexpr size_t kHuge = size_t{2} << 20;

struct Ahead {
    void* data = nullptr;  // the block: under the lock
    size_t size = 0;
    std::atomic<bool> running{false}, stop{false};
};

Ahead& ahead() {
    static Ahead* instance = new Ahead;  // leaked: its thread may outlive static destruction
    return *instance;
}

std::mutex& lock_of_block() { return process_lock(ProcessLock::MemoryAhead); }

// The thread isn't there in a child; the block is.
[[maybe_unused]] const bool forgotten = at_fork_in_child(
    [] { ahead().running.store(false, std::memory_order_relaxed); });

// From the beginning, as it will be used.
void touch(char* data, size_t size) {
    for (size_t at = 0; at < size && !ahead().stop.load(std::memory_order_relaxed); at += kHuge)
        if (madvise(data + at, std::min(kHuge, size - at), MADV_POPULATE_WRITE) != 0) break;
    ahead().running.store(false, std::memory_order_release);
}

void start_thread(char* data, size_t size) {
    Ahead& a = ahead();
    a.stop.store(false, std::memory_order_relaxed);
    a.running.store(true, std::memory_order_relaxed);
    // Signals belong to the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
        std::thread(touch, data, size).detach();
    } catch (const std::system_error&) { a.running.store(false, std::memory_order_relaxed); }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

}  // namespace

void touch_ahead(size_t nbytes) {
    nbytes = std::min(nbytes, kMostAhead);
    if (nbytes < kHuge || num_threads() == 1 || nbytes <= bytes_ahead()) return;
    drop_ahead();
    Ahead& a = ahead();
    std::lock_guard lock(lock_of_block());
    if (a.data || a.running.load(std::memory_order_acquire)) return;
    try {
        a.data = allocate(nbytes);
    } catch (const Error&) { return; }
    a.size = nbytes;
    start_thread(static_cast<char*>(a.data), nbytes);
}

void* take_ahead(size_t nbytes, size_t* size) {
    if (bytes_ahead() < nbytes) {
        drop_ahead();
        return nullptr;
    }
    Ahead& a = ahead();
    std::lock_guard lock(lock_of_block());
    *size = std::exchange(a.size, 0);
    return std::exchange(a.data, nullptr);
}

void finish_ahead() noexcept {
    Ahead& a = ahead();
    a.stop.store(true, std::memory_order_relaxed);
    while (a.running.load(std::memory_order_acquire)) sched_yield();
}

void drop_ahead() noexcept {
    Ahead& a = ahead();
    std::lock_guard lock(lock_of_block());
    if (!a.data) return;
    finish_ahead();
    discard(a.data, 0, a.size);
    deallocate(std::exchange(a.data, nullptr), std::exchange(a.size, 0));
}

size_t bytes_ahead() noexcept {
    Ahead& a = ahead();
    std::lock_guard lock(lock_of_block());
    return a.size;
}

}  // namespace mt
