#include "trace/policy/rental.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <unordered_map>
#include <utility>

#include "core/hash.h"
#include "core/process/fork.h"
#include "trace/plan/plan.h"

namespace mt::trace {

namespace {

// What may be lost: so much at once, and such a share of the time that the program has run. Half of what is promised
// for whole programs (1.05 times the eager time or 50 ms more at level 1, 1.1 times or 150 ms more at level 2), since
// not everything can be measured. Less than that of what a later process may lose (1.02 times or 20 ms more): it is
// enough to take plans back, and not to have new ones made, which the process will do that runs long enough.
struct Allowance {
    int64_t at_once_ns;
    double share;
};

struct Account {
    int64_t started = 0;
    int64_t lost_ns = 0;
    bool again = false;
};
Account account;

Allowance allowance() {
    if (account.again) return {5'000'000, 0.01};
    return is_careful() ? Allowance{20'000'000, 0.02} : Allowance{70'000'000, 0.05};
}

// About what a plan takes at first, and then what plans took. The first one loads the compiler.
constexpr int64_t kLoadNs = 250'000'000;
double ns_per_node = 4'000'000;
bool loaded = false;

// What handing a trace to another process takes, the first time with what that loads and starts.
constexpr int64_t kSubmitNs = 1'000'000, kSubmitNodeNs = 15'000, kFirstSubmitNs = 6'000'000;
// What taking a plan back takes, until that has been seen: with what is compared of the compiler and the processor.
int64_t recall_ns = 5'000'000;

constexpr size_t kMaxKnown = 4096;  // more are forgotten, all at once
template <class T> using Known = std::unordered_map<uint64_t, T>;
Known<Signature>& signatures() {
    static auto* known = new Known<Signature>;
    return *known;
}
Known<Structure>& structures() {
    static auto* known = new Known<Structure>;
    return *known;
}
template <class T> T& entry(Known<T>& known, uint64_t key) {
    if (known.size() >= kMaxKnown) known.clear();
    return known[key];
}

int reply_pipe = -1;
int64_t polled_ns = 0, marks_ns = 0;
constexpr int64_t kPollNs = 1'000'000, kMarksNs = 20'000'000;

void lose_helper() {
    reply_pipe = -1;
    for (auto& [hash, signature] : signatures())
        if (signature.at == Signature::At::Asked && !signature.before && !signature.here && !signature.put_off)
            signature.at = Signature::At::Hopeless;
}

// A child would read what its parent is told, and has no thread that compiles.
[[maybe_unused]] const bool forgotten = at_fork_in_child([] {
    lose_helper();
    for (auto& [hash, signature] : signatures())
        if (std::exchange(signature.here, false) && signature.at == Signature::At::Asked)
            signature.at = Signature::At::Nowhere;
});

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

}  // namespace

void open_account() {
    account.started = policy_clock();
    account.lost_ns = 0;
    polled_ns = marks_ns = 0;
}
void expect_less(bool again) { account.again = again; }

bool affords(int64_t cost_ns) {
    const Allowance allowed = allowance();
    const auto run = static_cast<double>(policy_clock() - account.started);
    return account.lost_ns + cost_ns <= allowed.at_once_ns + static_cast<int64_t>(allowed.share * run);
}

void lose(int64_t ns) { account.lost_ns += std::max<int64_t>(ns, 0); }

int64_t cost_of_plan(size_t nodes) {
    return static_cast<int64_t>(ns_per_node * static_cast<double>(nodes)) + (loaded ? 0 : kLoadNs);
}

void note_cost_of_plan(size_t nodes, int64_t took_ns) {
    if (!nodes) return;
    const double now = std::clamp(static_cast<double>(took_ns) / static_cast<double>(nodes), 1e5, 1e7);
    // The first one took longer.
    ns_per_node = loaded ? 0.75 * ns_per_node + 0.25 * now : std::min(ns_per_node, now);
    loaded = true;
}

int64_t cost_of_asking(size_t nodes, bool put_off) {
    if (!submit_callback) return cost_of_plan(nodes);
    const bool starts = reply_pipe < 0 && !put_off;
    return kSubmitNs + kSubmitNodeNs * static_cast<int64_t>(nodes) + (starts ? kFirstSubmitNs : 0);
}

int64_t cost_of_recalling() { return recall_ns; }
void note_cost_of_recalling(int64_t took_ns) { recall_ns = took_ns; }

Signature& signature_of(uint64_t hash) { return entry(signatures(), hash); }

Signature::At whereabouts(uint64_t hash) {
    auto known = signatures().find(hash);
    if (known == signatures().end()) return Signature::At::Nowhere;
    if (known->second.at == Signature::At::Asked) poll_replies();
    return known->second.at;
}

bool is_underway(uint64_t hash) { return whereabouts(hash) == Signature::At::Asked && !signature_of(hash).put_off; }

void note_asked_before(uint64_t hash) {
    Signature& signature = signature_of(hash);
    if (signature.at != Signature::At::Nowhere) return;
    signature = {};
    signature.at = is_marked(hash) ? Signature::At::Ready : Signature::At::Asked;
    signature.before = true;
}

void note_made(uint64_t hash) {
    auto known = signatures().find(hash);
    if (known != signatures().end() && known->second.at == Signature::At::Asked) known->second.at = Signature::At::Made;
}

void forget_signatures() {
    signatures().clear();
    structures().clear();
}

void set_marks_folder(std::string folder) { marks_folder() = std::move(folder); }

void set_reply_pipe(int file) {
    reply_pipe = file;
    if (file >= 0) fcntl(file, F_SETFL, fcntl(file, F_GETFL) | O_NONBLOCK);
}

// ---- what is recorded in scopes, sessions and functions

uint64_t structure_of(const Trace& trace) {
    uint64_t hash = mixed(options_id(), trace.nodes.size());
    for (const TraceNode& node : trace.nodes) {
        hash = mixed(hash, static_cast<uint64_t>(node.op->id) << 32 | static_cast<uint64_t>(node.compute) << 16 |
                               static_cast<uint64_t>(static_cast<uint8_t>(node.tag.compile)));
        hash = mixed(hash, reinterpret_cast<uintptr_t>(node.source.code) ^ static_cast<uint64_t>(node.source.lasti));
        for (uint32_t i = 0; i < node.operand_count; ++i)
            hash = mixed(hash, trace.operands[node.first_operand + i].word());
    }
    return hash | 1;  // 0 is none
}

// Plans that are made for traces of one structure though none was needed again: enough for what is compiled for all
// sizes of a dimension, which takes two, to show itself.
constexpr uint32_t kVain = 4;

bool is_worth_a_plan(const Trace& trace, uint64_t hash, uint64_t structure, bool asked) {
    Signature& one = signature_of(hash);
    Structure& all = entry(structures(), structure);
    ++one.requests;
    ++all.requests;
    // The parts of a loop in which nothing is observed are all alike, and each stands for itself.
    const bool alone = trace.is_part();
    if (all.vain < kVain) {
        if (asked) return true;
        if (!is_careful()) return (alone ? one.requests : all.requests) >= 2;
    }
    const int64_t cost_ns = all.plan_ns ? all.plan_ns : cost_of_plan(trace.nodes.size());
    return (alone ? one.ops_ns : all.ops_ns) >= cost_ns;
}

void note_plan(uint64_t structure, int64_t took_ns) {
    Structure& all = entry(structures(), structure);
    ++all.vain;
    all.plan_ns = took_ns;
    all.ops_ns = std::max<int64_t>(all.ops_ns - took_ns, 0);
}

void note_reuse(uint64_t structure) { entry(structures(), structure).vain = 0; }

void note_timed(uint64_t structure, const std::vector<Timed>& timed, int64_t work_bytes) {
    Structure& all = entry(structures(), structure);
    if (all.timed.size() == timed.size() && all.timed_bytes > work_bytes) return;
    all.timed = timed;
    all.timed_bytes = work_bytes;
}

const std::vector<Timed>* timed_before(uint64_t structure, size_t launches, int64_t work_bytes) {
    auto known = structures().find(structure);
    if (known == structures().end()) return nullptr;
    const Structure& all = known->second;
    return all.timed.size() == launches && all.timed_bytes >= work_bytes ? &all.timed : nullptr;
}

void note_ops(const Plan& plan) {
    if (!plan.structure) return;
    signature_of(plan.op_by_op).ops_ns += plan.ops_ns;
    entry(structures(), plan.structure).ops_ns += plan.ops_ns;
}

}  // namespace mt::trace
