#include "trace/policy/contest.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "trace/plan/plan.h"

namespace mt::trace {

PyRef (*losses_callback)(const PyRef&, const std::vector<Loss>&) = nullptr;

namespace {

constexpr uint64_t kRuns = 5;  // of each kind: the fastest of so many is hardly disturbed

bool launches(const Plan& plan) {
    return std::any_of(plan.steps.begin(), plan.steps.end(),
                       [](const Step& step) { return step.type == Step::Type::Launch; });
}

// About the bytes that go in and out of the launches that may lose.
int64_t work_of(const Plan& plan) {
    int64_t bytes = 0;
    for (const Step& step : plan.steps)
        if (step.may_lose) bytes += step.work_bytes;
    return bytes;
}

Step copy_of(const Step& step) {
    Step copy;
    copy.type = step.type;
    copy.node = step.node;
    copy.may_lose = step.may_lose;
    copy.group = step.group;
    copy.entry = step.entry;
    copy.inputs = step.inputs;
    copy.outputs = step.outputs;
    copy.scratch_bytes = step.scratch_bytes;
    copy.work_bytes = step.work_bytes;
    copy.reports_errors = step.reports_errors;
    copy.guarded = step.guarded;
    copy.executable = PyRef::borrow(step.executable.get());
    copy.name = step.name;
    copy.inside = step.inside;
    copy.observer = PyRef::borrow(step.observer.get());
    copy.program = PyRef::borrow(step.program.get());
    copy.device = step.device;
    copy.from_host = step.from_host;
    return copy;
}

// Memory that was there may be read by a later op, of what it held before.
void defer(const Trace& trace, const std::vector<bool>& nodes, Plan& plan) {
    for (ValueRef value : trace.live_results()) {
        const Storage* storage = trace.results[trace.nodes[value.index].first_result + value.result].storage;
        if (!nodes[value.index] || !storage->has_memory()) continue;
        if (std::none_of(plan.deferred.begin(), plan.deferred.end(),
                         [&](ValueRef known) { return known.word() == value.word(); }))
            plan.deferred.push_back(value);
    }
}

// The same plan with ops in the place of some launches, by their numbers.
std::shared_ptr<Plan> without(const Trace& trace, const Plan& plan, const std::vector<bool>& some) {
    auto next = std::make_shared<Plan>();
    std::vector<bool> ops(trace.nodes.size());
    for (const Step& step : plan.steps) {
        if (step.group < 0 || !some[static_cast<size_t>(step.group)]) {
            next->steps.push_back(copy_of(step));
            continue;
        }
        std::vector<uint32_t> inside = step.inside;
        std::sort(inside.begin(), inside.end());
        for (uint32_t node : inside) {
            Step& op = next->steps.emplace_back();
            op.node = node;
            op.group = step.group;
            ops[node] = true;
        }
    }
    next->deferred = plan.deferred;
    defer(trace, ops, *next);
    if (launches(*next)) next->checks = plan.checks;
    next->record = PyRef::borrow(plan.record.get());
    next->structure = plan.structure;
    next->complete(trace);
    return next;
}

// The plan without the launches that lost.
std::shared_ptr<Plan> settled(const Trace& trace, const std::shared_ptr<Plan>& plan, const std::vector<Timed>& timed) {
    std::vector<bool> lost;
    std::transform(timed.begin(), timed.end(), std::back_inserter(lost),
                   [](const Timed& one) { return one.ops_ns < one.launch_ns; });
    std::vector<Loss> losses;
    for (const Step& step : plan->steps)
        if (step.group >= 0 && lost[static_cast<size_t>(step.group)])
            losses.push_back({step.name, timed[static_cast<size_t>(step.group)]});
    if (losses.empty()) {
        plan->contest.reset();
        plan->fastest.clear();
        return plan;
    }
    auto next = without(trace, *plan, lost);
    if (losses_callback) next->record = losses_callback(next->record, losses);
    return next;
}

}  // namespace

void begin_contest(Plan& plan) {
    int32_t groups = 0;
    for (Step& step : plan.steps)
        if (step.may_lose) step.group = groups++;
    if (!groups) return;
    plan.fastest.assign(static_cast<size_t>(groups), INT64_MAX);
    plan.contest = std::make_unique<Contest>();
}

uint64_t runs_left(const Plan& plan) {
    if (!plan.contest) return 0;
    const uint64_t here = plan.replays < kRuns ? kRuns - plan.replays : 0;
    return plan.contest->compiled ? here : here + kRuns;
}

std::shared_ptr<Plan> next_in_contest(const Trace& trace, const std::shared_ptr<Plan>& plan) {
    const std::shared_ptr<Plan> launching = plan->contest->compiled ? plan->contest->compiled : plan;
    const int64_t work = work_of(*launching);
    if (plan->structure)
        if (const std::vector<Timed>* timed = timed_before(plan->structure, plan->fastest.size(), work))
            return settled(trace, launching, *timed);
    if (plan->replays < kRuns) return plan;
    if (launching == plan) {
        auto ops = without(trace, *plan, std::vector<bool>(plan->fastest.size(), true));
        ops->contest = std::move(plan->contest);
        ops->contest->compiled = plan;
        ops->contest->launches_ns = std::exchange(plan->fastest, {});
        ops->fastest.assign(ops->contest->launches_ns.size(), INT64_MAX);
        return ops;
    }
    std::vector<Timed> timed;
    for (size_t g = 0; g < plan->fastest.size(); ++g)
        timed.push_back({plan->contest->launches_ns[g], plan->fastest[g]});
    if (plan->structure) note_timed(plan->structure, timed, work);
    return settled(trace, launching, timed);
}

std::shared_ptr<Plan> plan_op_by_op(const Trace& trace, uint64_t signature_hash, uint64_t structure) {
    auto plan = std::make_shared<Plan>();
    plan->op_by_op = signature_hash;
    plan->structure = structure;
    plan->steps.resize(trace.nodes.size());
    for (size_t n = 0; n < trace.nodes.size(); ++n) plan->steps[n].node = static_cast<uint32_t>(n);
    defer(trace, std::vector<bool>(trace.nodes.size(), true), *plan);
    plan->complete(trace);
    return plan;
}

}  // namespace mt::trace
