// Inference of the pointwise functions: shapes broadcast, dtypes promote; what differs is which dtypes there are.
#pragma once

#include "dispatch/op.h"

namespace mt {

void infer_promoted(Call& call);  // integers become the default floating dtype
void infer_wide(Call& call);      // the same, without float16 and bfloat16
void infer_same(Call& call);      // every dtype
void infer_numbers(Call& call);   // every dtype but bool
void infer_integers(Call& call);  // without bool
void infer_floats(Call& call);
void infer_lerp(Call& call);      // the same, of one dtype
// The same where a number follows the tensors.
void infer_numbers_with_number(Call& call);
void infer_floats_with_number(Call& call);
void infer_test(Call& call);      // every dtype; the result is bool

}  // namespace mt
