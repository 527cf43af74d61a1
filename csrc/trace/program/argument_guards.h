// What a program asks of its arguments, of what it captured, and of their gradients. What it asks of Python's state is
// in bindings/jit/state/guards.h.
#pragma once

#include "autograd/tape.h"

namespace mt::trace {

bool differentiated(const Tensor& t);
// What calls tell of a tensor beside its layout and its history.
uint8_t traits_of(const Tensor& t);
bool has_place(const Tensor& t);
// Whether nothing but the function itself can notice gradients of an argument: it has no hooks. Those that the function
// stores are an effect, and one that a result would have is seen in the result.
bool bare(const Tensor& t);
// Whether no Python code is told of a leaf's gradient.
bool bare_leaf(const Tensor& t);
// Whether a backward pass calls formulas, and nothing else.
bool gradients_are_plain();

}  // namespace mt::trace
