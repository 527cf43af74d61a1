// Has Python see what the frames of a program read while they run: before each instruction that may read or write
// state, a handler gets its operands. Nothing of the program is rewritten, and it runs as ever.
#include <cstring>
#include <string>
#include <vector>

#include "bindings/py.h"

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000
#define MT_CAN_OBSERVE 1
#define Py_BUILD_CORE 1
#undef HAVE_STD_ATOMIC  // it is C's
extern "C" {
#include <internal/pycore_frame.h>
#include <internal/pycore_runtime.h>
}
#undef Py_BUILD_CORE
#include <opcode.h>
#else
#define MT_CAN_OBSERVE 0
#endif

namespace mt::py {

namespace {

#if MT_CAN_OBSERVE

// How the operands of an instruction are found, beside so many from the top of the stack.
enum Operands : int { kCall = -1, kCallEx = -2, kCell = -3, kNames = -4 };
constexpr int kUnseen = 127;

struct Observation {
    PyObject* handler = nullptr;  // called with (opcode, argument, code, instruction, operands)
    PyObject* module_type = nullptr;
    PyObject* made = nullptr;  // a list of dicts that the collector doesn't know, and that are new
    PyThreadState* thread = nullptr;
    Py_tracefunc other = nullptr;  // somebody else's, such as a debugger's
    PyObject* other_argument = nullptr;
    PyFrameObject* import = nullptr;  // what runs below is not looked at
    PyFrameObject* maker = nullptr;   // has just run an instruction that may have made a dict
    int8_t operands[256];
    bool failed = false;
};

thread_local Observation* observation = nullptr;

enum Kind : uintptr_t { kUser = 1, kInternal, kLibrary, kImport };

std::vector<std::string>& library() {
    static auto* list = new std::vector<std::string>;
    return *list;
}
std::vector<std::string>& internal() {
    static auto* list = new std::vector<std::string>;
    return *list;
}

Kind kind_of(PyCodeObject* code) {
    static const Py_ssize_t index = _PyEval_RequestCodeExtraIndex(nullptr);
    void* extra = nullptr;
    auto* object = reinterpret_cast<PyObject*>(code);
    if (index >= 0 && _PyCode_GetExtra(object, index, &extra) == 0 && extra)
        return static_cast<Kind>(reinterpret_cast<uintptr_t>(extra));
    Kind kind = kUser;
    Py_ssize_t length = 0;
    if (const char* name = PyUnicode_AsUTF8AndSize(code->co_filename, &length)) {
        std::string_view file(name, static_cast<size_t>(length));
        for (const std::string& prefix : library())
            if (file.starts_with(prefix)) kind = kLibrary;
        for (const std::string& prefix : internal())
            if (file.starts_with(prefix)) kind = kInternal;
        if (file.find("site-packages") != file.npos && kind == kLibrary && file.find("/numpy/") == file.npos)
            kind = kUser;
        if (file.starts_with("<frozen importlib")) kind = kImport;
    } else {
        PyErr_Clear();
    }
    if (index >= 0) _PyCode_SetExtra(object, index, reinterpret_cast<void*>(static_cast<uintptr_t>(kind)));
    return kind;
}

// What observes is Python too, but what it raises is not the program's: for its lifetime handlers of signals, and
// exceptions that other threads raise in this one, wait until the program goes on.
class ProgramWaits {
  public:
    ProgramWaits() : thread_(PyThreadState_Get()), main_(_PyRuntime.main_thread) {
        if (main_ == PyThread_get_thread_ident()) _PyRuntime.main_thread = 0;  // which handles signals
        exception_ = std::exchange(thread_->async_exc, nullptr);
    }
    ~ProgramWaits() {
        if (main_ == PyThread_get_thread_ident()) _PyRuntime.main_thread = main_;
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

bool before_instruction(Observation& o, PyFrameObject* object) {
    _PyInterpreterFrame& frame = *object->f_frame;
    PyCodeObject* code = frame.f_code;
    PyObject** top = frame.localsplus + frame.stacktop;
    PyObject** base = _PyFrame_Stackbase(&frame);
    if (o.maker == object && top > base && PyDict_CheckExact(top[-1]) && Py_REFCNT(top[-1]) == 1 &&
        !PyObject_GC_IsTracked(top[-1]) && PyList_Append(o.made, top[-1]) < 0)
        PyErr_Clear();
    o.maker = nullptr;
    PyRef bytes(PyCode_GetCode(code));  // kept by the code
    if (!bytes) {
        PyErr_Clear();
        return true;
    }
    const auto* text = reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(bytes.get()));
    int at = _PyInterpreterFrame_LASTI(&frame);
    int argument = text[2 * at + 1];
    while (text[2 * at] == EXTENDED_ARG) {
        ++at;
        argument = argument << 8 | text[2 * at + 1];
    }
    const int opcode = text[2 * at];
    if (opcode == BUILD_MAP || opcode == BUILD_CONST_KEY_MAP || opcode == CALL || opcode == DICT_UPDATE ||
        opcode == DICT_MERGE || opcode == CALL_FUNCTION_EX)
        o.maker = object;
    const int count = o.operands[opcode];
    if (count == kUnseen) return true;
    PyObject* operands = nullptr;
    if (count >= 0 || count == kCall || count == kCallEx) {
        const Py_ssize_t n = count >= 0 ? count : count == kCall ? argument + 2 : 3 + (argument & 1);
        if (top - base < n) return true;
        operands = tuple_of(top - n, n);
    } else if (count == kCell) {
        operands = tuple_of(frame.localsplus + argument, 1);
    } else {
        PyObject* names[] = {frame.f_globals, frame.f_builtins, frame.f_locals};
        operands = tuple_of(names, 3);
    }
    return tell(o, opcode, argument, code, at, operands);
}

// A function's frame begins.
bool at_call(Observation& o, PyFrameObject* object, bool chained) {
    _PyInterpreterFrame& frame = *object->f_frame;
    PyCodeObject* code = frame.f_code;
    Kind kind = kind_of(code);
    if (kind == kImport) {
        o.import = object;
        return true;
    }
    if (kind == kLibrary) {
        _PyInterpreterFrame* caller = frame.previous;
        while (caller && _PyFrame_IsIncomplete(caller)) caller = caller->previous;
        if (!caller || !caller->frame_obj || !caller->frame_obj->f_trace_opcodes ||
            kind_of(caller->f_code) == kInternal)
            return true;
    }
    if (kind == kInternal) {
        if (!chained) object->f_trace_lines = 0;
        const int n = code->co_argcount + code->co_kwonlyargcount;
        for (int i = 0; i < n; ++i) {
            PyObject* argument = frame.localsplus[i];
            if (argument && o.module_type != Py_None &&
                PyType_IsSubtype(Py_TYPE(argument), reinterpret_cast<PyTypeObject*>(o.module_type)) &&
                !tell(o, -2, 0, code, 0, PyTuple_Pack(1, argument)))
                return false;
        }
        return true;
    }
    object->f_trace_opcodes = 1;
    if (code->co_flags & CO_VARKEYWORDS) {  // a dict that the call made
        PyObject* named =
            frame.localsplus[code->co_argcount + code->co_kwonlyargcount + (code->co_flags & CO_VARARGS ? 1 : 0)];
        if (named && PyDict_Check(named) && PyList_Append(o.made, named) < 0) PyErr_Clear();
    }
    if (!chained) object->f_trace_lines = 0;
    const bool has_self = code->co_argcount > 0;
    PyObject* self = has_self ? frame.localsplus[0] : nullptr;
    // An argument that inner functions use is in a cell by now, or will be.
    if (self && PyCell_Check(self)) self = PyCell_GET(self);
    return tell(o, -1, 0, code, 0, PyTuple_Pack(2, reinterpret_cast<PyObject*>(frame.f_func), or_none(self)));
}

int on_event(PyObject*, PyFrameObject* frame, int what, PyObject* argument) {
    Observation* o = observation;
    if (!o) return 0;
    if (o->other && what != PyTrace_OPCODE) {
        int failed = o->other(o->other_argument, frame, what, argument);
        if (failed) return failed;
    }
    if (o->import) {
        if (what == PyTrace_RETURN && o->import == frame) o->import = nullptr;
        return 0;
    }
    if (o->failed) return 0;
    // An exception may be on its way through: what is looked up here must leave it alone.
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    bool goes_on = true;
    if (what == PyTrace_OPCODE) goes_on = before_instruction(*o, frame);
    else if (what == PyTrace_CALL) goes_on = at_call(*o, frame, o->other != nullptr);
    if (goes_on) {
        PyErr_Restore(type, value, traceback);
        return 0;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return -1;
}

void end() {
    Observation* o = std::exchange(observation, nullptr);
    if (!o) return;
    PyEval_SetTrace(o->other, o->other_argument);
    Py_XDECREF(o->other_argument);
    Py_XDECREF(o->handler);
    Py_XDECREF(o->module_type);
    Py_XDECREF(o->made);
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
    PyObject *handler, *module_type, *made, *seen, *libraries, *internals;
    if (!PyArg_ParseTuple(args, "OOO!O!O!O!:begin_observing", &handler, &module_type, &PyList_Type, &made, &PyDict_Type,
                          &seen, &PyTuple_Type, &libraries, &PyTuple_Type, &internals))
        return nullptr;
    if (observation) Py_RETURN_FALSE;
    if (library().empty() && !(strings_from(libraries, library()) && strings_from(internals, internal())))
        return nullptr;
    auto* o = new Observation;
    std::memset(o->operands, kUnseen, sizeof o->operands);
    PyObject *key, *value;
    for (Py_ssize_t at = 0; PyDict_Next(seen, &at, &key, &value);)
        o->operands[to_int64(key) & 255] = static_cast<int8_t>(to_int64(value));
    o->thread = PyThreadState_Get();
    o->handler = Py_NewRef(handler);
    o->module_type = Py_NewRef(module_type);
    o->made = Py_NewRef(made);
    o->other = o->thread->c_tracefunc;
    o->other_argument = Py_XNewRef(o->thread->c_traceobj);
    observation = o;
    PyEval_SetTrace(on_event, nullptr);
    Py_RETURN_TRUE;
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

PyObject* begin_observing(PyObject*, PyObject*) { Py_RETURN_FALSE; }
PyObject* end_observing(PyObject*, PyObject*) { Py_RETURN_FALSE; }
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
// error. Here no other thread sees them owned.
PyObject* young_objects(PyObject*, PyObject*) {
    PyRef collector(PyImport_ImportModule("gc"));
    PyRef all(collector ? PyObject_CallMethod(collector.get(), "get_objects", "i", 0) : nullptr);
    PyRef kept(all ? PyList_New(0) : nullptr);
    if (!kept) return nullptr;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(all.get()); ++i) {
        PyObject* object = PyList_GET_ITEM(all.get(), i);
        if (!PyTuple_Check(object) && PyList_Append(kept.get(), object) < 0) return nullptr;
    }
    return kept.release();
}

PyMethodDef functions[] = {
    {"generic_attributes", method<generic_attributes>(), METH_O,
     "generic_attributes(type): whether reading an attribute looks at its class and its own dict, and at nothing "
     "else."},
    {"begin_observing", method<begin_observing>(), METH_VARARGS,
     "begin_observing(handler, module_type, made, seen, libraries, internals): has `handler(opcode, argument, code, "
     "instruction, operands)` called before the instructions in `seen` of this thread's frames. False if it can't be."},
    {"observed", method<observed>(), METH_VARARGS,
     "observed(observer, function, args, kwargs): the function's result, and what `observer.end` gives for it; its "
     "`begin` is called before."},
    {"young_objects", method<young_objects>(), METH_NOARGS,
     "What Python's collector has not seen yet, without tuples: those that another thread is making must not be held."},
    {"end_observing", method<end_observing>(), METH_NOARGS, "Ends it; whether the handler has been told of all."},
    {}};

}  // namespace

bool init_observer(PyObject* module) {
    return PyModule_AddFunctions(module, functions) == 0 &&
           PyModule_AddIntConstant(module, "CAN_OBSERVE", MT_CAN_OBSERVE) == 0;
}

}  // namespace mt::py
