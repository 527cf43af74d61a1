// The CPUs that threads run on.
#pragma once

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <thread>

namespace mt {

/// How many this process may use.
inline int available_cpus() {
#if defined(__linux__)
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::max(1, CPU_COUNT(&set));
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

/// The CPU that this thread runs on, or -1.
inline int current_cpu() {
#if defined(__linux__)
    return sched_getcpu();
#else
    return -1;
#endif
}

/// Lets a thread run on all CPUs of this one but `cpu`, for one that sleeps or has not begun yet: then it runs on
/// another one. The system likes to put it here, beside the thread that wakes it, where one of the two keeps the other
/// from running.
inline void move_away(pthread_t thread, int cpu) {
#if defined(__linux__)
    cpu_set_t set;
    CPU_ZERO(&set);
    if (cpu < 0 || sched_getaffinity(0, sizeof(set), &set) != 0) return;
    CPU_CLR(static_cast<size_t>(cpu), &set);
    if (CPU_COUNT(&set) > 0) pthread_setaffinity_np(thread, sizeof(set), &set);
#else
    (void)thread;
    (void)cpu;
#endif
}

inline void cpu_relax() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

}  // namespace mt
