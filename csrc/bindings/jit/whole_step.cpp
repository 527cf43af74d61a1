// Steps of optimizers in a program that is recorded as a whole: each is a run of its own, and one that was compiled
// runs without Python.
#include <string_view>
#include <vector>

#include "bindings/jit/trace_python.h"
#include "bindings/py.h"
#include "core/hash.h"
#include "dispatch/registry.h"
#include "dispatch/thread_local_state.h"
#include "trace/plan/plan.h"

namespace mt::py {

namespace {

// The programs of steps on parameters of the same shapes, of each optimizer its own.
struct StepPrograms final : trace::KeptCall {
    struct Known {
        PyRef optimizer;  // weak
        PyRef programs;
    };
    std::vector<Known> known;

    static PyRef target(const Known& one) { return checked(PyObject_CallNoArgs(one.optimizer.get())); }

    PyRef of(PyObject* optimizer) const {
        for (const Known& one : known)
            if (target(one).get() == optimizer) return PyRef::borrow(one.programs.get());
        return {};
    }
    void add(PyObject* optimizer, PyRef programs) {
        PyRef reference = checked(PyWeakref_NewRef(optimizer, nullptr));
        std::vector<Known> kept, gone;  // which may run code
        for (Known& one : known) (target(one).get() == Py_None ? gone : kept).push_back(std::move(one));
        kept.push_back({std::move(reference), std::move(programs)});
        known = std::move(kept);
    }
};

const OpDef& step_call() {
    static const OpDef* known = [] {
        auto* def = new OpDef;
        def->name = "step()";
        return def;
    }();
    return *known;
}

// Whether an optimizer is one of the framework's: what others do in a step, they are to do.
bool is_own(PyObject* optimizer) {
    PyRef module(PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(optimizer)), "__module__"));
    Py_ssize_t length = 0;
    const char* name = module && PyUnicode_Check(module.get()) ? PyUnicode_AsUTF8AndSize(module.get(), &length)
                                                               : nullptr;
    if (!name) PyErr_Clear();
    return name && std::string_view(name, static_cast<size_t>(length)).starts_with("minitensor.optim.");
}

// Of the parameters that a step works on; 0 if it is none that may be a run.
uint64_t work_of(PyObject* optimizer) {
    PyRef groups(PyObject_GetAttrString(optimizer, "param_groups"));
    PyRef state(groups ? PyObject_GetAttrString(optimizer, "state") : nullptr);
    if (!state || !PyList_CheckExact(groups.get()) || !PyDict_Check(state.get())) return PyErr_Clear(), 0;
    // The first step makes the states.
    uint64_t hash = mixed(settings_word(), static_cast<uint64_t>(PyDict_GET_SIZE(state.get())));
    for (const char* c = Py_TYPE(optimizer)->tp_name; *c; ++c) hash = mixed(hash, static_cast<uint8_t>(*c));
    for (Py_ssize_t g = 0; g < PyList_GET_SIZE(groups.get()); ++g) {
        PyObject* group = PyList_GET_ITEM(groups.get(), g);
        PyObject* params = PyDict_CheckExact(group) ? PyDict_GetItemString(group, "params") : nullptr;
        if (!params || !PyList_CheckExact(params)) return 0;
        hash = mixed(hash, static_cast<uint64_t>(PyList_GET_SIZE(params)));
        for (Py_ssize_t i = 0; i < PyList_GET_SIZE(params); ++i) {
            PyObject* param = PyList_GET_ITEM(params, i);
            if (!is_tensor(param)) return 0;
            const Tensor& t = *tensor_of(param);
            const bool differentiated = t.autograd && t.autograd->grad;
            if (t.device().type != DeviceType::CPU || (differentiated && is_sparse(*t.autograd->grad))) return 0;
            hash = mixed(hash, static_cast<uint64_t>(t.dtype) << 8 | uint64_t{differentiated});
            for (int64_t size : t.sizes) hash = mixed(hash, static_cast<uint64_t>(size));
        }
    }
    return hash | 1;
}

PyObject* record(trace::Trace& trace, PyObject* function, PyObject* args) {
    PyRef programs;
    const auto kept = std::static_pointer_cast<StepPrograms>(trace.policy().kept());
    const bool keeps = trace.policy().expects_plan();
    PyRef module;
    if (keeps) {
        module = checked(PyImport_ImportModule("minitensor_jit.functions.step_programs"));
        if (kept) programs = kept->of(PyTuple_GET_ITEM(args, 0));
        if (!programs) {
            programs = checked(PyObject_CallMethod(module.get(), "programs", nullptr));
            auto all = kept ? kept : std::make_shared<StepPrograms>();
            all->add(PyTuple_GET_ITEM(args, 0), PyRef::borrow(programs.get()));
            trace.policy().keep(std::move(all));
        }
    }
    ++trace::call_counts.recorded;
    // Recorded as a function, so that its numbers are those that a program reads anew at each call.
    struct Function {
        Function() { record_function(next_owner()); }
        ~Function() { record_function(0); }
    } as_function;
    PyRef result(keeps ? PyObject_CallMethod(module.get(), "record", "OOO", programs.get(), function, args)
                       : PyObject_Call(function, args, nullptr));
    if (!result) {
        trace.policy().forget();
        return nullptr;
    }
    if (trace::current == &trace && !trace.empty()) trace::flush_now(trace, "the end of an optimizer step");
    else trace.policy().forget();
    return result.release();
}

PyObject* run_eagerly(PyObject* function, PyObject* args, PyObject* kwargs) {
    trace::Suspend suspend;
    return PyObject_Call(function, args, kwargs);
}

// call_step(function, args, kwargs): function(*args, **kwargs), a step of args[0].
PyObject* py_call_step(PyObject*, PyObject* arguments) {
    PyObject *function, *args, *kwargs;
    if (!PyArg_ParseTuple(arguments, "OO!O!:call_step", &function, &PyTuple_Type, &args, &PyDict_Type, &kwargs))
        return nullptr;
    trace::Trace* trace = trace::current;
    if (!trace || !trace->may_begin_call() || PyTuple_GET_SIZE(args) != 1 || PyDict_GET_SIZE(kwargs))
        return PyObject_Call(function, args, kwargs);
    return guarded([&]() -> PyObject* {
        PyObject* optimizer = PyTuple_GET_ITEM(args, 0);
        const uint64_t work = is_own(optimizer) ? work_of(optimizer) : 0;
        if (!work || !trace->end_run("a step of an optimizer")) return PyObject_Call(function, args, kwargs);
        const auto runs = trace->begin_call(step_call(), work);
        if (runs == trace::Trace::CallRuns::AsEver) return PyObject_Call(function, args, kwargs);
        if (runs == trace::Trace::CallRuns::Eagerly) {
            ++trace::call_counts.eager;
            PyObject* result = run_eagerly(function, args, kwargs);
            if (result) trace->policy().end_call();
            else trace->policy().forget();
            return result;
        }
        struct End {
            trace::Trace& trace;
            ~End() { trace.end_call(); }
        } end{*trace};
        const auto kept = std::static_pointer_cast<StepPrograms>(trace->policy().kept());
        if (const PyRef programs = kept ? kept->of(optimizer) : PyRef()) {
            PyRef result;
            {
                trace::Suspend suspend;
                const PyRef nothing = checked(PyTuple_New(0)), run = checked(PyUnicode_InternFromString("run"));
                result = PyRef(PyObject_CallMethodOneArg(programs.get(), run.get(), nothing.get()));
            }
            if (!result) {
                trace->policy().forget();
                return nullptr;
            }
            if (result.get() != Py_NotImplemented) {
                ++trace::call_counts.programs;
                trace->policy().end_program();
                return result.release();
            }
        }
        return record(*trace, function, args);
    });
}

PyMethodDef whole_step_functions[] = {
    {"call_step", method<py_call_step>(), METH_VARARGS,
     "call_step(function, args, kwargs): function(*args, **kwargs), which is the step of an optimizer, args[0]."},
    {}};

}  // namespace

bool init_whole_step(PyObject* module) { return PyModule_AddFunctions(module, whole_step_functions) == 0; }

}  // namespace mt::py
