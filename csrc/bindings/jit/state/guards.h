// What a program was recorded with, of Python's state.
#pragma once

#include "bindings/py.h"

namespace mt::py {

bool is_guards(PyObject* object);
// Whether all is as it was.
bool guards_hold(PyObject* guards);
// Whether it can't be as it was ever again: something of it is gone.
bool guards_dead(PyObject* guards);

}  // namespace mt::py
