// Operands of an operator expression that die with it: the result may take their memory over.
#pragma once

#include <initializer_list>

#include "bindings/py.h"

namespace mt::py {

// Bit i: `objects[i]` is a temporary of the running expression, as `a * x` is in `a * x + y`; the interpreter's stack
// has the only reference to it, and drops it when the operator returns. Looked for where memory counts: large tensors.
uint32_t elidable_temporaries(const Call& call, std::initializer_list<PyObject*> objects);

}  // namespace mt::py
