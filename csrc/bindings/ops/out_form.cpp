// The callable of a composed function that takes `out=`: calls without it go straight to the function, others to the
// form that stores the result. A wrapper in Python would take longer than a small op does. The same callable without a
// second form is a function whose mistaken arguments are explained. Plain calls of functions that say which op these
// stand for do not run the function: see `shortcut` in minitensor/composite/registry.py.
#include <cstddef>
#include <cstring>
#include <memory>

#include "autograd/tape.h"
#include "bindings/autograd/autocast.h"
#include "bindings/ops/overrides.h"
#include "bindings/ops/parameter_kinds.h"
#include "bindings/ops/shortcut.h"
#include "dispatch/thread_local_state.h"

namespace mt::py {

namespace {

struct OutFormObject {
    PyObject_HEAD vectorcallfunc vectorcall;
    PyObject* plain;
    PyObject* storing;
    PyObject* shortcuts;  // a tuple of Shortcuts, or null
    PyObject* kinds;      // a capsule with the ParameterKinds, made by the first call that needs them; null: not yet
    const ParameterKinds* checks;  // these, if there are any
    bool direct;          // a shortcut may write to `out`
    bool older;           // there is an older form of its calls
    PyObject* api;        // what those who override calls know it by; null: itself; None: they don't see it
    AutocastPolicy autocast;
    const char* node;  // what PyTorch calls the backward node of the function's results; null: what their ops say
    const char* nodes;  // the same where it gives several
};

OutFormObject* as_out_form(PyObject* self) { return reinterpret_cast<OutFormObject*>(self); }

PyObject* out_name = nullptr;

bool names_out(PyObject* kwnames) {
    if (!kwnames) return false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); ++i) {
        PyObject* name = PyTuple_GET_ITEM(kwnames, i);
        // Names in calls are interned, except those of a dict that was read from somewhere.
        if (name == out_name || PyUnicode_CompareWithASCIIString(name, "out") == 0) return true;
    }
    return false;
}

// `argument_error(function, args, kwargs, error)` gives the TypeError for an argument that lacked an attribute, or
// None.
PyObject* argument_error = nullptr;

// `renamed(function, names)` gives the names that a call's keywords have in PyTorch where some are NumPy's, or None.
PyObject* renamed = nullptr;

// `rearranged(function, args, kwargs)` gives the arguments of a call in an older form as today's, or None.
PyObject* rearranged = nullptr;

// `parameter_kinds(function)` describes the parameters that take one kind of value only.
PyObject* parameter_kinds = nullptr;

void delete_kinds(PyObject* capsule) { delete static_cast<ParameterKinds*>(PyCapsule_GetPointer(capsule, nullptr)); }

void describe_kinds(OutFormObject* form) {
    PyRef described = checked(PyObject_CallOneArg(parameter_kinds, form->plain));
    auto made = std::make_unique<ParameterKinds>(described.get());
    if (form->kinds) return;  // by another thread
    form->kinds = checked(PyCapsule_New(made.get(), nullptr, slot<delete_kinds>)).release();
    const ParameterKinds* kinds = made.release();
    form->checks = kinds->empty() ? nullptr : kinds;
}

// Calls the function, unless an argument is of another kind than its parameter.
PyObject* call_checked(OutFormObject* form, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    std::vector<ParameterKinds::Replaced> replaced;
    const auto count = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
    auto check = [&] {
        if (!form->kinds) describe_kinds(form);
        if (form->checks) form->checks->check(form->storing, args, count, kwnames, replaced);
        return true;
    };
    if (__builtin_expect(form->checks || !form->kinds, 1) && parameter_kinds && !guarded(check)) return nullptr;
    PyObject* function = names_out(kwnames) ? form->storing : form->plain;
    if (__builtin_expect(replaced.empty(), 1)) return PyObject_Vectorcall(function, args, nargsf, kwnames);
    std::vector<PyObject*> now(args, args + count + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0));
    for (const auto& each : replaced) now[each.place] = each.object.get();
    return PyObject_Vectorcall(function, now.data(), count, kwnames);
}

// A call's arguments as Python's functions get them; false with an error set.
bool collect(PyObject* const* args, size_t nargsf, PyObject* kwnames, PyRef& places, PyRef& names) {
    const Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    places = PyRef(PyTuple_New(count));
    names = PyRef(PyDict_New());
    if (!places || !names) return false;
    for (Py_ssize_t i = 0; i < count; ++i) PyTuple_SET_ITEM(places.get(), i, Py_NewRef(args[i]));
    for (Py_ssize_t i = 0; kwnames && i < PyTuple_GET_SIZE(kwnames); ++i)
        if (PyDict_SetItem(names.get(), PyTuple_GET_ITEM(kwnames, i), args[count + i]) < 0) return false;
    return true;
}

// A call that failed with TypeError, once more if it was made in the older form; false if it wasn't.
bool call_rearranged(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames, PyObject** result) {
    PyObject *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace);
    PyRef places, names, found;
    if (collect(args, nargsf, kwnames, places, names))
        found = PyRef(
            PyObject_CallFunctionObjArgs(rearranged, as_out_form(self)->plain, places.get(), names.get(), nullptr));
    if (found && found.get() == Py_None) {
        PyErr_Restore(kind, error, trace);
        return false;
    }
    Py_XDECREF(kind);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    PyObject *now, *by_name;
    if (found && PyArg_ParseTuple(found.get(), "O!O!", &PyTuple_Type, &now, &PyDict_Type, &by_name))
        *result = PyObject_Call(self, now, by_name);
    return true;
}

// A call that failed with TypeError, once more if keywords of it have NumPy's names; false if they don't.
bool call_renamed(OutFormObject* form, PyObject* const* args, size_t nargsf, PyObject* kwnames, PyObject** result) {
    PyObject *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace);
    PyRef names(PyObject_CallFunctionObjArgs(renamed, form->plain, kwnames, nullptr));
    if (!names || names.get() == Py_None) {
        PyErr_Restore(kind, error, trace);
        return false;
    }
    Py_XDECREF(kind);
    Py_XDECREF(error);
    Py_XDECREF(trace);
    *result = call_checked(form, args, nargsf & ~PY_VECTORCALL_ARGUMENTS_OFFSET, names.get());
    return true;
}

// An AttributeError of a composed function means that an argument is no tensor: say so, as PyTorch does. Looking at the
// arguments after the failure costs the calls that succeed nothing.
void explain_error(PyObject* function, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    PyObject *kind, *error, *trace;
    PyErr_Fetch(&kind, &error, &trace);
    PyErr_NormalizeException(&kind, &error, &trace);
    if (trace) PyException_SetTraceback(error, trace);
    PyRef places, names;
    PyObject* better = collect(args, nargsf, kwnames, places, names)
                           ? PyObject_CallFunctionObjArgs(argument_error, function, places.get(), names.get(), error,
                                                          nullptr)
                           : nullptr;
    if (better && better != Py_None) {
        PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(better)), better);
        Py_XDECREF(kind);
        Py_XDECREF(error);
        Py_XDECREF(trace);
    } else {
        PyErr_Restore(kind, error, trace);  // instead of what went wrong with the explanation
    }
    Py_XDECREF(better);
}

bool out_form_overridden(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames, PyObject** result) {
    PyObject* api = as_out_form(self)->api ? as_out_form(self)->api : self;
    return api != Py_None && overridden(api, args, static_cast<size_t>(PyVectorcall_NARGS(nargsf)), kwnames, result);
}

// Whether an argument may be an object of somebody's that is no tensor.
bool any_foreign(PyObject* const* args, size_t count) {
    auto foreign = [](PyObject* object) { return !is_tensor(object) && class_overrides(Py_TYPE(object)); };
    for (size_t i = 0; i < count; ++i) {
        PyObject* object = args[i];
        if (Py_TYPE(object) == &TensorType || PyLong_CheckExact(object) || PyFloat_CheckExact(object)) continue;
        const bool list = PyList_CheckExact(object);
        if (!list && !PyTuple_CheckExact(object)) {
            if (foreign(object)) return true;
            continue;
        }
        constexpr Py_ssize_t kLongest = 64;  // of sizes; in longer ones a number says that all are data
        for (Py_ssize_t k = 0; k < Py_SIZE(object); ++k) {
            PyObject* item = list ? PyList_GET_ITEM(object, k) : PyTuple_GET_ITEM(object, k);
            if (Py_SIZE(object) > kLongest && (PyLong_CheckExact(item) || PyFloat_CheckExact(item))) break;
            if (foreign(item)) return true;
        }
    }
    return false;
}

// Whether a call has something to write to.
bool gives_out(PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    if (!names_out(kwnames)) return false;
    const Py_ssize_t count = PyVectorcall_NARGS(nargsf);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(kwnames); ++i)
        if (PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), "out") == 0)
            return args[count + i] != Py_None;
    return false;
}

PyObject* out_form_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    PyObject* result;
    const bool asked = may_override();
    if (asked && out_form_overridden(self, args, nargsf, kwnames, &result)) return result;
    if (__builtin_expect(thread_settings.autocasts(), 0) && gives_out(args, nargsf, kwnames)) {
        const NoAutocast no_autocast;  // as in PyTorch: the dtype is that of `out`
        return out_form_vectorcall(self, args, nargsf, kwnames);
    }
    if (__builtin_expect(thread_settings.autocasts(), 0) && as_out_form(self)->autocast.any() && !names_out(kwnames)) {
        if (call_autocast(as_out_form(self)->autocast, self, out_form_vectorcall, args, nargsf, kwnames, &result))
            return result;
    }
    if (PyObject* shortcuts = as_out_form(self)->shortcuts) {
        auto count = static_cast<size_t>(PyVectorcall_NARGS(nargsf));
        if (!kwnames) {
            if (take_shortcut(shortcuts, args, count, &result)) return result;
        } else if (as_out_form(self)->direct && PyTuple_GET_SIZE(kwnames) == 1 && is_tensor(args[count]) &&
                   names_out(kwnames)) {
            if (take_shortcut_out(shortcuts, args, count, args[count], &result)) return result;
        }
    }
    const size_t given = static_cast<size_t>(PyVectorcall_NARGS(nargsf)) +
                         (kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0);
    if (!asked && any_foreign(args, given) && out_form_overridden(self, args, nargsf, kwnames, &result)) return result;
    result = call_checked(as_out_form(self), args, nargsf, kwnames);
    if (!result && renamed && kwnames && PyErr_ExceptionMatches(PyExc_TypeError)) {
        call_renamed(as_out_form(self), args, nargsf, kwnames, &result);
    }
    if (__builtin_expect(!result && as_out_form(self)->older, 0) && PyErr_ExceptionMatches(PyExc_TypeError)) {
        if (call_rearranged(self, args, nargsf, kwnames, &result)) return result;
    }
    if (!result && argument_error && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        explain_error(as_out_form(self)->plain, args, nargsf, kwnames);
    }
    return result;
}

void name_result(PyObject* result, const char* name, uint64_t before) {
    if (!is_tensor(result)) return;
    const AutogradMeta* meta = tensor_of(result)->autograd;
    if (meta && meta->grad_fn) name_node(*meta->grad_fn, name, before);
}

// The call of a function that PyTorch has one backward node for.
PyObject* named_vectorcall(PyObject* self, PyObject* const* args, size_t nargsf, PyObject* kwnames) {
    const uint64_t before = latest_sequence();
    PyObject* result = out_form_vectorcall(self, args, nargsf, kwnames);
    if (!result || latest_sequence() == before) return result;
    const OutFormObject& form = *as_out_form(self);
    if (form.nodes && (PyTuple_Check(result) || PyList_CheckExact(result))) {
        PyObject** items = PySequence_Fast_ITEMS(result);
        for (Py_ssize_t i = 0; i < Py_SIZE(result); ++i) name_result(items[i], form.nodes, before);
    } else if (form.node) {
        name_result(result, form.node, before);
    }
    return result;
}

PyObject* out_form_get(PyObject* self, PyObject* object, PyObject*) {
    return object && object != Py_None ? PyMethod_New(self, object) : Py_NewRef(self);
}

// Everything but pickling is as it is of the function that stores: name, documentation, signature, class.
PyObject* out_form_getattro(PyObject* self, PyObject* name) {
    if (PyUnicode_CompareWithASCIIString(name, "__reduce_ex__") == 0) return PyObject_GenericGetAttr(self, name);
    if (PyUnicode_CompareWithASCIIString(name, "__reduce__") == 0) return PyObject_GenericGetAttr(self, name);
    return PyObject_GetAttr(as_out_form(self)->storing, name);
}
int out_form_setattro(PyObject* self, PyObject* name, PyObject* value) {
    return value ? PyObject_SetAttr(as_out_form(self)->storing, name, value)
                 : PyObject_DelAttr(as_out_form(self)->storing, name);
}
PyObject* out_form_repr(PyObject* self) { return PyObject_Repr(as_out_form(self)->storing); }

int out_form_traverse(PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(as_out_form(self)->plain);
    Py_VISIT(as_out_form(self)->storing);
    Py_VISIT(as_out_form(self)->shortcuts);
    Py_VISIT(as_out_form(self)->api);
    return 0;
}
int out_form_clear(PyObject* self) {
    Py_CLEAR(as_out_form(self)->plain);
    Py_CLEAR(as_out_form(self)->storing);
    Py_CLEAR(as_out_form(self)->shortcuts);
    as_out_form(self)->checks = nullptr;
    Py_CLEAR(as_out_form(self)->kinds);
    Py_CLEAR(as_out_form(self)->api);
    return 0;
}
void out_form_dealloc(PyObject* self) {
    PyObject_GC_UnTrack(self);
    out_form_clear(self);
    PyObject_GC_Del(self);
}

// pydoc asks the object itself, past `getattro`.
PyObject* out_form_doc(PyObject* self, void*) { return PyObject_GetAttrString(as_out_form(self)->storing, "__doc__"); }

PyGetSetDef out_form_getset[] = {{"__doc__", slot<out_form_doc>, nullptr, "What the function computes.", nullptr}, {}};

PyMethodDef out_form_methods[] = {{"__reduce__", method<reduce_by_name>(), METH_NOARGS, "Pickled by name."}, {}};

PyTypeObject make_out_form_type() {
    PyTypeObject type = blank_type();
    type.tp_name = "minitensor.OutForm";
    type.tp_doc = "A function that takes `out=`.";
    type.tp_basicsize = sizeof(OutFormObject);
    type.tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_METHOD_DESCRIPTOR;
    type.tp_vectorcall_offset = offsetof(OutFormObject, vectorcall);
    type.tp_call = PyVectorcall_Call;
    type.tp_descr_get = slot<out_form_get>;
    type.tp_getset = out_form_getset;
    type.tp_getattro = slot<out_form_getattro>;
    type.tp_setattro = slot<out_form_setattro>;
    type.tp_repr = slot<out_form_repr>;
    type.tp_traverse = slot<out_form_traverse>;
    type.tp_clear = slot<out_form_clear>;
    type.tp_dealloc = slot<out_form_dealloc>;
    type.tp_methods = out_form_methods;
    return type;
}

PyTypeObject OutFormType = make_out_form_type();

PyObject* copied(OutFormObject* from) {
    auto* made = PyObject_GC_New(OutFormObject, &OutFormType);
    if (!made) return nullptr;
    made->vectorcall = from->vectorcall;
    made->plain = Py_NewRef(from->plain);
    made->storing = Py_NewRef(from->storing);
    made->shortcuts = Py_XNewRef(from->shortcuts);
    made->kinds = Py_XNewRef(from->kinds);
    made->checks = from->checks;
    made->direct = from->direct;
    made->older = from->older;
    made->autocast = from->autocast;
    made->node = from->node;
    made->nodes = from->nodes;
    made->api = Py_XNewRef(from->api);
    PyObject_GC_Track(made);
    return reinterpret_cast<PyObject*>(made);
}

// same_form(form): another object, which those who override calls tell from the first.
PyObject* py_same_form(PyObject*, PyObject* form) {
    if (Py_TYPE(form) != &OutFormType) return PyErr_Format(PyExc_TypeError, "same_form takes what out_form made");
    return copied(as_out_form(form));
}

// set_form_api(form, api): what those who override calls know it by; None: they don't see it.
PyObject* py_set_form_api(PyObject*, PyObject* args) {
    PyObject *form, *api;
    if (!PyArg_ParseTuple(args, "O!O:set_form_api", &OutFormType, &form, &api)) return nullptr;
    Py_XSETREF(as_out_form(form)->api, Py_NewRef(api));
    Py_RETURN_NONE;
}
PyObject* py_form_api(PyObject*, PyObject* form) {
    if (Py_TYPE(form) != &OutFormType) return PyErr_Format(PyExc_TypeError, "form_api takes what out_form made");
    return Py_NewRef(as_out_form(form)->api ? as_out_form(form)->api : form);
}

// out_form(plain, storing, direct=False): the two as one callable.
PyObject* py_out_form(PyObject*, PyObject* args) {
    PyObject *plain, *storing;
    int direct = 0;
    if (!PyArg_ParseTuple(args, "OO|p:out_form", &plain, &storing, &direct)) return nullptr;
    PyRef shortcuts(PyObject_GetAttrString(plain, "_shortcuts"));
    if (!shortcuts) PyErr_Clear();
    if (shortcuts && !are_shortcuts(shortcuts.get())) {
        PyErr_SetString(PyExc_TypeError, "out_form: _shortcuts must be a tuple of shortcuts");
        return nullptr;
    }
    AutocastPolicy autocast;
    PyRef rule(PyObject_GetAttrString(plain, "_autocast"));
    if (!rule) PyErr_Clear();
    else autocast = autocast_policy(rule.get());
    const int older = PyObject_HasAttrString(plain, "_older_form");
    const char *node = nullptr, *nodes = nullptr;
    PyRef names(PyObject_GetAttrString(plain, "_grad_fn"));
    if (!names) PyErr_Clear();
    else if (!PyArg_ParseTuple(names.get(), "zz", &node, &nodes)) return nullptr;
    auto* made = PyObject_GC_New(OutFormObject, &OutFormType);
    if (!made) return nullptr;
    made->older = older;
    made->autocast = autocast;
    // A node may outlive the function.
    made->node = node ? strdup(node) : nullptr;
    made->nodes = nodes ? strdup(nodes) : nullptr;
    made->vectorcall = slot<out_form_vectorcall>;
    if (node || nodes) made->vectorcall = slot<named_vectorcall>;
    made->plain = Py_NewRef(plain);
    made->storing = Py_NewRef(storing);
    made->shortcuts = shortcuts.release();
    made->kinds = nullptr;
    made->checks = nullptr;
    made->direct = direct;
    made->api = nullptr;
    PyObject_GC_Track(made);
    return reinterpret_cast<PyObject*>(made);
}

// set_argument_error(argument_error, renamed, rearranged, parameter_kinds): what explains an error of a call, what
// knows other names of keywords, what knows older forms, and what describes parameters.
PyObject* py_set_argument_error(PyObject*, PyObject* args) {
    PyObject *explain, *rename, *rearrange, *describe;
    if (!PyArg_ParseTuple(args, "OOOO:set_argument_error", &explain, &rename, &rearrange, &describe)) return nullptr;
    Py_XSETREF(argument_error, Py_NewRef(explain));
    Py_XSETREF(renamed, Py_NewRef(rename));
    Py_XSETREF(rearranged, Py_NewRef(rearrange));
    Py_XSETREF(parameter_kinds, Py_NewRef(describe));
    Py_RETURN_NONE;
}

// is_of_kind(kind, value): whether a parameter of that kind takes the value.
PyObject* py_is_of_kind(PyObject*, PyObject* args) {
    const char* kind;
    PyObject* value;
    if (!PyArg_ParseTuple(args, "sO:is_of_kind", &kind, &value)) return nullptr;
    return PyBool_FromLong(is_of_kind(kind_named(kind), value));
}

PyMethodDef out_form_functions[] = {
    {"is_of_kind", method<py_is_of_kind>(), METH_VARARGS,
     "is_of_kind(kind, value): whether a parameter that is a 'bool', 'int', 'float' or 'Number' takes the value."},
    {"set_argument_error", method<py_set_argument_error>(), METH_VARARGS,
     "set_argument_error(argument_error, renamed, rearranged, parameter_kinds): explains calls with wrong arguments, "
     "and "
     "knows NumPy's names, older forms and the kinds of parameters."},
    {"same_form", method<py_same_form>(), METH_O, "Another object of the same function, for Tensor."},
    {"set_form_api", method<py_set_form_api>(), METH_VARARGS,
     "set_form_api(form, api): what those who override calls know it by; None: they don't see it."},
    {"form_api", method<py_form_api>(), METH_O, "What those who override calls know a form by."},
    {"out_form", method<py_out_form>(), METH_VARARGS,
     "out_form(plain, storing, direct=False): a callable that is `storing` where `out` is given."},
    {}};

}  // namespace

PyObject* reduce_by_name(PyObject* function, PyObject*) {
    PyRef module(PyImport_ImportModule("minitensor._functions.public_names"));
    return module ? PyObject_CallMethod(module.get(), "reduce_by_name", "O", function) : nullptr;
}

bool init_out_form(PyObject* module) {
    out_name = PyUnicode_InternFromString("out");
    return out_name && PyType_Ready(&OutFormType) == 0 && PyModule_AddFunctions(module, out_form_functions) == 0;
}

}  // namespace mt::py
