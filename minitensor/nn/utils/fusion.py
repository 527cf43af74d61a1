"""A convolution or linear layer and the batch normalisation after it as one layer, for evaluation."""

from __future__ import annotations

import copy
from typing import Any, TypeVar

from minitensor._C import Tensor
from minitensor.nn.parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

M = TypeVar("M")


def _check(layer: Any, bn: Any) -> None:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("bn.running_mean and bn.running_var must not be None")


def _fused(
    weight: Tensor, bias: Tensor | None, dim: int, mean: Tensor, var: Tensor, eps: float, w: Any, b: Any
) -> tuple[Parameter, Parameter]:
    """Return weight and bias of the layer that also normalises; `dim` is that of the weight's outputs."""
    scale = (var + eps).rsqrt()
    if w is not None:
        scale = w * scale
    shape = [1] * weight.dim()
    shape[dim] = -1
    shifted = (0 if bias is None else bias) - mean
    shift = shifted * scale if b is None else shifted * scale + b
    made = (weight * scale.reshape(shape)).to(weight.dtype)
    wanted = weight.requires_grad if bias is None else bias.requires_grad
    dtype = weight.dtype if bias is None else bias.dtype
    return Parameter(made, weight.requires_grad), Parameter(shift.to(dtype), wanted)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return a convolution's weight and bias with a normalisation's running mean, variance, weight and bias in them."""
    return _fused(conv_w, conv_b, 1 if transpose else 0, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_conv_bn_eval(conv: M, bn: Any, transpose: bool = False) -> M:
    """Return a convolution that does what the two modules do, both in evaluation mode."""
    _check(conv, bn)
    fused: Any = copy.deepcopy(conv)
    fused.weight, fused.bias = fuse_conv_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias, transpose
    )
    return fused  # type: ignore[no-any-return]


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor,
    bn_b: Tensor,
) -> tuple[Parameter, Parameter]:
    """Return a linear layer's weight and bias with a normalisation's mean, variance, weight and bias in them."""
    return _fused(linear_w, linear_b, 0, bn_rm, bn_rv, bn_eps, bn_w, bn_b)


def fuse_linear_bn_eval(linear: M, bn: Any) -> M:
    """Return a linear layer that does what the two modules do, both in evaluation mode."""
    _check(linear, bn)
    fused: Any = copy.deepcopy(linear)
    if bn.num_features not in (fused.out_features, 1):
        raise AssertionError(
            "To fuse, linear.out_features == bn.num_features or bn.num_features == 1, got "
            f"linear.out_features={fused.out_features} and bn.num_features={bn.num_features}"
        )
    fused.weight, fused.bias = fuse_linear_bn_weights(
        fused.weight, fused.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return fused  # type: ignore[no-any-return]
