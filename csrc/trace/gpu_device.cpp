// Calls on cards: recorded where a program is, and otherwise a trace of one op that is run at once.
#include "core/error.h"
#include "dispatch/gpu.h"
#include "trace/plan.h"

namespace mt::trace {

namespace {

// The compiler is loaded when the first op is placed on a card.
void load_compiler() {
    if (compile_hook) return;
    PyRef module(PyImport_ImportModule("minitensor_jit.api"));
    if (!module) fail_python();
}

// What scopes say is said of recorded programs.
class Untagged {
  public:
    Untagged() : tag_(std::exchange(current_tag, Tag{})) {}
    ~Untagged() { current_tag = tag_; }
    Untagged(const Untagged&) = delete;

  private:
    Tag tag_;
};

void run(Call& call, Ref<Tensor>* results, Tensor* destination) {
    load_compiler();
    if (current_interpreter && !(destination && destination->storage->reinterpreted)) {
        if (destination) current_interpreter->run_inplace(call, *destination);
        else current_interpreter->run(call, results);
        return;
    }
    if (current_interpreter) current_interpreter->passing_by(call);
    Untagged untagged;
    PrivateTrace trace;
    if (destination) trace->run_inplace(call, *destination);
    else trace->run(call, results);
    run_at_once(*trace);
}

}  // namespace

void install_gpu() { run_on_gpu_hook = run; }

}  // namespace mt::trace
