// Shared by what shows traces to Python: the compiler's callbacks, profiles, recording.
#pragma once

#include "bindings/py.h"
#include "trace/plan/plan.h"

namespace mt::py {

// (file, line, function) of a recorded call, or None.
PyObject* source_tuple(const SourceRef& source);

// (nodes, inputs, scalars) of a trace, as the compiler reads it.
PyRef describe(const trace::Trace& trace);

// From here on what is recorded is a function of that number, of which a program may be made; 0: no function.
void record_function(uint64_t owner);
uint64_t next_owner();

// The number of the next scope in what is being recorded; scopes of a program get the same numbers in every run of it.
int next_scope();

// Of the function at hand, if it is compiled as a whole: the first exception that refused something in it.
struct Refusals {
    bool kept = false;
    PyRef first{};
};
// Sets this thread's and gives those of before.
Refusals exchange_refusals(Refusals refusals);

template <class Range, class Make>
PyRef list_of(const Range& range, Make&& make) {
    PyRef list = checked(PyList_New(0));
    for (const auto& item : range) {
        PyRef object = checked(make(item));
        if (PyList_Append(list.get(), object.get()) < 0) fail_python();
    }
    return list;
}

template <class F>
void each(PyObject* sequence, F&& body) {
    PyRef fast = checked(PySequence_Fast(sequence, "a sequence was expected"));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) body(PySequence_Fast_GET_ITEM(fast.get(), i));
}

}  // namespace mt::py
