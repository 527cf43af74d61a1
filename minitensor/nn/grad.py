"""The gradients of convolutions as functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor import _C, autograd
from minitensor._C import Tensor
from minitensor._functions.offered import zeros
from minitensor.autograd import enable_grad
from minitensor.nn import functional as F

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _gradient(compute: Callable[[Any], Tensor], shape: Any, grad_output: Tensor) -> Tensor:
    """Return the gradient of a linear function, whose argument's values don't matter."""
    create = _C.recording() != 0
    with enable_grad():
        argument = zeros(tuple(shape), dtype=grad_output.dtype, device=grad_output.device, requires_grad=True)
        (gradient,) = autograd.grad(compute(argument), argument, grad_output, create_graph=create)
    return gradient  # type: ignore[no-any-return]


def _offer(rank: int) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    convolution: Any = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[rank]

    def of_input(
        input_size: Any,
        weight: Tensor,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        return _gradient(
            lambda x: convolution(x, weight, None, stride, padding, dilation, groups), input_size, grad_output
        )

    def of_weight(
        input: Tensor,
        weight_size: Any,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
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
