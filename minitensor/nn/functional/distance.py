"""Distances and similarities of vectors."""

from __future__ import annotations

from collections.abc import Sequence

from minitensor import _C
from minitensor._C import Tensor
from minitensor._functions.offered import broadcast_shapes, sub, where
from minitensor.composite import composite
from minitensor.composite.distance import pdist
from minitensor.composite.numbers import number
from minitensor.composite.registry import autocast, grad_fn

__all__ = ["cosine_similarity", "pairwise_distance", "pdist"]


def vector_norm(x: Tensor, p: float, dim: int | Sequence[int], keepdim: bool = False) -> Tensor:
    """Return the ``p``-norm along ``dim``. Its gradient at zero is zero."""
    p = number(p, "norm", "p")
    if x.is_complex():
        x = x.abs()
    if p == float("inf"):
        return x.abs().amax(dim, keepdim)
    if p == float("-inf"):
        return x.abs().amin(dim, keepdim)
    if p == 0:
        return (x != 0).to(x.dtype).sum(dim, keepdim)
    if p == 1:
        return x.abs().sum(dim, keepdim)
    total = (x * x if p == 2 else x.abs().pow(p)).sum(dim, keepdim)
    if not _C.is_recorded(x):
        return total.sqrt() if p == 2 else total.pow(1.0 / p)
    safe = where(total == 0, 1.0, total)
    return where(total == 0, 0.0, safe.sqrt() if p == 2 else safe.pow(1.0 / p))


@composite(method=False)
@autocast("", "float32")
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int = 1, eps: float = 1e-08) -> Tensor:
    """Return the cosine of the angle between vectors along ``dim``; norms count as ``eps`` at least."""
    if not x1.is_floating_point() or not x2.is_floating_point():
        raise RuntimeError("expected common dtype to be floating point, yet common dtype is " + str(x1.dtype))
    shape = broadcast_shapes(x1.shape, x2.shape)
    x1, x2 = x1.expand(tuple(shape)), x2.expand(tuple(shape))
    n1 = vector_norm(x1, 2, dim, True).clamp(min=eps)
    n2 = vector_norm(x2, 2, dim, True).clamp(min=eps)
    return ((x1 / n1) * (x2 / n2)).sum(dim)


@composite(method=False)
@grad_fn("NormBackward1")
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-06, keepdim: bool = False) -> Tensor:
    """Return the ``p``-norm of ``x1 - x2 + eps`` along the last dimension."""
    for place, (name, x) in enumerate((("x1", x1), ("x2", x2)), 1):
        if not isinstance(x, Tensor):
            raise TypeError(
                f"pairwise_distance(): argument '{name}' (position {place}) must be Tensor, not {type(x).__name__}"
            )
    return vector_norm(sub(x1, x2) + eps, p, -1, keepdim)
