"""Reductions, and the softmax family."""

from __future__ import annotations

from typing import Any

from minitensor.ops.elementwise import exp, holomorphic, where
from minitensor.ops.row import ROWS, reduction

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
    # Equal extremes share the gradient evenly, as PyTorch's amax does.
    mask = x == _spread(out, x, dim, keepdim)
    count = mask.sum(dim=_dims(x, dim), keepdim=True) if x.ndim else 1
    return where(mask, _spread(g, x, dim, keepdim) / count, 0.0)


def _prod_vjp(g: Any, out: Any, x: Any, dim: Any, keepdim: bool, dtype: Any) -> Any:
    # Exact also with zeros: the product of all the other elements, by products from both sides.
    if 0 in x.shape:
        return _spread(g, x, dim, keepdim).expand(x.shape)
    dims = _dims(x, dim)
    order = [d for d in range(x.ndim) if d not in dims] + list(dims)
    kept = [x.shape[d] for d in order[: x.ndim - len(dims)]]
    flat = x.permute(order).reshape([*kept, -1])
    n = flat.shape[-1]
    columns = [flat.select(-1, i) for i in range(n)]
    before: list[Any] = [None] * n
    after: list[Any] = [None] * n
    for i in range(1, n):
        before[i] = columns[i - 1] if before[i - 1] is None else before[i - 1] * columns[i - 1]
        j = n - 1 - i
        after[j] = columns[j + 1] if after[j + 1] is None else after[j + 1] * columns[j + 1]
    others = []
    for i in range(n):
        parts = [t for t in (before[i], after[i]) if t is not None]
        product = columns[i] * 0 + 1 if not parts else parts[0] if len(parts) == 1 else parts[0] * parts[1]
        others.append(product.unsqueeze(-1))
    stacked = ROWS["cat"].call(others, -1).reshape([x.shape[d] for d in order])
    inverse = sorted(range(x.ndim), key=order.__getitem__)
    return _spread(g, x, dim, keepdim) * stacked.permute(inverse)


sum = reduction(
    f"sum({_ARGS}, *, dtype? dtype=None)", "The sum over the given dimensions, or over all.",
    lower=lambda b, x, dim, keepdim, dtype: b.reduce_dims(b.to_dtype(x, b.result.dtype), "add", dim, keepdim),
    vjp=_sum_vjp,
)  # fmt: skip
prod = reduction(
    f"prod({_ARGS}, *, dtype? dtype=None)",
    "The product over the given dimensions, or over all.",
    vjp=holomorphic(_prod_vjp),
)
mean = reduction(
    f"mean({_ARGS}, *, dtype? dtype=None)",
    "The arithmetic mean over the given dimensions, or over all.",
    lower=_mean_lower,
    vjp=_mean_vjp,
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
    lower=lambda b, x, dim, keepdim: b.reduce_dims(b.truth(x), "or", dim, keepdim),
)
all = reduction(
    f"all({_ARGS})",
    "Whether all elements are non-zero.",
    lower=lambda b, x, dim, keepdim: b.reduce_dims(b.truth(x), "and", dim, keepdim),
)
argmax = reduction(
    "argmax(Tensor input, int? dim=None, bool keepdim=False)",
    "The index of the first largest element.",
    lower=lambda b, x, dim, keepdim: b.arg_extreme(x, "GT", dim, keepdim),
)
argmin = reduction(
    "argmin(Tensor input, int? dim=None, bool keepdim=False)",
    "The index of the first smallest element.",
    lower=lambda b, x, dim, keepdim: b.arg_extreme(x, "LT", dim, keepdim),
)


def _max_dim_vjp(larger: Any) -> Any:
    def vjp(g: Any, _out: Any, x: Any, dim: int, keepdim: bool) -> Any:
        index = larger(x, dim, True)
        gradient = g[0] if keepdim else g[0].unsqueeze(dim)
        zeros = x.new_zeros(x.shape)
        return ROWS["scatter_add"].call(zeros, index, gradient, dim)

    return vjp


max_dim = reduction(
    "max_dim(Tensor input, int dim, bool keepdim=False)",
    "The largest elements along dim and their indices.",
    vjp=_max_dim_vjp(argmax),
    function=False,
    method=False,
)
min_dim = reduction(
    "min_dim(Tensor input, int dim, bool keepdim=False)",
    "The smallest elements along dim and their indices.",
    vjp=_max_dim_vjp(argmin),
    function=False,
    method=False,
)


def _softmax_lower(b: Any, x: Any, dim: int, dtype: Any, log: bool) -> Any:
    x = b.to_dtype(x, b.result.dtype)
    shifted = b.subtract(x, b.spread(b.reduce_dims(x, "maximum", (dim,), True), x))
    e = b.exponential(shifted)
    total = b.reduce_dims(e, "add", (dim,), True)
    if log:
        return b.subtract(shifted, b.spread(b.log(total), x))
    return b.divide(e, b.spread(total, x))


softmax = reduction(
    "softmax(Tensor input, int dim, dtype? dtype=None)", "exp(x) divided by its sum along dim.",
    lower=lambda b, x, dim, dtype: _softmax_lower(b, x, dim, dtype, log=False),
    vjp=lambda g, out, _x, dim, dtype: out * (g - (g * out).sum(dim=dim, keepdim=True)),
)  # fmt: skip
log_softmax = reduction(
    "log_softmax(Tensor input, int dim, dtype? dtype=None)", "The logarithm of softmax along dim.",
    lower=lambda b, x, dim, dtype: _softmax_lower(b, x, dim, dtype, log=True),
    vjp=lambda g, out, _x, dim, dtype: g - exp(out) * g.sum(dim=dim, keepdim=True),
)  # fmt: skip
