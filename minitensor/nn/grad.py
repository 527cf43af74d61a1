"""The gradients of convolutions as functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import minitensor as mt
from minitensor import _C
from minitensor.nn import functional as F

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _gradient(compute: Callable[[Any], mt.Tensor], shape: Any, grad_output: mt.Tensor) -> mt.Tensor:
    """Return the gradient of a linear function, whose argument's values don't matter."""
    create = _C.recording() != 0
    with mt.enable_grad():
        argument = mt.zeros(tuple(shape), dtype=grad_output.dtype, device=grad_output.device, requires_grad=True)
        (gradient,) = mt.autograd.grad(compute(argument), argument, grad_output, create_graph=create)
    return gradient  # type: ignore[no-any-return]


def _offer(rank: int) -> tuple[Callable[..., mt.Tensor], Callable[..., mt.Tensor]]:
    convolution: Any = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[rank]

    def of_input(
        input_size: Any,
        weight: mt.Tensor,
        grad_output: mt.Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> mt.Tensor:
        return _gradient(
            lambda x: convolution(x, weight, None, stride, padding, dilation, groups), input_size, grad_output
        )

    def of_weight(
        input: mt.Tensor,
        weight_size: Any,
        grad_output: mt.Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> mt.Tensor:
        return _gradient(
            lambda w: convolution(input, w, None, stride, padding, dilation, groups), weight_size, grad_output
        )

    for made, what in ((of_input, "input"), (of_weight, "weight")):
        made.__name__ = made.__qualname__ = f"conv{rank}d_{what}"
        made.__doc__ = f"Return the gradient of ``conv{rank}d`` with respect to its {what}, whose size is given."
    return of_input, of_weight


conv1d_input, conv1d_weight = _offer(1)
conv2d_input, conv2d_weight = _offer(2)
conv3d_input, conv3d_weight = _offer(3)
