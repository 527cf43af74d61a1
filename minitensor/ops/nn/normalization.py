"""Normalisation by the statistics of groups of channels, and of channels over a batch.

With `xhat = (x - mean) * rstd`, `rstd = 1 / sqrt(var + eps)` and `a = g * weight`, the gradient of the input is
`rstd * (a - mean(a) - xhat * mean(a * xhat))`, where the means go over what the statistics were taken over (Ioffe and
Szegedy, "Batch Normalization", 2015; Wu and He, "Group Normalization", 2018). The backward rows compute that; their own
gradients come from the formula below.
"""

from __future__ import annotations

import math
from typing import Any

from minitensor import _C
from minitensor.ops.formula import differentiate
from minitensor.ops.row import reduction

__all__: list[str] = []


def _along_channels(v: Any, x: Any) -> Any:
    return v.reshape((1, -1, *(1 for _ in x.shape[2:])))


def _apply(x: Any, weight: Any) -> Any:
    return x if weight is None else x * _along_channels(weight, x)


def _per_channel(x: Any) -> Any:
    return x.sum(dim=(0, *range(2, x.ndim)))


# ---- groups


def _group_vjp(g: Any, _out: Any, x: Any, w: Any, _bias: Any, groups: int, eps: float, centered: bool) -> Any:
    affine = _C.needs_gradient(1) or _C.needs_gradient(2)
    gx, gw, gb = group_norm_backward(g, x, w, groups, eps, centered, affine)
    return gx, gw if affine and w is not None else None, gb if affine else None


def _group_gradient(
    g: Any, x: Any, w: Any, groups: int, eps: float, centered: bool, affine: bool
) -> tuple[Any, Any, Any]:
    size = math.prod(x.shape[1:]) // max(groups, 1)  # -1 could be any size where there are no images
    split = (x.shape[0], groups, size)
    rows, a = x.reshape(split), _apply(g, w).reshape(split)
    mean = rows.mean(dim=2, keepdim=True) if centered else 0.0
    shifted = rows - mean
    rstd = ((shifted * shifted).mean(dim=2, keepdim=True) + eps).rsqrt()
    xhat = shifted * rstd
    gx = a - xhat * (a * xhat).mean(dim=2, keepdim=True)
    if centered:
        gx = gx - a.mean(dim=2, keepdim=True)
    gx = (gx * rstd).reshape(x.shape)
    return gx, _per_channel(g * xhat.reshape(x.shape)) if affine else None, _per_channel(g) if affine else None


def _group_backward_vjp(gs: Any, _out: Any, g: Any, x: Any, w: Any, *more: Any) -> Any:
    return differentiate(lambda *t: _group_gradient(*t, *more), (g, x, w), gs)


_GROUPS = "int groups, float eps, bool centered=True"
group_norm = reduction(
    f"group_norm(Tensor input, Tensor? weight, Tensor? bias, {_GROUPS})",
    "Channels normalised by the mean (if centered) and the deviation of their group; scaled and shifted by channel.",
    autocast=("", "float32"), vjp=_group_vjp, function=False, method=False,
)  # fmt: skip
group_norm_backward: _C.Op = reduction(
    f"group_norm_backward(Tensor grad, Tensor input, Tensor? weight, {_GROUPS}, bool affine=True)",
    "The gradients of input, weight and bias; the latter two are zeros if not affine.",
    vjp=_group_backward_vjp, function=False, method=False,
)  # fmt: skip


# ---- batches


def _batch_vjp(g: Any, _out: Any, x: Any, w: Any, _bias: Any, mean: Any, rstd: Any, training: bool) -> Any:
    gx, gw, gb = batch_norm_backward(g, x, w, mean, rstd, training)
    return gx, None if w is None else gw, gb, None, None


def _batch_gradient(g: Any, x: Any, w: Any, mean: Any, rstd: Any, training: bool, eps: Any) -> tuple[Any, Any, Any]:
    dims = (0, *range(2, x.ndim))
    if training:
        shifted = x - x.mean(dim=dims, keepdim=True)
        r = ((shifted * shifted).mean(dim=dims, keepdim=True) + eps).rsqrt()
    else:
        shifted, r = x - _along_channels(mean, x), _along_channels(rstd, x)
    xhat = shifted * r
    a = _apply(g, w)
    gx = a - a.mean(dim=dims, keepdim=True) - xhat * (a * xhat).mean(dim=dims, keepdim=True) if training else a
    return gx * r, _per_channel(g * xhat), _per_channel(g)


def _batch_backward_vjp(
    gs: Any, _out: Any, g: Any, x: Any, w: Any, mean: Any, rstd: Any, training: bool
) -> tuple[Any, ...]:
    # The statistics are functions of x here, with the eps that they were made with.
    eps: Any = 0.0
    if training:
        shifted = x.detach() - _along_channels(mean.detach(), x)
        var = (shifted * shifted).mean(dim=(0, *range(2, x.ndim)), keepdim=True)
        eps = _along_channels(1.0 / (rstd.detach() * rstd.detach()), x) - var
    gradients = differentiate(
        lambda *t: _batch_gradient(t[0], t[1], t[2], mean.detach(), rstd.detach(), training, eps), (g, x, w), gs
    )
    return (*gradients, None, None)


batch_norm_stats = reduction(
    "batch_norm_stats(Tensor input, float eps)",
    "Of each channel the mean, the variance (without correction), and 1 / sqrt(variance + eps); not differentiable.",
    function=False, method=False,
)  # fmt: skip
batch_norm = reduction(
    "batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor rstd, bool training)",
    "(x - mean) * rstd, scaled and shifted, by channel. If training, the statistics are the input's own, and the "
    "gradient goes through them.",
    vjp=_batch_vjp, function=False, method=False,
)  # fmt: skip
batch_norm_backward: _C.Op = reduction(
    "batch_norm_backward(Tensor grad, Tensor input, Tensor? weight, Tensor mean, Tensor rstd, bool training)",
    "The gradients of input, weight and bias.",
    vjp=_batch_backward_vjp, function=False, method=False,
)  # fmt: skip
