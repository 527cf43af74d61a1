// Inference of the elementwise ops: result dtype by PyTorch's promotion, result shape by broadcasting, and the dtype of
// the arithmetic. Never looks at data.
#pragma once

#include "dispatch/op.h"

namespace mt {

void infer_neg(Call& call);
void infer_abs(Call& call);
void infer_sign(Call& call);
void infer_relu(Call& call);
void infer_square(Call& call);
void infer_rounding(Call& call);  // floor, ceil, trunc, round
void infer_float_unary(Call& call);  // integers give the default floating dtype
void infer_logical_not(Call& call);
void infer_bitwise_not(Call& call);
void infer_float_test(Call& call);  // isnan, isinf, isfinite

// TypeError if all operands are numbers, which few functions take.
void require_tensor(const Call& call);

void infer_binary(Call& call);  // add, mul
void infer_extreme_of_two(Call& call);  // maximum, minimum
void infer_sub(Call& call);
void infer_div(Call& call);
void infer_floor_divide(Call& call);
void infer_remainder(Call& call);
void infer_pow(Call& call);
void infer_equal(Call& call);
void infer_compare(Call& call);
void infer_logical(Call& call);
void infer_bitwise_and(Call& call);
void infer_bitwise_or(Call& call);
void infer_bitwise_xor(Call& call);

void infer_where(Call& call);
void infer_clamp(Call& call);
void infer_cast(Call& call);
void infer_clone(Call& call);
void infer_fill(Call& call);
void infer_copy(Call& call);

// Throws PyTorch's "value cannot be converted to type ... without overflow"; `value` becomes an element of dtype.
void check_fits(Scalar value, DType dtype);
bool fits(Scalar value, DType dtype);

}  // namespace mt
