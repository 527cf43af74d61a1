"""Matrix products."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor.ops.row import contraction

__all__: list[str] = []


def _matmul_vjp(g: Any, _out: Any, x: Any, y: Any) -> tuple[Any, Any]:
    if x.ndim == 1 and y.ndim == 1:
        return lambda: g * y, lambda: g * x
    a = x.unsqueeze(0) if x.ndim == 1 else x
    b = y.unsqueeze(1) if y.ndim == 1 else y
    if x.ndim == 1:
        g = g.unsqueeze(-2)
    if y.ndim == 1:
        g = g.unsqueeze(-1)
    gx = gy = None
    if _C.needs_gradient(0):
        gx = matmul(g, b.mT)
        gx = gx.squeeze(-2) if x.ndim == 1 else gx
    if _C.needs_gradient(1):
        if b.ndim == 2 and a.ndim > 2:
            # One product over all batches instead of a sum of many.
            gy = matmul(a.reshape((-1, a.shape[-1])).mT, g.reshape((-1, g.shape[-1])))
        else:
            gy = matmul(a.mT, g)
        gy = gy.squeeze(-1) if y.ndim == 1 else gy
    return gx, gy


matmul = contraction(
    "matmul(Tensor input, Tensor other)",
    "The matrix product, batched over leading dimensions.",
    lower=lambda b, x, y: b.matmul_broadcast(x, y),
    vjp=_matmul_vjp,
    reads=("y", "x"),
    aliases=("mm",),
)
