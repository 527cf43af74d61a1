"""Ops of your own: a kernel in NumPy or C, a gradient, and, if you like, a lowering that lets the compiler fuse it.

    @extend.op(
        "soft_clip(Tensor input, float limit=1.0)",
        elementwise=True,
        gradient=lambda g, out, _x, limit: g * (1 - (out / limit).square()),
        lower=lambda b, x, limit: b.multiply(b.tanh(b.divide(x, b.full(x.shape, limit))), b.full(x.shape, limit)),
    )
    def soft_clip(x, limit):
        return np.tanh(x / limit) * limit

An op without a lowering works everywhere too: recorded programs keep it as a node between their clusters.
"""

from minitensor.extend.c_kernel import c_kernel
from minitensor.extend.checking import check
from minitensor.extend.definition import op

__all__ = ["c_kernel", "check", "op"]
