// Flushes: when and how what is recorded runs, and who is told.
#include <utility>

#include "core/error.h"
#include "core/process/interrupt.h"
#include "trace/plan/stopped.h"
#include "trace/policy/rental.h"

namespace mt::trace {

void (*flush_callback)(const Trace&, const Plan&, const char*, bool) = nullptr;
void (*refuse_callback)(const char*, const char*) = nullptr;
void (*eager_callback)(const char*) = nullptr;
MT_THREAD_LOCAL const char* observation = nullptr;

namespace {

// Compiling makes many objects while the collector pauses. What it left behind is young, and is collected at the end:
// otherwise the program's next object would begin a collection, and if a full one is due, that takes as long as
// compiling a small function. Where the threshold is 0 none would begin: so it is while a function is observed, where
// what is young is what the function made.
struct CollectYoung {
    bool due = false;
    ~CollectYoung() {
        if (!due) return;
        PyRef gc(PyImport_ImportModule("gc"));
        PyRef thresholds(gc ? PyObject_CallMethod(gc.get(), "get_threshold", nullptr) : nullptr);
        if (thresholds && PyObject_Not(PyTuple_GET_ITEM(thresholds.get(), 0)) == 0)
            PyRef(PyObject_CallMethod(gc.get(), "collect", "i", 0));
        PyErr_Clear();
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
    t_interruption = nullptr;
    // Whatever comes out of it, those who wait for values are told.
    struct Clear {
        Trace& trace;
        bool lost = true;
        void now() {
            lost = false;
            trace.clear();
            trace.runner = 0;
        }
        void aside() {
            lost = false;
            trace.runner = 0;
            trace.policy().forget();
            put_aside(trace);
            trace.clear();
        }
        ~Clear() {
            if (!lost) return;
            trace.policy().forget();
            trace.abandon();
        }
    } clear{trace};
    trace.runner = PyThread_get_thread_ident();
    ValuesDue due;
    std::unique_ptr<Stopped> at = std::exchange(trace.stopped, nullptr);
    if (!at || !at->plan) trace.drop_unreachable();
    if (!trace.matters()) {
        // Nobody can see any of it. Errors that depend on shapes were raised while recording.
        trace.policy().forget();
        clear.now();
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
    if (!at) at = std::make_unique<Stopped>();
    auto stop = [&](Failure failure) {
        trace.stopped = std::move(at);
        clear.aside();
        failure.raise();
    };
    bool hit = false;
    const size_t calls = trace.calls();
    const bool is_part = trace.ends_as_part(), by_policy = trace.goes_by_policy();
    const int64_t began = by_policy ? policy_clock() : 0;
    Failure failure;  // of no op
    if (!at->plan) {
        if (keep && !by_policy) trace.policy().forget();
        const size_t recorded = trace.signature.size();
        try {
            std::shared_ptr<Plan> plan = plan_of(trace, &hit);
            const char* why_recorded = keep ? (*keep)(trace, plan) : nullptr;
            if (flush_callback && reason)
                flush_callback(trace, *plan, keep ? end_of_function(why_recorded).c_str() : reason, hit);
            at->plan = std::move(plan);
        } catch (const std::exception&) {
            failure = Failure::current();
            trace.signature.resize(recorded);
            trace.policy().forget();
            if (failure.from_outside()) stop(std::move(failure));
            // Nothing that was called is lost for want of a plan.
            at->plan = plan_op_by_op(trace, 0);
        }
    }
    Plan& plan = *at->plan;
    try {
        replay(trace, plan, at->run);
    } catch (const std::exception&) {
        Failure error = Failure::current();
        if (at->run.over) {
            trace.policy().forget();
            at->run.buffers.reset();
            clear.now();
        } else if (error.from_outside()) {
            stop(std::move(error));
        }
        if (failure) failure.raise();
        error.raise();
    }
    if (plan.op_by_op) note_ops(plan);
    at->run.buffers.reset();
    clear.now();
    if (failure) failure.raise();
    if (by_policy) trace.policy().end_recorded(plan, hit, calls, policy_clock() - began, is_part);
    young.due = !hit && pause.enabled;
}

}  // namespace

void flush_now(Trace& trace, const char* reason) { flush_trace(trace, reason); }

void run_at_once(Trace& trace) { flush_trace(trace, nullptr); }

void flush(const char* reason) {
    if (!current) return;
    if (current->in_eager_region()) current->observe(reason);
    flush_trace(*current, reason);
}

std::string end_of_function(const char* why_recorded) {
    std::string reason = "the end of a function";
    return why_recorded ? reason + " that is recorded at every call: " + why_recorded : reason;
}

void freeze_at_flush(Trace& trace, const Keep& keep) { flush_trace(trace, "", &keep); }

namespace {

MT_THREAD_LOCAL bool closed = false;

}  // namespace

static void refuse_look(const char* what) {
    refuse_callback(observation ? observation : what,
                    "it needs a value in the middle of a function that is compiled as a whole");
}

void check_open(const char* what) {
    // What the recording itself does to memory, it does suspended.
    if (closed && current) refuse_look(what);
    if (current) note_beyond_replay("a value is read on its way");
}

namespace {

void materialize(Storage* storage) {
    Trace* trace = storage->pending->trace;
    // What another thread has recorded is as good as there: it doesn't depend on what is recorded here.
    if (!trace || trace == current) check_open("an eager op");
    if (trace) trace->wait_until_idle();
    if (!storage->pending) return;
    trace = storage->pending->trace;
    if (!trace) {
        const std::string* why = storage->pending->why.get();
        fail("this value was never computed: " +
             (why ? "what it depends on failed earlier with " + *why
                  : std::string("the recorded program it belongs to failed earlier")));
    }
    if (trace == current && current_tag.must) refuse_look("an eager op");
    flush_trace(*trace, observation ? observation : "a value was needed by an op that runs eagerly");
}

void pending_died(Storage* storage) {
    if (Trace* trace = storage->pending->trace)
        trace->results[trace->nodes[storage->pending->node].first_result + storage->pending->result].storage = nullptr;
    delete storage->pending;
    storage->pending = nullptr;
}

}  // namespace

bool close_values(bool close) { return std::exchange(closed, close); }

void install() {
    materialize_callback = materialize;
    pending_died_callback = pending_died;
    before_write_callback = [](Storage* storage) { keep_inputs(storage, nullptr); };
    capture_source_callback = capture_source;
    install_jit_device();
    install_gpu();
    install_whole_backward();
}

}  // namespace mt::trace
