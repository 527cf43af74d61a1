// Has Python see what the frames of a program read while they run: before each instruction that may read or write
// state, a handler gets its operands. Nothing of the program is rewritten, and it runs as ever.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bindings/jit/state/frames.h"
#include "bindings/jit/state/observation.h"

namespace mt::py {

#if MT_CAN_OBSERVE

thread_local Observation* observation = nullptr;

namespace {

thread_local Frame* observed_from = nullptr;  // of the next observation

std::vector<std::string>& library() {
    static auto* list = new std::vector<std::string>;
    return *list;
}
std::vector<std::string>& internal() {
    static auto* list = new std::vector<std::string>;
    return *list;
}

CodeKind kind_of_file(std::string_view file) {
    CodeKind kind = kUser;
    for (const std::string& prefix : library())
        if (file.starts_with(prefix)) kind = kLibrary;
    for (const std::string& prefix : internal())
        if (file.starts_with(prefix)) kind = kInternal;
    if (file.find("site-packages") != file.npos && kind == kLibrary && file.find("/numpy/") == file.npos) kind = kUser;
    if (file.starts_with("<frozen importlib")) kind = kImport;
    return kind;
}

}  // namespace

CodeFacts* facts_of(PyCodeObject* code) {
    static const Py_ssize_t index = request_code_extra([](void* facts) { delete static_cast<CodeFacts*>(facts); });
    void* extra = nullptr;
    auto* object = reinterpret_cast<PyObject*>(code);
    if (index < 0 || code_extra(object, index, &extra) < 0) return PyErr_Clear(), nullptr;
    if (extra) return static_cast<CodeFacts*>(extra);
    auto facts = std::make_unique<CodeFacts>();
    Py_ssize_t length = 0;
    if (const char* name = PyUnicode_AsUTF8AndSize(code->co_filename, &length))
        facts->kind = kind_of_file({name, static_cast<size_t>(length)});
    else PyErr_Clear();
    if (set_code_extra(object, index, facts.get()) < 0) return PyErr_Clear(), nullptr;
    return facts.release();
}

CodeKind kind_of(PyCodeObject* code) {
    CodeFacts* facts = facts_of(code);
    return facts ? facts->kind : kUser;
}

namespace {

// What observes is Python too, but what it raises is not the program's: for its lifetime handlers of signals, and
// exceptions that other threads raise in this one, wait until the program goes on.
class ProgramWaits {
  public:
    ProgramWaits() : thread_(PyThreadState_Get()), main_(main_thread()) {
        if (main_ == PyThread_get_thread_ident()) main_thread() = 0;  // which handles signals
        exception_ = std::exchange(thread_->async_exc, nullptr);
    }
    ~ProgramWaits() {
        if (main_ == PyThread_get_thread_ident()) main_thread() = main_;
        if (!exception_) return;
        if (thread_->async_exc) Py_DECREF(exception_);
        else PyThreadState_SetAsyncExc(thread_->thread_id, exception_), Py_DECREF(exception_);
    }
    ProgramWaits(const ProgramWaits&) = delete;

  private:
    PyThreadState* thread_;
    unsigned long main_;
    PyObject* exception_;
};

// False with an exception that the program is to get: a signal's handler's, or the one that the handler here returned.
bool tell(Observation& o, int opcode, int argument, PyCodeObject* code, int instruction, PyObject* operands) {
    PyRef held(operands), refusal;
    {
        ProgramWaits waits;
        refusal = PyRef(operands
                            ? PyObject_CallFunction(o.handler, "iiOiO", opcode, argument, code, instruction, operands)
                            : nullptr);
        if (!refusal) {
            PyErr_Clear();
            o.failed = true;
        }
    }
    if (PyErr_CheckSignals() < 0) return false;
    if (!refusal || refusal.get() == Py_None) return true;
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(refusal.get())), refusal.get());
    return false;
}

PyObject* or_none(PyObject* object) { return object ? object : Py_None; }

PyObject* tuple_of(PyObject* const* items, Py_ssize_t count) {
    PyObject* tuple = PyTuple_New(count);
    for (Py_ssize_t i = 0; tuple && i < count; ++i) PyTuple_SET_ITEM(tuple, i, Py_NewRef(or_none(items[i])));
    return tuple;
}

void note_made(Observation& o, PyObject* dict) {
    if (o.made && PyList_Append(o.made, dict) < 0) PyErr_Clear();
}

}  // namespace

const CodeFacts* planned(Observation& o, PyCodeObject* code) {
    CodeFacts* facts = facts_of(code);
    if (facts && facts->steps) return facts;
    ProgramWaits waits;
    PyRef bytes(PyObject_CallOneArg(o.steps, reinterpret_cast<PyObject*>(code)));
    if (!facts || !bytes || !PyBytes_Check(bytes.get())) {
        PyErr_Clear();
        o.failed = true;
        return nullptr;
    }
    const auto size = static_cast<size_t>(PyBytes_GET_SIZE(bytes.get()));
    facts->count = size / sizeof(CodeStep);
    facts->steps = std::make_unique<CodeStep[]>(facts->count);
    std::memcpy(facts->steps.get(), PyBytes_AS_STRING(bytes.get()), facts->count * sizeof(CodeStep));
    return facts;
}

bool before_instruction(Observation& o, Frame* frame, size_t at) {
    PyCodeObject* code = code_of(frame);
    const CodeFacts* facts = planned(o, code);
    if (!facts) return true;
    const CodeStep* steps = facts->steps.get();
    while (at < facts->count && steps[at].flags & kPrefix) ++at;
    if (at >= facts->count) return true;
    const CodeStep& step = steps[at];
    PyObject** base = stack_of(frame);
    if (step.depth < 0) {  // where it is thought that nothing ever comes by
        o.failed = true;
        return true;
    }
    PyObject** top = base + step.depth;
    // What is called may run other frames first, so that this one is looked for.
    if (std::erase(o.makers, frame) && top > base && top[-1] && PyDict_CheckExact(top[-1]) && Py_REFCNT(top[-1]) == 1 &&
        !PyObject_GC_IsTracked(top[-1]))
        note_made(o, top[-1]);
    if (step.flags & kMakes) o.makers.push_back(frame);
    if (!(step.flags & kSeen)) return true;
    PyObject* operands = nullptr;
    if (step.operands >= 0) {
        if (step.depth < step.operands) return true;
        operands = tuple_of(top - step.operands, step.operands);
    } else if (step.operands == kCell) {
        operands = tuple_of(frame->localsplus + step.argument, 1);
    } else {
        PyObject* names[] = {frame->f_globals, frame->f_builtins, frame->f_locals, step.depth ? top[-1] : nullptr};
        operands = tuple_of(names, 4);
    }
    return tell(o, step.opcode, step.argument, code, static_cast<int>(at), operands);
}

bool is_programs(const Observation& o, Frame* frame) {
    for (frame = frame->previous; frame; frame = frame->previous) {
        if (frame == o.base) return true;
        if (!is_complete(frame)) continue;
        const CodeKind kind = kind_of(code_of(frame));
        if (kind != kLibrary) return kind == kUser;
    }
    return false;
}

bool is_imported(Observation& o, Frame* frame) {
    if (!o.import) return false;
    for (; frame && frame != o.base; frame = frame->previous)
        if (frame == o.import && code_of(frame) == o.import_code) return true;
    o.import = nullptr;
    return false;
}

namespace {

// Whether code of the framework's, which is not seen to run, may read or write one of its settings.
bool names_settings(Observation& o, PyCodeObject* code) {
    CodeFacts* facts = facts_of(code);
    if (!facts) return true;
    if (facts->settings == CodeFacts::kUnknown) {
        facts->settings = CodeFacts::kNone;
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(code->co_names); ++i)
            if (PySet_Contains(o.settings, PyTuple_GET_ITEM(code->co_names, i)) == 1)
                facts->settings = CodeFacts::kSome;
    }
    return facts->settings == CodeFacts::kSome;
}

}  // namespace

Tracing at_call(Observation& o, Frame* frame) {
    PyCodeObject* code = code_of(frame);
    const CodeKind kind = kind_of(code);
    if (kind == kImport) {
        o.import = frame;
        o.import_code = code;
        return Tracing::None;
    }
    if (kind == kLibrary && !is_programs(o, frame)) return Tracing::None;
    if (kind == kInternal) {
        const int n = code->co_argcount + code->co_kwonlyargcount;
        for (int i = 0; i < n; ++i) {
            PyObject* argument = frame->localsplus[i];
            if (argument && PyCell_Check(argument)) argument = PyCell_GET(argument);
            if (argument && o.module_type != Py_None &&
                PyType_IsSubtype(Py_TYPE(argument), reinterpret_cast<PyTypeObject*>(o.module_type)) &&
                !tell(o, -2, 0, code, 0, PyTuple_Pack(1, argument)))
                return Tracing::Failed;
        }
        if (names_settings(o, code) && !tell(o, -4, 0, code, 0, PyTuple_Pack(1, frame->f_globals)))
            return Tracing::Failed;
        return Tracing::None;
    }
    if (code->co_flags & CO_VARKEYWORDS) {  // a dict that the call made
        PyObject* named =
            frame->localsplus[code->co_argcount + code->co_kwonlyargcount + (code->co_flags & CO_VARARGS ? 1 : 0)];
        if (named && PyCell_Check(named)) named = PyCell_GET(named);
        if (named && PyDict_Check(named)) note_made(o, named);
    }
    const bool has_self = code->co_argcount > 0;
    PyObject* self = has_self ? frame->localsplus[0] : nullptr;
    // An argument that inner functions use is in a cell by now, or will be.
    if (self && PyCell_Check(self)) self = PyCell_GET(self);
    return tell(o, -1, 0, code, 0, PyTuple_Pack(2, function_of(frame), or_none(self))) ? Tracing::Instructions
                                                                                       : Tracing::Failed;
}

namespace {

void end() {
    Observation* o = observation;
    if (!o) return;
    stop_events();
    observation = nullptr;
    Py_XDECREF(o->other_argument);
    Py_XDECREF(o->handler);
    Py_XDECREF(o->steps);
    Py_XDECREF(o->module_type);
    Py_XDECREF(o->made);
    Py_XDECREF(o->settings);
    delete o;
}

bool strings_from(PyObject* list, std::vector<std::string>& into) {
    into.clear();
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list); ++i) {
        const char* text = PyUnicode_AsUTF8(PyTuple_GET_ITEM(list, i));
        if (!text) return false;
        into.emplace_back(text);
    }
    return true;
}

PyObject* begin_observing(PyObject*, PyObject* args) {
    PyObject *handler, *steps, *module_type, *made, *libraries, *internals, *settings;
    if (!PyArg_ParseTuple(args, "OOOO!O!O!O!:begin_observing", &handler, &steps, &module_type, &PyList_Type, &made,
                          &PyTuple_Type, &libraries, &PyTuple_Type, &internals, &PyFrozenSet_Type, &settings))
        return nullptr;
    PyThreadState* thread = PyThreadState_Get();
    // A debugger's function, or one of sys.monitoring's, gives no events.
    if (observation || thread->tracing) Py_RETURN_FALSE;
    if (library().empty() && !(strings_from(libraries, library()) && strings_from(internals, internal())))
        return nullptr;
    auto* o = new Observation;
    o->thread = thread;
    o->base = observed_from;
    o->handler = Py_NewRef(handler);
    o->steps = Py_NewRef(steps);
    o->module_type = Py_NewRef(module_type);
    o->made = Py_NewRef(made);
    o->settings = Py_NewRef(settings);
    observation = o;
    if (start_events()) Py_RETURN_TRUE;
    observation = nullptr;
    Py_XDECREF(o->handler), Py_XDECREF(o->steps), Py_XDECREF(o->module_type), Py_XDECREF(o->made);
    Py_XDECREF(o->settings);
    delete o;
    Py_RETURN_FALSE;
}

// The framework warned: what becomes of that is settings', which its frames are not seen to read.
PyObject* note_warning(PyObject*, PyObject*) {
    Observation* o = observation;
    if (!o || o->failed) Py_RETURN_NONE;
    ProgramWaits waits;
    PyRef told(PyObject_CallFunction(o->handler, "iiOi()", -3, 0, Py_None, 0));
    if (!told) PyErr_Clear(), o->failed = true;
    Py_RETURN_NONE;
}

// What the function drops is to go where it drops it: no program comes of this run.
PyObject* hold_nothing(PyObject*, PyObject*) {
    if (observation) Py_CLEAR(observation->made);
    Py_RETURN_NONE;
}

// Whether all has been told.
PyObject* end_observing(PyObject*, PyObject*) {
    bool well = observation && !observation->failed;
    end();
    return PyBool_FromLong(well);
}

// What is young stays so: at the end it tells what was made meanwhile. Whether collections are on is the program's,
// which may look at that and change it; so it is their threshold that is set, unless the program sets that.
class NoCollections {
  public:
    NoCollections() : collector_(PyImport_ImportModule("gc")), before_(thresholds()) {
        if (before_)
            PyRef(PyObject_CallMethod(collector_.get(), "set_threshold", "iOO", 0, PyTuple_GET_ITEM(before_.get(), 1),
                                      PyTuple_GET_ITEM(before_.get(), 2)));
        PyErr_Clear();
    }
    ~NoCollections() {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        PyRef now = before_ ? thresholds() : PyRef();
        if (now && to_bits(PyTuple_GET_ITEM(now.get(), 0)) == 0)
            PyRef(PyObject_CallMethod(collector_.get(), "set_threshold", "O", before_.get()));
        PyErr_Restore(type, value, traceback);
    }
    NoCollections(const NoCollections&) = delete;

  private:
    // Of the three generations; null where the collector is none.
    PyRef thresholds() const {
        PyRef known(collector_ ? PyObject_CallMethod(collector_.get(), "get_threshold", nullptr) : nullptr);
        if (known && PyTuple_Check(known.get()) && PyTuple_GET_SIZE(known.get()) == 3) return known;
        return PyRef();
    }

    PyRef collector_, before_;
};

// observed(observer, function, args, kwargs): what the function gives and what `observer.end` says of it. However it
// ends, nothing of the observation is left.
PyObject* observed(PyObject*, PyObject* arguments) {
    PyObject *observer, *function, *args, *kwargs;
    if (!PyArg_ParseTuple(arguments, "OOO!O!:observed", &observer, &function, &PyTuple_Type, &args, &PyDict_Type,
                          &kwargs))
        return nullptr;
    NoCollections pause;
    PyRef result, said;
    observed_from = complete_frame(current_frame(PyThreadState_Get()));
    {
        ProgramWaits waits;
        if (!PyRef(PyObject_CallMethod(observer, "begin", "(O)", function))) return end(), nullptr;
    }
    result = PyRef(PyObject_Call(function, args, kwargs));
    if (!result) {
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        end();
        PyErr_Restore(type, value, traceback);
        return nullptr;
    }
    ProgramWaits waits;
    said = PyRef(PyObject_CallMethod(observer, "end", "(O)", result.get()));
    end();
    return said ? PyTuple_Pack(2, result.get(), said.get()) : nullptr;
}

#else

namespace {

PyObject* begin_observing(PyObject*, PyObject*) { Py_RETURN_FALSE; }
PyObject* end_observing(PyObject*, PyObject*) { Py_RETURN_FALSE; }
PyObject* hold_nothing(PyObject*, PyObject*) { Py_RETURN_NONE; }
PyObject* note_warning(PyObject*, PyObject*) { Py_RETURN_NONE; }
PyObject* observed(PyObject*, PyObject* arguments) {
    PyObject *observer, *function, *args, *kwargs;
    if (!PyArg_ParseTuple(arguments, "OOOO:observed", &observer, &function, &args, &kwargs)) return nullptr;
    PyRef begun(PyObject_CallMethod(observer, "begin", "(O)", function));
    PyRef result(begun ? PyObject_Call(function, args, kwargs) : nullptr);
    PyRef said(result ? PyObject_CallMethod(observer, "end", "(O)", result.get()) : nullptr);
    return said ? PyTuple_Pack(2, result.get(), said.get()) : nullptr;
}

#endif

// generic_attributes(type): whether reading an attribute looks at its class and its own dict, and at nothing else.
PyObject* generic_attributes(PyObject*, PyObject* type) {
    return PyBool_FromLong(PyType_Check(type) &&
                           reinterpret_cast<PyTypeObject*>(type)->tp_getattro == PyObject_GenericGetAttr);
}

// A tuple that another thread is making must have no second owner while it is given its size: Python calls that an
// error. Here no other thread sees them owned. Those with names have their size from the start.
PyObject* young_objects(PyObject*, PyObject*) {
    PyRef collector(PyImport_ImportModule("gc"));
    PyRef all(collector ? PyObject_CallMethod(collector.get(), "get_objects", "i", 0) : nullptr);
    PyRef kept(all ? PyList_New(0) : nullptr);
    if (!kept) return nullptr;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(all.get()); ++i) {
        PyObject* object = PyList_GET_ITEM(all.get(), i);
        if (!PyTuple_CheckExact(object) && PyList_Append(kept.get(), object) < 0) return nullptr;
    }
    return kept.release();
}

PyMethodDef observer_functions[] = {
    {"generic_attributes", method<generic_attributes>(), METH_O,
     "generic_attributes(type): whether reading an attribute looks at its class and its own dict, and at nothing "
     "else."},
    {"begin_observing", method<begin_observing>(), METH_VARARGS,
     "begin_observing(handler, steps, module_type, made, libraries, internals, settings): has `handler(opcode, "
     "argument, code, instruction, operands)` called before those instructions of this thread's frames that "
     "`steps(code)` says, and "
     "where code of ours begins that names one of `settings`. False if it can't be."},
    {"observed", method<observed>(), METH_VARARGS,
     "observed(observer, function, args, kwargs): the function's result, and what `observer.end` gives for it; its "
     "`begin` is called before."},
    {"young_objects", method<young_objects>(), METH_NOARGS,
     "What Python's collector has not seen yet, without plain tuples: those that another thread is making must not be "
     "held."},
    {"note_warning", method<note_warning>(), METH_NOARGS,
     "The framework warns: a function that is being recorded depends on the filters of warnings."},
    {"hold_nothing", method<hold_nothing>(), METH_NOARGS, "No object is held any more that the function makes."},
    {"end_observing", method<end_observing>(), METH_NOARGS, "Ends it; whether the handler has been told of all."},
    {}};

}  // namespace

bool init_observer(PyObject* module) {
    return PyModule_AddFunctions(module, observer_functions) == 0 &&
           PyModule_AddIntConstant(module, "CAN_OBSERVE", MT_CAN_OBSERVE) == 0;
}

}  // namespace mt::py
