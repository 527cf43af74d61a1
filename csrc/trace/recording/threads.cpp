// Whose traces there are: one for each thread that records, more for calls on GPUs, and which is recorded now.
#include <algorithm>
#include <utility>
#include <vector>

#include "trace/plan/stopped.h"

namespace mt::trace {

MT_THREAD_LOCAL Trace* current = nullptr;
CallCounts call_counts;

namespace {

MT_THREAD_LOCAL int recording_depth = 0;

// The thread's own trace. It outlives the thread: its values may be read later, and the GIL isn't held when a thread
// ends.
struct ThreadTrace {
    Trace* trace = nullptr;
    ~ThreadTrace() {
        if (trace) trace->orphaned.store(true, std::memory_order_release);
    }
};
thread_local ThreadTrace thread_trace;

// As many as threads ever recorded at the same time.
std::vector<Trace*>& all_traces() {
    static auto* traces = new std::vector<Trace*>;
    return *traces;
}

}  // namespace

Suspend::Suspend() : interpreter_(current_interpreter), trace_(current), capture_(capture_sources) {
    current_interpreter = nullptr;
    current = nullptr;
    capture_sources = false;
}

Suspend::~Suspend() {
    current_interpreter = interpreter_;
    current = trace_;
    capture_sources = capture_;
}

bool recording() { return current != nullptr; }

bool keep_inputs(Storage* storage, const Trace* except) {
    bool waited = false;
    // While it waits, other threads record new reads and begin new traces.
    for (size_t i = 0; i < all_traces().size();) {
        Trace* trace = all_traces()[i];
        if (trace == except || trace->keep_input(storage)) {
            ++i;
        } else {
            waited = true;
            i = 0;
        }
    }
    return waited;
}

void abandon_other_threads() {
    for (Trace* trace : all_traces()) {
        const bool own = trace == thread_trace.trace;
        // This thread's own may be run by another, which needed a value of it.
        if (trace->runner && !(own && trace->runner == PyThread_get_thread_ident())) trace->abandon();
        if (own) continue;
        trace->orphaned.store(true, std::memory_order_relaxed);
    }
}

void put_aside(Trace& trace) {
    for (Trace* other : all_traces())  // those whose values nobody waits for any more
        if (other->stopped && !other->runner &&
            std::none_of(other->results.begin(), other->results.end(), [](const ResultInfo& r) { return r.storage; })) {
            other->clear();
        }
    auto free = [](Trace* other) {
        return other->orphaned.load(std::memory_order_acquire) && other->empty() && !other->runner;
    };
    auto known = std::find_if(all_traces().begin(), all_traces().end(), free);
    Trace* aside = known == all_traces().end() ? new Trace : *known;
    if (known == all_traces().end()) all_traces().push_back(aside);
    aside->orphaned.store(true, std::memory_order_relaxed);  // for whoever wants one, once it has run
    aside->take(trace);
    if (aside->stopped->run.buffers) aside->stopped->run.buffers->belong_to(*aside);
}

Trace& thread_own_trace() {
    Trace*& own = thread_trace.trace;
    for (Trace* trace : all_traces())
        if (!own && trace->orphaned.load(std::memory_order_acquire) && trace->empty() && !trace->runner) {
            trace->orphaned.store(false, std::memory_order_relaxed);
            trace->clear();
            trace->whole_function = trace->effects = trace->wrote_shared = trace->uncut = false;
            trace->owner = 0;
            own = trace;
        }
    if (!own) all_traces().push_back(own = new Trace);
    return *own;
}

namespace {
// As many as calls on GPUs ever ran within each other on the thread. Later threads take them over.
struct PrivateTraces {
    std::vector<Trace*> spare;
    ~PrivateTraces() {
        for (Trace* trace : spare) trace->orphaned.store(true, std::memory_order_release);
    }
};
thread_local PrivateTraces private_traces;
}  // namespace

PrivateTrace::PrivateTrace() {
    std::vector<Trace*>& spare = private_traces.spare;
    if (spare.empty()) {
        all_traces().push_back(trace_ = new Trace);
    } else {
        trace_ = spare.back();
        spare.pop_back();
    }
}

PrivateTrace::~PrivateTrace() {
    trace_->clear();
    private_traces.spare.push_back(trace_);
}

void begin_recording() {
    if (recording_depth++ > 0 && current) {
        ++current->nested;
        current->wake();
        return;
    }
    current = &thread_own_trace();
    current_interpreter = current;
    capture_sources = true;
}

void begin_program() {
    begin_recording();
    if (recording_depth != 1) return;
    current->set_program(true);
}

void end_recording(const char* reason) {
    if (--recording_depth > 0) {
        if (current && current->nested) --current->nested;
        return;
    }
    struct Stop {
        ~Stop() {
            if (current) current->set_program(false);
            current = nullptr;
            current_interpreter = nullptr;
            capture_sources = false;
        }
    } stop;
    flush(reason);
}

}  // namespace mt::trace
