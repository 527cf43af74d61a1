"""Sample arguments of the pointwise functions that the defaults of `row_samples` are not enough for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def forms(op: Callable[..., Any]) -> dict[str, list[tuple[Any, ...]]]:
    """Forms by the row's name; `op` makes an operand."""
    logarithms = [
        (op(4, 5), op(4, 5)),
        (op(4, 1), op(5)),
        (op(4, 5, layout="transposed"), op()),
        (op(4, 5), 2),
        (1.5, op(2, 3)),
        (op(0), 0.5),
    ]
    return {
        "xlogy": logarithms,
        "xlog1py": logarithms,
        "lerp": [
            (op(4, 5), op(4, 5), op(4, 5)),
            (op(4, 5), op(5), 0.25),
            (op(4, 1), op(1, 5), op()),
            (op(4, 5, layout="transposed"), op(4, 5, layout="strided"), 0.75),
            (op(0, 3), op(3), 0.5),
        ],
        "elu": [(op(4, 5),), (op(7), 0.5), (op(4, 5, layout="transposed"), 2), (op(0),)],
        "celu": [(op(4, 5),), (op(7), 0.5), (op(4, 5, layout="transposed"), 2), (op(0),)],
        "softplus": [(op(4, 5),), (op(7), 2), (op(4, 5, layout="transposed"), 0.5, 1.0), (op(0),)],
    }


# Where a formula is smooth, in the intervals of `row_samples`.
DOMAINS = {
    **dict.fromkeys(("asin", "acos", "atanh"), "unit"),
    **dict.fromkeys(("log2", "log10", "log1p", "atan2", "xlogy", "xlog1py"), "positive"),
    **dict.fromkeys(("elu", "celu", "selu", "hardswish", "hardsigmoid", "softplus"), "positive"),
    "acosh": "above",
    "_logit": "fraction",
}
