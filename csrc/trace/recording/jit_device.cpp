#include "dispatch/jit_device.h"

#include <vector>

#include "core/error.h"
#include "trace/plan/plan.h"

namespace mt::trace {

namespace {

// Records as if a function that must be compiled were being recorded, on this thread's own trace.
class Placed {
  public:
    explicit Placed(Trace& trace)
        : tag_(std::exchange(current_tag, Tag{1, true, 0})), capture_(std::exchange(capture_sources, true)),
          interpreter_(std::exchange(current_interpreter, &trace)) {}
    ~Placed() {
        current_tag = tag_;
        capture_sources = capture_;
        current_interpreter = interpreter_;
    }

  private:
    Tag tag_;
    bool capture_;
    Interpreter* interpreter_;
};

void run_with_copies(Call& call, Ref<Tensor>* results, Tensor* destination) {
    load_compiler();
    const Device device = call.device;
    if (!call.op->infer) {
        refuse_callback(call.op->name.c_str(), "");
        return;
    }
    // Recording an op costs more than these allocations.
    std::vector<Ref<Tensor>> copies(call.operand_count);
    std::vector<Tensor*> originals(call.operand_count);
    for (size_t i = 0; i < call.operand_count; ++i) {
        originals[i] = call.operands[i].tensor;
        if (!originals[i] || on_jit_device(*originals[i]) || originals[i] == destination) continue;
        if (destination && !on_jit_device(*destination)) continue;
        copies[i] = copy_across(*originals[i], device);
        call.operands[i].tensor = copies[i].get();
    }
    {
        Trace& trace = thread_own_trace();
        trace.wake();
        Placed placed(trace);
        if (destination) trace.run_inplace(call, *destination);
        else trace.run(call, results);
    }
    // The tape is to see what the user gave.
    for (size_t i = 0; i < call.operand_count; ++i) call.operands[i].tensor = originals[i];
}

}  // namespace

void install_jit_device() { run_on_jit_device = run_with_copies; }

}  // namespace mt::trace
