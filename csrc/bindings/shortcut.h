// The way past the Python body of a composed function; see `shortcut` in minitensor/composite/registry.py.
#pragma once

#include "bindings/py.h"

namespace mt::py {

// Whether one of `shortcuts`, a tuple of them, took the call. Then `*result` is what it gave, or null with an
// exception.
bool take_shortcut(PyObject* shortcuts, PyObject* const* args, size_t count, PyObject** result);

}  // namespace mt::py
