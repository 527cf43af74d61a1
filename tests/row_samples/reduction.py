"""Sample arguments of the reductions, scans and orders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def forms(op: Callable[..., Any]) -> dict[str, list[tuple[Any, ...]]]:
    """Forms by the row's name; `op` makes an operand."""
    shapes = [
        op(4, 5),
        op(2, 3, 4),
        op(3, 70),
        op(70, 3),
        op(4, 5, layout="transposed"),
        op(6, 4, layout="strided"),
        op(5, 3, layout="expanded"),
    ]
    reduced = [
        *((x, d) for x in shapes for d in (None, 0, -1)),
        (op(4, 5), [1], True),
        (op(2, 3, 4), [0, 2]),
        (op(1, 1, 3), 1),
        (op(),),
        (op(7), 0),
    ]
    # Equal elements have no deviation, where the root of the variance has no derivative.
    moments = [
        (x, *more[:1], c, *more[1:])
        for (x, *more), c in zip(reduced, (1.0, 0.0, 0.5) * 9, strict=False)
        if more and x.layout != "expanded"
    ]
    along = [
        (op(4, 5), 0),
        (op(4, 5), 1),
        (op(2, 3, 4), -2),
        (op(9), -1),
        (op(4, 5, layout="transposed"), 1),
        (op(6, 4, layout="strided"), 0),
        (op(3, 300), 1),
        (op(), 0),
        (op(0, 3), 0),
    ]
    selected = [(x, d, k) for (x, d), k in zip(along[:-1], (False, True) * 4, strict=True)]
    offsets = op(4, dtype="int64", below=1)
    rows = ((4, 5), (7,), (2, 3, 3000), (2, 5000), (0, 3))
    gradients = [*((op(*s), op(*s)) for s in rows), (op(4, 70, layout="transposed"), op(4, 70, layout="strided"))]
    return {
        "prod": [(x, d) for x, d, *more in reduced[:-2] if not isinstance(d, list) and not more]
        + [(op(4, 5),), (op(4, 5), 1, True), (op(),), (op(0),), (op(0, 3), 0), (op(3, 0), 1, True)],
        "_prod_backward": [
            (op(4, 1), op(4, 5), 1),
            (op(1, 5), op(4, 5), 0),
            (op(2, 1, 70), op(2, 9, 70), -2),
            (op(1), op(1), 0),
            (op(1, 3, layout="transposed"), op(4, 3, layout="transposed"), 0),
        ],
        "_cumprod_backward": [(x, x, d) for x, d in along if x.shape],
        "nansum": [*reduced, (op(0),), (op(0, 3), 0), (op(3, 0), 1, True)],
        "norm1": [*reduced, (op(0),), (op(3, 0), 1, True)],
        "norm2": [*reduced, (op(0),), (op(3, 0), 1, True)],
        "var": [*moments, (op(4, 5),), (op(300, 7), 0), (op(3, 5000), 1)],
        "std": [*moments, (op(4, 5),), (op(300, 7), 0), (op(3, 5000), 1)],
        "max_dim": [*selected, (op(0, 3), 1)],
        "min_dim": [*selected, (op(0, 3), 1)],
        **dict.fromkeys(("_softmax_backward", "_log_softmax_backward"), gradients),
        "_logsumexp": [*selected, (op(0, 3), 1), (op(3, 3000), 1), (op(300, 5), 0)],
        "cumsum": along,
        "cumprod": along,
        "logcumsumexp": along,
        "cummax": along,
        "cummin": along,
        "sort": [
            (op(2, 3, 4), -2, False, True),
            (op(4, 5),),
            (op(4, 5), 0, True, True),
            (op(9), 0),
            (op(),),
            (op(4, 5, layout="transposed"), 1, False, True),
            (op(2, 300), 1, True),
            (op(0),),
        ],
        "topk": [
            (op(4, 5), 3),
            (op(4, 5), 2, 0, False),
            (op(2, 3, 4), 3, -2, True, False),
            (op(9), 0),
            (op(3000), 5),
            (op(4, 5, layout="transposed"), 5, 1),
        ],
        "kthvalue": [(op(4, 5), 2), (op(4, 5), 4, 0, True), (op(9), 1), (op(2, 3000), 1500), (op(0, 3), 1)],
        "mode": [(op(4, 5),), (op(4, 5), 0, True), (op(9),), (op(),), (op(0, 3),)],
        "median_dim": [*selected, (op(2, 3000), 1)],
        "nanmedian_dim": [*selected, (op(2, 3000), 1)],
        "_median": [(op(9),), (op(4, 5),), (op(3, 1000),), (op(),)],
        "_nanmedian": [(op(9),), (op(4, 5),), (op(3, 1000),), (op(),)],
        "searchsorted": [(op(1), op(4, 5)), (op(3, 1), op(3, 4)), (op(0), op(3))],
        "_order_rows": [(op(9, 3),), (op(4, 1),), (op(0, 3),)],
        "_bincount": [
            (op(9, dtype="int64", below=4), None, 6),
            (op(9, dtype="int64", below=4), op(9), 4),
            (op(0, dtype="int64", below=1), None, 3),
        ],
        "_histogramdd": [
            (op(20, 1), op(2), None, (1,), False, True),
            (op(20, 1), op(2), op(20), (1,), True, True),
        ],
        "_segment_reduce": [(op(4, 5), offsets, kind, 1.0, 0) for kind in range(5)],
    }


# Where a formula is smooth: "distinct" elements have distances from each other.
DOMAINS = {
    **dict.fromkeys(("cummax", "cummin", "topk", "kthvalue", "mode", "median_dim", "nanmedian_dim"), "distinct"),
    **dict.fromkeys(("_median", "_nanmedian", "norm1", "sort", "_segment_reduce"), "distinct"),
    **dict.fromkeys(("cumprod", "prod"), "positive"),
}
