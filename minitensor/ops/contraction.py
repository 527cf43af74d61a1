"""Matrix products."""

from __future__ import annotations

import math
from typing import Any

from minitensor import _C
from minitensor.ops.elementwise import holomorphic
from minitensor.ops.row import ROWS, contraction, opaque

__all__: list[str] = []


def _by_columns(x: Any) -> bool:
    return bool(x.ndim == 2 and x.stride() == (1, x.shape[0]))


def _matmul_vjp(g: Any, _out: Any, x: Any, y: Any, first: int = 0) -> tuple[Any, Any]:
    """The gradients of x and y, which are the operands number `first` and the next one."""
    if x.ndim == 1 and y.ndim == 1:
        return lambda: g * y, lambda: g * x
    a = x.unsqueeze(0) if x.ndim == 1 else x
    b = y.unsqueeze(1) if y.ndim == 1 else y
    if x.ndim == 1:
        g = g.unsqueeze(-2)
    if y.ndim == 1:
        g = g.unsqueeze(-1)
    gx = gy = None
    # A gradient has the layout of the matrix that it is of, so that nothing has to be moved before it is used.
    if _C.needs_gradient(first):
        # An outer product is one multiplication an element.
        gx = g * y if y.ndim == 1 else matmul(b, g.mT).mT if _by_columns(a) else matmul(g, b.mT)
        gx = gx.squeeze(-2) if x.ndim == 1 else gx
    if _C.needs_gradient(first + 1):
        if b.ndim == 2 and a.ndim > 2 and a.numel() and g.numel():
            # One product over all batches instead of a sum of many.
            a, g = a.reshape((-1, a.shape[-1])), g.reshape((-1, g.shape[-1]))
            gy = matmul(g.mT, a).mT if _by_columns(b) else matmul(a.mT, g)
        elif x.ndim > 1 and _by_columns(b):
            gy = matmul(g.mT, a).mT
        else:
            gy = a.mT * g if x.ndim == 1 else matmul(a.mT, g)
        gy = gy.squeeze(-1) if y.ndim == 1 else gy
    return gx, gy


matmul = contraction(
    "matmul(Tensor input, Tensor other)",
    """The matrix product, batched over leading dimensions.

    ``[..., n, k]`` times ``[..., k, m]`` is ``[..., n, m]``; leading dimensions broadcast. An operand of one dimension
    is a row on the left and a column on the right, and the result lacks that dimension. Both operands have one dtype,
    which the result has too. Raises RuntimeError where sizes or dtypes don't fit, or an operand has no dimension.
    """,
    autocast=("lower", "lower"),
    lower=lambda b, x, y: b.matmul_broadcast(x, y),
    flops=lambda elements, x, _y: 2 * elements * x[-1],
    vjp=holomorphic(_matmul_vjp),
    # Products that broadcast are several ops in PyTorch.
    grad_fn={(1, 1): "DotBackward0", (2, 1): "MvBackward0", (2, 2): "MmBackward0", (3, 3): "BmmBackward0"},
    reads=("y", "x"),
)


def _addmm_vjp(g: Any, _out: Any, _added: Any, x: Any, y: Any, beta: float, alpha: float) -> tuple[Any, Any, Any]:
    gx, gy = _matmul_vjp(g, _out, x, y, first=1)
    if alpha != 1:  # as PyTorch rounds: the product's gradient, then that of the factor
        gx, gy = (None if t is None else t * alpha for t in (gx, gy))
    return lambda: g if beta == 1 else g * beta, gx, gy


def _lower_addmm(b: Any, added: Any, x: Any, y: Any, beta: float, alpha: float) -> Any:
    product = b.matmul_broadcast(x, y)
    added = b.broadcast_to(added, product.dims)
    added = added if beta == 1 else b.multiply(added, b.full(added.shape, beta))
    product = product if alpha == 1 else b.multiply(product, b.full(product.shape, alpha))
    return b.add(added, product)


# One pass over the result, which is rounded once. In other types it is two ops.
addmm = contraction(
    "_addmm(Tensor input, Tensor mat1, Tensor mat2, float beta, float alpha)",
    "beta * input + alpha * (mat1 @ mat2) of floating-point numbers, for mat2 [k, n] and mat1 [..., k]; input is a "
    "vector that is added to every row, or, if mat1 is a matrix, what broadcasts to the result.",
    lower=_lower_addmm,
    flops=lambda elements, _added, x, _y: 2 * elements * x[-1],
    vjp=_addmm_vjp,
    reads=("", "y", "x"),
    function=False,
    method=False,
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
    raises=False,
)
