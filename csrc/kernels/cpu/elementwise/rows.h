// The elementwise ops: a line for each, with all that C++ knows of it beside its arithmetic, the functor of its name in
// ops.h. Enumerations, tables of loops, registrations and names are made of these lines: a file that makes one defines
// the macros it wants and includes this, which undefines them. So there is no include guard.
//
//   MT_UNARY(functor, op, result, inference, kernel, takes, dtypes)
//   MT_UNARY_LOOP(functor, dtypes)     a loop of other kernels, and no op
//   MT_BINARY(functor, op, result, inference, kernel, takes, loops)
//   MT_ARITHMETIC(...)                 the same with loops that write around the caches, and of floats of 16 bits
//   MT_DIVISION(...)                   the same with loops of floats in pointwise/; they enter the loop library there
//
// `result` is Same as the operands' or Bool. `dtypes` and `loops` name macros of loops.cpp, which has the columns.

#ifndef MT_UNARY
#define MT_UNARY(...)
#endif
#ifndef MT_UNARY_LOOP
#define MT_UNARY_LOOP(...)
#endif
#ifndef MT_BINARY
#define MT_BINARY(...)
#endif
#ifndef MT_ARITHMETIC
#define MT_ARITHMETIC(...) MT_BINARY(__VA_ARGS__)
#endif
#ifndef MT_DIVISION
#define MT_DIVISION(...) MT_BINARY(__VA_ARGS__)
#endif

MT_UNARY(Neg, "neg", Same, infer_neg, unary, Any, NUMBERS)
MT_UNARY(Abs, "abs", Same, infer_abs, unary, Stored, NUMBERS)
MT_UNARY(Sign, "sign", Same, infer_sign, unary_or_copied_bool, Any, NUMBERS)
MT_UNARY(Square, "square", Same, infer_square, unary, Any, NUMBERS)
MT_UNARY_LOOP(Cube, FLOATS)
MT_UNARY_LOOP(InverseSquare, FLOATS)
MT_UNARY(Sqrt, "sqrt", Same, infer_float_unary, unary, Any, FLOATS)
MT_UNARY(Rsqrt, "rsqrt", Same, infer_float_unary, unary, Any, FLOATS)
MT_UNARY(Reciprocal, "reciprocal", Same, infer_float_unary, unary, Any, FLOATS)
MT_UNARY(Exp, "exp", Same, infer_float_unary, unary, Any, FLOATS)
MT_UNARY(Log, "log", Same, infer_float_unary, unary, Any, FLOATS)
MT_UNARY(Tanh, "tanh", Same, infer_float_unary, unary, Any, FLOATS)
MT_UNARY(Sigmoid, "sigmoid", Same, infer_float_unary, unary, Any, FLOATS)
MT_UNARY(Relu, "relu", Same, infer_relu, unary, Any, NUMBERS)
MT_UNARY(Floor, "floor", Same, infer_rounding, unary_or_copied_integers, Any, FLOATS)
MT_UNARY(Ceil, "ceil", Same, infer_rounding, unary_or_copied_integers, Any, FLOATS)
MT_UNARY(Trunc, "trunc", Same, infer_rounding, unary_or_copied_integers, Any, FLOATS)
MT_UNARY(Round, "round", Same, infer_rounding, unary_or_copied_integers, Any, FLOATS)
MT_UNARY(LogicalNot, "logical_not", Bool, infer_logical_not, unary, Any, BOOL)
MT_UNARY(BitwiseNot, "bitwise_not", Same, infer_bitwise_not, unary_or_logical_not, Any, BITS)
MT_UNARY(IsNan, "isnan", Bool, infer_float_test, unary, Stored, FLOATS)
MT_UNARY(IsInf, "isinf", Bool, infer_float_test, unary, Any, FLOATS)
MT_UNARY(IsFinite, "isfinite", Bool, infer_float_test, unary, Any, FLOATS)

MT_ARITHMETIC(Add, "add", Same, infer_binary, binary, Any, MT_WRAPPING(BitwiseOr, Add))
MT_ARITHMETIC(Sub, "sub", Same, infer_sub, binary, Any, MT_NUMBERS(binary_loop, Sub))
MT_ARITHMETIC(Mul, "mul", Same, infer_binary, binary, Any, MT_WRAPPING(BitwiseAnd, Mul))
MT_ARITHMETIC(Div, "div", Same, infer_div, binary, Any, MT_FLOATS(binary_loop, Div))
MT_DIVISION(FloorDivide, "floor_divide", Same, infer_floor_divide, division, Any, MT_QUOTIENT(FloorDivide))
MT_DIVISION(Remainder, "remainder", Same, infer_remainder, division, Any, MT_QUOTIENT(Remainder))
MT_DIVISION(Pow, "pow", Same, infer_pow, pow, Any, MT_NUMBERS(slow_binary_loop, Pow))
MT_BINARY(Maximum, "maximum", Same, infer_extreme_of_two, binary, Any, MT_ALL(binary_loop, Maximum))
MT_BINARY(Minimum, "minimum", Same, infer_extreme_of_two, binary, Any, MT_ALL(binary_loop, Minimum))
MT_BINARY(Eq, "eq", Bool, infer_equal, binary, Stored, MT_EQUAL(Eq))
MT_BINARY(Ne, "ne", Bool, infer_equal, binary, Stored, MT_EQUAL(Ne))
MT_BINARY(Lt, "lt", Bool, infer_compare, binary, Any, MT_ALL(binary_loop, Lt))
MT_BINARY(Le, "le", Bool, infer_compare, binary, Any, MT_ALL(binary_loop, Le))
MT_BINARY(Gt, "gt", Bool, infer_compare, binary, Any, MT_ALL(swapped_loop, Lt))
MT_BINARY(Ge, "ge", Bool, infer_compare, binary, Any, MT_ALL(swapped_loop, Le))
MT_BINARY(LogicalAnd, "logical_and", Bool, infer_logical, binary, Any, MT_BOOL(binary_loop, BitwiseAnd))
MT_BINARY(LogicalOr, "logical_or", Bool, infer_logical, binary, Any, MT_BOOL(binary_loop, BitwiseOr))
MT_BINARY(LogicalXor, "logical_xor", Bool, infer_logical, binary, Any, MT_BOOL(binary_loop, BitwiseXor))
MT_BINARY(BitwiseAnd, "bitwise_and", Same, infer_bitwise_and, binary, Any, MT_LOGIC(BitwiseAnd))
MT_BINARY(BitwiseOr, "bitwise_or", Same, infer_bitwise_or, binary, Any, MT_LOGIC(BitwiseOr))
MT_BINARY(BitwiseXor, "bitwise_xor", Same, infer_bitwise_xor, binary, Any, MT_LOGIC(BitwiseXor))

#undef MT_UNARY
#undef MT_UNARY_LOOP
#undef MT_BINARY
#undef MT_ARITHMETIC
#undef MT_DIVISION
