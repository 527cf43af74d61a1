// What a program does from one look at a value to the next, and whether recording it pays.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "autograd/tape.h"
#include "dispatch/python.h"

namespace mt::trace {

class Trace;
struct Plan;

// Recording, the search for the plan and the launch take time, and compiling takes as long as thousands of small ops.
// So where a whole program is recorded, its *stretches*, from one look at a value to the next, go by the clock:
//
// - The first time a stretch is recorded and runs op by op, unless its ops have work for longer than compiling would
//   take. From then on it runs eagerly, until it has taken so long that compiling may be won back.
// - Then it is recorded and compiled, and all that this takes, from its first call to the value, is held against what
//   it takes eagerly: the fastest of a few runs each. Where it loses it isn't recorded any more.
// - It is measured again after many runs.
//
// A stretch is known by the call that it begins with: the op, its place in the program, what its operands are.
class Stretches {
  public:
    // Whether the call at `at`, which begins a stretch, and what follows up to the next look are to run eagerly: up to
    // how many calls, well above what it had so far; 0 for no.
    uint32_t begin(const Call& call, const SourceRef& at);
    // The code that the next stretch is expected to begin in, held; null if nothing is expected.
    const PyObject* expected_code() const { return place_ && place_->next ? place_->next->key.code : nullptr; }
    // A stretch is over that ran eagerly, and could have run for so many more calls.
    void end_eager(uint32_t left);
    // A stretch of so many calls that was recorded is over, and what it left is gone.
    void end_recorded(const Plan& plan, bool hit, size_t calls);
    // What has begun is no stretch, or not the one that it seemed to be.
    void forget() { now_ = nullptr; }
    // Whether the trace of the stretch that is recorded is to run op by op, since compiling it isn't worth it yet.
    bool puts_off(const Trace& trace);
    // Notes how long it took to plan so many nodes.
    static void planned(size_t nodes, int64_t took_ns);
    // All that is known of stretches was of plans that are gone.
    static void clear() { ++epoch; }

  private:
    enum class State : uint8_t { Measured, Recorded, Eager };

    struct Stretch {
        uint64_t operands = 0;
        State state = State::Measured;
        uint32_t tries = 0;  // at measuring
        uint32_t recorded_runs = 0, eager_runs = 0;
        size_t calls = 0;  // of the runs that were measured
        int64_t recorded_ns = INT64_MAX, eager_ns = INT64_MAX;
        uint64_t left = 0, again = kAgain;  // runs until it is measured again, now and the next time
        PyRef record;  // what an account knows it by
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
    // Where stretches begin. Holds the code object, so that no other gets its place.
    struct Place {
        Key key{};
        PyRef code;
        Place* next = nullptr;  // where the stretch began that came after this one, the last time
        bool seen = false;
        bool open = false;  // for plans of the compiler
        uint32_t waits = 0;  // runs before it was open
        size_t calls = 0, nodes = 0;
        double fusible = 0;  // what part of the time goes into ops that fuse
        int64_t spent_ns = 0;    // eagerly, before it was open
        uint32_t unplanned = 0;  // recorded runs in a row for which no plan was made although it is open
        uint32_t left = 0;       // runs that are eager for that
        std::vector<std::unique_ptr<Stretch>> stretches;
    };

    Place& place_of(const Key& key);
    static Stretch& stretch_of(Place& place, uint64_t operands);
    uint32_t run_eagerly(size_t calls, bool timed);
    void waited(int64_t took_ns, size_t calls);
    void enter(int64_t took_ns, size_t calls, bool recorded);
    void decide();

    static constexpr size_t kMaxPlaces = 1024, kMaxStretches = 16;
    static constexpr uint32_t kRuns = 6;    // of each kind that are held against each other
    static constexpr uint32_t kTries = 64;  // at measuring them
    static constexpr uint64_t kAgain = 2000;
    static constexpr uint32_t kTimed = 16,
                              kEvery = 8;  // of the runs of a place that waits, the first and one of several
    static constexpr uint32_t kUnplanned = 8, kPause = 256;

    static uint64_t epoch;
    uint64_t epoch_ = 0;
    std::unordered_map<Key, Place, Hash> places_;
    Place* place_ = nullptr;  // where the last stretch began
    Stretch* now_ = nullptr;  // which it is
    bool timed_ = false;
    int64_t started_ = 0;
    uint32_t limit_ = 0;
};

// The clock that they go by, in nanoseconds.
extern int64_t (*stretch_clock)();
// Told that a stretch runs eagerly from now on, with what the account knows its plan by, if one is kept; the account's
// record of these runs.
extern PyRef (*stretch_lost_hook)(const PyRef& record, const SourceRef& at, int64_t recorded_ns, int64_t eager_ns);
// Told of every such run while an account is kept.
extern void (*stretch_ran_hook)(const PyRef& record);

}  // namespace mt::trace
