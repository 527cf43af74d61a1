// How far a run of a plan has come, and what stopped it.
#pragma once

#include <optional>

#include "trace/plan/buffers.h"

namespace mt::trace {

struct Progress {
    size_t step = 0;  // the next
    std::optional<Buffers> buffers;  // none: it has not begun
    std::vector<int64_t> spent;  // nanoseconds, of each group
    bool entered = false, left = false;  // the step's compiled code was called, and has done its work
    bool over = false;  // with an error: all that does not depend on what failed has been computed
};

// What was recorded, and an exception that is none of its ops' came out of planning or running it.
struct Stopped {
    std::shared_ptr<Plan> plan;  // null: there is none yet
    Progress run;
};

// An exception that is kept while the run goes on.
class Failure {
  public:
    Failure() = default;
    // The one that is being handled, of C++ or Python, taken off the thread. To be called in a handler.
    static Failure current();
    // Python's, which is set.
    static Failure of_python();
    explicit operator bool() const { return static_cast<bool>(type_); }
    // Whether it is no op's: what a signal's handler raised, or what no program should catch with its errors.
    bool from_outside() const;
    bool is_memory_error() const;
    // In words, with the line that it was recorded at.
    std::string text() const;
    [[noreturn]] void raise();

  private:
    PyRef type_, value_, traceback_;
};

// Runs a plan from where it is. May be called again after an exception from outside. One of an op comes at the end:
// then all that does not depend on it has been computed, `over` is set, and who waits for the rest is told.
void replay(Trace& trace, Plan& plan, Progress& run);

// The parts of it:
// False if an op inside a guarded launch failed.
bool run_step(Trace& trace, const Step& step, Progress& run);
void run_node(Trace& trace, uint32_t node, Buffers& buffers);
// Whether the step writes over what the trace may have read.
bool writes_in_place(const Trace& trace, const Step& step, const Buffers& buffers);
// Finishes a run in which something went wrong. The step that is next has failed, or if the failure is empty, an op
// inside it has; nullopt: it has not run. Compiled code must not see the inputs `refused`. Raises the
// first error; returns where the ops one by one had none.
void finish_run(Trace& trace, const Plan& plan, Progress& run, std::optional<Failure> failure,
                const std::vector<uint32_t>& refused);

}  // namespace mt::trace
