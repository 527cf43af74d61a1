// What became of the plans of the traces that begin at one place of the program.
#pragma once

#include <cstdint>
#include <memory>

#include "trace/plan.h"

namespace mt::trace {

// A program whose traces are never the same twice, as that of a loop over D[i, j] or x[:i], would spend its time on
// plans that run once. So some traces are run op by op, without a plan of the compiler's:
//
// - A part of a loop whose values nobody reads, until its ops have run for as long as a plan would take to make, or a
//   good part of that if it is like the part before it or has come several times: if the parts are never the same,
//   nothing was spent.
// - Where several plans in a row launched nothing, a new signature; it is planned when it has come several times.
// - Where several plans in a row were new, a new signature whose plan would take longer to make than its ops to run;
//   not where the program asks for its ops to be compiled.
//
// Which they are is decided by what has been, and by the clock. It has no say in results: those have the same bits.
class PlanningHistory {
  public:
    // Whether the trace should be run without a plan of the compiler's, this time.
    bool skips(const Trace& trace, uint64_t signature_hash);
    // Enters the plan of a trace, which was made for it, in so many nanoseconds, or was there.
    void enter(const Trace& trace, const Plan& plan, bool made, int64_t took_ns);
    // Enters how long the ops of a trace took that ran without a plan of the compiler's.
    void ran(const Trace& trace, uint64_t signature_hash, int64_t took_ns);
};

PlanningHistory& planning_history();

// Runs the ops as they were recorded.
std::shared_ptr<Plan> plan_op_by_op(const Trace& trace, uint64_t signature_hash);

}  // namespace mt::trace
