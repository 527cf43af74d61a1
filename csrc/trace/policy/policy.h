// When a whole program is recorded, and when what it records is compiled: one account of time lost and time allowed.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "autograd/tape.h"
#include "dispatch/python/python.h"

namespace mt::trace {

class Trace;
struct Plan;

// What a call of the framework's own, which is a run by itself, runs as when it is compiled.
struct KeptCall {
    virtual ~KeptCall() = default;
};

// Recording, planning and compiling take time, which may or may not be won back. The principle: what a program has lost
// by being recorded is at no time more than a constant and a small share of the time that it has run (`Allowance`).
// Everything is on the account: the recording of each call, each flush, plans, compilations, runs of compiled code that
// were slower than eager ones. Where the allowance is spent the program runs eagerly.
//
// A program is a row of *runs*: each from one read of a value to the next, or a part of a loop without reads. What will
// be recorded is not known before, so a run is known by the call that it begins with: the op, its place in the program,
// what its operands are. It is in one of these states:
//
// - Cold: it is recorded, and runs op by op, to learn its signature.
// - Waiting: it runs eagerly until its ops have taken as long as compiling it is expected to take. Level 1 only; at
//   level 2 it is compiled when the same signature comes for the second time. The processes of a program count as one.
// - Asked: it is being compiled elsewhere, and runs eagerly.
// - Contest: it runs recorded and eagerly in turns, a few times each, and the fastest run of either is what counts.
// - Compiled or Demoted: which has won. After some time there is another contest.
//
// A place whose runs are never the same is recorded more and more rarely, and where nothing at all is worth recording
// the policy is paused: calls are counted down, and observations cost nothing.
class Policy {
  public:
    // Whether the call at `at`, which begins a run, and what follows are to run eagerly: up to how many calls; 0 for
    // no.
    uint32_t begin(const Call& call, const SourceRef& at);
    // The same of a call of the framework's own, which is all of the run: its kind, and a number for what it works on.
    uint32_t begin_call(const OpDef& kind, uint64_t work, const SourceRef& at);
    // What was kept of the call that has begun, and what is to be.
    std::shared_ptr<KeptCall> kept() const { return now_ ? now_->kept : nullptr; }
    void keep(std::shared_ptr<KeptCall> call) {
        if (now_ && call) std::swap(now_->kept, call);
    }
    // Whether a plan for it is expected to be there.
    bool expects_plan() const { return now_ && now_->state >= State::Contest; }
    // Such a call has run as its program,
    void end_program();
    // or eagerly.
    void end_call() {
        if (now_) end_eager(now_->calls);
    }
    bool is_paused() const { return paused_; }
    // The code that the next run is expected to begin in, held; null if nothing is expected.
    const PyObject* expected_code() const;
    // Whether the eager run is a part of a loop, which is over after as many calls as it has.
    bool counts_calls() const { return now_ && now_->is_part; }
    // A value is observed while it runs eagerly. False if that ends no run, since the policy is paused.
    bool observe(uint32_t left);
    // The eager run has had all the calls that `begin` said. How many more run eagerly without an end in sight; 0:
    // none.
    uint32_t outlast();
    // A recorded run is over: of how many calls, how long its flush took, whether it is a part of a loop.
    void end_recorded(const Plan& plan, bool hit, size_t calls, int64_t flush_ns, bool is_part);
    // What has begun is no run, or not the one that it seemed to be.
    void forget() {
        now_ = nullptr;
        paused_ = false;
    }

    // What becomes of a recorded run that no plan in memory is for.
    enum class Miss : uint8_t {
        Compile,     // a thread may do so
        CompileNow,  // or no thread may
        Recall,      // another process has compiled it
        Wait,        // its ops run one by one
    };
    // A structure of 0: it is a run of a program. Other traces, of scopes, sessions and functions, have no account;
    // they go by what their ops have taken (rental.h).
    Miss miss(const Trace& trace, uint64_t hash, uint64_t structure);
    // A plan was made or recalled, on this thread, in so many nanoseconds; or it is not there yet, or not at all.
    static void planned(const Trace& trace, uint64_t structure, int64_t took_ns, bool compiled);
    static void not_there(uint64_t hash, Miss miss);
    // All that is known was of plans that are gone.
    static void clear();
    // A program begins or ends.
    void start();
    // What became of the runs of this program, for its next process; and what an earlier process says of them.
    std::string known() const;
    static bool learn_of(std::string_view known, std::string folder);
    static void forget_known();

  private:
    enum class State : uint8_t { Cold, Waiting, Asked, Contest, Compiled, Demoted };

    // Runs that begin with one call on operands of one kind.
    struct Run {
        uint64_t operands = 0;
        State state = State::Cold;
        bool is_part = false;  // of a loop: always of `calls` calls
        bool recalls = false;  // an earlier process has compiled it
        bool carried = false;  // an earlier process began its contest
        uint32_t tries = 0;    // recorded, in the contest
        uint32_t recorded_runs = 0, eager_runs = 0;
        uint32_t misses = 0;  // runs in a row that there was no plan for, though it is compiled
        size_t calls = 0, nodes = 0;
        uint64_t hash = 0;  // of the signature that was recorded last
        int64_t recorded_ns = INT64_MAX, eager_ns = INT64_MAX;
        int64_t spent_ns = 0;  // eagerly while it waited, and op by op
        uint64_t begun = 0;    // how often in this process
        int64_t until = 0, again_ns = kAgainNs;  // when there is another contest, and how long after that the next
        PyRef record;  // what an account knows it by
        std::shared_ptr<KeptCall> kept;
    };
    struct Key {
        const OpDef* op;
        const PyObject* code;
        int lasti;
        uint64_t options;
        bool operator==(const Key&) const = default;
    };
    struct Hash {
        size_t operator()(const Key& key) const;
    };
    // Where runs begin. Holds the code object, so that no other gets its place.
    struct Site {
        Key key{};
        PyRef code;
        uint64_t lasting = 0;  // the same in another process
        Site* next = nullptr;  // where the run began that came after this one, the last time
        uint32_t changes = 0;   // recorded runs in a row whose signature had not been there before
        uint32_t pause = 0;     // runs that are eager for that
        size_t calls = 0;
        std::vector<std::unique_ptr<Run>> runs;
    };

    Site& site_of(const Key& key);
    static Run& run_of(Site& site, uint64_t operands);
    static uint64_t lasting_key(const OpDef& op, const PyObject* code, int lasti);
    static void recall(const Site& site, Run& run);
    uint32_t run_eagerly(size_t calls, bool timed);
    uint32_t stay_eager(bool timed = false);
    void end_eager(size_t calls);
    static void settle(Run& run, State state);
    void learn(const Plan& plan, size_t calls, bool is_part);
    void enter(int64_t took_ns, size_t calls, bool recorded);
    void decide();

    static constexpr size_t kMaxSites = 1024, kMaxRuns = 16;
    static constexpr uint32_t kRuns = 5;    // of each kind in a contest: the fastest of so many is hardly disturbed;
    static constexpr uint32_t kFewest = 2;  // fewer where more would lose what the account doesn't have
    static constexpr uint32_t kTries = 64;  // recorded, for a contest to begin: a trial of clusters comes before it
    static constexpr int64_t kAgainNs = 2'000'000'000;  // after which there is another contest; then four times that
    static constexpr uint32_t kMisses = 8;     // it is learnt anew
    static constexpr uint32_t kChanges = 2;    // signatures that are new, in a row: the next is left out,
    static constexpr uint32_t kMostPaused = 12;  // then 2, 4, ... up to two to the power of this
    static constexpr uint32_t kIdle = 16;      // runs in a row that there was nothing to do about: it pauses
    static constexpr uint32_t kAwait = 2048;  // calls, from a pause to where a run begins
    static constexpr int64_t kFirstDozeNs = 500'000,
                             kLastDozeNs = 32'000'000;  // the asking is below a hundredth of that

    static uint64_t epoch;
    uint64_t epoch_ = 0;
    std::unordered_map<Key, Site, Hash> sites_;
    Site* site_ = nullptr;  // where the last run began
    Run* now_ = nullptr;      // which it is
    bool timed_ = false;
    bool recalled_ = false;  // the plan of the run that is ending was taken back
    int64_t started_ = 0;
    uint32_t limit_ = 0;
    bool paused_ = false;
    uint32_t idle_ = 0;
    int64_t doze_ns_ = kFirstDozeNs;
    double ns_per_call_ = 1000;
    int64_t awake_ = 0;  // since when, and while it is paused, how long it was before
    double weight_ = 1;  // what a run stands for, of which others pass while it is paused
};

// Whether everything is compiled when it first comes: who looks at what is compiled sees it all.
bool compiles_at_once();
// The clock that it goes by, in nanoseconds.
extern int64_t (*policy_clock)();
// Told that a run is demoted, with what the account knows its plan by, if one is kept; the account's record of these
// runs.
extern PyRef (*demoted_callback)(const PyRef& record, const SourceRef& at, int64_t recorded_ns, int64_t eager_ns);
// Told of every such run while an account is kept.
extern void (*demoted_ran_callback)(const PyRef& record);
// Has another process compile a trace, known by a number, at once or when the program has ended; false if there is
// none.
extern bool (*submit_callback)(const Trace& trace, uint64_t number, bool put_off);
// Where that process says that it has, or that it can't: pairs of a number and 1 or 0, in 64 bits each; -1: nowhere.
void set_reply_pipe(int file);

}  // namespace mt::trace
