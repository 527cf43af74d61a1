"""Convolution, its gradients, and the moves between images and their patches.

The three rows `convolution`, `convolution_backward_input` and `convolution_backward_weight` are linear in each of two
operands and the gradients of one another, so derivatives of any order are made of them.
"""

from __future__ import annotations

import math
from typing import Any

from minitensor import _C
from minitensor.ops.row import contraction, movement

__all__: list[str] = []

_PARAMETERS = "int[] stride, int[] padding, int[] dilation, int groups"
_PATCHES = "int[] kernel_size, int[] dilation, int[] padding, int[] stride"


def _convolution_vjp(
    g: Any, _out: Any, x: Any, w: Any, _bias: Any, stride: Any, padding: Any, dilation: Any, groups: int
) -> tuple[Any, Any, Any]:
    more = (stride, padding, dilation, groups)
    return (
        lambda: convolution_backward_input(g, w, tuple(x.shape), *more),
        lambda: convolution_backward_weight(g, x, tuple(w.shape), *more),
        lambda: g.sum(dim=(0, *range(2, g.ndim))),
    )


def _backward_input_vjp(g: Any, _out: Any, grad: Any, w: Any, size: Any, *more: Any) -> tuple[Any, Any]:
    return (
        lambda: convolution(g, w, None, *more),
        lambda: convolution_backward_weight(grad, g, tuple(w.shape), *more),
    )


def _backward_weight_vjp(g: Any, _out: Any, grad: Any, x: Any, size: Any, *more: Any) -> tuple[Any, Any]:
    return (
        lambda: convolution(x, g, None, *more),
        lambda: convolution_backward_input(grad, g, tuple(x.shape), *more),
    )


convolution = contraction(
    f"convolution(Tensor input, Tensor weight, Tensor? bias, {_PARAMETERS})",
    "The cross-correlation of images [N, C, ...] with filters [O, C / groups, ...], plus a bias for each filter.",
    flops=lambda elements, _x, weight, *_bias: 2 * elements * math.prod(weight[1:]),
    autocast=("lower", "lower"), vjp=_convolution_vjp, reads=("w", "x", ""), function=False, method=False,
)  # fmt: skip
convolution_backward_input = contraction(
    f"convolution_backward_input(Tensor grad, Tensor weight, int[] input_size, {_PARAMETERS})",
    "The gradient of a convolution with respect to its input, which is a transposed convolution.",
    vjp=_backward_input_vjp, reads=("w", "grad"), function=False, method=False,
)  # fmt: skip
convolution_backward_weight = contraction(
    f"convolution_backward_weight(Tensor grad, Tensor input, int[] weight_size, {_PARAMETERS})",
    "The gradient of a convolution with respect to its filters.",
    vjp=_backward_weight_vjp, reads=("x", "grad"), function=False, method=False,
)  # fmt: skip

im2col = movement(
    f"im2col(Tensor input, {_PATCHES})",
    "The patches of images [N, C, H, W] as columns [N, C * taps, L].",
    vjp=lambda g, _out, _x, *sizes: col2im(g, tuple(_x.shape[2:]), *sizes), function=False, method=False,
)  # fmt: skip
col2im: _C.Op = movement(
    f"col2im(Tensor input, int[] output_size, {_PATCHES})",
    "Images [N, C, *output_size] in which the columns [N, C * taps, L] are added up where their patches lie.",
    vjp=lambda g, _out, _x, _size, *sizes: im2col(g, *sizes), function=False, method=False,
)  # fmt: skip
