"""Order along a dimension: sorting, selecting and searching."""

from __future__ import annotations

from typing import Any

from minitensor._C import Op
from minitensor.ops.elementwise import where
from minitensor.ops.reduction import selected_vjp
from minitensor.ops.row import index, reduction

__all__: list[str] = []

_NAMES = "-> (Tensor values, Tensor indices)"


def _placed_vjp(g: Any, places: Any, x: Any, dim: int) -> Any:
    return selected_vjp(g, places, x, dim, True)


def _shared_vjp(g: Any, out: Any, x: Any) -> Any:
    # Equal elements share the gradient of the selected one.
    mask = where(out == out, x == out, x != x)
    return where(mask, g / mask.sum(), 0.0)


sort: Op = index(
    f"sort(Tensor input, int dim=-1, bool descending=False, bool stable=False) {_NAMES}",
    "The elements in order along dim, and where they came from. Equal elements keep their order; NaN is greatest.",
    raises=False,
    vjp=lambda g, places, _x, dim, descending, stable: _placed_vjp(g, places, _x, dim), method=False, function=False,
)  # fmt: skip
topk = index(
    f"topk(Tensor input, int k, int dim=-1, bool largest=True, bool sorted=True) {_NAMES}",
    """The k largest, or smallest, elements along dim, and where they stood.

    ``values`` and ``indices`` (int64) have the input's shape, with size ``k`` along ``dim``; NaN is greatest. Raises
    RuntimeError if there are fewer than ``k``, IndexError for a dimension that isn't there.
    """,
    raises=False,
    vjp=lambda g, places, _x, k, dim, largest, sorted: _placed_vjp(g, places, _x, dim),
)
kthvalue = index(
    f"kthvalue(Tensor input, int k, int dim=-1, bool keepdim=False) {_NAMES}",
    "The k-th smallest element along dim, and where it stood.",
    raises=False,
    vjp=lambda g, places, _x, k, dim, keepdim: selected_vjp(g, places, _x, dim, keepdim),
)
mode = index(
    f"mode(Tensor input, int dim=-1, bool keepdim=False) {_NAMES}",
    "The most frequent element along dim, the smallest of several, and where it stands last.",
    raises=False,
    vjp=lambda g, places, _x, dim, keepdim: selected_vjp(g, places, _x, dim, keepdim),
)
median_dim = index(
    "median_dim(Tensor input, int dim, bool keepdim=False) -> median(Tensor values, Tensor indices)",
    "The lower of the middle elements along dim, or NaN if there is one, and where it stood.",
    raises=False,
    vjp=lambda g, places, _x, dim, keepdim: selected_vjp(g, places, _x, dim, keepdim), method=False, function=False,
    grad_fn="MedianBackward1",
)  # fmt: skip
nanmedian_dim = index(
    "nanmedian_dim(Tensor input, int dim, bool keepdim=False) -> nanmedian(Tensor values, Tensor indices)",
    "The lower of the middle elements along dim that are not NaN, and where it stood.",
    raises=False,
    vjp=lambda g, places, _x, dim, keepdim: selected_vjp(g, places, _x, dim, keepdim), method=False, function=False,
    grad_fn="NanmedianBackward1",
)  # fmt: skip
median_all = reduction(
    "_median(Tensor input)", "The lower of the middle elements, or NaN if there is one.", vjp=_shared_vjp
)
nanmedian_all = reduction(
    "_nanmedian(Tensor input)", "The lower of the middle elements that are not NaN.", vjp=_shared_vjp
)
searchsorted = index(
    "searchsorted(Tensor sorted_sequence, Tensor values, *, bool out_int32=False, bool right=False, "
    "Tensor? sorter=None)",
    "The first places where the values can stand in sorted rows; after equal elements if `right`.",
    method=False, function=False,
)  # fmt: skip
order_rows = index(
    "_order_rows(Tensor input)", "The places of a matrix's rows in their order, by the first element that differs.",
    raises=False,
)  # fmt: skip
