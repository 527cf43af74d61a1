#include "trace/policy/policy.h"

#include <algorithm>
#include <utility>

#include "core/hash.h"
#include "dispatch/thread_local_state.h"
#include "trace/plan/plan.h"
#include "trace/policy/rental.h"

namespace mt::trace {

int64_t (*policy_clock)() = now_ns;
PyRef (*demoted_callback)(const PyRef&, const SourceRef&, int64_t, int64_t) = nullptr;
void (*demoted_ran_callback)(const PyRef&) = nullptr;
bool (*submit_callback)(const Trace&, uint64_t, bool) = nullptr;

bool compiles_at_once() { return !may_wait() || flush_callback || launch_profile_callback; }

namespace {

// What recording a call takes beside dispatching it; a flush is measured.
constexpr int64_t kRecordNs = 250;
// What a first run op by op is expected to lose for each call, with its flush.
constexpr int64_t kLearnNs = 1'000;

// Of what the call is made on.
uint64_t operands_of(const Call& call) {
    uint64_t hash = settings_word();
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Tensor* t = call.operands[i].tensor;
        if (!t) continue;
        hash = mixed(hash, static_cast<uint64_t>(t->dtype) << 8 | t->sizes.size());
        for (int64_t size : t->sizes) hash = mixed(hash, static_cast<uint64_t>(size));
    }
    return hash;
}

// Whether a trace can't run op by op for once.
bool must_be_compiled(const Trace& trace) {
    if (trace.owner != 0 || trace.whole_function) return true;
    return std::any_of(trace.nodes.begin(), trace.nodes.end(),
                       [](const TraceNode& node) { return node.device.type != DeviceType::CPU || node.tag.must; });
}

}  // namespace

uint64_t Policy::epoch = 0;

void Policy::clear() {
    ++epoch;
    forget_signatures();
}

void Policy::start() {
    forget();
    idle_ = 0;
    ns_per_call_ = 1000;
    weight_ = 1;
    doze_ns_ = kFirstDozeNs;
    open_account();
}

const PyObject* Policy::expected_code() const { return site_ && site_->next ? site_->next->key.code : nullptr; }

size_t Policy::Hash::operator()(const Key& key) const {
    uint64_t hash = mixed(reinterpret_cast<uintptr_t>(key.op), reinterpret_cast<uintptr_t>(key.code));
    return mixed(hash, static_cast<uint64_t>(key.lasti) << 32 ^ key.options);
}

Policy::Site& Policy::site_of(const Key& key) {
    const bool valid = epoch_ == epoch;
    if (valid && site_ && site_->next && site_->next->key == key) return *site_->next;
    if (auto known = sites_.find(key); valid && known != sites_.end()) {
        if (site_) site_->next = &known->second;
        return known->second;
    }
    if (!valid || sites_.size() >= kMaxSites) {
        forget();
        site_ = nullptr;
        epoch_ = epoch;
        auto dying = std::exchange(sites_, {});  // code objects may run code when they die
    }
    Site& site = sites_[key];
    site.code = PyRef::borrow(const_cast<PyObject*>(key.code));
    site.key = key;
    site.lasting = lasting_key(*key.op, key.code, key.lasti);
    return site;
}

Policy::Run& Policy::run_of(Site& site, uint64_t operands) {
    for (const auto& run : site.runs)
        if (run->operands == operands) return *run;
    if (site.runs.size() >= kMaxRuns) auto dying = std::exchange(site.runs, {});
    site.runs.push_back(std::make_unique<Run>());
    site.runs.back()->operands = operands;
    recall(site, *site.runs.back());
    return *site.runs.back();
}

// Up to how many calls: as many as a part of a loop has, or well above what there were so far.
uint32_t Policy::run_eagerly(size_t calls, bool timed) {
    limit_ = static_cast<uint32_t>(now_->is_part ? calls : 2 * calls + 64);
    timed_ = timed;
    if (timed) started_ = policy_clock();
    return limit_;
}

// There is nothing to be done about this run, and it may be the same with the next ones.
uint32_t Policy::stay_eager(bool timed) {
    if (idle_++ == 0) awake_ = policy_clock();
    if (idle_ < kIdle || flush_callback) return run_eagerly(std::max(now_->calls, site_->calls), timed);
    idle_ = 0;
    paused_ = true;
    now_ = nullptr;
    timed_ = false;
    started_ = policy_clock();
    awake_ = started_ - awake_;
    limit_ = static_cast<uint32_t>(std::clamp(static_cast<double>(doze_ns_) / ns_per_call_, 64.0, 1e6));
    doze_ns_ = std::min(2 * doze_ns_, kLastDozeNs);
    return limit_;
}

uint32_t Policy::begin(const Call& call, const SourceRef& at) { return begin_call(*call.op, operands_of(call), at); }

uint32_t Policy::begin_call(const OpDef& kind, uint64_t work, const SourceRef& at) {
    Site& site = site_of({&kind, at.code, at.lasti, options_id()});
    Run& run = run_of(site, work);
    site_ = &site;
    now_ = &run;
    if (++run.begun == 2 && run.carried) {  // it comes often enough for a contest of its own
        run.carried = false;
        run.recorded_runs = run.eager_runs = 0;
        run.recorded_ns = run.eager_ns = INT64_MAX;
    }
    const bool at_once = compiles_at_once();
    if (at_once && run.state < State::Contest) run.state = State::Contest;
    if (!at_once && site.pause && run.state != State::Contest) {
        --site.pause;
        return stay_eager();
    }
    switch (run.state) {
        case State::Cold:
            // When a signature comes again it is to be compiled.
            if (!affords(run.hash ? cost_of_asking(run.nodes)
                                  : static_cast<int64_t>(std::max<size_t>(site.calls, 8)) * kLearnNs))
                return stay_eager();
            break;
        case State::Waiting:
            if (run.spent_ns < cost_of_plan(run.nodes)) return stay_eager(true);
            if (!affords(cost_of_asking(run.nodes))) return stay_eager();
            break;
        case State::Asked:
            switch (whereabouts(run.hash)) {
                case Signature::At::Asked:
                    // What was put off is recorded again, to be compiled now: it does come twice in a process.
                    if (is_underway(run.hash) || !affords(cost_of_asking(run.nodes))) return stay_eager();
                    break;
                case Signature::At::Made: run.state = State::Contest; break;
                case Signature::At::Ready:
                    // What loading takes is won back by large ops, once they have taken as long.
                    if (run.spent_ns < cost_of_recalling() && !affords(cost_of_recalling())) return stay_eager(true);
                    run.state = State::Contest;
                    break;
                case Signature::At::Hopeless: settle(run, State::Demoted); return stay_eager();
                case Signature::At::Nowhere: run.state = State::Cold;
            }
            break;
        case State::Compiled:
        case State::Demoted:
            started_ = policy_clock();
            if (run.state == State::Demoted &&
                (started_ < run.until || !affords(kRuns * std::max<int64_t>(run.recorded_ns - run.eager_ns, 0))))
                return stay_eager();
            if (started_ < run.until) {
                idle_ = 0;
                return 0;
            }
            run.state = State::Contest;
            run.carried = false;
            run.tries = run.recorded_runs = run.eager_runs = 0;
            run.recorded_ns = run.eager_ns = INT64_MAX;
            break;
        case State::Contest: break;
    }
    idle_ = 0;
    doze_ns_ = kFirstDozeNs;
    if (launch_profile_callback) {  // what looks at launches takes time itself
        forget();
        return 0;
    }
    if (run.state == State::Contest) {
        if (++run.tries > kTries) {  // never twice the same
            settle(run, at_once ? State::Compiled : State::Demoted);
            forget();
            return 0;
        }
        if (run.recorded_runs > run.eager_runs) return run_eagerly(run.calls, true);
    }
    started_ = policy_clock();
    return 0;
}

bool Policy::observe(uint32_t left) {
    if (paused_) return false;
    if (now_) end_eager(limit_ - left + 1);
    return true;
}

uint32_t Policy::outlast() {
    if (std::exchange(paused_, false)) {
        const auto dozed = static_cast<double>(policy_clock() - started_);
        ns_per_call_ = std::max(1.0, dozed / limit_);
        weight_ = 1 + dozed / static_cast<double>(std::max<int64_t>(awake_, 1));
        now_ = nullptr;
        limit_ = kAwait;  // an observation is to come, or a call of the framework's own, after which a run begins
        return limit_;
    }
    if (counts_calls()) end_eager(limit_);
    forget();
    return 0;
}

void Policy::end_eager(size_t calls) {
    const int64_t took_ns = timed_ ? policy_clock() - started_ : 0;
    const Run* ended = now_;
    if (flush_callback && demoted_ran_callback && now_->record) demoted_ran_callback(now_->record);
    if (now_ == ended && timed_) {  // what Python ran may have begun another
        if (now_->state < State::Contest)
            now_->spent_ns += static_cast<int64_t>(weight_ * static_cast<double>(took_ns));
        else if (now_->state == State::Contest) enter(took_ns, calls, false);
    }
    forget();
}

Policy::Miss Policy::miss(const Trace& trace, uint64_t hash, uint64_t structure) {
    if (must_be_compiled(trace)) return Miss::CompileNow;
    if (structure && !flush_callback && is_underway(hash)) return Miss::Wait;
    if (compiles_at_once()) return Miss::CompileNow;
    const bool asked = std::any_of(trace.nodes.begin(), trace.nodes.end(),
                                   [](const TraceNode& node) { return node.tag.compile == 1; });
    if (structure) {
        if (whereabouts(hash) == Signature::At::Made) return Miss::CompileNow;
        return is_worth_a_plan(trace, hash, structure, asked) ? Miss::Compile : Miss::Wait;
    }
    Signature& known = signature_of(hash);
    if (asked) return Miss::Compile;
    ++known.requests;
    recalled_ = now_ && now_->recalls;
    if (recalled_) {
        now_->recalls = false;
        return Miss::Recall;
    }
    switch (whereabouts(hash)) {
        case Signature::At::Ready: recalled_ = true; return Miss::Recall;
        case Signature::At::Made: return Miss::CompileNow;
        case Signature::At::Hopeless: return Miss::Wait;
        case Signature::At::Asked:
            if (!known.put_off) return Miss::Wait;
            break;
        case Signature::At::Nowhere: break;
    }
    if (known.requests < 2) return Miss::Wait;
    if (is_careful() && !(now_ && now_->spent_ns >= cost_of_plan(trace.nodes.size()))) return Miss::Wait;
    // What was asked for by earlier processes only may come once in each. It would be compiled in vain before this one
    // ends, by a process that takes processors from it.
    const bool put_off = now_ && now_->begun == 1;
    if (put_off && known.put_off) return Miss::Wait;
    if (submit_callback && affords(cost_of_asking(trace.nodes.size(), put_off))) {
        const int64_t started = policy_clock();
        const bool submitted = submit_callback(trace, hash, put_off);
        lose(policy_clock() - started);
        if (submitted) {  // Python ran: it may have been forgotten
            Signature& asked_for = signature_of(hash);
            asked_for.at = Signature::At::Asked;
            asked_for.put_off = put_off;
            return Miss::Wait;
        }
    }
    return affords(cost_of_plan(trace.nodes.size())) ? Miss::Compile : Miss::Wait;
}

void Policy::not_there(uint64_t hash, Miss miss) {
    Signature& signature = signature_of(hash);
    if (miss == Miss::Compile) {
        signature.at = Signature::At::Asked;
        signature.here = true;
    } else if (signature.at == Signature::At::Ready) {
        // What an earlier process's helper left may be another compiler's. This process's own is not asked again.
        signature.at = std::exchange(signature.before, false) ? Signature::At::Nowhere : Signature::At::Hopeless;
    }
}

void Policy::end_recorded(const Plan& plan, bool hit, size_t calls, int64_t flush_ns, bool is_part) {
    idle_ = 0;
    const bool recalled = std::exchange(recalled_, false);
    if (plan.op_by_op) lose(static_cast<int64_t>(calls) * kRecordNs + flush_ns - plan.ops_ns);
    if (!now_) return;
    site_->calls = std::max(site_->calls, calls);
    if (plan.op_by_op) {
        learn(plan, calls, is_part);
    } else {
        site_->changes = now_->misses = 0;
        if (now_->state < State::Contest) now_->state = State::Contest;  // there is a plan already
        // To take a plan back belongs to what it costs: a run that comes once in a process pays it every time.
        if ((hit || recalled) && !plan.contest) {
            if (plan.record && plan.record.get() != Py_None) now_->record = PyRef::borrow(plan.record.get());
            if (now_->state == State::Contest) {
                if (calls == now_->calls) now_->is_part = is_part;
                enter(policy_clock() - started_, calls, true);
                if (now_) now_->is_part = is_part;
            }
        }
    }
    forget();
}

void Policy::end_program() {
    idle_ = 0;
    if (!now_) return;
    site_->changes = now_->misses = 0;
    if (now_->state == State::Contest) enter(policy_clock() - started_, now_->calls, true);
    forget();
}

void Policy::settle(Run& run, State state) {
    run.state = state;
    run.tries = 0;
    run.until = policy_clock() + run.again_ns;
    run.again_ns *= 4;
}

// A recorded run has run op by op.
void Policy::learn(const Plan& plan, size_t calls, bool is_part) {
    Run& run = *now_;
    if (run.is_part && !is_part && calls < run.calls) return;  // what is left of a loop at its end
    const bool same = run.hash == plan.op_by_op;
    run.hash = plan.op_by_op;
    run.calls = calls;
    run.nodes = plan.steps.size();
    run.is_part = is_part;
    run.spent_ns += plan.ops_ns;
    if (same) {
        site_->changes = 0;
    } else if (++site_->changes > kChanges) {
        site_->pause = 1u << std::min(site_->changes - kChanges, kMostPaused);
    }
    if (run.state >= State::Contest && (run.state == State::Demoted || ++run.misses <= kMisses)) return;
    run.misses = 0;
    if (whereabouts(run.hash) == Signature::At::Asked) run.state = State::Asked;
    else if (whereabouts(run.hash) == Signature::At::Hopeless) {
        settle(run, State::Demoted);
    } else run.state = is_careful() ? State::Waiting : State::Cold;
}

void Policy::enter(int64_t took_ns, size_t calls, bool recorded) {
    Run& run = *now_;
    if (calls != run.calls) {
        if (!recorded && run.recorded_runs) return;
        run.calls = calls;
        run.recorded_runs = run.eager_runs = 0;
        run.recorded_ns = run.eager_ns = INT64_MAX;
    }
    int64_t& fastest = recorded ? run.recorded_ns : run.eager_ns;
    fastest = std::min(fastest, took_ns);
    ++(recorded ? run.recorded_runs : run.eager_runs);
    if (run.eager_runs < kFewest || run.recorded_runs < kFewest) return;
    const int64_t losing_ns = run.recorded_ns - run.eager_ns;
    const uint32_t enough = run.carried ? kFewest : kRuns;  // one a process may be all there is
    const bool over = run.recorded_runs >= enough && run.eager_runs >= enough;
    if (over || (losing_ns > 0 && !affords(losing_ns * kRuns))) decide();
}

void Policy::decide() {
    Run& run = *now_;
    const bool lost = run.recorded_ns > run.eager_ns;
    settle(run, lost ? State::Demoted : State::Compiled);
    if (!lost) return;
    lose(run.recorded_runs * (run.recorded_ns - run.eager_ns));
    if (!demoted_callback) return;
    const SourceRef at{site_->code.get(), site_->key.lasti};
    PyRef record = demoted_callback(run.record, at, run.recorded_ns, run.eager_ns);
    // Python ran: another may have begun, and this one be gone.
    if (now_ == &run) run.record = std::move(record);
}

void Policy::planned(const Trace& trace, uint64_t structure, int64_t took_ns, bool compiled) {
    if (!structure) lose(took_ns);
    else if (compiled && !compiles_at_once() && !must_be_compiled(trace)) note_plan(structure, took_ns);
    if (compiled) note_cost_of_plan(trace.nodes.size(), took_ns);
}

}  // namespace mt::trace
