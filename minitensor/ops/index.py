"""Ops that read or write elements chosen by an index tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor._C import Op
from minitensor.ops.row import index, movement, opaque

__all__: list[str] = []


def _index_is_argument(position: int) -> Callable[[Any], str | None]:
    """Compiled code reads indices unchecked; bounds are checked before the launch, so they must be there by then."""

    def refuse(call: Any) -> str | None:
        return (
            None
            if call.is_leaf(position)
            else "its indices are computed by the recorded program, so they can't be checked before a launch"
        )

    return refuse


def _gather_vjp(g: Any, _out: Any, _x: Any, i: Any, dim: int) -> tuple[Any, Any]:
    return scatter_add(_zeros(_x, g), i, g, dim), None


def _zeros(x: Any, g: Any) -> Any:
    from minitensor.ops.creation import full

    return full(tuple(x.shape), 0, dtype=g.dtype)


def _within(x: Any, g: Any) -> Any:
    """The gradient of x's leading corner, with zeros for the rest of x."""
    if tuple(x.shape) == tuple(g.shape):
        return g
    whole = _zeros(x, g)
    whole[tuple(slice(n) for n in g.shape)] = g
    return whole


gather: Op = index(
    "gather(Tensor input, Tensor index, int dim)", "input[i][index[i][j]] for dim 1, and so on.",
    lower=lambda b, x, i, dim: b.gather_along(x, i, dim), refuse=_index_is_argument(1), vjp=_gather_vjp,
)  # fmt: skip
scatter_add: Op = index(
    "scatter_add(Tensor input, Tensor index, Tensor src, int dim)",
    "input with src added at the places that index names along dim.",
    lower=lambda b, x, i, src, dim: b.scatter_along(x, i, src, dim, "add"), refuse=_index_is_argument(1), inplace=True,
    vjp=lambda g, _out, _x, i, _src, dim: (g, None, _within(_src, gather(g, i, dim))),
)  # fmt: skip
index_select: Op = index(
    "index_select(Tensor input, Tensor index, int dim)",
    "The slices of input along dim that index names; index may have any shape.",
    lower=lambda b, x, i, dim: b.take(x, i, dim), refuse=_index_is_argument(1),
    vjp=lambda g, _out, _x, i, dim: (index_add(_zeros(_x, g), i, g, dim), None),
)  # fmt: skip
index_add: Op = index(
    "index_add(Tensor input, Tensor index, Tensor src, int dim)",
    "input with src added to the slices that index names.",
    lower=lambda b, x, i, src, dim: b.put(x, i, src, dim, "add"), refuse=_index_is_argument(1), inplace=True,
    vjp=lambda g, _out, _x, i, _src, dim: (g, None, index_select(g, i, dim)),
)  # fmt: skip
index_copy: Op = index(
    "index_copy(Tensor input, Tensor index, Tensor src, int dim)",
    "input with the slices that index names replaced by src.",
    lower=lambda b, x, i, src, dim: b.put(x, i, src, dim, "assign"), refuse=_index_is_argument(1), inplace=True,
    vjp=lambda g, _out, _x, i, _src, dim: (index_copy(g, i, _zeros(_src, g), dim), None, index_select(g, i, dim)),
)  # fmt: skip


def _nll_vjp(g: Any, _out: Any, _x: Any, target: Any) -> tuple[Any, Any]:
    return nll_loss_backward(g, target, _x.shape[1]), None


nll_loss = index(
    "nll_loss(Tensor input, Tensor target)", "-input[n, target[n]] for every row n.",
    lower=lambda b, x, t: b.negate(b.reshape(b.gather_along(x, b.reshape(t, (*t.dims, 1)), 1, low=0), t.dims)),
    refuse=_index_is_argument(1), vjp=_nll_vjp, method=False,
)  # fmt: skip
nll_loss_backward: Op = index(
    "nll_loss_backward(Tensor grad, Tensor target, int classes)", "-grad[n] at [n, target[n]], zero elsewhere.",
    lower=lambda b, g, t, classes: b.one_hot_select(t, b.negate(g), classes), function=False, method=False,
    vjp=lambda g, _out, _grad, target, classes: (-gather(g, target.unsqueeze(1), 1).squeeze(1), None),
)  # fmt: skip


def _sort_vjp(g: Any, _out: Any, x: Any, dim: int, descending: bool, stable: bool) -> Any:
    places = sort(x, dim, descending, stable)[1]
    return scatter_add(_zeros(x, g[0]), places, g[0], dim)


_cumsum_doc = "The sums of the elements up to each place along dim."
cumsum: Op = movement(
    "cumsum(Tensor input, int dim, *, dtype? dtype=None)", _cumsum_doc,
    vjp=lambda g, _out, _x, dim, dtype: g.sum(dim=dim, keepdim=True) - cumsum(g, dim) + g,
)  # fmt: skip
sort: Op = index(
    "sort(Tensor input, int dim=-1, bool descending=False, bool stable=False)",
    "The elements in order along dim, and where they came from.",
    vjp=_sort_vjp,
)


# ---- results whose shape depends on the data

_DATA = "the shape of its result depends on the data"
nonzero = opaque(
    "nonzero(Tensor input)",
    "The indices of the elements that are not zero, one row each.",
    why=_DATA,
    kernel=_C.nonzero,
)
masked_select = opaque(
    "masked_select(Tensor input, Tensor mask)",
    "The elements where mask holds, in order.",
    why=_DATA,
    kernel=_C.masked_select,
    vjp=lambda g, _out, _x, mask: (_masked_scatter(g, _x, mask), None),
)


def _masked_scatter(g: Any, x: Any, mask: Any) -> Any:
    from minitensor.ops.creation import full

    positions = nonzero(mask.expand(x.shape).reshape((-1,))).reshape((-1,))
    flat = full((x.numel(),), 0, dtype=g.dtype)
    return index_copy(flat, positions, g, 0).reshape(tuple(x.shape))


def _unique_kernel(x: Any, return_inverse: bool, return_counts: bool) -> Any:
    import numpy as np

    found = np.unique(x.numpy(), return_inverse=True, return_counts=True)
    values, inverse, counts = (_C.tensor_from_data(np.ascontiguousarray(a), None, None, True) for a in found)
    return (values, inverse.reshape(x.shape), counts)


unique = opaque(
    "unique(Tensor input, bool return_inverse=False, bool return_counts=False)",
    "The distinct elements, sorted.",
    why=_DATA,
    kernel=_unique_kernel,
)
