// Where what is recorded ends and something else begins: at observed values, where a loop repeats itself, and where the
// policy has what follows run eagerly.
#include <utility>

#include "autograd/engine.h"
#include "dispatch/thread_local_state.h"
#include "trace/plan/plan.h"
#include "trace/recording/trace.h"

namespace mt::trace {

// Compiled functions are one trace, whatever they do, and so are calls of others that are known to be short: programs
// can be kept of them. A pass of gradients is a part of a round.
bool Trace::ends_before(const Call& call, const SourceRef& source) {
    if (uncut && function_nodes + nodes.size() < kShortCall) return false;
    return owner == 0 && !whole_function && !current_tag.must && !backward_id() &&
           repetition_.ends(*this, *call.op, source);
}

void Trace::observe(const char* what) {
    if (eager_region_ && !end_eager_region()) return;
    if (repetition_.after_part() && !current_tag.must) flush_now(*this, what);
}

void Trace::set_program(bool is_program) {
    wake();
    policy_.start();
    gated = is_program_ = is_program;
}

void Trace::wake() {
    if (!eager_region_) return;
    eager_region_ = gated = false;
    eager_budget = 0;
    capture_sources = true;
    policy_.forget();
}

// A value is observed while the policy is paused: false if nothing changes by that.
bool Trace::end_eager_region() {
    if (!policy_.observe(eager_budget)) return false;
    eager_budget = 0;
    eager_region_ = false;
    gated = is_program_;
    capture_sources = true;
    return true;
}

bool Trace::goes_by_policy() const {
    return is_program_ && nested == 0 && owner == 0 && !whole_function && may_measure();
}

// A part of a loop is over: it runs now.
void Trace::end_part() {
    ended_as_part_ = was_cut = true;
    flush_now(*this, "the trace repeats itself");
    repetition_.begin_part();
}

bool Trace::asks_policy(Call& call, const SourceRef& at) {
    eager_budget = policy_.begin(call, at);
    eager_region_ = gated = eager_budget != 0;
    if (eager_region_) capture_sources = flush_callback != nullptr;  // for the account
    return eager_region_;
}

bool Trace::may_begin_call() const {
    return goes_by_policy() && !runner && !(eager_region_ && policy_.is_paused()) && current_tag.compile == -1 &&
           !current_tag.must && !current_tag.scope && !flush_callback && !launch_profile_callback &&
           !profile_callback && !function_log && !vmap_depth && !thread_settings.inference_mode;
}

bool Trace::end_run(const char* why) {
    if (eager_region_ && !end_eager_region()) return false;
    if (!nodes.empty() || repetition_.after_part()) flush_now(*this, why);
    return current == this && nodes.empty() && !eager_region_ && !runner;
}

Trace::CallRuns Trace::begin_call(const OpDef& kind, uint64_t work) {
    SourceRef at;
    capture_source(&at);  // makes Python objects
    const PyRef code(at.code);
    if (!code || runner || eager_region_ || !nodes.empty()) return CallRuns::AsEver;
    const uint32_t count = policy_.begin_call(kind, work, at);
    if (!count) {
        gated = false;  // what is recorded is this run
        return CallRuns::Recorded;
    }
    if (!policy_.is_paused()) return CallRuns::Eagerly;
    eager_budget = count;
    eager_region_ = gated = true;
    capture_sources = false;
    return CallRuns::AsEver;
}

bool Trace::prefers_eager(Call& call) {
    const bool part_ran = eager_region_ && policy_.counts_calls();
    if (eager_region_) {
        eager_budget = policy_.outlast();
        if (!eager_budget && backward_id()) eager_budget = Repetition::kNodes;  // no run begins in the midst of a pass
        if (eager_budget) return true;
        wake();
    }
    gated = false;  // until it is empty again, or long
    if (!goes_by_policy() || current_tag.compile != -1 || current_tag.must || runner) return false;
    const bool is_long = nodes.size() >= Repetition::kNodes;
    if (is_long) gated = true;
    else if (!nodes.empty() || (repetition_.after_part() && !part_ran)) return false;
    struct Position {
        SourceRef source;
        ~Position() { Py_XDECREF(source.code); }
    } position;
    capture_source(&position.source, policy_.expected_code());  // makes Python objects
    if (!position.source.code || runner || eager_region_) return false;
    if (is_long) {
        if (!ends_before(call, position.source)) return false;
        const SourceRef at = position.source;
        end_part();
        infer(call);  // of what the operands are now
        if (runner || eager_region_ || !nodes.empty()) return false;
        return asks_policy(call, at);
    }
    return nodes.empty() && asks_policy(call, position.source);
}

void Trace::end_call() {
    if (nodes.empty()) gated = is_program_;
}

}  // namespace mt::trace
