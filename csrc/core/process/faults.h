// Faults on purpose, for tests: errors and signals at the places where they may come from anyway.
#pragma once

#include <atomic>
#include <cstdint>

namespace mt {

enum class FaultPlace : uint8_t { Allocation, Kernel, Launch, Compiler, Llvm, Count };

inline std::atomic<bool> faults_armed{false};

// Has the `at`-th passage of a place from now on, counted from 0, raise MemoryError (an allocation) or RuntimeError, or
// abort (LLVM); `interrupts`: as if Ctrl-C were pressed there instead. Negative: never.
void arm_fault(FaultPlace place, int64_t at, bool interrupts);
// How often armed places have been passed.
int64_t fault_passages();
void reach_fault(FaultPlace place);

inline void fault_point(FaultPlace place) {
    if (__builtin_expect(faults_armed.load(std::memory_order_relaxed), 0)) reach_fault(place);
}

}  // namespace mt
