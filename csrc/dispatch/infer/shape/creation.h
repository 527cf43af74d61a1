// Inference of creation and random ops: shape and dtype from the parameters alone.
#pragma once

#include "dispatch/op.h"

namespace mt {

void infer_full(Call& call);      // size, fill_value, dtype, device
void infer_arange(Call& call);    // start, end, step, dtype, device
void infer_eye(Call& call);       // n, m, dtype, device
void infer_linspace(Call& call);  // start, end, steps, dtype, device

void infer_uniform(Call& call);   // size, low, high, dtype, device
void infer_normal(Call& call);    // size, mean, std, dtype, device
void infer_randint(Call& call);   // low, high, size, dtype, device
void infer_randperm(Call& call);  // n, dtype, device
// size, others, dtype, device; of floating types, or of any
void infer_drawn_floats(Call& call);
void infer_drawn(Call& call);

}  // namespace mt
