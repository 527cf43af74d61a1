"""Gradients kept small: by the norm of all of them together, or value by value."""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

from minitensor import linalg
from minitensor._C import Tensor
from minitensor._functions import offered
from minitensor._functions.foreach import _foreach_clamp_max_, _foreach_clamp_min_, _foreach_mul_, _foreach_norm
from minitensor._functions.offered import stack
from minitensor._warning import warn
from minitensor.autograd import no_grad

__all__ = ["clip_grad_norm", "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm"]

Tensors = Tensor | Iterable[Tensor]


def _check_foreach(tensors: list[Tensor], foreach: bool | None) -> None:
    # With or without, the same ops run: here it is only a wish that can't be fulfilled everywhere.
    for tensor in tensors if foreach else ():
        if tensor.device.type == "meta":
            raise RuntimeError("foreach=True was passed, but can't use the foreach API on meta tensors")


def _gradients(parameters: Tensors) -> list[Tensor]:
    all_of_them = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if not all_of_them and isinstance(parameters, types.GeneratorType):
        warn("`parameters` is an empty generator, no gradient clipping will occur.")
    return [p.grad for p in all_of_them if p.grad is not None]


def _total(tensors: list[Tensor], norm_type: float, error_if_nonfinite: bool, foreach: bool | None) -> Tensor:
    if not tensors:
        return offered.tensor(0.0)
    _check_foreach(tensors, foreach)
    device = tensors[0].device
    norms = [norm.to(device) for norm in _foreach_norm(tensors, norm_type)]
    total = linalg.vector_norm(stack(norms), norm_type)
    if error_if_nonfinite and not total.isfinite():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot be "
            "clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def _scale(gradients: list[Tensor], max_norm: float, total: Tensor, foreach: bool | None) -> None:
    if not gradients:
        return
    _check_foreach(gradients, foreach)
    # Also where it is 1: whether it is can't be known without waiting for the norm.
    factor = (max_norm / (total + 1e-6)).clamp(max=1.0)
    for device in {gradient.device for gradient in gradients}:
        _foreach_mul_([g for g in gradients if g.device == device], factor.to(device))


@no_grad()
def get_total_norm(
    tensors: Tensors, norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """Return the norm of all elements of tensors, as those of one vector: a tensor without dimensions.

    `norm_type` is the order, ``inf`` for the largest magnitude. Without tensors it is zero. With `error_if_nonfinite`
    its value is read, and a RuntimeError raised if it is NaN or infinite.
    """
    found = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    return _total(found, float(norm_type), error_if_nonfinite, foreach)


@no_grad()
def clip_grads_with_norm_(
    parameters: Tensors, max_norm: float, total_norm: Tensor, foreach: bool | None = None
) -> None:
    """Multiply the gradients of parameters by ``min(1, max_norm / (total_norm + 1e-6))``, in place."""
    _scale(_gradients(parameters), float(max_norm), total_norm, foreach)


@no_grad()
def clip_grad_norm_(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale the gradients of parameters down, in place, so that their norm is at most `max_norm`; return what it was.

    The norm of order `norm_type` is that of all gradients as one vector (Pascanu, Mikolov and Bengio, 2013).
    Parameters without a gradient don't count. With `error_if_nonfinite` a RuntimeError is raised if the norm is NaN or
    infinite, and no gradient is changed; that reads its value.
    """
    gradients = _gradients(parameters)
    limit, order = float(max_norm), float(norm_type)
    total = _total(gradients, order, error_if_nonfinite, foreach)
    _scale(gradients, limit, total, foreach)
    return total


def clip_grad_norm(
    parameters: Tensors,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Any:
    """Deprecated: :func:`clip_grad_norm_`."""
    warn(
        "`minitensor.nn.utils.clip_grad_norm` is now deprecated in favor of `minitensor.nn.utils.clip_grad_norm_`.",
        FutureWarning,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)


@no_grad()
def clip_grad_value_(parameters: Tensors, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp each element of the gradients of parameters to ``[-clip_value, clip_value]``, in place."""
    gradients = _gradients(parameters)
    limit = float(clip_value)
    _check_foreach(gradients, foreach)
    if gradients:
        _foreach_clamp_min_(gradients, -limit)
        _foreach_clamp_max_(gradients, limit)
