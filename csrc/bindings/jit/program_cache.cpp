#include "bindings/jit/program_cache.h"

#include <cstring>
#include <utility>

#include "autograd/autocast.h"
#include "bindings/jit/state/guards.h"
#include "bindings/jit/trace_python.h"
#include "bindings/ops/overrides.h"

namespace mt::py {

namespace {

constexpr size_t kMaxArguments = 64;
constexpr size_t kMaxResults = 32;
constexpr size_t kMaxPrograms = 64;

thread_local bool program_busy = false;

void drop(CacheEntry& entry) {
    for (PyObject* other : entry.others) Py_XDECREF(other);
    for (PyObject* type : entry.types) Py_DECREF(type);
    Py_XDECREF(entry.guards);
    Py_XDECREF(entry.result_type);
}

// How many runs of what was recorded are to come, beside the one that the plan is for, before a program can be kept.
// Ops that run one by one for want of a plan have one some time.
uint64_t runs_to_come(const trace::Plan& plan) {
    constexpr uint64_t kSomeTime = 3;
    if (plan.op_by_op) return kSomeTime;
    const uint64_t left = trace::runs_left(plan);
    return left ? left - 1 : 0;
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

bool others_match(const CacheEntry& entry, PyObject* const* args, size_t nargs) {
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

}  // namespace

bool program_was_busy() { return program_busy; }

PyObject* ProgramCache::run(PyObject* const* args, size_t nargs) {
    program_busy = false;
    if (nargs > kMaxArguments || trace::recording()) return nullptr;
    if (may_override() && mode_overrides()) return nullptr;  // who wants to see the calls
    Tensor* tensors[kMaxArguments];
    size_t count = 0;
    for (size_t i = 0; i < nargs; ++i)
        if (is_tensor(args[i])) tensors[count++] = tensor_of(args[i]);
    const uint64_t settings = settings_word();
    // A comparison may collect garbage, whose finalizers may call the function.
    for (size_t k = 0; k < entries_.size(); ++k) {
        CacheEntry& entry = entries_[k];
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
        ++hits_;
        return pack(result_type.get(), results, program->result_count());
    }
    return nullptr;
}

PyObject* ProgramCache::finish(PyObject* args, PyObject* result, PyObject* structure, PyObject* guards) {
    if (structure == Py_None) structure = nullptr;
    trace::Trace* trace = trace::current;
    if (!trace) fail("finish: nothing is being recorded");
    forget_casts_of_function();
    const char* why = nullptr;
    std::vector<Tensor*> tensors, results;
    std::vector<PyRef> held;  // of a list that may change while this runs
    struct Dropped : CacheEntry {
        bool kept = false;
        ~Dropped() {
            if (!kept) drop(*this);
        }
    } entry{};
    entry.options = trace::options_id();
    entry.settings = settings_word();
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
    if (tensors.size() > kMaxArguments || results.size() > kMaxResults) why = "it has too many arguments or results";
    uint64_t to_come = 0;
    if (why && std::strcmp(why, trace::kUnsettled) == 0) {
        trace::freeze_at_flush(*trace, [&](trace::Trace&, const std::shared_ptr<trace::Plan>& plan) {
            to_come = runs_to_come(*plan);
            return nullptr;
        });
        return PyLong_FromUnsignedLongLong(to_come);
    }
    if (why) {
        trace::flush(trace::end_of_function(why).c_str());
        return PyUnicode_FromString(why);
    }
    // One that only takes views records nothing.
    if (trace->empty()) {
        auto nothing = std::make_shared<trace::Plan>();
        entry.program = trace::Program::freeze(*trace, std::move(nothing), tensors, results, &why);
    }
    trace::freeze_at_flush(*trace, [&](trace::Trace& t, std::shared_ptr<trace::Plan> plan) {
        to_come = runs_to_come(*plan);
        entry.program = trace::Program::freeze(t, std::move(plan), tensors, results, &why);
        return entry.program || why == trace::kUnsettled ? nullptr : why;
    });
    if (why == trace::kUnsettled) return PyLong_FromUnsignedLongLong(to_come);
    if (!entry.program) return PyUnicode_FromString(why ? why : "");
    add(entry);
    entry.kept = true;
    Py_RETURN_NONE;
}

void ProgramCache::add(const CacheEntry& entry) {
    // Of programs of what is gone, none will ever fit again.
    std::vector<CacheEntry> outdated;
    std::erase_if(entries_, [&](CacheEntry& other) {
        if (!other.program->outdated() && !(other.guards && guards_dead(other.guards))) return false;
        outdated.push_back(other);
        return true;
    });
    for (CacheEntry& other : outdated) drop(other);
    CacheEntry oldest{};
    if (entries_.size() >= kMaxPrograms) {
        oldest = std::move(entries_.front());
        entries_.erase(entries_.begin());
    }
    entries_.push_back(entry);
    drop(oldest);
}

void ProgramCache::clear() {
    for (CacheEntry& entry : std::exchange(entries_, {})) drop(entry);
}

int ProgramCache::traverse(visitproc visit, void* arg) const {
    for (const CacheEntry& entry : entries_) Py_VISIT(entry.guards);
    return 0;
}

}  // namespace mt::py
