// Plans as bytes, for the cache on disk: only such as do nothing else than to run code of the CPU and single ops.
//
// The bytes are for this very build of the core. Who keeps them has to see to that, and that they come back whole.
#pragma once

#include <string>
#include <string_view>

#include "trace/plan/plan.h"

namespace mt::trace {

std::string plan_to_bytes(const Plan& plan);

// A plan without code: its launches are in the order in which they were when it was written. Null if the bytes are no
// plan for the trace.
std::shared_ptr<Plan> plan_from_bytes(const Trace& trace, std::string_view bytes);

}  // namespace mt::trace
