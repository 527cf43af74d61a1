"""Reductions; the softmax family is in `nn/softmax.py`."""

from __future__ import annotations

import math
from typing import Any

from minitensor import _C
from minitensor._C import Op
from minitensor.ops.elementwise import exp, where
from minitensor.ops.formula import differentiate
from minitensor.ops.row import ROWS, reduction, underived

__all__: list[str] = []


def _dims(x: Any, dim: Any) -> tuple[int, ...]:
    if dim is None or (isinstance(dim, tuple) and not dim):
        return tuple(range(x.ndim))
    return tuple(d % max(x.ndim, 1) for d in ((dim,) if isinstance(dim, int) else dim)) if x.ndim else ()


def _spread(t: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    """A reduced tensor with its reduced dimensions back, as ones, so that it broadcasts against x."""
    if keepdim or t.ndim == 0:
        return t
    for d in sorted(_dims(x, dim)):
        t = t.unsqueeze(d)
    return t


def _count(x: Any, dim: Any) -> int:
    if dim is None:
        return int(x.numel())
    count = 1
    for d in _dims(x, dim):
        count *= x.shape[d]
    return count


_ARGS = "Tensor input, int[]? dim=None, bool keepdim=False"


def _sum_vjp(g: Any, _out: Any, _x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    return _spread(g, _x, dim, keepdim).expand(_x.shape)


def _mean_vjp(g: Any, _out: Any, _x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    return (_spread(g, _x, dim, keepdim) / _count(_x, dim)).expand(_x.shape)


def _mean_lower(b: Any, x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    x = b.to_dtype(x, b.result.dtype)
    count = b.reduced_count(x, dim)
    total = b.reduce_dims(x, "add", dim, keepdim)
    return b.divide(total, b.full(total.shape, count))


def _extreme_vjp(g: Any, out: Any, x: Any, dim: Any, keepdim: bool) -> Any:
    # Equal extremes share the gradient evenly. If the extreme of all is NaN, what is NaN shares it, as in PyTorch's
    # max(); over dimensions nothing equals one that is NaN, and the gradient of all is NaN, as in its amax.
    extreme = _spread(out, x, dim, keepdim)
    mask = x == extreme
    if dim is None:
        mask = where(extreme == extreme, mask, x != x)
    count = mask.sum(dim=_dims(x, dim), keepdim=True) if x.ndim else mask
    return where(mask, _spread(g, x, dim, keepdim), 0.0) / count


def _conj(x: Any) -> Any:
    return x.conj() if x.is_complex() else x


def _prod_vjp(g: Any, _out: Any, x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    x = x if dtype is None else x.to(dtype)
    if x.ndim == 0:
        return g
    if 0 in x.shape:
        return _spread(g, x, dim, keepdim).expand(x.shape)
    if dim is None or g.ndim == 0:
        return _prod_gradient(g.reshape(1), x.reshape(-1), 0).reshape(x.shape)
    return _prod_gradient(_spread(g, x, dim, keepdim), x, dim)


def _prod_gradient(g: Any, x: Any, dim: int) -> Any:
    return g * _others(x, dim).conj() if x.is_complex() else prod_backward(g, x, dim)


def _others(x: Any, dim: int) -> Any:
    # The product of all the other elements, by products from both sides, which is exact also with zeros.
    n = x.shape[dim]
    one = x.new_ones([1 if d == dim % x.ndim else size for d, size in enumerate(x.shape)])
    before = ROWS["cat"].call([one, x.slice(dim, 0, n - 1, 1)], dim)
    after = ROWS["cat"].call([one, x.flip(dim).slice(dim, 0, n - 1, 1)], dim)
    return ROWS["cumprod"].call(before, dim) * ROWS["cumprod"].call(after, dim).flip(dim)


def _prod_backward_vjp(cotangent: Any, _out: Any, g: Any, x: Any, dim: int) -> Any:
    return differentiate(lambda g, x: g * _others(x, dim), (g, x), (cotangent,))


def _nansum_vjp(g: Any, _out: Any, x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    return where(x == x, _spread(g, x, dim, keepdim), 0.0)


def _deviations(x: Any, dim: Any) -> Any:
    return x - x.mean(dim=_dims(x, dim), keepdim=True)


def _var_vjp(g: Any, _out: Any, x: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    freedom = _count(x, dim) - correction
    g = _spread(g, x, dim, keepdim)
    if freedom > 0:
        return g * (2.0 / freedom) * _deviations(x, dim)
    return g * where(_deviations(x, dim) == 0, math.nan, math.inf)


def _std_vjp(g: Any, out: Any, x: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    return _var_vjp(where(out == 0, 0.0, g / (out * 2)), out, x, dim, correction, keepdim)


def _var_lower(b: Any, x: Any, dim: Any, correction: float, keepdim: bool) -> Any:
    count = b.reduced_count(x, dim)
    mean = b.reduce_dims(x, "add", dim, True)
    d = b.subtract(x, b.spread(b.divide(mean, b.full(mean.shape, count)), x))
    total = b.reduce_dims(b.multiply(d, d), "add", dim, keepdim)
    return b.divide(total, b.full(total.shape, max(count - correction, 0)))


def _norm2_vjp(g: Any, out: Any, x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    x = x if dtype is None else x.to(dtype)
    if not _C.recording():
        return x * _spread(where(out == 0, 0.0, g / out), x, dim, keepdim)
    # The same numbers; but at zero, where there is no second derivative, that is NaN.
    return where(_spread(out, x, dim, keepdim) == 0, 0.0, x * _spread(g / out, x, dim, keepdim))


def _nansum_lower(b: Any, x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    x = b.to_dtype(x, b.result.dtype)
    if b.recorded.floating:
        x = b.select(b.compare(x, x, "EQ"), x, b.full(x.shape, 0))
    total = b.reduce_dims(x, "add", dim, keepdim)
    # Of single elements -0 becomes +0, where a sum would be the element itself.
    return b.add(total, b.full(total.shape, 0)) if math.prod(total.dims) == math.prod(x.dims) else total


def _norm1_lower(b: Any, x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    return b.reduce_dims(b.abs(b.to_dtype(x, b.result.dtype)), "add", dim, keepdim)


def _norm2_lower(b: Any, x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    x = b.to_dtype(x, b.result.dtype)
    return b.sqrt(b.reduce_dims(b.multiply(x, x), "add", dim, keepdim))


def _logical_lower(b: Any, x: Any, kind: str, dim: Any, keepdim: bool) -> Any:
    truth = b.truth(x)
    # No dimensions means none here, not all.
    return (
        truth
        if dim is not None and not isinstance(dim, int) and not tuple(dim)
        else b.reduce_dims(truth, kind, dim, keepdim)
    )


sum = reduction(
    f"sum({_ARGS}, *, dtype? dtype=None)", """The sum over the given dimensions, or over all.

    The result lacks these dimensions, or has size 1 there with ``keepdim``. It is in ``dtype`` if that is given, else
    in int64 for integers and bools, else in the input's. Raises IndexError for a dimension that isn't there.
    """,
    out="castable", autocast=("", "float32"),
    lower=lambda b, x, dim, keepdim, dtype: b.reduce_dims(b.to_dtype(x, b.result.dtype), "add", dim, keepdim),
    vjp=_sum_vjp,
    grad_fn={"dim": "SumBackward1"},
)  # fmt: skip
prod = reduction(
    "prod(Tensor input, int? dim=None, bool keepdim=False, *, dtype? dtype=None)",
    "The product along dim, or of all elements.",
    out="castable",
    autocast=("float32", "float32"),
    vjp=_prod_vjp,
    grad_fn={"dim": "ProdBackward1"},
)
prod_backward: Op = reduction(
    "_prod_backward(Tensor grad, Tensor input, int dim)",
    "The gradient of prod along dim: of each element, the product of the others. `grad` has the size 1 along dim.",
    vjp=_prod_backward_vjp, function=False, method=False, inplace=False,
)  # fmt: skip
mean = reduction(
    f"mean({_ARGS}, *, dtype? dtype=None)",
    "The arithmetic mean over the given dimensions, or over all.",
    out="castable",
    lower=_mean_lower,
    vjp=_mean_vjp,
    grad_fn={"dim": "MeanBackward1"},
)
amax = reduction(
    f"amax({_ARGS})",
    "The largest element over the given dimensions.",
    lower=lambda b, x, dim, keepdim: b.reduce_dims(x, "maximum", dim, keepdim),
    vjp=_extreme_vjp,
)
amin = reduction(
    f"amin({_ARGS})",
    "The smallest element over the given dimensions.",
    lower=lambda b, x, dim, keepdim: b.reduce_dims(x, "minimum", dim, keepdim),
    vjp=_extreme_vjp,
)
any = reduction(
    f"any({_ARGS})",
    "Whether any element is non-zero.",
    out="castable",
    lower=lambda b, x, dim, keepdim: _logical_lower(b, x, "or", dim, keepdim),
)
all = reduction(
    f"all({_ARGS})",
    "Whether all elements are non-zero.",
    out="castable",
    lower=lambda b, x, dim, keepdim: _logical_lower(b, x, "and", dim, keepdim),
)
argmax = reduction(
    "argmax(Tensor input, int? dim=None, bool keepdim=False)",
    "The index of the first largest element.",
)
argmin = reduction(
    "argmin(Tensor input, int? dim=None, bool keepdim=False)",
    "The index of the first smallest element.",
)


nansum = reduction(
    f"nansum({_ARGS}, *, dtype? dtype=None)",
    "The sum over the given dimensions, or over all, with NaN as 0.",
    out="castable",
    lower=_nansum_lower,
    vjp=_nansum_vjp,
)
var = reduction(
    "var(Tensor input, int[]? dim=None, float correction=1, bool keepdim=False)",
    "The sum of the squared deviations from the mean, divided by the count less `correction`.",
    out="castable",
    lower=_var_lower, vjp=_var_vjp, function=False, method=False,
)  # fmt: skip
std = reduction(
    "std(Tensor input, int[]? dim=None, float correction=1, bool keepdim=False)",
    "The square root of the variance.",
    out="castable",
    lower=lambda b, x, dim, correction, keepdim: b.sqrt(_var_lower(b, x, dim, correction, keepdim)),
    vjp=_std_vjp, function=False, method=False,
)  # fmt: skip
norm1 = reduction(
    f"norm1({_ARGS}, *, dtype? dtype=None)",
    "The sum of the magnitudes.",
    lower=_norm1_lower, function=False, method=False, grad_fn="LinalgVectorNormBackward0",
    vjp=lambda g, _out, x, dim, keepdim, dtype: _spread(g, x, dim, keepdim) * x.sign(),
)  # fmt: skip
norm2 = reduction(
    f"norm2({_ARGS}, *, dtype? dtype=None)",
    "The square root of the sum of the squares.",
    lower=_norm2_lower, vjp=_norm2_vjp, function=False, method=False, grad_fn="LinalgVectorNormBackward0",
)  # fmt: skip


def selected_vjp(g: Any, results: Any, x: Any, dim: int, keepdim: bool) -> Any:
    """The gradient of an op that selects elements along dim and says where they stood."""
    values, places = g[0], results[1]
    if not keepdim and x.ndim:
        values, places = values.unsqueeze(dim), places.unsqueeze(dim)
    return values.new_zeros(x.shape).scatter_add(dim, places, values)


max_dim = reduction(
    "max_dim(Tensor input, int dim, bool keepdim=False)",
    "The largest elements along dim and their indices.",
    vjp=lambda g, places, _x, dim, keepdim: selected_vjp(g, places, _x, dim, keepdim), function=False, method=False,
    grad_fn="MaxBackward0",
)  # fmt: skip
min_dim = reduction(
    "min_dim(Tensor input, int dim, bool keepdim=False)",
    "The smallest elements along dim and their indices.",
    vjp=lambda g, places, _x, dim, keepdim: selected_vjp(g, places, _x, dim, keepdim), function=False, method=False,
    grad_fn="MinBackward0",
)  # fmt: skip


def _logsumexp_lower(b: Any, x: Any, dim: int, keepdim: bool) -> Any:
    m = b.reduce_dims(x, "maximum", (dim,), True)
    infinite = b.compare(b.abs(m), b.full(m.shape, math.inf), "EQ")
    m = b.select(infinite, b.full(m.shape, 0), m)
    total = b.reduce_dims(b.exponential(b.subtract(x, b.spread(m, x))), "add", (dim,), True)
    result = b.add(b.log(total), m)
    return b.reshape(result, b.result.dims)


def _logsumexp_vjp(g: Any, out: Any, x: Any, dim: int, keepdim: bool) -> Any:
    # Where everything is -inf, exp(x - out) would be that of NaN.
    out = where(out == -math.inf, 0.0, out)
    return _spread(g, x, dim, keepdim) * exp(x - _spread(out, x, dim, keepdim))


logsumexp = reduction(
    "_logsumexp(Tensor input, int dim, bool keepdim=False)",
    "The logarithm of the sum of exp(x) along dim.",
    lower=_logsumexp_lower, vjp=_logsumexp_vjp,
)  # fmt: skip


# ---- counts


bincount = reduction(
    "_bincount(Tensor input, Tensor? weights, int size)",
    "How often each number from 0 to size - 1 stands in the vector, or the sums of their weights.",
    vjp=underived("bincount"),
    raises=True,
)
histogramdd = reduction(
    "_histogramdd(Tensor input, Tensor edges, Tensor? weight, int[] bins, bool uniform, bool search)",
    "How many points, rows of a matrix, lie in each cell of a grid.",
    vjp=underived("histogram"),
)


def _segment_reduce_vjp(g: Any, out: Any, data: Any, offsets: Any, kind: int, initial: Any, axis: int) -> Any:
    lengths = offsets.slice(axis, 1, offsets.shape[axis], 1) - offsets.slice(axis, 0, offsets.shape[axis] - 1, 1)
    places = segment_of(offsets, data.shape[axis], axis)
    for d in range(axis + 1, data.ndim):
        places, lengths = places.unsqueeze(d), lengths.unsqueeze(d)
    shape = (*data.shape[:axis], data.shape[axis], *data.shape[axis + 1 :])
    inside = places.expand(shape)
    count = out.shape[axis]
    within = where(inside < count, inside, 0)

    def back(t: Any) -> Any:
        return t.expand(out.shape).gather(axis, within)

    if kind == 1:
        g = g / where(lengths == 0, 1, lengths)
    elif kind in (2, 3):
        # Equal extremes share the gradient; the initial value is not among them.
        extreme = back(out)
        hit = ((data == extreme) | ((data != data) & (extreme != extreme))).to(g.dtype)
        shares = g.new_zeros(out.shape).scatter_add(axis, within, where(inside < count, hit, 0.0))
        return where(inside < count, back(g / where(shares == 0, 1.0, shares)) * hit, 0.0)
    elif kind == 4:
        zero = (data == 0) & (inside < count)
        present = where(zero, 1.0, data)
        products = segment_reduce(present, offsets, kind, initial, axis)
        zeros = g.new_zeros(out.shape).scatter_add(axis, within, zero.to(g.dtype))
        # Without the one zero of a segment, the others' product is left; with two, nothing.
        others = where(back(zeros) == zero.to(g.dtype), back(g * products) / present, 0.0)
        return where(inside < count, others, 0.0)
    return where(inside < count, back(g), 0.0)


def segment_of(offsets: Any, n: int, axis: int) -> Any:
    """For every place along axis the number of its segment; the number of segments where it is in none."""
    from minitensor.ops.creation import arange

    places = arange(0, n, device=offsets.device).expand((*offsets.shape[:axis], n))
    found = ROWS["searchsorted"].call(offsets, places.contiguous(), right=True) - 1
    return where(found < 0, offsets.shape[axis] - 1, found)


segment_reduce = reduction(
    "_segment_reduce(Tensor data, Tensor offsets, int kind, float? initial, int axis)",
    "Consecutive slices along axis reduced together.", raises=True,
    vjp=lambda g, out, data, offsets, kind, initial, axis: (
        _segment_reduce_vjp(g, out, data, offsets, kind, initial, axis), None
    ),
)  # fmt: skip
