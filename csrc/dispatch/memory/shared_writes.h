// In-place calls on tensors that show an element more than once, as expanded ones do.
#pragma once

#include "dispatch/call.h"

namespace mt {

// Whether PyTorch lets the op write there: what it leaves doesn't depend on an order of the elements that it may
// choose.
bool may_write_shared(const OpDef& op);

// The method whose warning is given if it's not the op's own: what a function made of these ops is called. Null: none.
extern thread_local const char* writing_method;

// Runs such a call, which has been inferred, on the line of memory that `destination` shows.
void write_shared(Call& call, Tensor& destination);

}  // namespace mt
