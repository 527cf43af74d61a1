// Ctrl-C during a long computation. Python's handlers of signals run in the main thread, between two bytecodes: a
// kernel that takes seconds asks for them itself.
#pragma once

namespace mt {

// Runs the handlers of signals that have arrived, in the main thread with the GIL; throws if one of them raised. Set
// by the bindings.
extern void (*signals_callback)();

// How many calls of handlers this thread is in. They may compute whatever they like, in the middle of a kernel.
inline constinit thread_local int t_handlers = 0;

// While it isn't zero, handlers wait on this thread: what is written over could not be computed again.
inline constinit thread_local int t_handlers_wait = 0;
class HandlersWait {
  public:
    explicit HandlersWait(bool wait = true) : wait_(wait) { t_handlers_wait += wait; }
    ~HandlersWait() { t_handlers_wait -= wait_; }
    HandlersWait(const HandlersWait&) = delete;

  private:
    bool wait_;
};

// While it isn't zero, this thread computes values which the program has called for, and may read in a handler of its
// own. So these wait; Python's own for Ctrl-C reads nothing, and doesn't.
inline constinit thread_local int t_values_due = 0;
struct ValuesDue {
    ValuesDue() { ++t_values_due; }
    ~ValuesDue() { --t_values_due; }
    ValuesDue(const ValuesDue&) = delete;
};

// The exception that a handler raised last on this thread, to tell it from the error of an op; only to be compared.
inline constinit thread_local const void* t_interruption = nullptr;

// For loops that can take long, every millisecond or less often: throws if the computation is to end. Costs a look at
// the clock.
void check_interrupt();

}  // namespace mt
