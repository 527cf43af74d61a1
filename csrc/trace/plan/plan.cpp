#include "trace/plan/plan.h"

#include <algorithm>

#include "core/error.h"
#include "core/hash.h"
#include "dispatch/gpu.h"
#include "trace/plan/plan_cache.h"
#include "trace/policy/rental.h"

namespace mt::trace {

std::shared_ptr<Plan> (*compile_callback)(Trace&, uint64_t) = nullptr;
std::shared_ptr<Plan> (*recall_callback)(Trace&, uint64_t) = nullptr;

void load_compiler() {
    if (compile_callback) return;
    PyRef module(PyImport_ImportModule("minitensor_jit.api"));
    if (!module) fail_python();
}

namespace {

MT_THREAD_LOCAL uint64_t g_options_id = 0;

uint64_t hash_words(const std::vector<uint64_t>& words) {
    uint64_t h = 0x9E3779B97F4A7C15ull;
    for (uint64_t word : words) h = mixed(h, word);
    return h;
}

PlanCache& plans() {
    static auto* cache = new PlanCache;
    return *cache;
}

// Which inputs of launches on GPUs the host knows.
void find_host_inputs(const Trace& trace, Plan& plan) {
    for (Step& step : plan.steps) {
        if (!step.program) continue;
        for (const InputSlot& slot : step.inputs) {
            bool host = slot.random || slot.is_size || slot.value.kind == RefKind::Scalar;
            if (slot.value.kind == RefKind::Input) host = !on_gpu(trace.inputs[slot.value.index].storage->device);
            if (slot.value.kind == RefKind::Node) host = !on_gpu(trace.nodes[slot.value.index].device);
            step.from_host.push_back(host);
        }
    }
}

void count_last_uses(const Trace& trace, Plan& plan) {
    plan.last_use.assign(trace.results.size(), -1);
    auto use = [&](ValueRef value, size_t s) {
        if (value.kind == RefKind::Node)
            plan.last_use[trace.nodes[value.index].first_result + value.result] = static_cast<int32_t>(s);
    };
    for (size_t s = 0; s < plan.steps.size(); ++s) {
        const Step& step = plan.steps[s];
        if (step.type == Step::Type::Launch) {
            for (const InputSlot& slot : step.inputs) use(slot.value, s);
        } else {
            const TraceNode& node = trace.nodes[step.node];
            for (uint32_t i = 0; i < node.operand_count; ++i) use(trace.operands[node.first_operand + i], s);
        }
    }
    for (ValueRef value : plan.deferred) plan.last_use[trace.nodes[value.index].first_result + value.result] = -1;
}

}  // namespace

uint64_t options_id() { return g_options_id; }
void set_options_id(uint64_t id) { g_options_id = id; }
bool may_wait() { return g_options_id % 2 == 0; }
bool may_measure() { return g_options_id >> 1 & 1; }
bool is_careful() { return g_options_id >> 2 & 1; }

bool Plan::makes_all(const Trace& trace) const {
    std::vector<bool> made(trace.results.size(), false);
    auto flat = [&](ValueRef value) { return trace.nodes[value.index].first_result + value.result; };
    auto there = [&](ValueRef value) { return value.kind != RefKind::Node || made[flat(value)]; };
    for (const Step& step : steps) {
        if (step.type == Step::Type::Launch) {
            for (const InputSlot& slot : step.inputs)
                if (!slot.random && !slot.is_size && !there(slot.value)) return false;
            for (ValueRef value : step.outputs) made[flat(value)] = true;
        } else {
            const TraceNode& node = trace.nodes[step.node];
            for (uint32_t i = 0; i < node.operand_count; ++i)
                if (!there(trace.operands[node.first_operand + i])) return false;
            for (uint32_t r = 0; r < node.result_count; ++r) made[node.first_result + r] = true;
        }
    }
    if (!std::all_of(deferred.begin(), deferred.end(), there)) return false;
    for (size_t i = 0; i < made.size(); ++i)
        if (trace.results[i].storage && !made[i]) return false;
    return true;
}

void Plan::complete(const Trace& trace) {
    count_last_uses(trace, *this);
    find_host_inputs(trace, *this);
}

size_t Plan::bytes() const {
    size_t total = sizeof(Plan) + last_use.size() * sizeof(int32_t) + checks.size() * sizeof(BoundsCheck) +
                   deferred.size() * sizeof(ValueRef) + fastest.size() * sizeof(int64_t);
    for (const Step& step : steps)
        total += sizeof(Step) + step.inputs.size() * sizeof(InputSlot) + step.outputs.size() * sizeof(ValueRef) +
                 step.inside.size() * sizeof(uint32_t) + step.name.size();
    return total;
}

std::shared_ptr<Plan> plan_of(Trace& trace, bool* hit) {
    trace.finish_signature();
    uint64_t hash = hash_words(trace.signature);
    std::shared_ptr<Plan>* known = plans().find(trace.signature, hash);
    std::shared_ptr<Plan> plan = known ? *known : nullptr;
    *hit = plan != nullptr;
    if (!plan) {
        const bool is_run = trace.goes_by_policy();
        const uint64_t structure = is_run ? 0 : structure_of(trace);
        const Policy::Miss miss = trace.policy().miss(trace, hash, structure);
        if (miss == Policy::Miss::Wait) return plan_op_by_op(trace, hash, structure);
        const int64_t started = policy_clock();
        if (miss == Policy::Miss::Recall) {
            plan = recall_callback ? recall_callback(trace, hash) : nullptr;
            if (plan) note_cost_of_recalling(policy_clock() - started);
        } else {
            load_compiler();
            plan = compile_callback(trace, miss == Policy::Miss::Compile ? hash : 0);
        }
        Policy::planned(trace, structure, policy_clock() - started, plan && miss != Policy::Miss::Recall);
        if (!plan) {
            Policy::not_there(hash, miss);
            return plan_op_by_op(trace, hash, structure);
        }
        plan->structure = structure;
        if (plan->contest) plan = next_in_contest(trace, plan);
        plans().insert(trace.signature, hash, trace.owner, plan);
    } else if (plan->contest && !launch_profile_callback) {
        std::shared_ptr<Plan> next = next_in_contest(trace, plan);
        // Python ran: the cache may have changed.
        if (next != plan && (known = plans().find(trace.signature, hash))) *known = next;
        plan = std::move(next);
    }
    return plan;
}

PlanCacheInfo plan_cache_info() {
    const PlanCache& p = plans();
    return {p.hits, p.misses, p.evicted, p.size(), p.bytes, p.limit};
}
void clear_plan_cache() {
    plans().clear();
    Policy::clear();
}
void set_plan_cache_limit(uint64_t bytes) {
    plans().limit = bytes;
    plans().shrink();
}
void forget_plans_of(uint64_t owner) { plans().forget(owner); }

}  // namespace mt::trace
