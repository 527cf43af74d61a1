"""Ops with one index an element: gather, and scatter in all combinations."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._C import Op
from minitensor.ops.creation import full
from minitensor.ops.elementwise import where
from minitensor.ops.mask import masked_fill
from minitensor.ops.row import index

__all__: list[str] = []


def zeros_for(x: Any, g: Any) -> Any:
    """Zeros with x's shape and the gradient's dtype."""
    return full(tuple(x.shape), 0, dtype=g.dtype, device=g.device)


def onto_zeros(op: Any, x: Any, g: Any, *more: Any) -> Any:
    """The op on zeros with x's shape: in place, as they are nobody else's, unless they would have to be mapped."""
    form = op if _C.vmap_depth() else _C.inplace_form(op)
    return form(zeros_for(x, g), *more)


def _within(x: Any, g: Any) -> Any:
    """The gradient of x's leading corner, with zeros for the rest of x."""
    if tuple(x.shape) == tuple(g.shape):
        return g
    whole = _C.mapped_like(zeros_for(x, g), g)
    whole[tuple(slice(n) for n in g.shape)] = g
    return whole


def _gather_vjp(g: Any, _out: Any, _x: Any, i: Any, dim: int) -> tuple[Any, Any]:
    return onto_zeros(scatter_add, _x, g, i, g, dim), None


gather: Op = index(
    "gather(Tensor input, Tensor index, int dim)", "input[i][index[i][j]] for dim 1, and so on.",
    lower=lambda b, x, i, dim: b.gather_along(x, i, dim), vjp=_gather_vjp, slow_ns=0.4)  # fmt: skip
scatter: Op = index(
    "scatter(Tensor input, Tensor index, Tensor src, int dim)",
    "input with the elements of src at the places that index names along dim.",
    lower=lambda b, x, i, src, dim: b.scatter_along(x, i, src, dim, "assign"),
    vjp=lambda g, _out, _x, i, _src, dim: (
        lambda: scatter(g, i, zeros_for(i, g), dim), None, lambda: _within(_src, gather(g, i, dim))
    ),
    inplace=True,
)  # fmt: skip
scatter_add: Op = index(
    "scatter_add(Tensor input, Tensor index, Tensor src, int dim)",
    "input with src added at the places that index names along dim.",
    lower=lambda b, x, i, src, dim: b.scatter_along(x, i, src, dim, "add"), inplace=True,
    vjp=lambda g, _out, _x, i, _src, dim: (g, None, lambda: _within(_src, gather(g, i, dim))), slow_ns=2.0)  # fmt: skip


# ---- scatter with other combinations than sums


def _reduced_mean(g: Any, x: Any, i: Any, src: Any, dim: int, include_self: bool) -> tuple[Any, None, Any]:
    counts = full(tuple(x.shape), 1 if include_self else 0, dtype=g.dtype, device=g.device)
    counts = scatter_add(counts, i, full(tuple(src.shape), 1, dtype=g.dtype, device=g.device), dim)
    share = g / masked_fill(counts, counts == 0, 1)
    return share, None, _within(src, gather(share, i, dim))


def _reduced_extreme(g: Any, out: Any, x: Any, i: Any, src: Any, dim: int) -> tuple[Any, None, Any]:
    part = _leading_part(src, i)
    mine, theirs = (x == out).to(g.dtype), (part == gather(out, i, dim)).to(g.dtype)
    share = g / scatter_add(mine, i, theirs, dim)
    return mine * share, None, _within(src, theirs * gather(share, i, dim))


def _reduced_product(g: Any, out: Any, x: Any, i: Any, src: Any, dim: int, keep: bool) -> tuple[Any, None, Any]:
    if g.is_complex():
        own, _, theirs = _real_product(g.conj(), out, x, i, src, dim, keep)
        return own.conj(), None, theirs.conj()
    return _real_product(g, out, x, i, src, dim, keep)


def _real_product(g: Any, out: Any, x: Any, i: Any, src: Any, dim: int, keep: bool) -> tuple[Any, None, Any]:
    part = _leading_part(src, i)
    zero = x == 0
    filled = masked_fill(x, zero, 1)
    own = g * scatter_reduce_at(filled, i, part, dim, 1, keep) / filled
    nothing = part == 0
    zeros = gather(scatter_add(zeros_for(x, g), i, nothing.to(g.dtype), dim), i, dim)
    only = nothing.logical_and(zeros == 1)  # the others' product counts where it is the only zero
    others = scatter_reduce_at(x, i, masked_fill(part, only, 1), dim, 1, keep)
    alone = gather(g * others, i, dim)
    usual = gather(g * out, i, dim) / masked_fill(part, nothing, 1)
    return own, None, _within(src, where(only, alone, usual))


def _leading_part(src: Any, i: Any) -> Any:
    return src if tuple(src.shape) == tuple(i.shape) else src[tuple(slice(n) for n in i.shape)]


def _scatter_reduce_vjp(
    g: Any, out: Any, x: Any, i: Any, src: Any, dim: int, mode: int, include_self: bool
) -> tuple[Any, None, Any]:
    if mode == 0:
        gradients = g, None, _within(src, gather(g, i, dim))
    elif mode == 1:
        gradients = _reduced_product(g, out, x, i, src, dim, include_self)
    elif mode == 2:
        gradients = _reduced_mean(g, x, i, src, dim, include_self)
    else:
        gradients = _reduced_extreme(g, out, x, i, src, dim)
    if include_self:
        return gradients
    return scatter(gradients[0], i, zeros_for(i, g), dim), None, gradients[2]


scatter_reduce_at: Op = index(
    "_scatter_reduce(Tensor input, Tensor index, Tensor src, int dim, int mode, bool include_self)",
    "input with src combined into the places that index names along dim: 0 sum, 1 product, 2 mean, 3 largest, 4 "
    "smallest; with what was there if include_self.",
    vjp=_scatter_reduce_vjp, inplace=True,
)  # fmt: skip
