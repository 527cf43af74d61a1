#include "trace/planning.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

namespace mt::trace {

namespace {

constexpr size_t kInVain = 8;          // plans in a row that launched nothing: the next is not made
constexpr size_t kMaxPlaces = 256;     // more are forgotten, all at once
constexpr int kRequests = 8;           // of a signature that is planned all the same
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

std::map<Place, size_t>& in_vain() {
    static auto* counts = new std::map<Place, size_t>;
    return *counts;
}
// How often signatures came that were not planned, by their hashes.
std::unordered_map<uint64_t, int>& requests() {
    static auto* counts = new std::unordered_map<uint64_t, int>;
    return *counts;
}

Place place_of(const Trace& trace) {
    const TraceNode& first = trace.nodes[0];
    return {first.op, PyRef(Py_XNewRef(first.source.code)), first.source.lasti, options_id()};
}

// Whether the ops can run one by one and nobody would miss an account of them.
bool plain(const Trace& trace) {
    if (trace.owner != 0 || trace.whole_function || flush_hook || launch_profile_hook) return false;
    return std::all_of(trace.nodes.begin(), trace.nodes.end(),
                       [](const TraceNode& node) { return node.device.type == DeviceType::CPU && !node.tag.must; });
}

}  // namespace

PlanningHistory& planning_history() {
    static PlanningHistory history;
    return history;
}

bool PlanningHistory::skips(const Trace& trace, uint64_t signature_hash) {
    if (in_vain().empty() || !plain(trace)) return false;
    auto known = in_vain().find(place_of(trace));
    if (known == in_vain().end() || known->second < kInVain) return false;
    if (requests().size() >= kMaxSignatures) requests().clear();
    return ++requests()[signature_hash] < kRequests;
}

void PlanningHistory::enter(const Trace& trace, const Plan& plan, bool made) {
    if (!made && in_vain().empty()) return;
    const bool launches = std::any_of(plan.steps.begin(), plan.steps.end(),
                                      [](const Step& step) { return step.type == Step::Type::Launch; });
    if (launches) {
        in_vain().erase(place_of(trace));
    } else if (made) {
        if (in_vain().size() >= kMaxPlaces) in_vain().clear();
        ++in_vain()[place_of(trace)];
    }
}

std::shared_ptr<Plan> plan_op_by_op(const Trace& trace) {
    auto plan = std::make_shared<Plan>();
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
