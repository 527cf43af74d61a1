"""Scans: each element combined with those before it along a dimension."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._C import Op
from minitensor.ops.elementwise import exp, where
from minitensor.ops.formula import differentiate
from minitensor.ops.row import ROWS, movement, reduction

__all__: list[str] = []


def _reverse_cumsum(x: Any, dim: int) -> Any:
    return cumsum(x.flip(dim), dim).flip(dim) if x.ndim else x


def _cumprod_vjp(g: Any, _out: Any, x: Any, dim: int, dtype: Any) -> Any:
    x = x if dtype is None else x.to(dtype)
    return cumprod_backward(g, x, dim) if x.ndim else g


def _cumprod_backward_vjp(cotangent: Any, _out: Any, g: Any, x: Any, dim: int) -> Any:
    def formula(g: Any, x: Any) -> Any:
        kept = x.conj() if x.is_complex() else x
        if bool(_C.all_slices(x == 0).any()):
            return _cumprod_vjp_by_definition(g, kept, dim)
        return _reverse_cumsum(g * cumprod(kept, dim), dim) / kept

    return differentiate(formula, (g, x), (cotangent,))


def _cumprod_vjp_by_definition(g: Any, x: Any, dim: int) -> Any:
    # The sum over j >= i of g[j] times the product of all x[k], k <= j, but x[i]: quadratic, and differentiable where
    # elements are zero.
    n = x.shape[dim]
    parts = []
    for i in range(n):
        after = x.slice(dim, i + 1, n, 1)
        ones = x.new_ones([1 if d == dim % x.ndim else size for d, size in enumerate(x.shape)])
        omitted = ROWS["cat"].call([ones, cumprod(after, dim)], dim)
        if i:
            omitted = omitted * x.slice(dim, 0, i, 1).prod(dim, keepdim=True)
        parts.append((g.slice(dim, i, n, 1) * omitted).sum(dim=dim, keepdim=True))
    return ROWS["cat"].call(parts, dim)


def _without_infinities(a: Any, b: Any) -> Any:
    """a - b, and zero where both are the same infinity."""
    return where(a == b, 0.0, a - b)


def _logcumsumexp_shares(g: Any, out: Any, x: Any, dim: int) -> Any:
    """The gradient without logarithms of g, which have no derivative at zero: summed from the last to the first."""

    def at(t: Any, i: int) -> Any:
        return t.slice(dim, i, i + 1, 1)

    n = x.shape[dim]
    parts = [at(g, n - 1)] if n else []
    for i in range(n - 1, 0, -1):
        parts.append(at(g, i - 1) + parts[-1] * exp(_without_infinities(at(out, i - 1), at(out, i))))
    sums = ROWS["cat"].call(parts[::-1], dim) if parts else g
    return sums * exp(_without_infinities(x, out))


def _logcumsumexp_vjp(g: Any, out: Any, x: Any, dim: int) -> Any:
    if x.ndim == 0:
        return g
    if g.requires_grad or _C.is_recorded(g):
        if not x.is_complex():
            return _logcumsumexp_shares(g, out, x, dim)
        return _logcumsumexp_shares(g.conj(), out, x, dim).conj()
    from minitensor import finfo

    lowest = finfo(x.dtype).min
    if x.is_complex():
        logarithm = where(g == 0, lowest, g.conj().log())
        return exp(logcumsumexp((logarithm - out).flip(dim), dim).flip(dim) + x).conj()
    size = g.abs().log()

    def part(sign: Any) -> Any:
        return exp(logcumsumexp((where(sign, size, lowest) - out).flip(dim), dim).flip(dim) + x)

    return part(g > 0) - part(g < 0)


def _extreme_vjp(g: Any, places: Any, _x: Any, dim: int) -> Any:
    return g[0].new_zeros(_x.shape).scatter_add(dim, places[1], g[0])


cumsum: Op = movement(
    "cumsum(Tensor input, int dim, *, dtype? dtype=None)", "The sums of the elements up to each place along dim.",
    out="castable", autocast=("", "float32"), vjp=lambda g, _out, _x, dim, dtype: _reverse_cumsum(g, dim), inplace=True,
)  # fmt: skip
cumprod: Op = movement(
    "cumprod(Tensor input, int dim, *, dtype? dtype=None)", "The products of the elements up to each place along dim.",
    out="castable", autocast=("", "float32"), vjp=_cumprod_vjp, inplace=True,
)  # fmt: skip
cumprod_backward: Op = movement(
    "_cumprod_backward(Tensor grad, Tensor input, int dim)",
    "The gradient of cumprod along dim: of each element, the sum of the gradients of the products that it is in, times "
    "what else is in them.",
    vjp=_cumprod_backward_vjp, function=False, method=False, inplace=False,
)  # fmt: skip
logcumsumexp: Op = movement(
    "logcumsumexp(Tensor input, int dim)", "The logarithms of the sums of exp(x) up to each place along dim.",
    vjp=_logcumsumexp_vjp,
)  # fmt: skip
cummax = reduction(
    "cummax(Tensor input, int dim) -> (Tensor values, Tensor indices)",
    "The largest of the elements up to each place along dim, and where it stood last.",
    vjp=_extreme_vjp,
)
cummin = reduction(
    "cummin(Tensor input, int dim) -> (Tensor values, Tensor indices)",
    "The smallest of the elements up to each place along dim, and where it stood last.",
    vjp=_extreme_vjp,
)
