// Calls that an argument or a mode takes over by PyTorch's protocol `__torch_function__`. Whoever is called asks
// `may_override()` first, which costs a comparison with memory as long as no class of tensors and no mode overrides.
// Objects that are no tensors are looked for only where a call of tensors would fail (`foreign_override`), or where a
// function of Python's is about to run.
#pragma once

#include <algorithm>
#include <utility>

#include "bindings/py.h"
#include "dispatch/python/override_state.h"

namespace mt::py {

inline bool may_override() { return __builtin_expect(overriders != 0, 0); }

// Whether this thread is in a mode that sees calls.
bool mode_overrides();
// Whether objects of the class take calls over.
bool class_overrides(PyTypeObject* type);
// Notes that there are objects of a class made in Python.
void note_class(PyTypeObject* type);

// Calls `function` by whoever overrides it; false: nobody does. A null result is an exception that is set. Arguments
// are given as to vectorcall.
bool overridden(PyObject* function, PyObject* const* args, size_t nargs, PyObject* kwnames, PyObject** result);
// The same after a call has failed before which nobody was asked: with a TypeError, the arguments may have been no
// tensors but override it.
bool foreign_override(PyObject* function, PyObject* const* args, size_t nargs, PyObject* kwnames, PyObject** result);

// The same for what is in the dictionary of Tensor.
bool method_overridden(const char* name, PyObject* const* args, size_t nargs, PyObject* kwnames, PyObject** result);
bool attribute_overridden(const char* name, const char* access, PyObject* const* args, size_t nargs, PyObject** result);

// The same after a method of one argument has failed.
void foreign_argument(const char* name, PyObject* const* args, PyObject** result);
// And after an assignment x[key] = value has.
bool foreign_item(const char* name, PyObject* const* args, PyObject** result);

template <size_t N>
struct Name {
    char text[N];
    constexpr Name(const char (&given)[N]) { std::copy_n(given, N, text); }
};

// Methods, attributes and slots of the type as CPython calls them, with the name by which an override knows each.
template <auto Function, Name name>
struct Overridable;

template <Name name, PyObject* (*Function)(PyObject*, PyObject*)>
struct Overridable<Function, name> {  // of one argument or none, which is null
    static PyObject* call(PyObject* self, PyObject* argument) {
        PyObject *args[] = {self, argument}, *result;
        const bool asked = may_override();
        if (asked && method_overridden(name.text, args, argument ? 2 : 1, nullptr, &result)) return result;
        result = Function(self, argument);
        if (!result && argument && !asked) foreign_argument(name.text, args, &result);
        return result;
    }
};
template <Name name, PyObject* (*Function)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*)>
struct Overridable<Function, name> {
    static PyObject* call(PyObject* self, PyObject* const* args, Py_ssize_t nargs, PyObject* kwnames) {
        PyObject* result;
        if (may_override()) {
            SmallVector<PyObject*, 8> all;
            all.push_back(self);
            for (Py_ssize_t i = 0; i < nargs + (kwnames ? PyTuple_GET_SIZE(kwnames) : 0); ++i) all.push_back(args[i]);
            if (method_overridden(name.text, all.data(), static_cast<size_t>(nargs) + 1, kwnames, &result))
                return result;
        }
        return Function(self, args, nargs, kwnames);
    }
};
template <Name name, PyObject* (*Function)(PyObject*)>
struct Overridable<Function, name> {
    static PyObject* call(PyObject* self) {
        PyObject* result;
        if (may_override() && method_overridden(name.text, &self, 1, nullptr, &result)) return result;
        return Function(self);
    }
};
template <Name name, PyObject* (*Function)(PyObject*, void*)>
struct Overridable<Function, name> {
    static PyObject* call(PyObject* self, void* closure) {
        PyObject* result;
        if (may_override() && attribute_overridden(name.text, "__get__", &self, 1, &result)) return result;
        return Function(self, closure);
    }
};
template <Name name, int (*Function)(PyObject*, PyObject*, void*)>
struct Overridable<Function, name> {
    static int call(PyObject* self, PyObject* value, void* closure) {
        PyObject *args[] = {self, value}, *result;
        if (may_override() &&
            attribute_overridden(name.text, value ? "__set__" : "__delete__", args, value ? 2 : 1, &result)) {
            Py_XDECREF(result);
            return result ? 0 : -1;
        }
        return Function(self, value, closure);
    }
};
template <Name name, int (*Function)(PyObject*, PyObject*, PyObject*)>
struct Overridable<Function, name> {  // x[key] = value
    static int call(PyObject* self, PyObject* key, PyObject* value) {
        PyObject *args[] = {self, key, value}, *result;
        if (may_override() &&
            method_overridden(value ? name.text : "__delitem__", args, value ? 3 : 2, nullptr, &result)) {
            Py_XDECREF(result);
            return result ? 0 : -1;
        }
        const int done = Function(self, key, value);
        if (done < 0 && value && !may_override() && foreign_item(name.text, args, &result)) {
            Py_XDECREF(result);
            return result ? 0 : -1;
        }
        return done;
    }
};
// Of slots that give a number: a length, a truth.
template <Name name, class Number, Number (*Function)(PyObject*)>
Number overridable_number(PyObject* self) {
    PyObject* result;
    if (may_override() && method_overridden(name.text, &self, 1, nullptr, &result)) {
        PyRef owned = checked(result);
        if constexpr (std::is_same_v<Number, int>) return to_bool(result);
        const int64_t length = to_int64(result);
        if (length < 0) fail_value("__len__() should return >= 0");
        return length;
    }
    return Function(self);
}

// An entry of the type's tables.
template <auto Function, Name name>
constexpr auto overridable = slot<&Overridable<Function, name>::call>;
template <auto Function, Name name>
PyCFunction overridable_method() {
    return method<&Overridable<Function, name>::call>();
}

}  // namespace mt::py
