// What Python sees of recording, and the account of it.
#include <string>
#include <vector>

#include "bindings/jit/trace_python.h"
#include "trace/policy/rental.h"

namespace mt::py {

namespace {

using namespace mt::trace;

PyObject* g_flush = nullptr;
PyObject* g_refuse = nullptr;
PyObject* g_eager = nullptr;
PyObject *g_losses = nullptr, *g_lost = nullptr;
PyObject* g_ran = nullptr;
PyObject* g_clock = nullptr;

thread_local Refusals t_refusals;

void on_refuse(const char* op, const char* reason) {
    PyRef refuse = PyRef::borrow(g_refuse);
    PyRef done(PyObject_CallFunction(refuse.get(), "ss", op, reason));
    if (done) fail(std::string("'") + op + "' can't be compiled");
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (t_refusals.kept && !t_refusals.first) t_refusals.first = PyRef::borrow(value);
    PyErr_Restore(type, value, traceback);
    fail_python();
}

void on_eager(const char* op) {
    SourceRef source;
    capture_source(&source);
    PyRef where(source_tuple(source));
    Py_XDECREF(source.code);
    PyRef callback = PyRef::borrow(g_eager);
    if (!callback) return;  // taken away by a finalizer just now
    PyRef done(PyObject_CallFunction(callback.get(), "sO", op, where.get()));
    if (!done) fail_python();
}

void on_flush(const Trace& trace, const Plan& plan, const char* reason, bool hit) {
    SourceRef source;
    capture_source(&source);
    PyRef where(source_tuple(source));
    Py_XDECREF(source.code);
    PyRef copies = list_of(trace.snapshots(), [](const Trace::Snapshot& one) {
        return Py_BuildValue("(nN)", static_cast<Py_ssize_t>(one.copy->nbytes), source_tuple(one.place));
    });
    PyRef callback = PyRef::borrow(g_flush);
    if (!callback) return;
    PyRef done(PyObject_CallFunction(callback.get(), "sOOnOO", reason, where.get(), hit ? Py_True : Py_False,
                                     static_cast<Py_ssize_t>(trace.nodes.size()),
                                     plan.record ? plan.record.get() : Py_None, copies.get()));
    if (!done) fail_python();
}

PyRef on_lost(const PyRef& record, const SourceRef& at, int64_t recorded_ns, int64_t eager_ns) {
    PyRef where(source_tuple(at)), callback = PyRef::borrow(g_lost);
    if (!callback) return {};
    return checked(PyObject_CallFunction(callback.get(), "OOLL", record ? record.get() : Py_None, where.get(),
                                         static_cast<long long>(recorded_ns), static_cast<long long>(eager_ns)));
}

PyRef on_losses(const PyRef& record, const std::vector<Loss>& losses) {
    PyRef callback = PyRef::borrow(g_losses);
    if (!callback) return {};
    PyRef all = list_of(losses, [](const Loss& one) {
        return Py_BuildValue("(sLL)", one.cluster.c_str(), static_cast<long long>(one.timed.launch_ns),
                             static_cast<long long>(one.timed.ops_ns));
    });
    return checked(PyObject_CallFunctionObjArgs(callback.get(), record ? record.get() : Py_None, all.get(), nullptr));
}

void on_ran(const PyRef& record) {
    PyRef callback = PyRef::borrow(g_ran);
    if (callback && record.get() != Py_None) checked(PyObject_CallOneArg(callback.get(), record.get()));
}

// It is asked where nothing may be thrown, and where an exception may be on its way.
int64_t given_time() {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyRef clock = PyRef::borrow(g_clock);
    PyRef time(PyObject_CallNoArgs(clock.get()));
    int64_t ns = 0;
    const bool given = time && guarded([&] {
                           ns = to_int64(time.get());
                           return true;
                       });
    if (!given) {
        PyErr_WriteUnraisable(clock.get());
        ns = now_ns();
    }
    PyErr_Restore(type, value, traceback);
    return ns;
}

PyObject* py_begin_program(PyObject*, PyObject*) {
    begin_program();
    Py_RETURN_NONE;
}
PyObject* py_begin_recording(PyObject*, PyObject*) {
    begin_recording();
    Py_RETURN_NONE;
}
PyObject* py_end_recording(PyObject*, PyObject* reason) {
    return guarded([&]() -> PyObject* {
        const char* text = PyUnicode_AsUTF8(reason);
        if (!text) fail_python();
        end_recording(text);
        Py_RETURN_NONE;
    });
}
PyObject* py_flush(PyObject*, PyObject* reason) {
    return guarded([&]() -> PyObject* {
        const char* text = PyUnicode_AsUTF8(reason);
        if (!text) fail_python();
        flush(text);
        Py_RETURN_NONE;
    });
}
PyObject* py_end_step(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        // A function of which a program may be made is one recording.
        if (current && !function_log) flush("the end of an optimizer step");
        Py_RETURN_NONE;
    });
}
PyObject* py_whole_calls(PyObject*, PyObject*) {
    return Py_BuildValue("(KKK)", static_cast<unsigned long long>(call_counts.recorded),
                         static_cast<unsigned long long>(call_counts.eager),
                         static_cast<unsigned long long>(call_counts.programs));
}
PyObject* py_followed_calls(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(Following::followed); }
PyObject* py_is_recording(PyObject*, PyObject*) { return PyBool_FromLong(recording()); }

PyObject* py_options_id(PyObject*, PyObject*) { return PyLong_FromUnsignedLongLong(options_id()); }

PyObject* py_set_options_id(PyObject*, PyObject* id) {
    set_options_id(to_uint64(id));
    Py_RETURN_NONE;
}

PyObject* py_set_flush_callback(PyObject*, PyObject* callable) {
    Py_XSETREF(g_flush, callable == Py_None ? nullptr : Py_NewRef(callable));
    flush_callback = g_flush ? on_flush : nullptr;
    Py_RETURN_NONE;
}

PyObject* py_set_eager_callback(PyObject*, PyObject* callable) {
    Py_XSETREF(g_eager, callable == Py_None ? nullptr : Py_NewRef(callable));
    eager_callback = g_eager ? on_eager : nullptr;
    Py_RETURN_NONE;
}

bool callable_or_none(PyObject* object) {
    if (object == Py_None || PyCallable_Check(object)) return true;
    PyErr_Format(PyExc_TypeError, "expected a callable or None, got %s", Py_TYPE(object)->tp_name);
    return false;
}

PyObject* py_set_demotion_callbacks(PyObject*, PyObject* args) {
    PyObject *losses, *lost, *ran;
    if (!PyArg_ParseTuple(args, "OOO:set_demotion_callbacks", &losses, &lost, &ran)) return nullptr;
    if (!callable_or_none(losses) || !callable_or_none(lost) || !callable_or_none(ran)) return nullptr;
    Py_XSETREF(g_losses, losses == Py_None ? nullptr : Py_NewRef(losses));
    Py_XSETREF(g_lost, lost == Py_None ? nullptr : Py_NewRef(lost));
    Py_XSETREF(g_ran, ran == Py_None ? nullptr : Py_NewRef(ran));
    losses_callback = g_losses ? on_losses : nullptr;
    demoted_callback = g_lost ? on_lost : nullptr;
    demoted_ran_callback = g_ran ? on_ran : nullptr;
    Py_RETURN_NONE;
}

PyObject* py_set_policy_clock(PyObject*, PyObject* clock) {
    if (!callable_or_none(clock)) return nullptr;
    Py_XSETREF(g_clock, clock == Py_None ? nullptr : Py_NewRef(clock));
    policy_clock = g_clock ? given_time : now_ns;
    Py_RETURN_NONE;
}

PyObject* py_plan_made(PyObject*, PyObject* number) {
    note_made(to_uint64(number));
    Py_RETURN_NONE;
}

// What a helper is asked and says.
PyObject* py_set_reply_pipe(PyObject*, PyObject* file) {
    return guarded([&]() -> PyObject* {
        set_reply_pipe(static_cast<int>(to_int64(file)));
        Py_RETURN_NONE;
    });
}

PyObject* py_known_runs(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        const std::string text = thread_own_trace().policy().known();
        return PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
    });
}

PyObject* py_learn_of_runs(PyObject*, PyObject* args) {
    PyObject* known;
    const char* folder = "";
    if (!PyArg_ParseTuple(args, "O|s:learn_of_runs", &known, &folder)) return nullptr;
    if (known == Py_None) {
        Policy::forget_known();
        Py_RETURN_TRUE;
    }
    char* text;
    Py_ssize_t size;
    if (PyBytes_AsStringAndSize(known, &text, &size) < 0) return nullptr;
    return PyBool_FromLong(Policy::learn_of({text, static_cast<size_t>(size)}, folder));
}

PyObject* py_set_refuse_callback(PyObject*, PyObject* callable) {
    Py_XSETREF(g_refuse, Py_NewRef(callable));
    refuse_callback = on_refuse;
    Py_RETURN_NONE;
}

PyObject* py_raise_refusal(PyObject*, PyObject*) {
    PyObject* refusal = t_refusals.first.get();
    if (!refusal) Py_RETURN_NONE;
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(refusal)), refusal);
    return nullptr;
}

PyObject* py_next_scope(PyObject*, PyObject*) { return PyLong_FromLong(next_scope()); }

PyObject* py_plan_cache_info(PyObject*, PyObject*) {
    PlanCacheInfo i = plan_cache_info();
    return Py_BuildValue("{sKsKsKsKsKsK}", "hits", static_cast<unsigned long long>(i.hits), "misses",
                         static_cast<unsigned long long>(i.misses), "size", static_cast<unsigned long long>(i.size),
                         "bytes", static_cast<unsigned long long>(i.bytes), "limit",
                         static_cast<unsigned long long>(i.limit), "evicted",
                         static_cast<unsigned long long>(i.evicted));
}
PyObject* py_set_plan_cache_limit(PyObject*, PyObject* bytes) {
    return guarded([&]() -> PyObject* {
        set_plan_cache_limit(to_uint64(bytes));
        Py_RETURN_NONE;
    });
}
// (nodes, inputs, scalars) of what this thread has recorded so far.
PyObject* py_describe_recording(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        if (!current) fail("describe_recording: nothing is being recorded");
        current->drop_unreachable();
        return describe(*current).release();
    });
}

PyObject* py_clear_plan_cache(PyObject*, PyObject*) {
    clear_plan_cache();
    Py_RETURN_NONE;
}
PyObject* py_set_internal_prefixes(PyObject*, PyObject* list) {
    return guarded([&]() -> PyObject* {
        std::vector<std::string> prefixes;
        each(list, [&](PyObject* item) {
            const char* text = PyUnicode_AsUTF8(item);
            if (!text) fail_python();
            prefixes.emplace_back(text);
        });
        set_internal_prefixes(std::move(prefixes));
        Py_RETURN_NONE;
    });
}
PyObject* py_caller(PyObject*, PyObject*) {
    SourceRef source;
    capture_source(&source);
    PyObject* result = source_tuple(source);
    Py_XDECREF(source.code);
    return result;
}

// In a forked child: the other threads, and what they were running, are gone.
PyObject* py_after_fork(PyObject*, PyObject*) {
    trace::abandon_other_threads();
    Py_RETURN_NONE;
}

PyMethodDef trace_bindings_functions[] = {
    {"begin_recording", method<py_begin_recording>(), METH_NOARGS, "Ops are recorded from here on; nests."},
    {"begin_program", method<py_begin_program>(), METH_NOARGS,
     "Records a whole program from here on, as far as the policy says."},
    {"end_recording", method<py_end_recording>(), METH_O,
     "Ends what begin_recording began; the outermost end runs the recording."},
    {"flush", method<py_flush>(), METH_O, "flush(reason): runs what is recorded."},
    {"followed_calls", method<py_followed_calls>(), METH_NOARGS,
     "followed_calls(): how many calls were recorded as an earlier recording had them, without inference, in this "
     "process."},
    {"whole_calls", method<py_whole_calls>(), METH_NOARGS,
     "How many backward passes and steps of optimizers were recorded, ran eagerly, and as programs, each by itself."},
    {"end_step", method<py_end_step>(), METH_NOARGS, "The end of an optimizer's step: runs what is recorded."},
    {"is_recording", method<py_is_recording>(), METH_NOARGS, "Whether ops are being recorded."},
    {"options_id", method<py_options_id>(), METH_NOARGS,
     "The number of the options in force on this thread, part of every signature; 0 before there are any."},
    {"set_options_id", method<py_set_options_id>(), METH_O, "set_options_id(id): the options in force on this thread."},
    {"set_flush_callback", method<py_set_flush_callback>(), METH_O,
     "set_flush_callback(f | None): f(reason, source, hit, ops, record, copies)."},
    {"set_eager_callback", method<py_set_eager_callback>(), METH_O,
     "set_eager_callback(f | None): f(op, source) for what ran eagerly since it can't be recorded."},
    {"set_demotion_callbacks", method<py_set_demotion_callbacks>(), METH_VARARGS,
     "set_demotion_callbacks(losses | None, lost | None, ran | None): losses(record, [(cluster, ns, ns of its ops)]) "
     "-> "
     "record of the plan with those op by op; lost(record, source, recorded_ns, eager_ns) -> record of what runs "
     "eagerly from now on; ran(record) of each run of it."},
    {"plan_made", method<py_plan_made>(), METH_O,
     "plan_made(number): a thread has compiled what the compile callback was given with that number."},
    {"set_policy_clock", method<py_set_policy_clock>(), METH_O,
     "set_policy_clock(f | None): f() -> nanoseconds, instead of the clock that the policy goes by."},
    {"set_reply_pipe", method<py_set_reply_pipe>(), METH_O,
     "set_reply_pipe(file): where a process that compiles says of a number that it is compiled (1) or can't be (0), in "
     "64 bits each; -1 for none."},
    {"known_runs", method<py_known_runs>(), METH_NOARGS, "What became of the runs of this program, as bytes."},
    {"learn_of_runs", method<py_learn_of_runs>(), METH_VARARGS,
     "learn_of_runs(bytes | None, folder) -> whether they are what `known_runs` gave an earlier process of the "
     "program."},
    {"set_refuse_callback", method<py_set_refuse_callback>(), METH_O,
     "set_refuse_callback(f): f(op, reason) raises for what must be compiled and can't."},
    {"raise_refusal", method<py_raise_refusal>(), METH_NOARGS,
     "Raises again what the function at hand, which is compiled as a whole, was refused first, if it went on."},
    {"next_scope", method<py_next_scope>(), METH_NOARGS, "The number of the next scope in what is being recorded."},
    {"plan_cache_info", method<py_plan_cache_info>(), METH_NOARGS,
     "Hits, misses and size of the cache of launch plans."},
    {"clear_plan_cache", method<py_clear_plan_cache>(), METH_NOARGS, "Forgets all launch plans."},
    {"set_plan_cache_limit", method<py_set_plan_cache_limit>(), METH_O,
     "set_plan_cache_limit(bytes): how much memory launch plans may take."},
    {"describe_recording", method<py_describe_recording>(), METH_NOARGS,
     "(nodes, inputs, scalars) of what this thread has recorded so far."},
    {"set_internal_prefixes", method<py_set_internal_prefixes>(), METH_O, "Folders whose frames are not the user's."},
    {"caller", method<py_caller>(), METH_NOARGS, "(file, line, function) of the innermost frame that is the user's."},
    {}};

}  // namespace

Refusals exchange_refusals(Refusals refusals) { return std::exchange(t_refusals, std::move(refusals)); }

int next_scope() { return current ? ++current->scopes : 1; }

bool init_trace(PyObject* module) {
    trace::install();
    static PyMethodDef after_fork = {"_after_fork", method<py_after_fork>(), METH_NOARGS, nullptr};
    PyRef os(PyImport_ImportModule("os")), function(PyCFunction_New(&after_fork, nullptr)), none(PyTuple_New(0));
    PyRef enroll(os ? PyObject_GetAttrString(os.get(), "register_at_fork") : nullptr);
    PyRef keywords(function ? Py_BuildValue("{sO}", "after_in_child", function.get()) : nullptr);
    PyRef enrolled(enroll && keywords && none ? PyObject_Call(enroll.get(), none.get(), keywords.get()) : nullptr);
    return enrolled && PyModule_AddFunctions(module, trace_bindings_functions) == 0;
}

}  // namespace mt::py
