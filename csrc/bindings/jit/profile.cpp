// Profiles: every kernel, launch and copy while one is taken.
#include <string>
#include <utility>
#include <vector>

#include "bindings/jit/trace_python.h"
#include "dispatch/jit_device.h"

namespace mt::py {

namespace {

using namespace mt::trace;

struct Event {
    std::string name, op;
    int64_t start, end;
    unsigned long thread;
    SourceRef source;
    PyObject* children;
    std::vector<std::string> inputs;
    int64_t bytes;
};
std::vector<Event>* g_events = nullptr;

// A finalizer may have ended the profile since the kernel began.
void note(Event event) {
    if (g_events) {
        g_events->push_back(std::move(event));
    } else {
        Py_XDECREF(event.source.code);
        Py_XDECREF(event.children);
    }
}

std::string meta_text(const Tensor& t) {
    std::string text = std::string(info(t.dtype).hlo_name) + to_string(t.sizes);
    return text;
}

void on_kernel(const OpDef* op, const Call& call, int64_t start, int64_t end) {
    Event event{op->name, op->name, start, end, PyThread_get_thread_ident(), {}, nullptr, {}, 0};
    capture_source(&event.source);
    for (size_t i = 0; i < call.operand_count; ++i)
        if (const Tensor* t = call.operands[i].tensor) {
            event.inputs.push_back(meta_text(*t));
            event.bytes += t->numel * static_cast<int64_t>(itemsize(t->dtype));
        }
    for (size_t i = 0; i < call.result_count; ++i)
        if (const Tensor* t = call.outputs[i]) event.bytes += t->numel * static_cast<int64_t>(itemsize(t->dtype));
    note(std::move(event));
}

// (name, op, file, line) of the nodes that a launch runs.
PyRef launch_names(const Trace& trace, const Step& step) {
    return list_of(step.inside, [&](uint32_t index) {
        const TraceNode& node = trace.nodes[index];
        PyRef source = checked(source_tuple(node.source));
        const bool known = source.get() != Py_None;
        PyRef name = checked(PyUnicode_FromFormat("%s_%u", node.op->name.c_str(), index));
        return Py_BuildValue("(OsOO)", name.get(), node.op->name.c_str(),
                             known ? PyTuple_GET_ITEM(source.get(), 0) : Py_None,
                             known ? PyTuple_GET_ITEM(source.get(), 1) : checked(PyLong_FromLong(0)).get());
    });
}

void on_launch(const Trace& trace, const Step& step, int64_t start, int64_t end) {
    Event event{
        step.name, "_JitLaunch",   start, end, PyThread_get_thread_ident(), {}, launch_names(trace, step).release(),
        {},        step.work_bytes};
    capture_source(&event.source);
    note(std::move(event));
}

void on_copy(Device from, Device to, int64_t bytes, int64_t start, int64_t end) {
    auto name = [](Device device) {
        std::string text = device_text(device);
        return device.index < 0 ? text + ":0" : text;
    };
    Event event{"copy " + name(from) + " to " + name(to),
                "_Copy",
                start,
                end,
                PyThread_get_thread_ident(),
                {},
                nullptr,
                {},
                bytes};
    capture_source(&event.source);
    note(std::move(event));
}

PyObject* py_start_profile(PyObject*, PyObject*) {
    if (g_events) {
        PyErr_SetString(PyExc_RuntimeError, "a profile is being taken already");
        return nullptr;
    }
    g_events = new std::vector<Event>;
    profile_callback = on_kernel;
    launch_profile_callback = on_launch;
    copy_profile_callback = on_copy;
    Py_RETURN_NONE;
}

// [(name, op, start_ns, end_ns, thread, file, line, children, inputs, bytes)]
PyObject* list_of_events(std::vector<Event> events) {
    PyRef list = list_of(events, [](const Event& e) {
        PyRef inputs = list_of(e.inputs, [](const std::string& text) { return PyUnicode_FromString(text.c_str()); });
        PyRef where(source_tuple(e.source));
        bool known = where.get() != Py_None;
        return Py_BuildValue("(ssLLkOOOOL)", e.name.c_str(), e.op.c_str(), static_cast<long long>(e.start),
                             static_cast<long long>(e.end), e.thread,
                             known ? PyTuple_GET_ITEM(where.get(), 0) : Py_None,
                             known ? PyTuple_GET_ITEM(where.get(), 1) : Py_None, e.children ? e.children : Py_None,
                             inputs.get(), static_cast<long long>(e.bytes));
    });
    for (Event& e : events) {
        Py_XDECREF(e.source.code);
        Py_XDECREF(e.children);
    }
    return list.release();
}

PyObject* py_take_profile(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        if (!g_events) fail("no profile is being taken");
        return list_of_events(std::exchange(*g_events, {}));
    });
}

PyObject* py_stop_profile(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        if (!g_events) fail("no profile is being taken");
        profile_callback = nullptr;
        launch_profile_callback = nullptr;
        copy_profile_callback = nullptr;
        std::vector<Event> events = std::move(*g_events);
        delete std::exchange(g_events, nullptr);
        return list_of_events(std::move(events));
    });
}

PyMethodDef profile_functions[] = {
    {"start_profile", method<py_start_profile>(), METH_NOARGS, "Starts to note every kernel and launch."},
    {"take_profile", method<py_take_profile>(), METH_NOARGS, "The events so far; the profile goes on."},
    {"stop_profile", method<py_stop_profile>(), METH_NOARGS, "The events since start_profile or take_profile."},
    {}};

}  // namespace

bool init_profile(PyObject* module) { return PyModule_AddFunctions(module, profile_functions) == 0; }

}  // namespace mt::py
