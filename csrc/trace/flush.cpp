// Flushes: when and how what is recorded runs, and who is told.
#include "core/error.h"
#include "trace/buffers.h"
#include "trace/plan.h"
#include "trace/planning.h"

namespace mt::trace {

void (*flush_hook)(const Trace&, const Plan&, const char*, bool) = nullptr;
void (*refuse_hook)(const char*, const char*) = nullptr;
void (*eager_hook)(const char*) = nullptr;
MT_THREAD_LOCAL const char* observation = nullptr;

namespace {

// Compiling makes many objects while the collector pauses. What it left behind is young, and is collected at the end:
// otherwise the program's next object would begin a collection, and if a full one is due, that takes as long as
// compiling a small function.
struct CollectYoung {
    bool due = false;
    ~CollectYoung() {
        if (!due) return;
        PyObject* gc = PyImport_ImportModule("gc");
        PyObject* done = gc ? PyObject_CallMethod(gc, "collect", "i", 0) : nullptr;
        if (!done) PyErr_Clear();
        Py_XDECREF(done);
        Py_XDECREF(gc);
    }
};

void flush_trace(Trace& trace, const char* reason, const Keep* keep = nullptr) {
    // All waiting is done before the trace is marked as running: two running traces that wait for each other would wait
    // for ever. While it waits, this one may grow or be run by another thread.
    while (trace.wait_until_idle() || (!trace.runner && release_readers(trace))) {}
    if (trace.empty()) {
        trace.clear();
        return;
    }
    if (trace.runner) fail("a recorded value is needed while it is being computed");
    if (!keep) trace.effects = true;  // a program that needs a value on its way can't be replayed as a whole
    CollectYoung young;
    Suspend suspend;
    struct Clear {
        Trace& trace;
        bool failed = true, done = false;
        void now() {
            trace.clear();
            trace.runner = 0;
            done = true;
        }
        ~Clear() {
            if (done) return;
            trace.forget_stretch();
            if (failed) trace.abandon();
            else now();
        }
    } clear{trace};
    trace.runner = PyThread_get_thread_ident();
    trace.drop_unreachable();
    if (!trace.matters()) {
        // Nobody can see any of it. Errors that depend on shapes were raised while recording.
        clear.failed = false;
        return;
    }
    // The compiler is Python: a garbage collection within it would run finalizers that may want the very values at
    // hand.
    struct PauseCollector {
        int enabled = PyGC_Disable();
        ~PauseCollector() {
            if (enabled) PyGC_Enable();
        }
    } pause;
    bool hit = false;
    const size_t calls = trace.calls();
    const bool is_part = trace.is_part();
    if (is_part || keep) trace.forget_stretch();
    std::shared_ptr<Plan> plan = plan_of(trace, &hit);
    const char* why_recorded = keep ? (*keep)(trace, plan) : nullptr;
    if (flush_hook && reason) flush_hook(trace, *plan, keep ? end_of_function(why_recorded).c_str() : reason, hit);
    const int64_t started = plan->op_by_op ? now_ns() : 0;
    replay(trace, *plan);
    if (plan->op_by_op) planning_history().ran(trace, plan->op_by_op, now_ns() - started);
    clear.failed = false;
    clear.now();
    trace.end_stretch(*plan, hit, calls);
    young.due = !hit && pause.enabled;
}

}  // namespace

void flush_now(Trace& trace, const char* reason) { flush_trace(trace, reason); }

void run_at_once(Trace& trace) { flush_trace(trace, nullptr); }

void flush(const char* reason) {
    if (!current) return;
    if (current->resting()) current->look(reason);
    flush_trace(*current, reason);
}

std::string end_of_function(const char* why_recorded) {
    std::string reason = "the end of a function";
    return why_recorded ? reason + " that is recorded at every call: " + why_recorded : reason;
}

void freeze_at_flush(Trace& trace, const Keep& keep) { flush_trace(trace, "", &keep); }

namespace {

void materialize(Storage* storage) {
    Trace* trace = storage->pending->trace;
    if (trace) trace->wait_until_idle();
    if (!storage->pending) return;
    trace = storage->pending->trace;
    if (!trace) fail("this value was never computed: the recorded program it belongs to failed earlier");
    if (trace == current && current_tag.must)
        refuse_hook(observation ? observation : "an eager op",
                    "it needs a value in the middle of a function that is compiled as a whole");
    flush_trace(*trace, observation ? observation : "a value was needed by an op that runs eagerly");
}

void pending_died(Storage* storage) {
    if (Trace* trace = storage->pending->trace)
        trace->results[trace->nodes[storage->pending->node].first_result + storage->pending->result].storage = nullptr;
    delete storage->pending;
    storage->pending = nullptr;
}

}  // namespace

void install() {
    materialize_hook = materialize;
    pending_died_hook = pending_died;
    before_write_hook = [](Storage* storage) { keep_leaves(storage, nullptr); };
    capture_source_hook = capture_source;
    install_jit_device();
    install_gpu();
}

}  // namespace mt::trace
