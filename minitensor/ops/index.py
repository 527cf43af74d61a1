"""Ops that read or write elements chosen by an index tensor."""

from __future__ import annotations

from typing import Any

from minitensor._C import Op
from minitensor.ops.creation import full
from minitensor.ops.row import index
from minitensor.ops.scatter import onto_zeros, zeros_for

__all__: list[str] = []


def _zero(g: Any) -> Any:
    return full((), 0, dtype=g.dtype, device=g.device)


def _index_select_lower(b: Any, x: Any, i: Any, dim: int) -> Any:
    if x.dims:
        return b.take(x, i, dim, low=0)
    return b.reshape(b.take(b.reshape(x, (1,)), i, 0, low=0), b.result.dims)


index_select: Op = index(
    "index_select(Tensor input, Tensor index, int dim)",
    "The slices of input along dim that index names; index may have any shape.",
    lower=_index_select_lower,
    vjp=lambda g, _out, _x, i, dim: (onto_zeros(index_add, _x, g, i, g, dim), None),
)  # fmt: skip
index_add: Op = index(
    "index_add(Tensor input, Tensor index, Tensor src, int dim)",
    "input with src added to the slices that index names.",
    lower=lambda b, x, i, src, dim: b.put(x, i, src, dim, "add", low=0), inplace=True,
    vjp=lambda g, _out, _x, i, _src, dim: (g, None, lambda: index_select(g, i, dim)),
)  # fmt: skip
index_copy: Op = index(
    "index_copy(Tensor input, Tensor index, Tensor src, int dim)",
    "input with the slices that index names replaced by src.",
    lower=lambda b, x, i, src, dim: b.put(x, i, src, dim, "assign", low=0), inplace=True,
    vjp=lambda g, _out, _x, i, _src, dim: (
        lambda: index_copy(g, i, zeros_for(_src, g), dim), None, lambda: index_select(g, i, dim)
    ),
)  # fmt: skip


# ---- what x[...] with index tensors is made of


def _merged(b: Any, x: Any, dims: Any) -> tuple[Any, int, tuple[int, ...]]:
    """x with the indexed dimensions as one, its place, and the order of x's dimensions before that."""
    rank, count = len(x.dims), len(dims)
    first = dims[0]
    order = tuple(range(rank))
    if tuple(dims) != tuple(range(first, first + count)):
        order, first = (*dims, *(d for d in range(rank) if d not in dims)), 0
        x = b.transpose(x, order)
    size = 1
    for n in x.dims[first : first + count]:
        size *= n
    shape = (*x.dims[:first], size, *x.dims[first + count :])
    return b.reshape(x, shape) if shape != x.dims else x, first, order


def _index_lower(b: Any, x: Any, i: Any, dims: Any, checked: bool) -> Any:
    merged, place, _ = _merged(b, x, dims)
    return b.take(merged, i, place, checked=checked)


def _index_put_lower(b: Any, x: Any, i: Any, values: Any, dims: Any, checked: bool, accumulate: bool) -> Any:
    merged, place, order = _merged(b, x, dims)
    shape = (*merged.dims[:place], *i.dims, *merged.dims[place + 1 :])
    written = b.put(merged, i, b.broadcast_to(values, shape), place, "add" if accumulate else "assign", checked=checked)
    written = b.reshape(written, tuple(x.dims[d] for d in order))
    inverse = tuple(order.index(d) for d in range(len(order)))
    return b.transpose(written, inverse) if inverse != tuple(range(len(order))) else written


def _flat_index_lower(b: Any, *arguments: Any) -> Any:
    *indices, sizes, _dims = arguments
    flat = None
    for place, (i, size) in enumerate(zip(indices, sizes, strict=True)):
        b.check_index(place, -size, size)
        i = b.broadcast_to(b.wrapped(i, size), b.result.dims)
        flat = i if flat is None else b.add(b.multiply(flat, b.full(b.result, size)), i)
    return flat


index_at: Op = index(
    "_index(Tensor input, Tensor index, int[] dims, bool checked)",
    "input[..., index, ...]: the index counts through dims, which are in its place if they are neighbours, and "
    "otherwise in front. It is known to be within bounds if it was checked.",
    lower=_index_lower,
    vjp=lambda g, _out, _x, i, dims, checked: (onto_zeros(index_put_at, _x, g, i, g, dims, checked, True), None),
)  # fmt: skip
index_put_at: Op = index(
    "_index_put(Tensor input, Tensor index, Tensor values, int[] dims, bool checked, bool accumulate)",
    "input with values, broadcast, written at `_index`'s places, or added to them.",
    lower=_index_put_lower, inplace=True,
    vjp=lambda g, _out, _x, i, _values, dims, checked, accumulate: (
        g if accumulate else lambda: index_put_at(g, i, _zero(g), dims, checked, False),
        None,
        lambda: index_at(g, i, dims, checked),
    ),
)  # fmt: skip
flat_index: Op = index(
    "_flat_index(Tensor[] indices, int[] sizes, int[] dims)",
    "Indices into dimensions of these sizes, broadcast and checked, as one index that counts through them.",
    lower=_flat_index_lower,
)  # fmt: skip


def _nll_vjp(g: Any, _out: Any, _x: Any, target: Any, ignore_index: int) -> tuple[Any, Any]:
    return nll_loss_backward(g, target, _x.shape[1], ignore_index), None


def _nll_lower(b: Any, x: Any, t: Any, ignore_index: int) -> Any:
    ignored = b.compare(t, b.full(t.shape, ignore_index), "EQ")
    places = b.select(ignored, b.full(t.shape, 0), t)
    picked = b.negate(b.reshape(b.gather_along(x, b.reshape(places, (*t.dims, 1)), 1, ignored=ignore_index), t.dims))
    return b.select(ignored, b.full(picked.shape, 0), picked)


def _nll_backward_lower(b: Any, g: Any, t: Any, classes: int, ignore_index: int) -> Any:
    g = b.negate(g)
    if 0 <= ignore_index < classes:
        g = b.select(b.compare(t, b.full(t.shape, ignore_index), "EQ"), b.full(g.shape, 0), g)
    return b.one_hot_select(t, g, classes)


def _nll_backward_vjp(g: Any, _out: Any, _grad: Any, target: Any, classes: int, ignore_index: int) -> Any:
    return nll_loss(g, target, ignore_index), None


nll_loss = index(
    "nll_loss(Tensor input, Tensor target, int ignore_index=-100)",
    "-input[n, target[n]] for every row n; 0 where target[n] is ignore_index.",
    autocast=("float32", "float32"), lower=_nll_lower, vjp=_nll_vjp, method=False,
)  # fmt: skip


def _nll_counted(b: Any, t: Any, ignore_index: int, dtype: str) -> Any:
    """How many targets are not to be ignored."""
    ignored = b.compare(t, b.full(t.shape, ignore_index), "EQ")
    return b.to_dtype(
        b.reduce_dims(b.select(ignored, b.full(t.shape, 0), b.full(t.shape, 1)), "add", None, False), dtype
    )


def _nll_mean_lower(b: Any, x: Any, t: Any, ignore_index: int) -> Any:
    x = b.widened(x)
    total = b.reduce_dims(_nll_lower(b, x, t, ignore_index), "add", None, False)
    return b.divide(total, _nll_counted(b, t, ignore_index, x.dtype))


def _nll_mean_backward_lower(b: Any, g: Any, t: Any, classes: int, ignore_index: int) -> Any:
    g = b.widened(g)
    share = b.divide(g, _nll_counted(b, t, ignore_index, g.dtype))
    return _nll_backward_lower(b, b.broadcast(share, t.dims, ()), t, classes, ignore_index)


nll_loss_mean = index(
    "nll_loss_mean(Tensor input, Tensor target, int ignore_index=-100)",
    "The mean of -input[n, target[n]] over the rows whose target is not ignore_index; NaN if there are none.",
    autocast=("float32", "float32"), lower=_nll_mean_lower, function=False, method=False, grad_fn="NllLossBackward0",
    vjp=lambda g, _out, _x, t, ignored: (nll_loss_mean_backward(g, t, _x.shape[1], ignored), None),
)  # fmt: skip
nll_loss_mean_backward: Op = index(
    "nll_loss_mean_backward(Tensor grad, Tensor target, int classes, int ignore_index=-100)",
    "-grad, divided by the number of targets that are not ignore_index, at [n, target[n]] for those; zero elsewhere.",
    lower=_nll_mean_backward_lower, function=False, method=False,
    vjp=lambda g, _out, _grad, t, classes, ignored: (nll_loss_mean(g, t, ignored), None),
)  # fmt: skip
nll_loss_backward: Op = index(
    "nll_loss_backward(Tensor grad, Tensor target, int classes, int ignore_index=-100)",
    "-grad[n] at [n, target[n]], unless that is ignore_index; zero elsewhere.",
    lower=_nll_backward_lower, function=False, method=False, vjp=_nll_backward_vjp,
)  # fmt: skip
