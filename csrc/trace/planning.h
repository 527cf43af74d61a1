// What became of the plans of the traces that begin at one place of the program.
#pragma once

#include <cstdint>
#include <memory>

#include "trace/plan.h"

namespace mt::trace {

// A program whose traces are never the same twice, as that of a loop over D[i, j] whose indices are part of the ops,
// would spend its time on plans that run once, op by op. So where several plans in a row launched nothing, a new
// signature is run op by op without one, and planned when it has come several times.
class PlanningHistory {
  public:
    // Whether the trace should be run without a plan of the compiler's, this time.
    bool skips(const Trace& trace, uint64_t signature_hash);
    // Enters the plan of a trace, which was made for it or was there.
    void enter(const Trace& trace, const Plan& plan, bool made);
};

PlanningHistory& planning_history();

// Runs the ops as they were recorded.
std::shared_ptr<Plan> plan_op_by_op(const Trace& trace);

}  // namespace mt::trace
