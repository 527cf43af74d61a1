// Calls of ops below the tape, as Python sees them: what selective checkpoints are made of.
#include <string>

#include "bindings/py.h"
#include "core/error.h"

namespace mt::py {

namespace {

struct Watch {
    PyObject* watcher = nullptr;  // null: nobody
    bool before = false;          // asked before calls, and after draws of random numbers; else told after calls
};
MT_THREAD_LOCAL Watch watch;

class Unwatched {
  public:
    Unwatched() { calls_are_watched = false; }
    ~Unwatched() { calls_are_watched = watch.watcher != nullptr; }
    Unwatched(const Unwatched&) = delete;
};

PyRef tuple_of_results(const Call& call, Ref<Tensor>* results) {
    PyRef tuple = checked(PyTuple_New(static_cast<Py_ssize_t>(call.result_count)));
    for (size_t i = 0; i < call.result_count; ++i) {
        PyObject* item = checked(wrap(detach(*results[i]))).release();
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), item);
    }
    return tuple;
}

// watcher(name, draws, operands, parameters, results or None).
PyRef ask(const Call& call, PyObject* results) {
    PyRef operands = checked(PyTuple_New(static_cast<Py_ssize_t>(call.operand_count)));
    for (size_t i = 0; i < call.operand_count; ++i) {
        const Operand& operand = call.operands[i];
        PyRef item = checked(operand.tensor      ? wrap(detach(*operand.tensor))
                             : operand.is_scalar ? scalar_to_python(operand.scalar)
                                                 : Py_NewRef(Py_None));
        PyTuple_SET_ITEM(operands.get(), static_cast<Py_ssize_t>(i), item.release());
    }
    PyRef params = checked(PyTuple_New(static_cast<Py_ssize_t>(call.param_count)));
    for (size_t i = 0; i < call.param_count; ++i)
        PyTuple_SET_ITEM(params.get(), static_cast<Py_ssize_t>(i), checked(value_to_python(call.params[i])).release());
    PyRef watcher(Py_NewRef(watch.watcher));
    return checked(PyObject_CallFunction(watcher.get(), "sOOOO", call.op->name.c_str(),
                                         call.op->kind == Kind::Random ? Py_True : Py_False, operands.get(),
                                         params.get(), results));
}

// Whether the watcher gave results.
bool take(Call& call, PyObject* given, Ref<Tensor>* results) {
    if (given == Py_None) return false;
    if (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) < 1 ||
        static_cast<size_t>(PyTuple_GET_SIZE(given)) > kMaxResults ||
        (call.result_count && static_cast<size_t>(PyTuple_GET_SIZE(given)) != call.result_count))
        fail_type("what watches calls must return None or a tuple of the results of '" + call.op->name + "'");
    call.result_count = static_cast<size_t>(PyTuple_GET_SIZE(given));
    for (size_t i = 0; i < call.result_count; ++i) {
        PyObject* item = PyTuple_GET_ITEM(given, static_cast<Py_ssize_t>(i));
        if (!is_tensor(item))
            fail_type(std::string("what watches calls must return tensors, got ") + Py_TYPE(item)->tp_name);
        const Tensor& tensor = *tensor_of(item);
        if (call.op->infer && (!(tensor.sizes == call.results[i].sizes) || tensor.dtype != call.results[i].dtype))
            fail("a result that was kept of '" + call.op->name + "' has another shape or dtype than this call gives");
        results[i] = detach(tensor);
    }
    return true;
}

void run_watched(Call& call, Ref<Tensor>* results) {
    // What the call itself makes run, and what the watcher calls, is not watched.
    Unwatched unwatched;
    const bool draws = call.op->kind == Kind::Random;
    // A draw is made all the same: those that follow it go on from there.
    if (watch.before && !draws && take(call, ask(call, Py_None).get(), results)) return;
    run_inferred(call, results);
    if (watch.before && !draws) return;
    PyRef made = watch.before ? PyRef(Py_NewRef(Py_None)) : tuple_of_results(call, results);
    take(call, ask(call, made.get()).get(), results);
}

// watch_calls(watcher, before): what watched before, for another call.
PyObject* py_watch_calls(PyObject*, PyObject* args) {
    PyObject* watcher;
    int before = 0;
    if (!PyArg_ParseTuple(args, "O|p:watch_calls", &watcher, &before)) return nullptr;
    return guarded([&]() -> PyObject* {
        if (watcher != Py_None && !PyCallable_Check(watcher)) fail_type("watch_calls(watcher, before): not callable");
        PyRef was = checked(
            Py_BuildValue("(OO)", watch.watcher ? watch.watcher : Py_None, watch.before ? Py_True : Py_False));
        PyRef old(watch.watcher);
        watch = {watcher == Py_None ? nullptr : Py_NewRef(watcher), before != 0};
        calls_are_watched = watch.watcher != nullptr;
        return was.release();
    });
}

PyObject* py_call_watcher(PyObject*, PyObject*) {
    return Py_NewRef(calls_are_watched && watch.watcher ? watch.watcher : Py_None);
}

PyMethodDef watched_functions[] = {
    {"watch_calls", method<py_watch_calls>(), METH_VARARGS,
     "watch_calls(watcher, before=False)\n--\n\nHas this thread's calls of ops told to a callable, None for nobody. "
     "What was before."},
    {"call_watcher", method<py_call_watcher>(), METH_NOARGS, "What this thread's calls are told to, or None."},
    {}};

}  // namespace

bool init_watched_calls(PyObject* module) {
    run_watched_callback = run_watched;
    return PyModule_AddFunctions(module, watched_functions) == 0;
}

}  // namespace mt::py
