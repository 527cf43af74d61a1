// mt.function's object: keeps a program for each kind of arguments; a call that fits one never runs Python.
#include <cstddef>
#include <cstring>
#include <iterator>
#include <string>
#include <unordered_set>

#include "autograd/autocast.h"
#include "autograd/engine.h"
#include "bindings/jit/guards.h"
#include "bindings/jit/trace_python.h"
#include "bindings/ops/overrides.h"
#include "bindings/py.h"
#include "trace/program/program.h"

namespace mt::py {

namespace {

constexpr size_t kMaxArguments = 64;
constexpr size_t kMaxResults = 32;
constexpr size_t kMaxPrograms = 64;

struct Entry {
    std::vector<PyObject*> others;  // per argument: null for a tensor, else the value, owned
    std::vector<PyObject*> types;   // of the tensors, owned
    PyObject* guards;               // null: the function reads nothing of Python's state
    std::shared_ptr<trace::Program> program;
    uint64_t options;
    uint64_t settings;  // that were in force (dispatch/settings.h)
    uint64_t bare;  // a bit for each tensor that had no attributes of Python's
    // null: one tensor; the types tuple and list: these of tensors; else the structure (functions/arguments.py)
    PyObject* result_type;
};

// What compiled functions do that have no program for a call (compiler.set_stance); with kForceEager they use none at
// all.
constexpr const char* kStances[] = {"default",           "force_eager",        "eager_on_recompile",
                                    "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile"};
constexpr size_t kForceEager = 1;
size_t g_stance = 0;  // guarded by the interpreter's lock
// Whether of the programs that this thread tried last one fits, but was running on another thread.
thread_local bool program_busy = false;

uint64_t g_owners = 0;
// Those whose calls repeat themselves and are short all the same.
std::unordered_set<uint64_t> g_short;

struct FunctionObject {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* miss;  // called with (args, kwargs) when no program fits
    // What the last call with nested arguments was, and the function of their tensors that has the programs for it.
    PyObject* structure;
    PyObject* variant;
    PyObject* dict;
    PyObject* weakrefs;
    std::vector<Entry>* entries;
    uint64_t hits;
    uint64_t owner;
    bool directed;  // follows the stance
};

FunctionObject* self_of(PyObject* o) { return reinterpret_cast<FunctionObject*>(o); }

void drop(Entry& entry) {
    for (PyObject* other : entry.others) Py_XDECREF(other);
    for (PyObject* type : entry.types) Py_DECREF(type);
    Py_XDECREF(entry.guards);
    Py_XDECREF(entry.result_type);
}

// Whether a tensor has no attributes of Python's.
bool is_bare(PyObject* tensor) {
    PyObject** attributes = _PyObject_GetDictPtr(tensor);
    return !attributes || !*attributes || PyDict_GET_SIZE(*attributes) == 0;
}

// Whether one of its attributes is found in place of what its class has by that name.
bool hides_its_class(PyObject* tensor) {
    if (is_bare(tensor)) return false;
    PyObject *name, *value;
    for (Py_ssize_t at = 0; PyDict_Next(*_PyObject_GetDictPtr(tensor), &at, &name, &value);)
        if (PyUnicode_Check(name) && _PyType_Lookup(Py_TYPE(tensor), name)) return true;
    return false;
}

bool others_match(const Entry& entry, PyObject* const* args, size_t nargs) {
    if (entry.others.size() != nargs) return false;
    size_t tensors = 0;
    for (size_t i = 0; i < nargs; ++i) {
        PyObject* other = entry.others[i];
        if (!other) {
            const bool bare = entry.bare >> tensors & 1;
            if (reinterpret_cast<PyObject*>(Py_TYPE(args[i])) != entry.types[tensors++]) return false;
            if (bare ? !is_bare(args[i]) : hides_its_class(args[i])) return false;
        } else if (other != args[i]) {
            if (Py_TYPE(other) != Py_TYPE(args[i])) return false;
            if (PyFloat_CheckExact(other)) {  // by bits: 0.0 and -0.0 differ, NaN is itself
                double a = PyFloat_AS_DOUBLE(other), b = PyFloat_AS_DOUBLE(args[i]);
                if (std::memcmp(&a, &b, sizeof a) != 0) return false;
                continue;
            }
            int equal = PyObject_RichCompareBool(other, args[i], Py_EQ);
            if (equal < 0) fail_python();
            if (!equal) return false;
        }
    }
    return true;
}

PyObject* pack(PyObject* result_type, Ref<Tensor>* results, size_t count) {
    if (!result_type) return wrap(std::move(results[0]));
    if (PyTuple_Check(result_type)) {
        PyRef tensors[kMaxResults];
        for (size_t i = 0; i < count; ++i) tensors[i] = checked(wrap(std::move(results[i])));
        return build_structure(result_type, tensors, count);
    }
    bool list = result_type == reinterpret_cast<PyObject*>(&PyList_Type);
    PyRef sequence = checked(list ? PyList_New(static_cast<Py_ssize_t>(count))
                                  : PyTuple_New(static_cast<Py_ssize_t>(count)));
    for (size_t i = 0; i < count; ++i) {
        PyObject* item = wrap(std::move(results[i]));
        if (!item) fail_python();
        if (list) PyList_SET_ITEM(sequence.get(), static_cast<Py_ssize_t>(i), item);
        else PyTuple_SET_ITEM(sequence.get(), static_cast<Py_ssize_t>(i), item);
    }
    return sequence.release();
}

PyObject* call_miss(PyObject* self, PyObject* const* args, size_t nargs, PyObject* kwnames) {
    PyRef positional = checked(PyTuple_New(static_cast<Py_ssize_t>(nargs)));
    for (size_t i = 0; i < nargs; ++i)
        PyTuple_SET_ITEM(positional.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args[i]));
    PyRef keywords = checked(PyDict_New());
    for (Py_ssize_t k = 0; kwnames && k < PyTuple_GET_SIZE(kwnames); ++k)
        if (PyDict_SetItem(keywords.get(), PyTuple_GET_ITEM(kwnames, k), args[nargs + static_cast<size_t>(k)]) < 0)
            fail_python();
    return PyObject_CallFunctionObjArgs(self_of(self)->miss, positional.get(), keywords.get(), nullptr);
}

// What a kept program gives for these arguments; null if none fits.
PyObject* run_program(PyObject* self, PyObject* const* args, size_t nargs) {
    FunctionObject& f = *self_of(self);
    program_busy = false;
    if (nargs > kMaxArguments || trace::recording()) return nullptr;
    if (may_override() && mode_overrides()) return nullptr;  // who wants to see the calls
    Tensor* tensors[kMaxArguments];
    size_t count = 0;
    for (size_t i = 0; i < nargs; ++i)
        if (is_tensor(args[i])) tensors[count++] = tensor_of(args[i]);
    const uint64_t settings = settings_word();
    // A comparison may collect garbage, whose finalizers may call the function.
    for (size_t k = 0; k < f.entries->size(); ++k) {
        Entry& entry = (*f.entries)[k];
        if (entry.options != trace::options_id() || entry.settings != settings) continue;
        if (!others_match(entry, args, nargs) || !entry.program->accepts(tensors, count)) continue;
        // While it runs, another thread may drop the entry.
        std::shared_ptr<trace::Program> program = entry.program;
        PyRef result_type(Py_XNewRef(entry.result_type)), guards(Py_XNewRef(entry.guards));
        if (guards && !guards_hold(guards.get())) continue;
        Ref<Tensor> results[kMaxResults];
        trace::Suspend suspend;
        if (!program->run(tensors, results)) {  // busy on another thread
            program_busy = true;
            continue;
        }
        ++f.hits;
        return pack(result_type.get(), results, program->result_count());
    }
    return nullptr;
}

PyObject* function_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    return guarded([&]() -> PyObject* {
        auto nargs = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
        FunctionObject& f = *self_of(self);
        if (f.directed && g_stance == kForceEager) return call_miss(self, args, nargs, kwnames);
        if (!kwnames || !PyTuple_GET_SIZE(kwnames))
            if (PyObject* result = run_program(self, args, nargs)) return result;
        if (f.structure) {
            // Comparing may run code, which may call the function.
            PyRef structure = PyRef::borrow(f.structure), variant = PyRef::borrow(f.variant);
            std::vector<PyRef> tensors;
            if (match_call(structure.get(), args, nargs, kwnames, tensors)) {
                SmallVector<PyObject*, 32> items;
                for (const PyRef& tensor : tensors) items.push_back(tensor.get());
                if (PyObject* result = run_program(variant.get(), items.data(), items.size())) return result;
            }
        }
        return call_miss(self, args, nargs, kwnames);
    });
}

// run(tensors): what a kept program gives; NotImplemented if none fits.
PyObject* function_run(PyObject* self, PyObject* tensors) {
    return guarded([&]() -> PyObject* {
        if (!PyTuple_Check(tensors)) fail_type("run takes a tuple");
        PyObject* result = run_program(self, &PyTuple_GET_ITEM(tensors, 0),
                                       static_cast<size_t>(PyTuple_GET_SIZE(tensors)));
        return result ? result : Py_NewRef(Py_NotImplemented);
    });
}

// remember(structure, variant): calls whose arguments have this structure go to that function of their tensors.
PyObject* function_remember(PyObject* self, PyObject* arguments) {
    PyObject *structure, *variant;
    if (!PyArg_ParseTuple(arguments, "O!O!:remember", &PyTuple_Type, &structure, Py_TYPE(self), &variant))
        return nullptr;
    Py_XSETREF(self_of(self)->structure, Py_NewRef(structure));
    Py_XSETREF(self_of(self)->variant, Py_NewRef(variant));
    Py_RETURN_NONE;
}

// finish(args, result, structure, guards): runs what was recorded while the function ran. The program is kept for later
// calls if they can do without Python; returns None then, and otherwise the reason why they can't. `structure` is that
// of a result whose tensors are `result`, None for a plain one. `guards` is what the function read of Python's state,
// or a text that says why it can't be kept.
PyObject* function_finish(PyObject* self, PyObject* arguments) {
    return guarded([&]() -> PyObject* {
        PyObject *args, *result, *structure, *guards;
        if (!PyArg_ParseTuple(arguments, "O!OOO:finish", &PyTuple_Type, &args, &result, &structure, &guards))
            return nullptr;
        if (structure == Py_None) structure = nullptr;
        trace::Trace* trace = trace::current;
        if (!trace) fail("finish: nothing is being recorded");
        forget_casts_of_function();
        const char* why = nullptr;
        std::vector<Tensor*> tensors, results;
        std::vector<PyRef> held;  // of a list that may change while this runs
        struct Dropped : Entry {
            bool kept = false;
            ~Dropped() {
                if (!kept) drop(*this);
            }
        } entry{};
        entry.options = trace::options_id();
        entry.settings = settings_word();
        if (thread_settings.inference_mode) why = "it runs in inference mode";
        PyRef reason;
        if (is_guards(guards)) {
            entry.guards = Py_NewRef(guards);
        } else if (PyUnicode_Check(guards)) {
            reason = PyRef::borrow(guards);
            if (!(why = PyUnicode_AsUTF8(guards))) fail_python();
        }
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(args); ++i) {
            PyObject* arg = PyTuple_GET_ITEM(args, i);
            bool tensor = is_tensor(arg);
            if (tensor && is_bare(arg) && tensors.size() < kMaxArguments) entry.bare |= uint64_t{1} << tensors.size();
            if (tensor) tensors.push_back(tensor_of(arg));
            bool simple = arg == Py_None || PyLong_CheckExact(arg) || PyFloat_CheckExact(arg) || PyBool_Check(arg) ||
                          PyUnicode_CheckExact(arg);
            if (!tensor && !simple) why = "an argument is neither a tensor nor a number";
            entry.others.push_back(tensor ? nullptr : Py_NewRef(arg));
            if (tensor) entry.types.push_back(Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(arg))));
        }
        if (is_tensor(result)) {
            results.push_back(tensor_of(result));
        } else if (PyTuple_CheckExact(result) || PyList_CheckExact(result)) {
            entry.result_type = Py_NewRef(structure ? structure : reinterpret_cast<PyObject*>(Py_TYPE(result)));
            PyRef fast = checked(PySequence_Fast(result, ""));
            for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) {
                PyObject* item = PySequence_Fast_GET_ITEM(fast.get(), i);
                held.push_back(PyRef::borrow(item));
                if (is_tensor(item)) results.push_back(tensor_of(item));
                else why = "a result is not a tensor";
            }
        } else {
            why = "its result is not a tensor, or a tuple or list of tensors";
        }
        if (tensors.size() > kMaxArguments || results.size() > kMaxResults)
            why = "it has too many arguments or results";
        if (why) {
            const bool unsettled = std::strcmp(why, trace::kUnsettled) == 0;
            trace::flush(trace::end_of_function(unsettled ? nullptr : why).c_str());
            return PyUnicode_FromString(why);
        }
        // One that only takes views records nothing.
        if (trace->empty()) {
            auto nothing = std::make_shared<trace::Plan>();
            entry.program = trace::Program::freeze(*trace, std::move(nothing), tensors, results, &why);
        }
        trace::freeze_at_flush(*trace, [&](trace::Trace& t, std::shared_ptr<trace::Plan> plan) {
            entry.program = trace::Program::freeze(t, std::move(plan), tensors, results, &why);
            return entry.program || why == trace::kUnsettled ? nullptr : why;
        });
        if (!entry.program) return PyUnicode_FromString(why ? why : "");
        // Of programs of what is gone, none will ever fit again.
        std::vector<Entry> outdated;
        std::erase_if(*self_of(self)->entries, [&](Entry& other) {
            if (!other.program->outdated() && !(other.guards && guards_dead(other.guards))) return false;
            outdated.push_back(other);
            return true;
        });
        for (Entry& other : outdated) drop(other);
        std::vector<Entry>& entries = *self_of(self)->entries;
        Entry oldest{};
        if (entries.size() >= kMaxPrograms) {
            oldest = std::move(entries.front());
            entries.erase(entries.begin());
        }
        entries.push_back(entry);
        entry.kept = true;
        drop(oldest);
        Py_RETURN_NONE;
    });
}

PyObject* function_clear(PyObject* self, PyObject*) {
    for (Entry& entry : std::exchange(*self_of(self)->entries, {})) drop(entry);
    trace::forget_plans_of(self_of(self)->owner);
    Py_CLEAR(self_of(self)->structure);
    Py_CLEAR(self_of(self)->variant);
    PyRef forgotten(PyObject_CallMethod(self_of(self)->miss, "forget", nullptr));
    if (!forgotten) return nullptr;
    Py_RETURN_NONE;
}

PyObject* function_reduce(PyObject* self, PyObject*) {
    return PyObject_CallMethod(self_of(self)->miss, "reduce", "O", self);
}
PyObject* function_same(PyObject* self, PyObject*) { return Py_NewRef(self); }

// Programs for structured arguments are those of other objects, which the miss callable keeps.
PyObject* and_more(PyObject* self, unsigned long long own, const char* what) {
    PyRef more(PyObject_CallMethod(self_of(self)->miss, "more", "s", what));
    PyRef count(more ? PyLong_FromUnsignedLongLong(own) : nullptr);
    return count ? PyNumber_Add(count.get(), more.get()) : nullptr;
}
PyObject* function_programs(PyObject* self, void*) {
    return and_more(self, self_of(self)->entries->size(), "programs");
}
PyObject* function_lower(PyObject* self, PyObject* args, PyObject* kwargs) {
    PyRef lower(PyObject_GetAttrString(self_of(self)->miss, "lower"));
    return lower ? PyObject_Call(lower.get(), args, kwargs) : nullptr;
}
PyObject* function_owner(PyObject* self, void*) { return PyLong_FromUnsignedLongLong(self_of(self)->owner); }
PyObject* function_hits(PyObject* self, void*) { return and_more(self, self_of(self)->hits, "hits"); }

PyObject* function_new(PyTypeObject* type, PyObject* args, PyObject*) {
    PyObject* miss;
    int directed = 0;
    if (!PyArg_ParseTuple(args, "O|p:CompiledFunction", &miss, &directed)) return nullptr;
    PyObject* self = type->tp_alloc(type, 0);
    if (!self) return nullptr;
    self_of(self)->vectorcall = slot<function_vectorcall>;
    self_of(self)->miss = Py_NewRef(miss);
    self_of(self)->entries = new std::vector<Entry>;
    self_of(self)->owner = ++g_owners;
    self_of(self)->directed = directed != 0;
    return self;
}

int function_traverse(PyObject* self, visitproc visit, void* arg) {
    for (const Entry& entry : *self_of(self)->entries) Py_VISIT(entry.guards);
    Py_VISIT(self_of(self)->miss);
    Py_VISIT(self_of(self)->structure);
    Py_VISIT(self_of(self)->variant);
    Py_VISIT(self_of(self)->dict);
    return 0;
}
int function_tp_clear(PyObject* self) {
    for (Entry& entry : std::exchange(*self_of(self)->entries, {})) drop(entry);
    Py_CLEAR(self_of(self)->miss);
    Py_CLEAR(self_of(self)->structure);
    Py_CLEAR(self_of(self)->variant);
    Py_CLEAR(self_of(self)->dict);
    return 0;
}
void function_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    if (self_of(self)->weakrefs) PyObject_ClearWeakRefs(self);
    function_tp_clear(self);
    delete self_of(self)->entries;
    trace::forget_plans_of(self_of(self)->owner);
    g_short.erase(self_of(self)->owner);
    Py_TYPE(self)->tp_free(self);
}
PyObject* function_get(PyObject* self, PyObject* object, PyObject*) {
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}
PyObject* function_repr(PyObject* self) {
    PyRef name(PyObject_GetAttrString(self, "__qualname__"));
    if (!name) {
        PyErr_Clear();
        return PyUnicode_FromString("<minitensor function>");
    }
    return PyUnicode_FromFormat("<minitensor function %U>", name.get());
}

PyMethodDef methods[] = {
    {"finish", method<function_finish>(), METH_VARARGS,
     "finish(args, result, structure, guards): runs what the function recorded, and keeps it as a program if it can."},
    {"run", method<function_run>(), METH_O,
     "run(tensors): what a kept program gives for them; NotImplemented if none fits."},
    {"remember", method<function_remember>(), METH_VARARGS,
     "remember(structure, variant): calls whose arguments have this structure go to that function of their tensors."},
    {"clear", method<function_clear>(), METH_NOARGS, "clear()\n--\n\nForgets all programs, and their code."},
    {"lower", method<function_lower>(), METH_VARARGS | METH_KEYWORDS,
     "lower(*args, **kwargs)\n--\n\nCompiles for these arguments without running anything; every stage can be shown."},
    {"__reduce__", method<function_reduce>(), METH_NOARGS, "Pickled with its compiled code."},
    {"__copy__", method<function_same>(), METH_NOARGS, "Functions are not copied."},
    {"__deepcopy__", method<function_same>(), METH_O, "Functions are not copied."},
    {}};
PyGetSetDef getset[] = {{"programs", slot<function_programs>, nullptr, "How many programs are kept.", nullptr},
                        {"hits", slot<function_hits>, nullptr, "How many calls ran a kept program.", nullptr},
                        {"owner", slot<function_owner>, nullptr, "The number by which its plans are known.", nullptr},
                        {"__dict__", slot<PyObject_GenericGetDict>, slot<PyObject_GenericSetDict>, nullptr, nullptr},
                        {}};

PyTypeObject make_function_type() {
    PyTypeObject type = blank_type();
    type.tp_name = "minitensor.CompiledFunction";
    type.tp_doc = "A function that runs as compiled programs; made by minitensor.function.";
    type.tp_basicsize = sizeof(FunctionObject);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
    type.tp_vectorcall_offset = offsetof(FunctionObject, vectorcall);
    type.tp_call = PyVectorcall_Call;
    type.tp_new = slot<function_new>;
    type.tp_dealloc = slot<function_dealloc>;
    type.tp_traverse = slot<function_traverse>;
    type.tp_clear = slot<function_tp_clear>;
    type.tp_dictoffset = offsetof(FunctionObject, dict);
    type.tp_weaklistoffset = offsetof(FunctionObject, weakrefs);
    type.tp_descr_get = slot<function_get>;
    type.tp_repr = slot<function_repr>;
    type.tp_methods = methods;
    type.tp_getset = getset;
    return type;
}

PyTypeObject FunctionType = make_function_type();

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
// with plans of its own. With `close` values may not be read. In the core,
// where no exception of a signal's handler comes between a state that is set and what sets it back.
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

PyObject* py_in_recorded_call(PyObject*, PyObject*) { return PyBool_FromLong(recorded_calls > 0); }

PyObject* py_stance(PyObject*, PyObject*) { return PyUnicode_FromString(kStances[g_stance]); }
PyObject* py_set_stance(PyObject*, PyObject* stance) {
    if (PyUnicode_Check(stance))
        for (size_t i = 0; i < std::size(kStances); ++i)
            if (PyUnicode_CompareWithASCIIString(stance, kStances[i]) == 0) {
                g_stance = i;
                Py_RETURN_NONE;
            }
    std::string known;
    for (const char* name : kStances) known += (known.empty() ? "'" : ", '") + std::string(name) + "'";
    return PyErr_Format(PyExc_RuntimeError, "set_stance: unknown stance %R; there are %s", stance, known.c_str());
}
PyObject* py_program_busy(PyObject*, PyObject*) { return PyBool_FromLong(program_busy); }

PyObject* py_discard_recording(PyObject*, PyObject*);
PyObject* py_watch_gradients(PyObject*, PyObject*);

PyMethodDef compiled_function_functions[] = {
    {"watch_gradients", method<py_watch_gradients>(), METH_NOARGS,
     "From here on to discard_recording, gradients that are stored are noted."},
    {"discard_recording", method<py_discard_recording>(), METH_NOARGS,
     "Forgets what this thread has recorded, as if it had not been, and gradients that it stored."},
    {"call_recorded", method<py_call_recorded>(), METH_VARARGS,
     "call_recorded(function, args, kwargs, reason, tag | None, owner, close): its result; what it does is recorded "
     "under a tag, as the function of that number if it is not 0; with `close` values may not be read."},
    {"in_recorded_call", method<py_in_recorded_call>(), METH_NOARGS,
     "Whether this thread is in a call of call_recorded."},
    {"stance", method<py_stance>(), METH_NOARGS, "What compiled functions do that have no program for a call."},
    {"set_stance", method<py_set_stance>(), METH_O,
     "Sets it, for all threads; RuntimeError for one that is not there."},
    {"program_busy", method<py_program_busy>(), METH_NOARGS,
     "Whether a program that fits the last call of a compiled function on this thread was running on another."},
    {"wrote_shared", method<py_wrote_shared>(), METH_NOARGS,
     "Whether the function that is recorded as a whole writes to memory that others than tensors see."},
    {}};

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

}  // namespace

void record_function(uint64_t owner) { set_function(owner, false); }
uint64_t next_owner() { return ++g_owners; }

bool init_function(PyObject* module) {
    PyRef unsettled(PyUnicode_FromString(trace::kUnsettled));
    if (!unsettled || PyModule_AddObjectRef(module, "UNSETTLED", unsettled.get()) < 0) return false;
    grad_stored_hook = note_gradient;
    return PyType_Ready(&FunctionType) == 0 && PyModule_AddFunctions(module, compiled_function_functions) == 0 &&
           PyModule_AddType(module, &FunctionType) == 0;
}

}  // namespace mt::py
