// Forks. A child has the forking thread alone: what other threads held at that moment nobody would ever let go of, and
// what they had to do nobody does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>

namespace mt {

// The locks of the whole process. A fork waits until it has them all, so each is held for moments only, and never by
// one that waits for the GIL.
enum class ProcessLock : uint8_t { OpNames, CodeMemory, MemoryCache, Signals, Streams, Count };
extern std::mutex process_locks[static_cast<size_t>(ProcessLock::Count)];
inline std::mutex& process_lock(ProcessLock which) noexcept { return process_locks[static_cast<size_t>(which)]; }

// What is to be done in every child, before anything else runs there: threads and what was begun on them are forgotten.
// It takes no lock, for all of them are held. A file has one, known when it is loaded.
bool at_fork_in_child(void (*forget)());

// How many forks lie between the program's first process and this one. What waits for another thread looks whether it
// has changed: a signal's handler may fork where its thread waits.
uint64_t forks() noexcept;

}  // namespace mt
