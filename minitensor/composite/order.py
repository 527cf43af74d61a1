"""Sorting, selecting and searching in more forms, and distinct elements."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._functions.named_results import named
from minitensor.composite.dims import normal_dim
from minitensor.composite.registry import autocast, composite, shortcut
from minitensor.ops import ROWS
from minitensor.ops.checks import refuse_where
from minitensor.ops.elementwise import where

__all__: list[str] = []

Tensor = _C.Tensor
_FIELDS = ("values", "indices")


@composite(out="exact")
@shortcut("T?ibb", ROWS["sort"].call, after=(-1, False, False))
def sort(input: Any, dim: int = -1, descending: bool = False, stable: bool | None = False) -> Any:
    """The elements in order along dim, and their indices. The order is stable whatever `stable` says."""
    return named("sort", _FIELDS)(*ROWS["sort"].call(input, dim, descending, bool(stable)))


@composite()
def argsort(
    input: Any, dim: int = -1, descending: bool = False, stable: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """The indices that sort the tensor along dim; `out` only where it is `stable`."""
    if out is None:
        return ROWS["sort"].call(input, dim, descending, stable)[1]
    if not stable:
        raise TypeError("argsort(): takes 'out' with 'stable' only")
    _C.check_out("argsort", out, (input,), {})
    return _C.store_out("argsort", ROWS["sort"].call(input, dim, descending, stable)[1], out, "exact")


@composite(out="exact")
def msort(input: Any) -> Tensor:
    """The elements in order along the first dimension."""
    return ROWS["sort"].call(input, 0, False, False)[0]


@composite(out="exact")
def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower of the middle elements, NaN if there is one; along dim, with their indices."""
    if dim is None:
        return ROWS["_median"].call(input)
    return named("median", _FIELDS)(*ROWS["median_dim"].call(input, dim, keepdim))


@composite(out="exact")
def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The lower of the middle elements that are not NaN; along dim, with their indices."""
    if dim is None:
        return ROWS["_nanmedian"].call(input)
    return named("nanmedian", _FIELDS)(*ROWS["nanmedian_dim"].call(input, dim, keepdim))


# ---- quantiles

_INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def _quantile(input: Any, q: Any, dim: int | None, keepdim: bool, interpolation: str, name: str) -> Any:
    if input.numel() == 0:
        raise RuntimeError(f"{name}() input tensor must be non-empty")
    if isinstance(q, Tensor):
        if q.ndim > 1:
            raise RuntimeError(f"{name}() q must be a scalar or 1D tensor")
    elif _C.is_of_kind("float", q):
        q = float(q)
        if not 0 <= q <= 1:
            raise RuntimeError(f"{name}() q must be in the range [0, 1] but got {q:g}")
    else:
        raise TypeError(f"{name}(): argument 'q' must be Tensor or float, not {type(q).__name__}")
    if input.dtype not in (_C.float32, _C.float64):
        raise RuntimeError(f"{name}() input tensor must be either float or double dtype")
    if interpolation not in _INTERPOLATIONS:
        raise RuntimeError(
            f"{name}() interpolation must be one of linear, lower, higher, midpoint or nearest, but got {interpolation}"
        )
    if not isinstance(q, Tensor):
        q = _C.tensor_from_data(q, input.dtype, input.device, True)
    elif q.dtype is not input.dtype:
        raise RuntimeError(f"{name}() q tensor must be same dtype as the input tensor")
    else:
        refuse_where(((q >= 0) & (q <= 1)).logical_not(), "quantile() q values must be in the range [0, 1]")
    place = 0 if dim is None else normal_dim(dim, input.ndim)
    if dim is None or input.ndim == 0:
        rows = input.reshape(-1)
    else:
        rows = input.permute([*(d for d in range(input.ndim) if d != place), place])
    # [*kept, q]
    values = _at_ranks(
        ROWS["sort"].call(rows, -1, False, False)[0], q.reshape((-1,)), interpolation, name == "quantile"
    )
    values = values.permute((values.ndim - 1, *range(values.ndim - 1)))
    if keepdim and input.ndim:
        values = values.reshape((-1,) + (1,) * input.ndim) if dim is None else values.unsqueeze(place + 1)
    return values if q.ndim else _C.forget_base(values.select(0, 0))


def _at_ranks(ordered: Any, q: Any, interpolation: str, with_nan: bool) -> Any:
    """The quantiles of sorted rows, in which NaN stands last: a row with one is NaN, or NaN is left out."""
    n = ordered.shape[-1]
    nan = ordered != ordered
    if with_nan:
        ranks = where(nan.any(-1, True), float(n - 1), q * (n - 1))
    else:
        last = n - 1 - nan.sum(-1, True)
        ranks = q * where(last < 0, n - 1, last).to(q.dtype)
    if interpolation == "lower":
        ranks = ranks.floor()
    elif interpolation == "higher":
        ranks = ranks.ceil()
    elif interpolation == "nearest":
        ranks = ranks.round()
    below = ranks.to(_C.int64)
    values = ordered.gather(-1, below)
    if interpolation not in ("linear", "midpoint"):
        return values
    weight = ranks - below if interpolation == "linear" else where(ranks == below, 0.0, 0.5).to(q.dtype)
    above = ordered.gather(-1, ranks.ceil().to(_C.int64))
    step = above - values
    return where(weight < 0.5, values + weight * step, above - step * (1 - weight))


@composite(out="exact")
@autocast("float32", "")
def quantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The q-quantiles of all elements or along dim; where rows have NaN they are NaN.

    `interpolation` says what to give between two elements: linear, lower, higher, midpoint or nearest.
    """
    return _quantile(input, q, dim, keepdim, interpolation, "quantile")


@composite(out="exact")
@autocast("float32", "")
def nanquantile(
    input: Any, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Tensor:
    """The q-quantiles of the elements that are not NaN; see `quantile`."""
    return _quantile(input, q, dim, keepdim, interpolation, "nanquantile")


# ---- searching


def _boundary(value: Any) -> Any:
    """A Python number as a 0-d tensor."""
    return value if isinstance(value, Tensor) else _C.tensor_from_data(value, None, None, True)


def _comparable(a: Any, b: Any) -> tuple[Any, Any]:
    """Two tensors, a bool one in the dtype of the other."""
    if a.dtype == b.dtype or _C.bool not in (a.dtype, b.dtype):
        return a, b
    return (a.to(b.dtype), b) if a.dtype == _C.bool else (a, b.to(a.dtype))


def _sizes(t: Any) -> str:
    return str(list(t.shape))


@composite(out="exact", method=False)
def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Tensor:
    """The first indices in the sorted last dimension before which the values can be inserted.

    After equal elements if `right` (or `side` is "right"). `sorter` has the indices that sort a sequence which is not
    sorted.
    """
    if side is not None and side not in ("left", "right"):
        raise RuntimeError(f"torch.searchsorted(): side can only be 'left' or 'right' but got {side}")
    if side == "left" and right:
        raise RuntimeError(
            "torch.searchsorted(): side and right can't be set to opposites, got side of left while right was True"
        )
    if sorter is not None:
        if tuple(sorter.shape) != tuple(sorted_sequence.shape):
            raise RuntimeError(
                "torch.searchsorted(): boundary and sorter must have the same size, but got boundary tensor "
                f"{_sizes(sorted_sequence)}and got sorter tensor {_sizes(sorter)}"
            )
        if sorter.dtype is not _C.int64:
            raise RuntimeError(
                "torch.searchsorted(): sorter must be a tensor of long dtype but got dtype "
                f"{_C.type_name(sorter.dtype)}"
            )
    values = _boundary(input)
    if sorted_sequence.ndim == 0 and sorted_sequence.numel() > 0:
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should have positive dimension, but got 0 dimension"
        )
    if values.ndim == 0 and sorted_sequence.ndim != 1:
        raise RuntimeError(
            "torch.searchsorted(): input value can be a scalar only when boundaries tensor dimension is 1, but we got "
            f"boundaries tensor dim({sorted_sequence.ndim}) and input value's dim(0) numel(1)"
        )
    if sorted_sequence.ndim != 1 and tuple(sorted_sequence.shape[:-1]) != tuple(values.shape[:-1]):
        raise RuntimeError(
            "torch.searchsorted(): boundaries tensor should be 1 dimension or the first N-1 dimensions of boundaries "
            f"tensor and input value tensor must match, but we got boundaries tensor {_sizes(sorted_sequence)} and "
            f"input value tensor {_sizes(values)}"
        )
    sorted_sequence, values = _comparable(sorted_sequence, values)
    return ROWS["searchsorted"].call(
        sorted_sequence, values, out_int32=out_int32, right=right or side == "right", sorter=sorter
    )


@composite(out="exact", method=False)
def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The index of the bucket between the boundaries that each value falls into."""
    if boundaries.ndim != 1:
        raise RuntimeError(f"boundaries tensor must be 1 dimension, but got dim({boundaries.ndim})")
    values = _boundary(input)
    boundaries, values = _comparable(boundaries, values)
    return ROWS["searchsorted"].call(boundaries, values, out_int32=out_int32, right=right)


# ---- distinct elements


def _runs(starts: Any) -> tuple[Any, Any]:
    """Of a mask of the first places of runs: these places, and the runs' lengths."""
    first = ROWS["nonzero"].call(starts).reshape((-1,))
    n = starts.shape[0]
    end = ROWS["cat"].call([first.slice(0, 1, first.shape[0], 1), first.new_full((min(n, 1),), n)], 0)
    return first, end - first


def _starts(differs: Any) -> Any:
    return ROWS["cat"].call([differs.new_ones((1,)), differs], 0)


def _results(values: Any, inverse: Any, counts: Any, return_inverse: bool, return_counts: bool) -> Any:
    wanted = (values, *((inverse,) if return_inverse else ()), *((counts,) if return_counts else ()))
    return wanted if len(wanted) > 1 else values


def _refuse_complex(input: Any, name: str) -> None:
    if input.is_complex():
        raise NotImplementedError(f"\"{name}\" not implemented for '{_C.type_name(input.dtype)}'")


def _numbers(starts: Any) -> Any:
    """Of every place, the number of its run."""
    return starts.cumsum(0) - 1


def _slices(input: Any, dim: int, name: str) -> tuple[Any, int]:
    """The slices along dim as the rows of a matrix."""
    if input.ndim == 0:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    place = normal_dim(dim, input.ndim)
    if input.numel() == 0 and input.shape[place] != 0:
        raise RuntimeError(f"There are 0 sized dimensions, and they aren't selected, so {name} cannot be applied")
    rows = input.permute((place, *(d for d in range(input.ndim) if d != place)))
    n = rows.shape[0]
    return rows.reshape((n, rows.numel() // n if n else 0)), place


@composite()
def unique(
    input: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The distinct elements, or slices along dim, in order.

    With return_inverse also, for every element, the index of its value, and with return_counts how often each occurs.
    """
    _refuse_complex(input, "unique")
    if dim is not None:
        rows, place = _slices(input, dim, "unique")
        order = ROWS["_order_rows"].call(rows)
        rows = rows.index_select(0, order)
        differs = (rows.slice(0, 1, rows.shape[0], 1) != rows.slice(0, 0, max(rows.shape[0] - 1, 0), 1)).any(1)
        found, inverse, counts = _distinct(order, differs)
        return _results(input.index_select(place, found), inverse, counts, return_inverse, return_counts)
    flat = input.reshape(-1)
    ordered, order = ROWS["sort"].call(flat, 0, False, False)
    n = flat.shape[0]
    if not return_inverse and not return_counts:
        differs = ordered.slice(0, 1, n, 1) != ordered.slice(0, 0, max(n - 1, 0), 1)
        return ordered.masked_select(_starts(differs)) if n else ordered
    differs = ordered.slice(0, 1, n, 1) != ordered.slice(0, 0, max(n - 1, 0), 1)
    found, inverse, counts = _distinct(order, differs)
    return _results(flat.index_select(0, found), inverse.reshape(input.shape), counts, return_inverse, return_counts)


def _distinct(order: Any, differs: Any) -> tuple[Any, Any, Any]:
    """Of sorted elements: where the first of each value stands, the inverse and the counts."""
    if order.shape[0] == 0:
        return order, order, order
    starts = _starts(differs)
    first, counts = _runs(starts)
    inverse = order.new_zeros(order.shape).index_copy(0, order, _numbers(starts))
    return order.index_select(0, first), inverse, counts


@composite()
def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first of every run of equal elements, or slices along dim; with inverse and counts as `unique`."""
    _refuse_complex(input, "unique")
    if dim is None:
        rows, place, shape = input.reshape(-1), 0, tuple(input.shape)
        n = rows.shape[0]
        differs = rows.slice(0, 1, n, 1) != rows.slice(0, 0, max(n - 1, 0), 1)
    else:
        rows, place = _slices(input, dim, "unique_consecutive")
        n, shape = rows.shape[0], (rows.shape[0],)
        differs = (rows.slice(0, 1, n, 1) != rows.slice(0, 0, max(n - 1, 0), 1)).any(1)
    source = rows if dim is None else input
    if n == 0:
        empty = rows.new_zeros((0,), dtype=_C.int64)
        return _results(source, empty.reshape(shape), empty, return_inverse, return_counts)
    starts = _starts(differs)
    first, counts = _runs(starts)
    inverse = _numbers(starts).reshape(shape)
    return _results(source.index_select(place, first), inverse, counts, return_inverse, return_counts)
