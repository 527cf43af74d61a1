#include "bindings/jit/interruptible_call.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "core/process/fork.h"
#include "core/process/interrupt.h"
#include "trace/plan/plan.h"
#include "trace/plan/stopped.h"

namespace mt::py {

namespace {

constexpr std::chrono::milliseconds kSignals{10};

struct InterruptibleCall {
    // With the GIL:
    PyRef callable, args, context, result;
    trace::Failure failure;
    bool left = false;  // nobody waits for it
    uint64_t options = 0;
    unsigned long caller = 0;
    // Without:
    std::mutex mutex;
    std::condition_variable ended;
    bool done = false;
};

thread_local unsigned long t_caller = 0;  // the thread that waits for this one; 0 where none does
std::atomic<int> g_running{0};

// A child has none of the calls, or the one that forked.
[[maybe_unused]] const bool forgotten = at_fork_in_child([] { g_running = t_caller != 0; });

// Whether this thread is in the middle of an import.
bool importing() {
    PyObject* modules = PyImport_GetModuleDict();
    PyObject* machinery = PyDict_GetItemString(modules, "_frozen_importlib");
    PyRef locks(machinery ? PyObject_GetAttrString(machinery, "_module_locks") : nullptr);
    PyRef references(locks ? PyMapping_Values(locks.get()) : nullptr);
    bool found = false;
    for (Py_ssize_t i = 0; references && i < PyList_GET_SIZE(references.get()) && !found; ++i) {
        PyRef lock(PyObject_CallNoArgs(PyList_GET_ITEM(references.get(), i)));  // weak references
        PyRef owner(lock && lock.get() != Py_None ? PyObject_GetAttrString(lock.get(), "owner") : nullptr);
        found = owner && PyLong_Check(owner.get()) && to_uint64(owner.get()) == PyThread_get_thread_ident();
        PyErr_Clear();
    }
    PyErr_Clear();
    return found;
}

void work(InterruptibleCall& call) {
    PyContext_Enter(call.context.get());
    trace::set_options_id(call.options);
    PyRef result(PyObject_Call(call.callable.get(), call.args.get(), nullptr));
    trace::Failure failure;
    if (!result) failure = trace::Failure::of_python();
    PyContext_Exit(call.context.get());
    PyErr_Clear();
    if (call.left) return;
    call.result = std::move(result);
    call.failure = std::move(failure);
}

void run(void* argument) {
    std::unique_ptr<std::shared_ptr<InterruptibleCall>> held(
        static_cast<std::shared_ptr<InterruptibleCall>*>(argument));
    InterruptibleCall& call = **held;
    t_caller = call.caller;
    PyGILState_STATE state = PyGILState_Ensure();
    work(call);
    for (PyRef* object : {&call.callable, &call.args, &call.context})
        PyRef dropped = std::move(*object);  // with the GIL
    PyGILState_Release(state);
    {
        std::lock_guard lock(call.mutex);
        call.done = true;
    }
    call.ended.notify_all();
    --g_running;
}

// For the end of the process: a library that computes while its memory is taken away crashes.
PyObject* wait_for_calls(PyObject*, PyObject*) {
    {
        ReleaseGil gil;
        while (g_running) std::this_thread::sleep_for(kSignals);
    }
    Py_RETURN_NONE;
}

PyObject* calling_thread(PyObject*, PyObject*) {
    return PyLong_FromUnsignedLong(t_caller ? t_caller : PyThread_get_thread_ident());
}

PyMethodDef thread_functions[] = {{"_calling_thread", method<calling_thread>(), METH_NOARGS,
                                   "The thread that waits for what this one does, or this one."},
                                  {}};

}  // namespace

PyRef call_interruptibly(PyObject* callable, PyObject* args) {
    if (t_caller || interpreter_ends() || importing()) return checked(PyObject_Call(callable, args, nullptr));
    auto call = std::make_shared<InterruptibleCall>();
    call->callable = PyRef::borrow(callable);
    call->args = PyRef::borrow(args);
    call->context = checked(PyContext_CopyCurrent());
    call->options = trace::options_id();
    call->caller = PyThread_get_thread_ident();
    ++g_running;
    auto held = std::make_unique<std::shared_ptr<InterruptibleCall>>(call);
    if (PyThread_start_new_thread(run, held.get()) == PYTHREAD_INVALID_THREAD_ID) {
        --g_running;
        return checked(PyObject_Call(callable, args, nullptr));
    }
    held.release();
    for (bool done = false; !done;) {
        {
            ReleaseGil gil;
            std::unique_lock lock(call->mutex);
            done = call->ended.wait_for(lock, kSignals, [&] { return call->done; });
        }
        if (done) break;
        try {
            if (signals_callback) signals_callback();
        } catch (const Error&) {
            call->left = true;
            call->result = {};
            call->failure = {};
            throw;
        }
    }
    // The other thread may be the last to let go of the call, and has no GIL then: nothing of Python's stays in it.
    PyRef result = std::move(call->result);
    if (trace::Failure failure = std::move(call->failure)) failure.raise();
    return result;
}

bool init_interruptible_call(PyObject* module) {
    if (PyModule_AddFunctions(module, thread_functions) != 0) return false;
    static PyMethodDef wait = {"_wait_for_calls", method<wait_for_calls>(), METH_NOARGS, nullptr};
    PyRef atexit(PyImport_ImportModule("atexit")), function(PyCFunction_New(&wait, nullptr));
    PyRef done(atexit && function ? PyObject_CallMethod(atexit.get(), "register", "O", function.get()) : nullptr);
    return static_cast<bool>(done);
}

}  // namespace mt::py
