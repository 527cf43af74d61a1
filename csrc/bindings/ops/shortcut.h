// The way past the Python body of a composed function; see `shortcut` in minitensor/composite/registry.py.
#pragma once

#include "bindings/py.h"

namespace mt::py {

// Whether an object is a tuple of shortcuts.
bool are_shortcuts(PyObject* object);

// Whether one of `shortcuts` took the call. Then `*result` is what it gave, or null with an exception.
bool take_shortcut(PyObject* shortcuts, PyObject* const* args, size_t count, PyObject** result);

// The same for a call that stores its result in `out`, whatever that is.
bool take_shortcut_out(PyObject* shortcuts, PyObject* const* args, size_t count, PyObject* out, PyObject** result);

}  // namespace mt::py
