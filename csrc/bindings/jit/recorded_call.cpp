#include "bindings/jit/recorded_call.h"

#include <unordered_set>
#include <utility>
#include <vector>

#include "autograd/engine.h"
#include "bindings/jit/trace_python.h"
#include "bindings/py.h"
#include "trace/program/program.h"

namespace mt::py {

namespace {

uint64_t g_owners = 0;
// Those whose calls repeat themselves and are short all the same.
std::unordered_set<uint64_t> g_short;

void set_function(uint64_t owner, bool whole) {
    if (!trace::current) return;
    trace::Trace& trace = *trace::current;
    trace.whole_function = whole;
    trace.owner = whole ? owner : 0;
    trace.effects = trace.wrote_shared = trace.was_cut = false;
    trace.function_nodes = 0;
    trace.uncut = owner && g_short.contains(owner);
    if (owner) trace::begin_function();
    else trace::end_function();
}

// A function whose loop was run in parts has one trace the next time, if its calls are short.
void note_length(uint64_t owner) {
    if (!owner || !trace::current) return;
    const trace::Trace& trace = *trace::current;
    const bool is_short = trace.function_nodes + trace.nodes.size() < trace::Trace::kShortCall;
    if (trace.uncut && !is_short) g_short.erase(owner);
    if (trace.was_cut && !trace.uncut && is_short) g_short.insert(owner);
}

thread_local int recorded_calls = 0;  // how many calls of recorded functions this thread is in

// call_recorded(function, args, kwargs, reason, tag, owner, close): calls the function, recorded, under a tag. With an
// owner what is recorded is that function, of which a program may be made; if all ops must be compiled it is a whole,
// with plans of its own. With `close` values may not be read. In the core, where no exception of a signal's handler
// comes between a state that is set and what sets it back.
PyObject* py_call_recorded(PyObject*, PyObject* arguments) {
    PyObject *function, *args, *kwargs, *reason, *tag;
    unsigned long long owner;
    int close;
    if (!PyArg_ParseTuple(arguments, "OO!O!UOKp:call_recorded", &function, &PyTuple_Type, &args, &PyDict_Type, &kwargs,
                          &reason, &tag, &owner, &close))
        return nullptr;
    int compile = 0, must = 0, scope = 0;
    if (tag != Py_None && !PyArg_ParseTuple(tag, "iii:call_recorded", &compile, &must, &scope)) return nullptr;
    return guarded([&]() -> PyObject* {
        const char* text = PyUnicode_AsUTF8(reason);
        if (!text) fail_python();
        trace::begin_recording();
        const trace::Tag before = trace::current_tag;
        if (owner) set_function(owner, must);
        if (tag != Py_None) trace::set_tag({static_cast<int8_t>(compile), must != 0, scope});
        const bool closed = close && trace::close_values(true);
        Refusals around = exchange_refusals({must != 0, {}});
        ++recorded_calls;
        PyRef result(PyObject_Call(function, args, kwargs));
        --recorded_calls;
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        // A function that goes on with something else where a value is refused would do so in every call.
        if (PyRef refusal = exchange_refusals(std::move(around)).first;
            refusal &&
            (!type || (PyErr_GivenExceptionMatches(type, PyExc_Exception) &&
                       !PyErr_GivenExceptionMatches(type, reinterpret_cast<PyObject*>(Py_TYPE(refusal.get())))))) {
            Py_XDECREF(type);
            Py_XDECREF(value);
            Py_XDECREF(traceback);
            result = PyRef();
            type = Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(refusal.get())));
            traceback = PyException_GetTraceback(refusal.get());
            value = refusal.release();
        }
        if (close) trace::close_values(closed);
        if (tag != Py_None) trace::set_tag(before);
        note_length(owner);
        if (owner) set_function(0, false);
        const bool ended = guarded([&] {
            trace::end_recording(text);
            return true;
        });
        // An exception of the program's own is the one to see; values that fail now say so when they are read.
        if (!ended && (result || !PyErr_ExceptionMatches(PyExc_Exception))) {
            Py_XDECREF(type);
            Py_XDECREF(value);
            Py_XDECREF(traceback);
            return nullptr;
        }
        PyErr_Clear();
        PyErr_Restore(type, value, traceback);
        return result.release();
    });
}

// Whether the function that is recorded as a whole writes to memory that others than tensors see.
PyObject* py_wrote_shared(PyObject*, PyObject*) {
    return PyBool_FromLong(trace::current && trace::current->wrote_shared);
}

PyObject* py_gradients_before(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        PyRef found = checked(PyList_New(0));
        for (Tensor* gradient : trace::gradients_before()) {
            PyRef wrapped = checked(wrap(Ref<Tensor>::borrow(gradient)));
            if (PyList_Append(found.get(), wrapped.get()) < 0) fail_python();
        }
        return found.release();
    });
}

PyObject* py_pin_gradient(PyObject*, PyObject* gradient) {
    return guarded([&]() -> PyObject* {
        if (!is_tensor(gradient)) fail_type("pin_gradient takes a Tensor");
        trace::pin_gradient(*tensor_of(gradient));
        Py_RETURN_NONE;
    });
}

PyObject* py_in_recorded_call(PyObject*, PyObject*) { return PyBool_FromLong(recorded_calls > 0); }

// Leaves that got gradients since this thread began to watch, which it does while `watching`.
thread_local bool watching = false;
thread_local std::vector<Ref<Tensor>> graded;

void note_gradient(Tensor& leaf) {
    if (watching) graded.push_back(Ref<Tensor>::borrow(&leaf));
}

PyObject* py_watch_gradients(PyObject*, PyObject*) {
    watching = true;
    Py_RETURN_NONE;
}

PyObject* py_discard_recording(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        watching = false;
        if (trace::current) trace::current->discard();
        // Those that were made by the recording have no memory; others are again what they were.
        for (const Ref<Tensor>& leaf : std::exchange(graded, {})) {
            Ref<Tensor>& gradient = autograd_meta(*leaf).grad;
            if (gradient && !gradient->storage->has_memory()) Ref<Tensor> gone = std::move(gradient);
        }
        Py_RETURN_NONE;
    });
}

PyMethodDef recorded_call_functions[] = {
    {"watch_gradients", method<py_watch_gradients>(), METH_NOARGS,
     "From here on to discard_recording, gradients that are stored are noted."},
    {"discard_recording", method<py_discard_recording>(), METH_NOARGS,
     "Forgets what this thread has recorded, as if it had not been, and gradients that it stored."},
    {"call_recorded", method<py_call_recorded>(), METH_VARARGS,
     "call_recorded(function, args, kwargs, reason, tag | None, owner, close): its result; what it does is recorded "
     "under a tag, as the function of that number if it is not 0; with `close` values may not be read."},
    {"gradients_before", method<py_gradients_before>(), METH_NOARGS,
     "gradients_before(): those that tensors from outside had when the function which is recorded began."},
    {"pin_gradient", method<py_pin_gradient>(), METH_O,
     "pin_gradient(gradient): the function reaches it by itself too, and programs are for the very tensor."},
    {"in_recorded_call", method<py_in_recorded_call>(), METH_NOARGS,
     "Whether this thread is in a call of call_recorded."},
    {"wrote_shared", method<py_wrote_shared>(), METH_NOARGS,
     "Whether the function that is recorded as a whole writes to memory that others than tensors see."},
    {}};

}  // namespace

void record_function(uint64_t owner) { set_function(owner, false); }
uint64_t next_owner() { return ++g_owners; }
void forget_length(uint64_t owner) { g_short.erase(owner); }

bool init_recorded_call(PyObject* module) {
    grad_stored_callback = note_gradient;
    return PyModule_AddFunctions(module, recorded_call_functions) == 0;
}

}  // namespace mt::py
