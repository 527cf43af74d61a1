"""Reductions of everything, of rows and of columns, at 1e6 and 1e7 elements."""

from benchmarks.op_case import op

# Statements over X, with the arguments that choose the dimension as {0}.
FLOATS = {
    "sum": ("t.sum(X{0})", True),
    "mean": ("t.mean(X{0})", True),
    "max": ("t.amax(X{0})", True),
    "max_index": ("t.max(X{0})", False),
    "argmax": ("t.argmax(X{0})", False),
    "var": ("t.var(X{0})", True),
    "norm": ("t.linalg.vector_norm(X{1})", True),
    "logsumexp": ("t.logsumexp(X{1})", True),
    "prod": ("t.prod(X{0})", True),
}
OTHERS = {"any": "t.any(c{0})", "sum_int": "t.sum(n{0})", "sum_bool": "t.sum(c{0})", "sum_f16": "t.sum(h{0})"}
DIMENSIONS = {"all": ("", ", dim=(0, 1)"), "rows": (", dim=1",) * 2, "columns": (", dim=0",) * 2}

for _label, _rows in {"1e6": 1000, "1e7": 10000}.items():
    for _where, (_dim, _dims) in DIMENSIONS.items():
        for _name, (_statement, _differentiable) in FLOATS.items():
            if _name == "max" and not _dim:
                _dim = ", dim=(0, 1)"
            op(
                "reduction",
                f"{_name}_{_where}_{_label}",
                _statement.format(_dim, _dims),
                # Near 1, so that a product neither overflows nor vanishes.
                lambda d, n=_rows: {"X": d.normal(n, 1000) * 1e-4 + 1},
                backward=_differentiable,
            )
            _dim = DIMENSIONS[_where][0]
        for _name, _statement in OTHERS.items():
            op(
                "reduction",
                f"{_name}_{_where}_{_label}",
                _statement.format(_dim),
                lambda d, n=_rows, s=_statement: (
                    # All false: nothing ends an `any` early.
                    {"c": d.library.zeros(n, 1000, dtype=d.library.bool)}
                    if "c{" in s
                    else {"n": d.integers(1000, n, 1000)}
                    if "n{" in s
                    else {"h": d.normal(n, 1000).to(d.library.float16)}
                ),
            )
