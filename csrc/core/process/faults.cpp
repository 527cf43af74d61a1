#include "core/process/faults.h"

#include <csignal>
#include <cstdlib>

#include "core/error.h"
#include "core/process/interrupt.h"

namespace mt {

namespace {

std::atomic<FaultPlace> g_place{FaultPlace::Count};
std::atomic<int64_t> g_at{-1}, g_passed{0};
std::atomic<bool> g_interrupts{false};

}  // namespace

void arm_fault(FaultPlace place, int64_t at, bool interrupts) {
    g_place = place;
    g_at = at;
    g_interrupts = interrupts;
    g_passed = 0;
    faults_armed = place != FaultPlace::Count;
}

int64_t fault_passages() { return g_passed; }

void reach_fault(FaultPlace place) {
    if (place != g_place || g_passed.fetch_add(1) != g_at) return;
    if (g_interrupts) {
        std::raise(SIGINT);
        if (signals_callback) signals_callback();
        return;
    }
    if (place == FaultPlace::Llvm) std::abort();
    if (place == FaultPlace::Allocation) throw Error(ErrorKind::OutOfMemory, "a fault on purpose: no memory");
    fail("a fault on purpose");
}

}  // namespace mt
