#include "trace/policy.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

#include "core/fork.h"
#include "dispatch/settings.h"
#include "trace/plan.h"

namespace mt::trace {

int64_t (*policy_clock)() = now_ns;
PyRef (*demoted_hook)(const PyRef&, const SourceRef&, int64_t, int64_t) = nullptr;
void (*demoted_ran_hook)(const PyRef&) = nullptr;
bool (*submit_hook)(const Trace&, uint64_t) = nullptr;

namespace {

// What may be lost: so much at once, and such a share of the time that the program has run. Half of what is promised
// for whole programs (1.05 times the eager time or 50 ms more at level 1, 1.1 times or 150 ms more at level 2), since
// not everything can be measured.
struct Allowance {
    int64_t at_once_ns;
    double share;
};
Allowance allowance();

// One for the process: the program's time is the process's.
struct Account {
    int64_t started = 0;
    int64_t lost_ns = 0;
    bool again = false;  // an earlier process has found out what there is to win
};
Account account;

Allowance allowance() {
    if (account.again) return {10'000'000, 0.01};
    return is_careful() ? Allowance{20'000'000, 0.02} : Allowance{70'000'000, 0.05};
}

bool affords(int64_t cost_ns) {
    const Allowance allowed = allowance();
    const auto run = static_cast<double>(policy_clock() - account.started);
    return account.lost_ns + cost_ns <= allowed.at_once_ns + static_cast<int64_t>(allowed.share * run);
}

void lose(int64_t ns) { account.lost_ns += std::max<int64_t>(ns, 0); }

// What recording a call takes beside dispatching it; a flush is measured.
constexpr int64_t kRecordNs = 250;
// What a first run op by op is expected to lose for each call, with its flush.
constexpr int64_t kLearnNs = 1'000;
int reply_pipe = -1;

// What compiling is expected to take: about so long at first, and then what it took. The first plan loads the compiler.
constexpr int64_t kLoadNs = 250'000'000;
double ns_per_node = 4'000'000;
bool loaded = false;
int64_t cost_of_plan(size_t nodes) {
    return static_cast<int64_t>(ns_per_node * static_cast<double>(nodes)) + (loaded ? 0 : kLoadNs);
}
// What handing a trace to another process takes, the first time with what that loads and starts; and taking its plan
// back, the first time with what reads plans and code.
constexpr int64_t kSubmitNs = 1'000'000, kSubmitNodeNs = 15'000, kFirstSubmitNs = 15'000'000;
constexpr int64_t kRecallNs = 3'000'000, kFirstRecallNs = 40'000'000;
int64_t cost_of_asking(size_t nodes) {
    if (!submit_hook) return cost_of_plan(nodes);
    return kSubmitNs + kSubmitNodeNs * static_cast<int64_t>(nodes) + (reply_pipe < 0 ? kFirstSubmitNs : 0);
}
int64_t cost_of_recalling() { return compile_hook ? kRecallNs : kFirstRecallNs; }

// What is known of signatures that there is no plan for.
struct Signature {
    uint32_t requests = 0;
    enum class At : uint8_t { Nowhere, Asked, Ready, Hopeless } at = At::Nowhere;
    bool before = false;  // asked by an earlier process, whose helper may be at it still
};
constexpr size_t kMaxSignatures = 4096;
std::unordered_map<uint64_t, Signature>& signatures() {
    static auto* known = new std::unordered_map<uint64_t, Signature>;
    return *known;
}

int64_t polled_ns = 0;
constexpr int64_t kPollNs = 1'000'000, kMarksNs = 20'000'000;
int64_t marks_ns = 0;

void lose_helper() {
    reply_pipe = -1;
    for (auto& [hash, signature] : signatures())
        if (signature.at == Signature::At::Asked && !signature.before) signature.at = Signature::At::Hopeless;
}

// A child would read what its parent is told.
[[maybe_unused]] const bool forgotten = at_fork_in_child([] { lose_helper(); });

// What the helpers of earlier processes have done since is told by empty files, by the numbers of signatures.
std::string& marks_folder() {
    static auto* folder = new std::string;
    return *folder;
}

bool is_marked(uint64_t hash) {
    char name[32];
    std::snprintf(name, sizeof name, "/%016llx.mtd", static_cast<unsigned long long>(hash));
    return !marks_folder().empty() && access((marks_folder() + name).c_str(), F_OK) == 0;
}

void poll_replies() {
    const int64_t now = policy_clock();
    if (now - polled_ns < kPollNs) return;
    polled_ns = now;
    if (now - marks_ns >= kMarksNs) {
        marks_ns = now;
        for (auto& [hash, signature] : signatures())
            if (signature.before && signature.at == Signature::At::Asked && is_marked(hash))
                signature.at = Signature::At::Ready;
    }
    if (reply_pipe < 0) return;
    uint64_t replies[128];  // a write of 16 bytes to a pipe is whole
    for (;;) {
        const ssize_t got = read(reply_pipe, replies, sizeof replies);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && errno == EAGAIN) return;
        if (got <= 0) return lose_helper();
        for (size_t i = 0; i + 1 < static_cast<size_t>(got) / sizeof(uint64_t); i += 2)
            if (auto known = signatures().find(replies[i]); known != signatures().end())
                known->second.at = replies[i + 1] ? Signature::At::Ready : Signature::At::Hopeless;
    }
}

Signature::At whereabouts(uint64_t hash) {
    auto known = signatures().find(hash);
    if (known == signatures().end()) return Signature::At::Nowhere;
    if (known->second.at == Signature::At::Asked) poll_replies();
    return known->second.at;
}

// Whether everything is compiled when it first comes: who looks at what is compiled sees it all.
bool compiles_at_once() { return !may_wait() || flush_hook || launch_profile_hook; }

uint64_t mixed(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0xFF51AFD7ED558CCDull;
    return hash ^ hash >> 32;
}

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

void mix_text(uint64_t& hash, PyObject* text) {
    Py_ssize_t length = 0;
    const char* bytes = text ? PyUnicode_AsUTF8AndSize(text, &length) : nullptr;
    if (!bytes) PyErr_Clear();
    for (Py_ssize_t i = 0; bytes && i < length; ++i) hash = (hash ^ static_cast<uint8_t>(bytes[i])) * 0x100000001B3ull;
}

// What a place is in every process of a program.
uint64_t lasting_key(const OpDef& op, const PyObject* code, int lasti) {
    uint64_t hash = mixed(is_careful(), static_cast<uint64_t>(lasti));
    for (const char c : op.name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ull;
    const auto* object = reinterpret_cast<const PyCodeObject*>(code);
    mix_text(hash, object->co_filename);
    mix_text(hash, object->co_qualname);
    return mixed(hash, static_cast<uint64_t>(object->co_firstlineno));
}

// What an earlier process says of a run.
struct Known {
    uint64_t place, operands, hash;
    uint32_t calls;
    uint8_t state, is_part, unused[2];
};
static_assert(sizeof(Known) == 32);
// Recalling loads what reads plans and code. So what has won must have won a few times as much, or a good part of the
// time of large ops; and what has not been held against eager runs yet must have large ops.
constexpr int64_t kWorthRecalling = 100'000'000, kLargeNs = 10'000;
bool is_worth_recalling(size_t calls, int64_t eager_ns, int64_t recorded_ns, int64_t won_ns) {
    const bool large = eager_ns >= kLargeNs * static_cast<int64_t>(calls) && eager_ns - recorded_ns >= eager_ns / 5;
    return won_ns >= kWorthRecalling || large;
}
constexpr uint8_t kKnownDemoted = 0, kKnownCompiled = 1, kKnownAsked = 2;
std::unordered_map<uint64_t, Known>& known_runs() {
    static auto* known = new std::unordered_map<uint64_t, Known>;
    return *known;
}

}  // namespace

std::string Policy::known() const {
    std::map<uint64_t, Known> known(known_runs().begin(), known_runs().end());
    for (const auto& [key, place] : places_)
        for (const auto& run : place.runs) {
            Known one{place.lasting, run->operands, run->hash, static_cast<uint32_t>(run->calls), 0, run->is_part, {}};
            switch (run->state) {
                case State::Compiled:
                    one.state = is_worth_recalling(run->calls, run->eager_ns, run->recorded_ns, run->won_ns)
                                    ? kKnownCompiled
                                    : kKnownDemoted;
                    break;
                case State::Demoted: one.state = kKnownDemoted; break;
                case State::Asked:
                case State::Contest:
                    one.state = run->ops_ns < kLargeNs * static_cast<int64_t>(run->calls) ? kKnownDemoted : kKnownAsked;
                    break;
                default: continue;
            }
            known[mixed(one.place, one.operands)] = one;
        }
    std::string text;
    for (const auto& [key, one] : known) text.append(reinterpret_cast<const char*>(&one), sizeof one);
    return text;
}

void Policy::forget_known() {
    known_runs().clear();
    marks_folder().clear();
    account.again = false;
}

bool Policy::learn_of(std::string_view text, std::string folder) {
    if (text.size() % sizeof(Known)) return false;
    forget_known();
    marks_folder() = std::move(folder);
    account.again = true;
    for (; !text.empty(); text.remove_prefix(sizeof(Known))) {
        Known one;
        std::memcpy(&one, text.data(), sizeof one);
        if (one.state > kKnownAsked || one.is_part > 1 || one.calls > (1u << 24)) return false;
        known_runs()[mixed(one.place, one.operands)] = one;
    }
    return true;
}

void Policy::recall(const Place& place, Run& run) {
    if (known_runs().empty() || compiles_at_once()) return;
    auto known = known_runs().find(mixed(place.lasting, run.operands));
    if (known == known_runs().end()) return;
    run.calls = known->second.calls;
    run.hash = known->second.hash;
    run.is_part = known->second.is_part;
    if (known->second.state == kKnownAsked) {
        if (signatures().size() >= kMaxSignatures) signatures().clear();
        Signature& signature = signatures()[run.hash];
        if (signature.at == Signature::At::Nowhere)
            signature = {0, is_marked(run.hash) ? Signature::At::Ready : Signature::At::Asked, true};
        run.state = State::Asked;
    } else settle(run, known->second.state == kKnownDemoted ? State::Demoted : State::Compiled);
    run.recalls = known->second.state == kKnownCompiled;
    // As much as it has won before it will win again.
    if (known->second.state == kKnownCompiled) run.won_ns = kWorthRecalling;
    run.ops_ns = INT64_MAX;
    run.misses = kMisses;  // whose promise doesn't hold is learnt anew at once
}

void set_reply_pipe(int file) {
    reply_pipe = file;
    if (file >= 0) fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_NONBLOCK);
}

uint64_t Policy::epoch = 0;

void Policy::clear() {
    ++epoch;
    signatures().clear();
}

void Policy::start() {
    forget();
    idle_ = 0;
    ns_per_call_ = 1000;
    weight_ = 1;
    doze_ns_ = kFirstDozeNs;
    account.started = policy_clock();
    account.lost_ns = 0;
}

const PyObject* Policy::expected_code() const { return place_ && place_->next ? place_->next->key.code : nullptr; }

size_t Policy::Hash::operator()(const Key& key) const {
    uint64_t hash = mixed(reinterpret_cast<uintptr_t>(key.op), reinterpret_cast<uintptr_t>(key.code));
    return mixed(hash, static_cast<uint64_t>(key.lasti) << 32 ^ key.options);
}

Policy::Place& Policy::place_of(const Key& key) {
    const bool valid = epoch_ == epoch;
    if (valid && place_ && place_->next && place_->next->key == key) return *place_->next;
    if (auto known = places_.find(key); valid && known != places_.end()) {
        if (place_) place_->next = &known->second;
        return known->second;
    }
    if (!valid || places_.size() >= kMaxPlaces) {
        forget();
        place_ = nullptr;
        epoch_ = epoch;
        auto dying = std::exchange(places_, {});  // code objects may run code when they die
    }
    Place& place = places_[key];
    place.code = PyRef::borrow(const_cast<PyObject*>(key.code));
    place.key = key;
    place.lasting = lasting_key(*key.op, key.code, key.lasti);
    return place;
}

Policy::Run& Policy::run_of(Place& place, uint64_t operands) {
    for (const auto& run : place.runs)
        if (run->operands == operands) return *run;
    if (place.runs.size() >= kMaxRuns) auto dying = std::exchange(place.runs, {});
    place.runs.push_back(std::make_unique<Run>());
    place.runs.back()->operands = operands;
    recall(place, *place.runs.back());
    return *place.runs.back();
}

// Up to how many calls: as many as a part of a loop has, or well above what there were so far.
uint32_t Policy::run_eagerly(size_t calls, bool timed) {
    limit_ = static_cast<uint32_t>(now_->is_part ? calls : 2 * calls + 64);
    timed_ = timed;
    if (timed) started_ = policy_clock();
    return limit_;
}

// There is nothing to be done about this run, and it may be the same with the next ones.
uint32_t Policy::rest(bool timed) {
    if (idle_++ == 0) awake_ = policy_clock();
    if (idle_ < kIdle || flush_hook) return run_eagerly(std::max(now_->calls, place_->calls), timed);
    idle_ = 0;
    dozes_ = true;
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
    Place& place = place_of({&kind, at.code, at.lasti, options_id()});
    Run& run = run_of(place, work);
    place_ = &place;
    now_ = &run;
    const bool at_once = compiles_at_once();
    if (at_once && run.state < State::Contest) run.state = State::Contest;
    if (!at_once && place.pause && run.state != State::Contest) {
        --place.pause;
        return rest();
    }
    switch (run.state) {
        case State::Cold:
            // When a signature comes again it is to be compiled.
            if (!affords(run.hash ? cost_of_asking(run.nodes)
                                  : static_cast<int64_t>(std::max<size_t>(place.calls, 8)) * kLearnNs))
                return rest();
            break;
        case State::Waiting:
            if (run.spent_ns < cost_of_plan(run.nodes)) return rest(true);
            if (!affords(cost_of_asking(run.nodes))) return rest();
            break;
        case State::Asked:
            switch (whereabouts(run.hash)) {
                case Signature::At::Asked: return rest();
                case Signature::At::Ready:
                    // What loading takes is won back by large ops, once they have taken as long.
                    if (run.spent_ns < cost_of_recalling() && !affords(cost_of_recalling())) return rest(true);
                    run.state = State::Contest;
                    break;
                case Signature::At::Hopeless: settle(run, State::Demoted); return rest();
                case Signature::At::Nowhere: run.state = State::Cold;
            }
            break;
        case State::Compiled:
        case State::Demoted:
            started_ = policy_clock();
            if (run.state == State::Demoted &&
                (started_ < run.until || !affords(kRuns * std::max<int64_t>(run.recorded_ns - run.eager_ns, 0))))
                return rest();
            if (started_ < run.until) {
                idle_ = 0;
                return 0;
            }
            run.state = State::Contest;
            run.tries = run.recorded_runs = run.eager_runs = 0;
            run.recorded_ns = run.eager_ns = INT64_MAX;
            break;
        case State::Contest: break;
    }
    idle_ = 0;
    doze_ns_ = kFirstDozeNs;
    if (launch_profile_hook) {  // what looks at launches takes time itself
        forget();
        return 0;
    }
    if (run.state == State::Contest) {
        if (++run.tries > kTries) {  // never twice the same
            settle(run, at_once ? State::Compiled : State::Demoted);
            forget();
            return 0;
        }
        if (run.recorded_runs >= kRuns) return run_eagerly(run.calls, true);
    }
    started_ = policy_clock();
    return 0;
}

bool Policy::look(uint32_t left) {
    if (dozes_) return false;
    if (now_) end_eager(limit_ - left + 1);
    return true;
}

uint32_t Policy::outlast() {
    if (std::exchange(dozes_, false)) {
        const auto dozed = static_cast<double>(policy_clock() - started_);
        ns_per_call_ = std::max(1.0, dozed / limit_);
        weight_ = 1 + dozed / static_cast<double>(std::max<int64_t>(awake_, 1));
        now_ = nullptr;
        limit_ = kAwait;  // a look is to come, or a call of the framework's own, after which a run begins
        return limit_;
    }
    if (counts_calls()) end_eager(limit_);
    forget();
    return 0;
}

void Policy::end_eager(size_t calls) {
    const int64_t took_ns = timed_ ? policy_clock() - started_ : 0;
    const Run* ended = now_;
    if (flush_hook && demoted_ran_hook && now_->record) demoted_ran_hook(now_->record);
    if (now_ == ended && timed_) {  // what Python ran may have begun another
        if (now_->state < State::Contest)
            now_->spent_ns += static_cast<int64_t>(weight_ * static_cast<double>(took_ns));
        else if (now_->state == State::Contest) enter(took_ns, calls, false);
    }
    forget();
}

Policy::Miss Policy::miss(const Trace& trace, uint64_t hash) {
    if (signatures().size() >= kMaxSignatures) signatures().clear();
    Signature& known = signatures()[hash];
    if (compiles_at_once()) return Miss::Compile;
    const bool asked = std::any_of(trace.nodes.begin(), trace.nodes.end(), [](const TraceNode& node) {
        return node.device.type != DeviceType::CPU || node.tag.must || node.tag.compile == 1;
    });
    if (asked) return Miss::Compile;
    ++known.requests;
    if (now_ && std::exchange(now_->recalls, false)) return Miss::Recall;
    switch (whereabouts(hash)) {
        case Signature::At::Ready: return Miss::Recall;
        case Signature::At::Asked:
        case Signature::At::Hopeless: return Miss::Wait;
        case Signature::At::Nowhere: break;
    }
    if (known.requests < 2) return Miss::Wait;
    if (is_careful() && !(now_ && now_->spent_ns >= cost_of_plan(trace.nodes.size()))) return Miss::Wait;
    if (submit_hook && affords(cost_of_asking(trace.nodes.size()))) {
        const int64_t started = policy_clock();
        const bool submitted = submit_hook(trace, hash);
        lose(policy_clock() - started);
        // Python ran.
        if (auto there = signatures().find(hash); submitted && there != signatures().end()) {
            there->second.at = Signature::At::Asked;
            return Miss::Wait;
        }
    }
    return affords(cost_of_plan(trace.nodes.size())) ? Miss::Compile : Miss::Wait;
}

void Policy::not_recalled(uint64_t hash) {
    Signature& signature = signatures()[hash];
    if (signature.at == Signature::At::Ready) signature.at = Signature::At::Hopeless;
}

void Policy::end_recorded(const Plan& plan, bool hit, size_t calls, int64_t flush_ns, bool is_part) {
    idle_ = 0;
    if (plan.op_by_op) lose(static_cast<int64_t>(calls) * kRecordNs + flush_ns - plan.ops_ns);
    if (!now_) return;
    place_->calls = std::max(place_->calls, calls);
    if (plan.op_by_op) {
        learn(plan, calls, is_part);
    } else {
        place_->changes = now_->misses = 0;
        if (now_->state < State::Contest) now_->state = State::Contest;  // there is a plan already
        if (hit && now_->state == State::Compiled)
            now_->won_ns += std::max<int64_t>(now_->eager_ns - now_->recorded_ns, 0);
        if (hit && plan.revisit == ~uint64_t{0}) {
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
    place_->changes = now_->misses = 0;
    if (now_->state == State::Compiled) now_->won_ns += std::max<int64_t>(now_->eager_ns - now_->recorded_ns, 0);
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
    run.ops_ns = plan.ops_ns;
    run.is_part = is_part;
    if (same) {
        place_->changes = 0;
    } else if (++place_->changes > kChanges) {
        place_->pause = 1u << std::min(place_->changes - kChanges, kMostPaused);
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
    if (run.recorded_runs >= kRuns && run.eager_runs >= kRuns) decide();
}

void Policy::decide() {
    Run& run = *now_;
    const bool lost = run.recorded_ns > run.eager_ns;
    settle(run, lost ? State::Demoted : State::Compiled);
    if (!lost) return;
    lose(kRuns * (run.recorded_ns - run.eager_ns));
    if (!demoted_hook) return;
    const SourceRef at{place_->code.get(), place_->key.lasti};
    PyRef record = demoted_hook(run.record, at, run.recorded_ns, run.eager_ns);
    // Python ran: another may have begun, and this one be gone.
    if (now_ == &run) run.record = std::move(record);
}

void Policy::planned(size_t nodes, int64_t took_ns, bool compiled) {
    lose(took_ns);
    if (!nodes || !compiled) return;
    const double now = std::clamp(static_cast<double>(took_ns) / static_cast<double>(nodes), 1e5, 1e7);
    // The first one took longer.
    ns_per_node = loaded ? 0.75 * ns_per_node + 0.25 * now : std::min(ns_per_node, now);
    loaded = true;
}

}  // namespace mt::trace
