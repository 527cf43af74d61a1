// What became of the runs of a program, for its next process.
#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>
#include <utility>

#include "core/hash.h"
#include "dispatch/thread_local_state.h"
#include "trace/plan/plan.h"
#include "trace/policy/policy.h"
#include "trace/policy/rental.h"

namespace mt::trace {

namespace {

void mix_text(uint64_t& hash, PyObject* text) {
    Py_ssize_t length = 0;
    const char* bytes = text ? PyUnicode_AsUTF8AndSize(text, &length) : nullptr;
    if (!bytes) PyErr_Clear();
    for (Py_ssize_t i = 0; bytes && i < length; ++i) hash = (hash ^ static_cast<uint8_t>(bytes[i])) * 0x100000001B3ull;
}

// What an earlier process says of a run.
struct Known {
    uint64_t site, operands, hash;
    int64_t spent_ns, recorded_ns, eager_ns;
    uint32_t calls, nodes;
    uint8_t state, is_part, recorded_runs, eager_runs, unused[4];
};
static_assert(sizeof(Known) == 64);
// Whether the next process wins by it what loading it takes, if it runs as often. What an earlier process said of what
// had no contest in this one still holds.
bool is_worth_recalling(uint64_t begun, int64_t eager_ns, int64_t recorded_ns) {
    if (eager_ns == INT64_MAX) return true;
    if (begun == 1) return eager_ns > recorded_ns;  // which loading it was a part of
    return static_cast<double>(eager_ns - recorded_ns) * static_cast<double>(begun) >=
           static_cast<double>(cost_of_recalling());
}
// Seen: it has come, and not been compiled yet. Requests and time are counted over processes.
constexpr uint8_t kKnownDemoted = 0, kKnownCompiled = 1, kKnownAsked = 2, kKnownSeen = 3;
std::unordered_map<uint64_t, Known>& known_runs() {
    static auto* known = new std::unordered_map<uint64_t, Known>;
    return *known;
}

}  // namespace

uint64_t Policy::lasting_key(const OpDef& op, const PyObject* code, int lasti) {
    uint64_t hash = mixed(is_careful(), static_cast<uint64_t>(lasti));
    for (const char c : op.name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001B3ull;
    const auto* object = reinterpret_cast<const PyCodeObject*>(code);
    mix_text(hash, object->co_filename);
    mix_text(hash, object->co_qualname);
    return mixed(hash, static_cast<uint64_t>(object->co_firstlineno));
}

std::string Policy::known() const {
    std::map<uint64_t, Known> known(known_runs().begin(), known_runs().end());
    for (const auto& [key, site] : sites_)
        for (const auto& run : site.runs) {
            Known one{};
            one.site = site.lasting;
            one.operands = run->operands;
            one.hash = run->hash;
            one.spent_ns = run->spent_ns;
            one.recorded_ns = run->recorded_ns;
            one.eager_ns = run->eager_ns;
            one.calls = static_cast<uint32_t>(run->calls);
            one.nodes = static_cast<uint32_t>(run->nodes);
            one.is_part = run->is_part;
            one.recorded_runs = static_cast<uint8_t>(std::min(run->recorded_runs, kRuns));
            one.eager_runs = static_cast<uint8_t>(std::min(run->eager_runs, kRuns));
            switch (run->state) {
                case State::Cold:
                case State::Waiting:
                    // Of use to the next process if it is the same there, and takes longer than to take a plan back.
                    if (!run->hash || site.changes > 1 || run->spent_ns < cost_of_recalling()) continue;
                    one.state = kKnownSeen;
                    break;
                case State::Compiled:
                    one.state = is_worth_recalling(run->begun, run->eager_ns, run->recorded_ns) ? kKnownCompiled
                                                                                                : kKnownDemoted;
                    break;
                case State::Demoted: one.state = kKnownDemoted; break;
                case State::Asked:
                case State::Contest: one.state = kKnownAsked; break;
            }
            known[mixed(one.site, one.operands)] = one;
        }
    std::string text;
    for (const auto& [key, one] : known) text.append(reinterpret_cast<const char*>(&one), sizeof one);
    return text;
}

void Policy::forget_known() {
    known_runs().clear();
    set_marks_folder({});
    expect_less(false);
}

bool Policy::learn_of(std::string_view text, std::string folder) {
    if (text.size() % sizeof(Known)) return false;
    forget_known();
    set_marks_folder(std::move(folder));
    for (; !text.empty(); text.remove_prefix(sizeof(Known))) {
        Known one;
        std::memcpy(&one, text.data(), sizeof one);
        if (one.state > kKnownSeen || one.is_part > 1 || one.calls > (1u << 24) || one.nodes > (1u << 24)) return false;
        if (one.state != kKnownSeen) expect_less(true);
        known_runs()[mixed(one.site, one.operands)] = one;
    }
    return true;
}

void Policy::recall(const Site& site, Run& run) {
    if (known_runs().empty() || compiles_at_once()) return;
    auto known = known_runs().find(mixed(site.lasting, run.operands));
    if (known == known_runs().end()) return;
    run.calls = known->second.calls;
    run.hash = known->second.hash;
    run.is_part = known->second.is_part;
    run.nodes = known->second.nodes;
    run.spent_ns = known->second.spent_ns;
    if (known->second.state == kKnownSeen) {
        run.state = is_careful() ? State::Waiting : State::Cold;
        signature_of(run.hash).requests = 1;
        return;
    }
    if (known->second.state == kKnownAsked) {
        note_asked_before(run.hash);
        run.state = State::Asked;
        // A contest goes on where the last process left it.
        run.recorded_runs = known->second.recorded_runs;
        run.eager_runs = known->second.eager_runs;
        if (run.recorded_runs) run.recorded_ns = known->second.recorded_ns;
        if (run.eager_runs) run.eager_ns = known->second.eager_ns;
        run.carried = run.recorded_runs;
    } else {
        settle(run, known->second.state == kKnownDemoted ? State::Demoted : State::Compiled);
        // It may have lost for what else the machine did at the time.
        if (run.state == State::Demoted) run.until = policy_clock() + kAgainNs / 8;
    }
    run.recalls = known->second.state == kKnownCompiled;
    run.misses = kMisses;  // whose promise doesn't hold is learnt anew at once
}

}  // namespace mt::trace
