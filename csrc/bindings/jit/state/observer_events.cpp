// How the interpreter tells of the calls and instructions of frames that are observed.
#include "bindings/jit/state/observation.h"

#if MT_CAN_OBSERVE

namespace mt::py {

#if PY_VERSION_HEX >= 0x030C0000

namespace {

// Events come by `sys.monitoring`, which is the interpreter's: that functions begin, of all of them; instructions, of
// the code that the observations under way have seen to run. Threads that are not observed give none.
struct Events {
    int users = 0;
    long tool = -1;
    uint64_t epoch = 0;  // counts the times that it was set up
    long start = 0, resume = 0, instruction = 0;
    PyObject* monitoring = nullptr;
    PyObject* codes = nullptr;  // a list, of those that give instructions
};
Events events;

PyObject* on_start(PyObject*, PyObject* const* args, Py_ssize_t) {
    Observation* o = observation;
    if (!o || o->failed) Py_RETURN_NONE;
    Frame* frame = current_frame(PyThreadState_Get());
    if (!frame || is_imported(*o, frame)) Py_RETURN_NONE;
    const Tracing tracing = at_call(*o, frame);
    if (tracing == Tracing::Failed) return nullptr;
    if (tracing == Tracing::None) Py_RETURN_NONE;
    CodeFacts* facts = facts_of(code_of(frame));
    if (facts && facts->watched == events.epoch) Py_RETURN_NONE;
    PyRef done(facts && PyList_Append(events.codes, args[0]) == 0
                   ? PyObject_CallMethod(events.monitoring, "set_local_events", "lOl", events.tool, args[0],
                                         events.instruction)
                   : nullptr);
    if (done) facts->watched = events.epoch;
    else PyErr_Clear(), o->failed = true;
    Py_RETURN_NONE;
}

PyObject* on_instruction(PyObject*, PyObject* const* args, Py_ssize_t) {
    Observation* o = observation;
    if (!o || o->failed) Py_RETURN_NONE;
    Frame* frame = current_frame(PyThreadState_Get());
    if (!frame || reinterpret_cast<PyObject*>(code_of(frame)) != args[0] || is_imported(*o, frame)) Py_RETURN_NONE;
    if (kind_of(code_of(frame)) == kLibrary && !is_programs(*o, frame)) Py_RETURN_NONE;
    const auto at = static_cast<size_t>(to_int64(args[1])) / sizeof(_Py_CODEUNIT);
    const CodeFacts* facts = planned(*o, code_of(frame));
    if (facts && at < facts->count && facts->steps[at].flags & kPrefix) Py_RETURN_NONE;  // told of what follows, too
    if (facts && !before_instruction(*o, frame, at)) return nullptr;
    Py_RETURN_NONE;
}

PyMethodDef start_callback = {"function_begins", method<on_start>(), METH_FASTCALL, nullptr};
PyMethodDef instruction_callback = {"instruction", method<on_instruction>(), METH_FASTCALL, nullptr};

}  // namespace

void stop_events() {
    if (--events.users) return;
    PyObject* monitoring = events.monitoring;
    auto call = [&](const char* name, const char* format, auto... arguments) {
        if (!PyRef(PyObject_CallMethod(monitoring, name, format, arguments...))) PyErr_Clear();
    };
    if (events.tool >= 0) {
        call("set_events", "ll", events.tool, 0L);
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(events.codes); ++i)
            call("set_local_events", "lOl", events.tool, PyList_GET_ITEM(events.codes, i), 0L);
        for (long event : {events.start, events.resume, events.instruction})
            call("register_callback", "llO", events.tool, event, Py_None);
        call("free_tool_id", "l", events.tool);
    }
    events.tool = -1;
    Py_CLEAR(events.codes);
    Py_CLEAR(events.monitoring);
}

bool start_events() {
    if (events.users++) return true;
    ++events.epoch;
    events.monitoring = Py_XNewRef(PySys_GetObject("monitoring"));
    events.codes = PyList_New(0);
    auto fails = [] { return PyErr_Clear(), stop_events(), false; };
    if (!events.monitoring || !events.codes) return fails();
    PyRef names(PyObject_GetAttrString(events.monitoring, "events"));
    if (!names) return fails();
    auto number = [&](const char* name) {
        PyRef found(PyObject_GetAttrString(names.get(), name));
        return found ? static_cast<long>(to_int64(found.get())) : 0L;
    };
    events.start = number("PY_START");
    events.resume = number("PY_RESUME");
    events.instruction = number("INSTRUCTION");
    for (long tool : {4L, 3L, 5L, 2L}) {
        PyRef user(PyObject_CallMethod(events.monitoring, "get_tool", "l", tool));
        if (!user) return fails();
        if (user.get() != Py_None) continue;
        if (!PyRef(PyObject_CallMethod(events.monitoring, "use_tool_id", "ls", tool, "minitensor"))) return fails();
        events.tool = tool;
        break;
    }
    if (events.tool < 0) return fails();
    PyRef start(PyCFunction_New(&start_callback, nullptr)), step(PyCFunction_New(&instruction_callback, nullptr));
    auto registered = [&](long event, const PyRef& callback) {
        return bool(PyRef(
            PyObject_CallMethod(events.monitoring, "register_callback", "llO", events.tool, event, callback.get())));
    };
    if (!start || !step || !registered(events.start, start) || !registered(events.resume, start) ||
        !registered(events.instruction, step) ||
        !PyRef(PyObject_CallMethod(events.monitoring, "set_events", "ll", events.tool, events.start | events.resume)))
        return fails();
    return true;
}

#else

namespace {

// Events come by the thread's trace function.
int on_event(PyObject*, PyFrameObject* object, int what, PyObject* argument) {
    Observation* o = observation;
    if (!o) return 0;
    if (o->other && what != PyTrace_OPCODE) {
        int failed = o->other(o->other_argument, object, what, argument);
        if (failed) return failed;
    }
    Frame* frame = object->f_frame;
    if (o->failed || (what != PyTrace_OPCODE && what != PyTrace_CALL) || is_imported(*o, frame)) return 0;
    // An exception may be on its way through: what is looked up here must leave it alone.
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    bool goes_on = true;
    if (what == PyTrace_OPCODE) {
        goes_on = before_instruction(*o, frame, static_cast<size_t>(_PyInterpreterFrame_LASTI(frame)));
    } else {
        const Tracing tracing = at_call(*o, frame);
        goes_on = tracing != Tracing::Failed;
        if (tracing == Tracing::Instructions) object->f_trace_opcodes = 1;
        if (!o->other) object->f_trace_lines = 0;
    }
    if (goes_on) {
        PyErr_Restore(type, value, traceback);
        return 0;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return -1;
}

}  // namespace

void stop_events() { PyEval_SetTrace(observation->other, observation->other_argument); }

bool start_events() {
    observation->other = observation->thread->c_tracefunc;
    observation->other_argument = Py_XNewRef(observation->thread->c_traceobj);
    PyEval_SetTrace(on_event, nullptr);
    return true;
}

#endif

}  // namespace mt::py

#endif
