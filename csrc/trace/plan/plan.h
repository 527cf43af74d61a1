// A launch plan: how to run every trace of one signature. Made once by the JIT (Python), replayed in C++.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dispatch/python/python.h"
#include "runtime/abi.h"
#include "trace/policy/contest.h"
#include "trace/recording/trace.h"

namespace mt::trace {

using EntryFn = int32_t (*)(void** buffers, const MtRuntime* runtime);

// Where a step finds an input.
struct InputSlot {
    ValueRef value;
    DType dtype = DType::F32;  // scalars: the type to convert the number to
    // The seed and offset of node `value.index`, which draws random numbers, as two words.
    bool random = false;
    // A number that only this plan knows: a size, for code that takes it as an argument.
    bool is_size = false;
    int64_t size = 0;
};

struct Step {
    enum class Type : uint8_t { Launch, Op } type = Type::Op;
    uint32_t node = 0;  // Op: which
    int32_t group = -1;  // in a contest: the number of the launch that it is, or is an op of
    // Launch:
    bool may_lose = false;  // its ops may run in its place
    EntryFn entry = nullptr;
    std::vector<InputSlot> inputs;
    std::vector<ValueRef> outputs;
    size_t scratch_bytes = 0;
    int64_t work_bytes = 0;
    // The last result of the code is one byte: not zero if an op inside would have raised an error.
    bool reports_errors = false;
    // What goes wrong inside is found by running all ops one by one, so that the error is that of eager code, with its
    // line.
    bool guarded = false;
    PyRef executable;  // keeps the code
    std::string name;
    std::vector<uint32_t> inside;  // the nodes that it runs
    // Called with (whether it has run, addresses of the inputs and results) before and after it runs; None for nobody.
    PyRef observer;
    // Launch on a GPU: called with (addresses of the inputs, results and scratch memory; the bytes of inputs that the
    // host knows, 16 each). Null for code of the CPU.
    PyRef program;
    Device device;
    // Bit i: input i is a number or a tensor of the host. Its bytes lie behind the scratch memory, in this order.
    std::vector<bool> from_host;
};

// The elements of integer input `input` must lie in [low, high), or be `ignored`: an index that compiled code will use
// unchecked. Where none is ignored, that is `low`.
struct BoundsCheck {
    uint32_t input;
    int64_t low, high, ignored;
};

struct Plan {
    std::vector<Step> steps;
    // Results that may not be written to their storage before everything has run: others still read its old content.
    std::vector<ValueRef> deferred;
    std::vector<BoundsCheck> checks;
    // Last step that reads a value, by flat result index; temporaries are freed there.
    std::vector<int32_t> last_use;
    // What the account of the compiler knows this trace by.
    PyRef record;
    uint64_t replays = 0;
    // There may be another plan in its place.
    std::unique_ptr<Contest> contest;
    // Nanoseconds of the steps of each group, in the fastest run. Empty: not measured.
    std::vector<int64_t> fastest;
    // Made without the compiler, for one run: the hash of the signature. Else 0.
    uint64_t op_by_op = 0;
    uint64_t structure = 0;  // of the trace; 0 for a run of a program
    int64_t ops_ns = 0;  // what the ops of such a run took

    // About how much memory it takes.
    size_t bytes() const;
    // Whether its steps make every value before it is read, and all that is read after them.
    bool makes_all(const Trace& trace) const;
    // Works out what follows from its steps.
    void complete(const Trace& trace);
};

// Identifies the options in force; part of every signature.
uint64_t options_id();
void set_options_id(uint64_t id);
// Whether they let a trace wait for its second time to be planned; an even number says so.
bool may_wait();
// The next bits: whether the policy decides what of a program is recorded and compiled; whether compiling may take no
// longer than the ops have taken.
bool may_measure();
bool is_careful();

// Python's compiler: called with the trace's description on a miss, returns the plan's; see
// bindings/jit/trace_bindings.cpp.
// A thread may compile it while its ops run, and then says so by the number; null: it will. 0: now.
extern std::shared_ptr<Plan> (*compile_callback)(Trace& trace, uint64_t number);  // null: it isn't loaded
// Loads it where it isn't: the first op is placed on a device that compiles.
void load_compiler();
// The plan that another process has made for it; null if there is none.
extern std::shared_ptr<Plan> (*recall_callback)(Trace& trace, uint64_t number);
// Told of every flush while an account is kept: reason, whether the plan was cached.
extern void (*flush_callback)(const Trace& trace, const Plan& plan, const char* reason, bool hit);
// Told, while an account is kept, of an op that ran eagerly since it can't be recorded.
extern void (*eager_callback)(const char* op);
// Raises the error of an op that must be compiled and can't even be recorded.
extern void (*refuse_callback)(const char* op, const char* reason);
extern void (*launch_profile_callback)(const Trace& trace, const Step& step, int64_t start_ns, int64_t end_ns);

void replay(Trace& trace, Plan& plan);
// Where an op on a GPU ran on the host instead, while an account is kept: the bytes that were copied for it.
extern void (*host_op_callback)(const OpDef& op, int64_t bytes);
// Runs a trace, whether its thread is recording or not.
void flush_now(Trace& trace, const char* reason);
// Runs a trace of one call, of which no account is kept.
void run_at_once(Trace& trace);
// Finds or makes the plan of a finished trace.
std::shared_ptr<Plan> plan_of(Trace& trace, bool* hit);

// Flushes the trace at the end of a function, and hands it with its plan to `keep` between planning and running. What
// `keep` returns is why every call of the function is recorded, null if it isn't.
using Keep = std::function<const char*(Trace&, std::shared_ptr<Plan>)>;
void freeze_at_flush(Trace& trace, const Keep& keep);
// What an account says of such a flush.
std::string end_of_function(const char* why_recorded);

struct PlanCacheInfo {
    uint64_t hits, misses, evicted, size, bytes, limit;
};
PlanCacheInfo plan_cache_info();
void clear_plan_cache();
void set_plan_cache_limit(uint64_t bytes);
// Drops the plans of a compiled function that is gone.
void forget_plans_of(uint64_t owner);

// Why a value is needed, in the user's words: "item()", "numpy()". Set by bindings around an observation.
extern MT_THREAD_LOCAL const char* observation;
// Whether this thread refuses to have values read from here on, be they recorded or there; returns whether it did.
bool close_values(bool close);
// Comes before every read of values by others than kernels: refuses it, where the thread does so.
void check_open(const char* what);

}  // namespace mt::trace
