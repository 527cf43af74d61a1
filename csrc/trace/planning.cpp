#include "trace/planning.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace mt::trace {

namespace {

constexpr size_t kInVain = 8;          // plans in a row that launched nothing: the next is not made
constexpr size_t kNew = 4;             // plans in a row that were new: the next has to be worth its making
constexpr size_t kMaxPlaces = 256;     // more are forgotten, all at once
constexpr int kRequests = 8;           // of a signature that is planned all the same
constexpr int64_t kPlanNsPerOp = 500'000;  // about what a plan takes to make
constexpr size_t kMaxSignatures = 4096;

// Where a trace begins, and under which options it is planned. Holds the code object, so that no other gets its place.
struct Place {
    const OpDef* op;
    PyRef code;
    int lasti;
    uint64_t options;
    bool operator<(const Place& other) const {
        return std::make_tuple(op, code.get(), lasti, options) <
               std::make_tuple(other.op, other.code.get(), other.lasti, other.options);
    }
};

struct History {
    size_t in_vain = 0;   // plans in a row that launched nothing
    size_t all_new = 0;   // plans in a row of which none was needed again
    int64_t plan_ns = 0;  // what the last plan took to make
    int64_t ops_ns = -1;  // what the ops took to run, the last time; negative: not known
};

std::map<Place, History>& histories() {
    static auto* known = new std::map<Place, History>;
    return *known;
}
// Of a signature that was not planned: how often it came, and how long its ops took in all.
struct Unplanned {
    int requests = 0;
    int64_t ops_ns = 0;
};
std::unordered_map<uint64_t, Unplanned>& unplanned() {
    static auto* known = new std::unordered_map<uint64_t, Unplanned>;
    return *known;
}

MT_THREAD_LOCAL uint64_t last_part = 0;  // its signature's hash

Place place_of(const Trace& trace) {
    const TraceNode& first = trace.nodes[0];
    return {first.op, PyRef(Py_XNewRef(first.source.code)), first.source.lasti, options_id()};
}

// Whether the ops can run one by one and nobody would miss an account of them.
bool plain(const Trace& trace) {
    if (trace.owner != 0 || trace.whole_function || flush_hook || launch_profile_hook || !may_wait()) return false;
    return std::all_of(trace.nodes.begin(), trace.nodes.end(),
                       [](const TraceNode& node) { return node.device.type == DeviceType::CPU && !node.tag.must; });
}

// Whether the program says of an op that it is to be compiled.
bool is_asked_for(const Trace& trace) {
    return std::any_of(trace.nodes.begin(), trace.nodes.end(),
                       [](const TraceNode& node) { return node.tag.compile == 1; });
}

Unplanned& requested(uint64_t signature_hash) {
    if (unplanned().size() >= kMaxSignatures) unplanned().clear();
    Unplanned& known = unplanned()[signature_hash];
    ++known.requests;
    return known;
}

}  // namespace

PlanningHistory& planning_history() {
    static PlanningHistory history;
    return history;
}

bool PlanningHistory::skips(const Trace& trace, uint64_t signature_hash) {
    if (trace.is_part() && plain(trace) && !is_asked_for(trace)) {
        const Unplanned& known = requested(signature_hash);
        const bool again = std::exchange(last_part, signature_hash) == signature_hash || known.requests >= kRequests;
        // Its ops may run as long as a plan would take to make: so at most twice the time is spent that was needed. A
        // loop that has begun to do the same again and again will go on, also if it has parts of several kinds.
        const int64_t to_make = static_cast<int64_t>(trace.nodes.size()) * kPlanNsPerOp / (again ? 8 : 1);
        return known.ops_ns < to_make;
    }
    if (histories().empty() || !plain(trace)) return false;
    auto known = histories().find(place_of(trace));
    if (known == histories().end()) return false;
    const History& history = known->second;
    // The first time it is run to find out.
    const bool wasted = history.all_new >= kNew && history.ops_ns < history.plan_ns && !is_asked_for(trace);
    return (wasted || history.in_vain >= kInVain) && requested(signature_hash).requests < kRequests;
}

void PlanningHistory::enter(const Trace& trace, const Plan& plan, bool made, int64_t took_ns) {
    if (!made && plan.replays > 1) return;  // it is known
    if (!made && histories().empty()) return;
    const bool launches = std::any_of(plan.steps.begin(), plan.steps.end(),
                                      [](const Step& step) { return step.type == Step::Type::Launch; });
    if (histories().size() >= kMaxPlaces) histories().clear();
    History& history = histories()[place_of(trace)];
    if (!made) {
        history.all_new = 0;
    } else {
        ++history.all_new;
        history.plan_ns = took_ns;
    }
    if (launches) history.in_vain = 0;
    else if (made) ++history.in_vain;
}

void PlanningHistory::ran(const Trace& trace, uint64_t signature_hash, int64_t took_ns) {
    if (auto known = unplanned().find(signature_hash); known != unplanned().end()) known->second.ops_ns += took_ns;
    auto known = histories().find(place_of(trace));
    if (known != histories().end()) known->second.ops_ns = took_ns;
}

std::shared_ptr<Plan> plan_op_by_op(const Trace& trace, uint64_t signature_hash) {
    auto plan = std::make_shared<Plan>();
    plan->op_by_op = signature_hash;
    plan->steps.resize(trace.nodes.size());
    for (size_t n = 0; n < trace.nodes.size(); ++n) plan->steps[n].node = static_cast<uint32_t>(n);
    // Memory that was there may be read by a later op, of what it held before.
    for (ValueRef value : trace.live_results()) {
        const Storage* storage = trace.results[trace.nodes[value.index].first_result + value.result].storage;
        if (storage->has_memory()) plan->deferred.push_back(value);
    }
    plan->complete(trace);
    return plan;
}

}  // namespace mt::trace
