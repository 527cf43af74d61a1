#include "core/process/fork.h"

#include <pthread.h>

#include <atomic>
#include <exception>
#include <iterator>

namespace mt {

constinit std::mutex process_locks[static_cast<size_t>(ProcessLock::Count)];

namespace {

constexpr size_t kMost = 16;
using Forget = void (*)();
constinit Forget g_forget[kMost] = {};
constinit std::atomic<size_t> g_forgets{0};
constinit std::atomic<uint64_t> g_forks{0};

// In whatever order others take them: nobody waits for one while it holds another that is wanted.
void hold() {
    for (size_t first = 0;;) {
        process_locks[first].lock();
        size_t held = 1;
        while (held < std::size(process_locks) && process_locks[(first + held) % std::size(process_locks)].try_lock())
            ++held;
        if (held == std::size(process_locks)) return;
        const size_t wanted = (first + held) % std::size(process_locks);
        while (held-- > 0) process_locks[(first + held) % std::size(process_locks)].unlock();
        first = wanted;
    }
}

void release() {
    for (std::mutex& lock : process_locks) lock.unlock();
}

void begin_child() {
    g_forks.fetch_add(1, std::memory_order_relaxed);
    for (size_t i = 0; i < g_forgets.load(std::memory_order_relaxed); ++i) g_forget[i]();
    release();
}

// Before main or the import ends, and so before any thread of ours.
[[maybe_unused]] const int registered = pthread_atfork(hold, release, begin_child);

}  // namespace

bool at_fork_in_child(void (*forget)()) {
    const size_t place = g_forgets.load(std::memory_order_relaxed);
    if (place == kMost) std::terminate();
    g_forget[place] = forget;
    g_forgets.store(place + 1, std::memory_order_relaxed);
    return true;
}

uint64_t forks() noexcept { return g_forks.load(std::memory_order_relaxed); }

}  // namespace mt
