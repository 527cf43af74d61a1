"""Matrix products."""

from __future__ import annotations

import math
from typing import Any

from minitensor import _C
from minitensor.ops.elementwise import holomorphic
from minitensor.ops.row import ROWS, contraction, opaque

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
        # An outer product is one multiplication an element.
        gx = g * y if y.ndim == 1 else matmul(g, b.mT)
        gx = gx.squeeze(-2) if x.ndim == 1 else gx
    if _C.needs_gradient(1):
        if b.ndim == 2 and a.ndim > 2:
            # One product over all batches instead of a sum of many.
            gy = matmul(a.reshape((-1, a.shape[-1])).mT, g.reshape((-1, g.shape[-1])))
        else:
            gy = a.mT * g if x.ndim == 1 else matmul(a.mT, g)
        gy = gy.squeeze(-1) if y.ndim == 1 else gy
    return gx, gy


matmul = contraction(
    "matmul(Tensor input, Tensor other)",
    "The matrix product, batched over leading dimensions.",
    lower=lambda b, x, y: b.matmul_broadcast(x, y),
    vjp=holomorphic(_matmul_vjp),
    reads=("y", "x"),
)


def _cdist_vjp(g: Any, out: Any, x: Any, y: Any, p: float) -> tuple[Any, Any]:
    """d|v|_p / dv_i = sign(v_i) |v_i|^(p-1) / |v|_p^(p-1); zero where the distance is."""
    difference = x.unsqueeze(2) - y.unsqueeze(1)
    size, distance = difference.abs(), out.unsqueeze(3)
    if p == 0:
        return x * 0, y * 0
    if p == 1:
        slope = difference.sign()
    elif p == math.inf:
        slope = difference.sign() * (size == distance).to(difference.dtype)
    else:
        apart = distance != 0
        divisor = ROWS["where"].call(apart, distance, 1.0)
        # 0 to a negative power has no place here: such elements have a slope of zero.
        base = ROWS["where"].call(size != 0, size, 1.0) if p < 2 else size
        slope = difference / divisor if p == 2 else difference.sign() * base ** (p - 1) / divisor ** (p - 1)
        slope = ROWS["where"].call(apart, slope, 0.0)
    weighted = g.unsqueeze(3) * slope
    return weighted.sum(2), -weighted.sum(1)


cdist = opaque(
    "_cdist(Tensor x1, Tensor x2, float p)",
    "The distances in the p-norm between the vectors of two batches of sets.",
    why="it is one loop over pairs, not a sum of products",
    vjp=_cdist_vjp,
)
