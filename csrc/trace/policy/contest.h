// Launches against their ops: which of a plan's clusters are slower than the ops that they are made of.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/python/python.h"
#include "trace/policy/rental.h"

namespace mt::trace {

class Trace;
struct Plan;

// Of a plan whose launches are measured first, and then their ops; the fastest run of either counts. Bits don't depend
// on the outcome.
struct Contest {
    std::shared_ptr<Plan> compiled;  // while its ops run: the plan that launches,
    std::vector<int64_t> launches_ns;  // and what each launch took
};

// Has the launches of a plan measured that might as well be ops, if it has any.
void begin_contest(Plan& plan);
// How many more runs it takes until no other plan comes in its place.
uint64_t runs_left(const Plan& plan);
// The plan to go on with; the same while it is measured. What was decided of the same ops at larger sizes is not
// measured again: a launch that won there saves a larger share of less work.
std::shared_ptr<Plan> next_in_contest(const Trace& trace, const std::shared_ptr<Plan>& plan);

struct Loss {
    std::string cluster;
    Timed timed;
};
// Told of the clusters that run op by op from now on, with what the account knows their plan by, if one is kept.
// Returns what it knows the next plan by.
extern PyRef (*losses_callback)(const PyRef& record, const std::vector<Loss>& losses);

// Runs the ops as they were recorded.
std::shared_ptr<Plan> plan_op_by_op(const Trace& trace, uint64_t signature_hash, uint64_t structure = 0);

}  // namespace mt::trace
