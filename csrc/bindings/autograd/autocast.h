// What autocast does with the arguments of composed functions.
#pragma once

#include "bindings/py.h"

namespace mt::py {

struct AutocastPolicy {
    CastTo on[2] = {};  // on the CPU, and on a GPU
    bool any() const { return on[0] != CastTo::Nothing || on[1] != CastTo::Nothing; }
};
// From (on the CPU, on a GPU); throws.
AutocastPolicy autocast_policy(PyObject* object);

// Calls with the tensors among the arguments, and in lists and tuples, cast, and with autocast off. False: nothing
// would be cast.
bool call_autocast(const AutocastPolicy& policy, PyObject* callable, vectorcallfunc call, PyObject* const* args,
                   size_t nargsf, PyObject* kwnames, PyObject** result);

}  // namespace mt::py
