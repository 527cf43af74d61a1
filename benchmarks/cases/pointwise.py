"""Elementwise ops, casts and copies at 1e6 and 1e7 elements."""

from benchmarks.op_case import op

SIZES = {"1e6": 10**6, "1e7": 10**7}

# Statements over X, Y (normal), P (from 0 to 1), c (bools), n, m (int64), h (float16), b (bfloat16) and k (a number).
DIFFERENTIABLE = {
    "add": "X + Y",
    "add_number": "X + 1.5",
    "mul": "X * Y",
    "div": "X / Y",
    "exp": "t.exp(X)",
    "log": "t.log(P)",
    "sqrt": "t.sqrt(P)",
    "tanh": "t.tanh(X)",
    "sigmoid": "t.sigmoid(X)",
    "sin": "t.sin(X)",
    "erf": "t.erf(X)",
    "relu": "t.relu(X)",
    "gelu": "F.gelu(X)",
    "silu": "F.silu(X)",
    "pow_tensor": "t.pow(P, Y)",
    "pow_cube": "X ** 3",
    "pow_number": "P ** 2.5",
    "where": "t.where(c, X, Y)",
    "clamp": "t.clamp(X, -1, 1)",
    "maximum": "t.maximum(X, Y)",
    "abs": "t.abs(X)",
    "lerp": "t.lerp(X, Y, 0.3)",
    "addcmul": "t.addcmul(X, Y, P)",
    "atan2": "t.atan2(X, Y)",
    "to_f16": "X.to(t.float16)",
    "to_f64": "X.to(t.float64)",
}
OTHERS = {
    "less": "X < Y",
    "equal": "n == m",
    "isnan": "t.isnan(X)",
    "logical_and": "c & (~c)",
    "add_int": "n + m",
    "floor": "t.floor(X)",
    "remainder": "t.remainder(X, Y)",
    "add_": "X.add_(Y)",
    "clone": "X.clone()",
    "fill": "t.full_like(X, 2.0)",
    "to_bf16": "X.to(t.bfloat16)",
    "to_int": "X.to(t.int64)",
    "int_to_float": "n.to(t.float32)",
    "f16_to_f32": "h.to(t.float32)",
    "bf16_to_f32": "b.to(t.float32)",
    "add_f16": "h + h",
    "mul_bf16": "b * b",
    "exp_bf16": "t.exp(b)",
    "gelu_f16": "F.gelu(h)",
}
_USED = "XYPcnmhb"


def _data(size, statement):
    makers = {
        "X": lambda d: d.normal(size),
        "Y": lambda d: d.normal(size),
        "P": lambda d: d.uniform(size) + 0.01,
        "c": lambda d: d.bools(size),
        "n": lambda d: d.integers(1000, size),
        "m": lambda d: d.integers(1000, size),
        "h": lambda d: d.normal(size).to(d.library.float16),
        "b": lambda d: d.normal(size).to(d.library.bfloat16),
    }
    words = compile(statement, "", "eval").co_names
    return lambda d: {name: makers[name](d) for name in _USED if name in words}


for _label, _size in SIZES.items():
    for _name, _statement in DIFFERENTIABLE.items():
        op("pointwise", f"{_name}_{_label}", _statement, _data(_size, _statement), backward=True)
    for _name, _statement in OTHERS.items():
        op("pointwise", f"{_name}_{_label}", _statement, _data(_size, _statement))

# Rows and columns that are repeated, and operands that are not contiguous: 1e6 and 1e7 elements.
for _label, _rows in {"1e6": 1000, "1e7": 10000}.items():
    op(
        "pointwise",
        f"add_row_{_label}",
        "X + Y",
        lambda d, n=_rows: {"X": d.normal(n, 1000), "Y": d.normal(1000)},
        backward=True,
    )
    op(
        "pointwise",
        f"mul_column_{_label}",
        "X * Y",
        lambda d, n=_rows: {"X": d.normal(n, 1000), "Y": d.normal(n, 1)},
        backward=True,
    )
    op(
        "pointwise",
        f"add_transposed_{_label}",
        "X + Y.T",
        lambda d, n=_rows: {"X": d.normal(n, 1000), "Y": d.normal(1000, n)},
    )
    op(
        "pointwise",
        f"transpose_copy_{_label}",
        "X.T.contiguous()",
        lambda d, n=_rows: {"X": d.normal(n, 1000)},
    )
