// `__torch_function__`: who takes a call over, in which order they are asked, and how that is switched off.
#include "bindings/ops/overrides.h"

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "autograd/tape.h"

namespace mt::py {

namespace {

PyObject* protocol_name = nullptr;  // "__torch_function__"
PyObject* disabled = nullptr;       // what a class has in its place that overrides nothing
MT_THREAD_LOCAL bool skips_next = false;  // the next call that asks is not overridden
bool noted = false;                 // there was an object of a class that overrides

// This thread's modes, the innermost last; null: none.
using Stack = std::vector<PyRef>;
MT_THREAD_LOCAL Stack* modes = nullptr;

void push_mode(PyRef mode) {
    if (!modes) modes = new Stack;
    modes->push_back(std::move(mode));
}
PyRef pop_mode() {
    PyRef mode = std::move(modes->back());
    modes->pop_back();
    if (modes->empty()) delete std::exchange(modes, nullptr);
    return mode;
}

PyObject* protocol_of(PyTypeObject* type) {
    return _PyType_Lookup(type, protocol_name);  // borrowed
}

bool plain_type(PyTypeObject* type) {
    return type == &TensorType || type == &PyLong_Type || type == &PyFloat_Type || type == Py_TYPE(Py_None) ||
           type == &PyBool_Type || type == &PyUnicode_Type || type == &PyComplex_Type || type == &PySlice_Type ||
           type == &PyDict_Type || type == &SizeType || type == &PyBytes_Type || type == &DTypeType ||
           type == &DeviceType_;
}

// The arguments that override, one of each class, those of a subclass before those of its bases.
using Overriding = SmallVector<PyObject*, 4>;

void add(Overriding& found, PyObject* object) {
    PyTypeObject* type = Py_TYPE(object);
    if (plain_type(type) || !class_overrides(type)) return;
    size_t place = found.size();
    for (size_t i = 0; i < found.size(); ++i) {
        if (Py_TYPE(found[i]) == type) return;
        if (place == found.size() && PyType_IsSubtype(type, Py_TYPE(found[i]))) place = i;
    }
    found.insert(place, object);
}

void add_with_items(Overriding& found, PyObject* object) {
    const bool list = PyList_CheckExact(object);
    if (!list && !PyTuple_CheckExact(object)) return add(found, object);
    constexpr Py_ssize_t kLongest = 64;  // of sizes; in longer ones a number says that all are data
    for (Py_ssize_t i = 0; i < Py_SIZE(object); ++i) {
        PyObject* item = list ? PyList_GET_ITEM(object, i) : PyTuple_GET_ITEM(object, i);
        if (Py_SIZE(object) > kLongest && (PyLong_CheckExact(item) || PyFloat_CheckExact(item))) return;
        add(found, item);
    }
}

void find(Overriding& found, PyObject* const* args, size_t count) {
    for (size_t i = 0; i < count; ++i) add_with_items(found, args[i]);
}

struct Taken {
    PyRef function, types, args, kwargs;  // kwargs may be null
};

Taken taken(PyObject* function, const Overriding& found, PyObject* const* args, size_t nargs, PyObject* kwnames) {
    Taken call;
    call.function = PyRef::borrow(function);
    call.types = checked(PyTuple_New(static_cast<Py_ssize_t>(found.size())));
    for (size_t i = 0; i < found.size(); ++i)
        PyTuple_SET_ITEM(call.types.get(), static_cast<Py_ssize_t>(i),
                         Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(found[i]))));
    call.args = checked(PyTuple_New(static_cast<Py_ssize_t>(nargs)));
    for (size_t i = 0; i < nargs; ++i)
        PyTuple_SET_ITEM(call.args.get(), static_cast<Py_ssize_t>(i), Py_NewRef(args[i]));
    if (kwnames && PyTuple_GET_SIZE(kwnames)) {
        call.kwargs = checked(PyDict_New());
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(kwnames); ++k)
            if (PyDict_SetItem(call.kwargs.get(), PyTuple_GET_ITEM(kwnames, k), args[nargs + static_cast<size_t>(k)]))
                fail_python();
    }
    return call;
}

PyRef ask(PyObject* handler, const Taken& call) {
    return checked(PyObject_CallFunctionObjArgs(handler, call.function.get(), call.types.get(), call.args.get(),
                                                call.kwargs.get(), nullptr));
}

// The innermost mode handles a call without itself: what it calls is for those around it.
PyRef ask_mode(const Taken& call) {
    struct Apart {
        PyRef mode = pop_mode();
        ~Apart() { push_mode(std::move(mode)); }
    } apart;
    PyRef handler = checked(PyObject_GetAttr(apart.mode.get(), protocol_name));
    return ask(handler.get(), call);
}

PyRef ask_object(PyObject* object, const Taken& call) {
    PyRef handler = checked(PyObject_GetAttr(object, protocol_name));
    PyRef self(PyObject_GetAttrString(handler.get(), "__self__"));
    if (!self) PyErr_Clear();
    if (self.get() == object)
        warn("Defining your `__torch_function__` as a plain method is deprecated and will be an error in future, "
             "please define it as a classmethod.");
    return ask(handler.get(), call);
}

[[noreturn]] void nobody(PyObject* function, const Overriding& found, PyObject* mode) {
    PyRef name(PyObject_GetAttrString(function, "__name__"));
    if (!name) PyErr_Clear();
    const char* text = name && PyUnicode_Check(name.get()) ? PyUnicode_AsUTF8(name.get()) : nullptr;
    std::string message = "Multiple dispatch failed for 'minitensor." + std::string(text ? text : "?") +
                          "'; all __torch_function__ handlers returned NotImplemented:\n\n";
    auto line = [&](const char* kind, PyObject* object) {
        PyRef shown = checked(PyObject_Repr(object));
        const char* characters = PyUnicode_AsUTF8(shown.get());
        if (!characters) fail_python();
        message += std::string("  - ") + kind + characters + "\n";
    };
    if (mode) line("mode object ", mode);
    for (PyObject* object : found) line("tensor subclass ", reinterpret_cast<PyObject*>(Py_TYPE(object)));
    fail_type(message);
}

PyObject* run(PyObject* function, const Overriding& found, PyObject* const* args, size_t nargs, PyObject* kwnames) {
    std::vector<PyRef> held;  // a handler may change the list that an argument is in, or a finalizer
    for (PyObject* object : found) held.push_back(PyRef::borrow(object));
    note_beyond_replay("__torch_function__ takes over a call on its way");
    const Taken call = taken(function, found, args, nargs, kwnames);
    PyRef mode;
    if (mode_overrides()) {
        mode = PyRef::borrow(modes->back().get());
        PyRef result = ask_mode(call);
        if (result.get() != Py_NotImplemented) return result.release();
    }
    for (PyObject* object : found) {
        PyRef result = ask_object(object, call);
        if (result.get() != Py_NotImplemented) return result.release();
    }
    nobody(function, found, mode.get());
}

PyObject* of_tensor(const char* name) { return PyDict_GetItemString(TensorType.tp_dict, name); }  // borrowed

[[noreturn]] void no_such(const char* name) { fail(std::string("Tensor has no attribute '") + name + "'"); }

}  // namespace

bool mode_overrides() { return overrides != Overrides::Off && modes; }

// PyTorch's own tensors call what they are asked about, which would ask them again, for ever.
static bool of_pytorch(PyTypeObject* type) {
    while (type && std::strcmp(type->tp_name, "torch._C.TensorBase") != 0) type = type->tp_base;
    return type != nullptr;
}

bool class_overrides(PyTypeObject* type) {
    if (plain_type(type)) return false;
    PyObject* protocol = protocol_of(type);
    return protocol && protocol != disabled && !of_pytorch(type);
}

void note_class(PyTypeObject* type) {
    if (noted || !class_overrides(type)) return;
    noted = true;
    ++overriders;
}

bool overridden(PyObject* function, PyObject* const* args, size_t nargs, PyObject* kwnames, PyObject** result) {
    if (overrides == Overrides::Off || std::exchange(skips_next, false)) return false;
    const bool mode = modes != nullptr;
    if (!mode && overrides != Overrides::On) return false;
    return guarded(
        [&] {
            Overriding found;
            if (overrides == Overrides::On)
                find(found, args, nargs + (kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0));
            if (!mode && found.empty()) return false;
            *result = run(function, found, args, nargs, kwnames);
            return true;
        },
        (*result = nullptr, true));
}

namespace {

// An exception that is set aside: looking for attributes of classes would clear it.
class SetAside {
  public:
    SetAside() { PyErr_Fetch(&type_, &value_, &traceback_); }
    ~SetAside() {
        if (type_) PyErr_Restore(type_, value_, traceback_);
    }
    SetAside(const SetAside&) = delete;
    void forget() { PyRef gone[] = {PyRef(std::exchange(type_, nullptr)), PyRef(value_), PyRef(traceback_)}; }

  private:
    PyObject *type_, *value_, *traceback_;
};

}  // namespace

bool foreign_override(PyObject* function, PyObject* const* args, size_t nargs, PyObject* kwnames, PyObject** result) {
    if (overrides != Overrides::On || !PyErr_ExceptionMatches(PyExc_TypeError)) return false;
    SetAside error;
    Overriding found;
    find(found, args, nargs + (kwnames ? static_cast<size_t>(PyTuple_GET_SIZE(kwnames)) : 0));
    if (std::all_of(found.begin(), found.end(), is_tensor)) return false;  // those have been asked before
    *result = guarded([&] { return run(function, found, args, nargs, kwnames); });
    error.forget();  // after the call: its finalizers may run anything
    return true;
}

void foreign_argument(const char* name, PyObject* const* args, PyObject** result) {
    if (overrides != Overrides::On) return;
    SetAside error;
    if (!is_tensor(args[1]) && method_overridden(name, args, 2, nullptr, result)) error.forget();
}

bool foreign_item(const char* name, PyObject* const* args, PyObject** result) {
    if (overrides != Overrides::On) return false;
    SetAside error;
    if (!method_overridden(name, args, 3, nullptr, result)) return false;
    error.forget();
    return true;
}

bool method_overridden(const char* name, PyObject* const* args, size_t nargs, PyObject* kwnames, PyObject** result) {
    if (overrides == Overrides::Off) return false;
    PyObject* function = of_tensor(name);
    if (!function) return guarded([&]() -> bool { no_such(name); }, (*result = nullptr, true));
    PyRef held = PyRef::borrow(function);
    return overridden(function, args, nargs, kwnames, result);
}

bool attribute_overridden(const char* name, const char* access, PyObject* const* args, size_t nargs,
                          PyObject** result) {
    if (overrides == Overrides::Off || (overrides != Overrides::On && !modes)) return false;
    if (!modes && !class_overrides(Py_TYPE(args[0]))) return false;
    PyObject* descriptor = of_tensor(name);
    PyRef function(descriptor ? PyObject_GetAttrString(descriptor, access) : nullptr);
    if (!function) {
        if (!PyErr_Occurred()) return guarded([&]() -> bool { no_such(name); }, (*result = nullptr, true));
        *result = nullptr;
        return true;
    }
    return overridden(function.get(), args, nargs, nullptr, result);
}

namespace {

// ---- for Python

PyObject* py_push_mode(PyObject*, PyObject* mode) {
    push_mode(PyRef::borrow(mode));
    ++overriders;
    Py_RETURN_NONE;
}
PyObject* py_pop_mode(PyObject*, PyObject*) {
    return guarded([&]() -> PyObject* {
        if (!modes) fail("no mode of __torch_function__ is on");
        --overriders;
        return pop_mode().release();
    });
}
PyObject* py_mode_count(PyObject*, PyObject*) { return PyLong_FromSize_t(modes ? modes->size() : 0); }
PyObject* py_mode_at(PyObject*, PyObject* place) {
    return guarded([&]() -> PyObject* {
        const int64_t i = to_int64(place), count = modes ? static_cast<int64_t>(modes->size()) : 0;
        if (i < -count || i >= count) fail_index("there is no such mode of __torch_function__");
        return Py_NewRef((*modes)[static_cast<size_t>(i < 0 ? i + count : i)].get());
    });
}

bool anyone(PyObject* const* args, size_t count) {
    if (std::exchange(skips_next, false)) return false;
    if (mode_overrides()) return true;
    if (overrides != Overrides::On) return false;
    Overriding found;
    for (size_t i = 0; i < count; ++i) add(found, args[i]);
    return !found.empty();
}
PyObject* py_has(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyRef items = tuple_of(args);
        return PyBool_FromLong(
            anyone(&PyTuple_GET_ITEM(items.get(), 0), static_cast<size_t>(PyTuple_GET_SIZE(items.get()))));
    });
}
PyObject* py_has_variadic(PyObject*, PyObject* const* args, Py_ssize_t nargs) {
    return guarded([&]() -> PyObject* { return PyBool_FromLong(anyone(args, static_cast<size_t>(nargs))); });
}

// handle_torch_function(public_api, relevant_args, *args, **kwargs)
PyObject* py_handle(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    return guarded([&]() -> PyObject* {
        if (nargs < 2) fail_type("handle_torch_function(public_api, relevant_args, *args, **kwargs)");
        PyRef relevant = tuple_of(args[1]);
        Overriding found;
        if (overrides == Overrides::On)
            for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(relevant.get()); ++i)
                add(found, PyTuple_GET_ITEM(relevant.get(), i));
        return run(args[0], found, args + 2, static_cast<size_t>(nargs - 2), kwnames);
    });
}

// get_overloaded_args(relevant_args): those that override, in the order in which they are asked.
PyObject* py_overloaded(PyObject*, PyObject* args) {
    return guarded([&]() -> PyObject* {
        PyRef items = tuple_of(args);
        Overriding found;
        if (overrides == Overrides::On)
            for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(items.get()); ++i) add(found, PyTuple_GET_ITEM(items.get(), i));
        PyRef list = checked(PyList_New(0));
        for (PyObject* object : found)
            if (PyList_Append(list.get(), object) < 0) fail_python();
        return list.release();
    });
}

// What a handler was given is called with; null: an exception.
PyObject* call_given(PyObject* function, PyObject* args, PyObject* kwargs) {
    PyRef positional = args ? tuple_of(args) : checked(PyTuple_New(0));
    if (kwargs == Py_None) kwargs = nullptr;
    if (kwargs && !PyDict_Check(kwargs))
        fail_type(std::string("expected a dict of keyword arguments or None, got ") + Py_TYPE(kwargs)->tp_name);
    return PyObject_Call(function, positional.get(), kwargs);
}

// The value of `__torch_function__` for classes whose objects are ordinary arguments.
PyObject* py_disabled(PyObject*, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
    return guarded([&]() -> PyObject* {
        const Py_ssize_t named = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
        if (named || nargs < 2 || nargs > 4) fail_type("__torch_function__(func, types, args=(), kwargs=None)");
        struct Apart {
            Overrides before = overrides;
            ~Apart() { overrides = before; }
        } apart;
        if (apart.before == Overrides::On) overrides = Overrides::ModesOnly;
        return call_given(args[0], nargs > 2 ? args[2] : nullptr, nargs > 3 ? args[3] : nullptr);
    });
}

// redispatch_function(func, types, args, kwargs): the function itself; what it calls is overridden again.
PyObject* py_redispatch(PyObject*, PyObject* given) {
    return guarded([&]() -> PyObject* {
        PyObject *function, *types, *args, *kwargs = nullptr;
        if (!PyArg_ParseTuple(given, "OOOO:redispatch_function", &function, &types, &args, &kwargs)) return nullptr;
        PyRef positional = tuple_of(args);  // which may itself call
        struct Skipping {
            Skipping() {
                ++overriders, skips_next = true;
            }  // the function asks, and so it is this call that is skipped
            ~Skipping() { --overriders, skips_next = false; }
        } skipping;
        return call_given(function, positional.get(), kwargs);
    });
}

PyObject* py_enabled(PyObject*, PyObject*) { return PyBool_FromLong(overrides == Overrides::On); }

// Context managers that switch it off.
struct SwitchObject {
    PyObject_HEAD Overrides previous;
};
PyObject* switch_enter(PyObject* self, Overrides to) {
    reinterpret_cast<SwitchObject*>(self)->previous = overrides;
    overrides = std::max(overrides, to);
    Py_RETURN_NONE;
}
PyObject* enter_subclasses(PyObject* self, PyObject*) { return switch_enter(self, Overrides::ModesOnly); }
PyObject* enter_all(PyObject* self, PyObject*) { return switch_enter(self, Overrides::Off); }
PyObject* leave_switch(PyObject* self, PyObject*) {
    overrides = reinterpret_cast<SwitchObject*>(self)->previous;
    Py_RETURN_FALSE;
}

PyMethodDef subclasses_methods[] = {{"__enter__", method<enter_subclasses>(), METH_NOARGS, nullptr},
                                    {"__exit__", method<leave_switch>(), METH_VARARGS, nullptr},
                                    {}};
PyMethodDef all_methods[] = {{"__enter__", method<enter_all>(), METH_NOARGS, nullptr},
                             {"__exit__", method<leave_switch>(), METH_VARARGS, nullptr},
                             {}};

PyTypeObject make_switch(const char* name, const char* doc, PyMethodDef* methods) {
    PyTypeObject type = blank_type();
    type.tp_name = name;
    type.tp_doc = doc;
    type.tp_basicsize = sizeof(SwitchObject);
    type.tp_flags = Py_TPFLAGS_DEFAULT;
    type.tp_methods = methods;
    type.tp_new = PyType_GenericNew;
    return type;
}
PyTypeObject SubclassesType = make_switch("minitensor._C.DisableTorchFunctionSubclass",
                                          "While it is on, no object's __torch_function__ is asked; modes are.",
                                          subclasses_methods);
PyTypeObject AllType = make_switch("minitensor._C.DisableTorchFunction",
                                   "While it is on, no __torch_function__ is asked, of objects or modes.", all_methods);

PyMethodDef overrides_functions[] = {
    {"_disabled_torch_function_impl", method<py_disabled>(), METH_FASTCALL | METH_KEYWORDS,
     "The __torch_function__ of classes that override nothing."},
    {"_push_on_torch_function_stack", method<py_push_mode>(), METH_O, "Switches a mode on."},
    {"_pop_torch_function_stack", method<py_pop_mode>(), METH_NOARGS, "Switches the innermost mode off."},
    {"_len_torch_function_stack", method<py_mode_count>(), METH_NOARGS, "How many modes are on."},
    {"_get_function_stack_at", method<py_mode_at>(), METH_O, "A mode, counted from the outermost."},
    {"_has_torch_function", method<py_has>(), METH_O, "Whether anyone overrides, of a tuple or as a mode."},
    {"_has_torch_function_variadic", method<py_has_variadic>(), METH_FASTCALL,
     "Whether anyone overrides, of the arguments or as a mode."},
    {"_handle_torch_function", method<py_handle>(), METH_FASTCALL | METH_KEYWORDS,
     "_handle_torch_function(public_api, relevant_args, *args, **kwargs): what they give who override."},
    {"_get_overloaded_args", method<py_overloaded>(), METH_O, "Those that override, in the order they are asked."},
    {"_redispatch_function", method<py_redispatch>(), METH_VARARGS,
     "_redispatch_function(func, types, args, kwargs): the call, which is not overridden once more."},
    {"_is_torch_function_enabled", method<py_enabled>(), METH_NOARGS, "Whether objects are asked."},
    {}};

}  // namespace

bool init_overrides(PyObject* module) {
    protocol_name = PyUnicode_InternFromString("__torch_function__");
    if (!protocol_name || PyType_Ready(&SubclassesType) < 0 || PyType_Ready(&AllType) < 0 ||
        PyModule_AddFunctions(module, overrides_functions) < 0 || PyModule_AddType(module, &SubclassesType) < 0 ||
        PyModule_AddType(module, &AllType) < 0)
        return false;
    disabled = PyObject_GetAttrString(module, "_disabled_torch_function_impl");
    return disabled != nullptr;
}

}  // namespace mt::py
