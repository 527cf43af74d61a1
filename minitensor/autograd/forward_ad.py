"""Dual numbers: values that carry a derivative along.

A dual tensor is a variable of the tape with a tangent noted beside it. The tangent of a result is the derivative of its
vjp, which is linear in its vector: two backward passes, when somebody asks for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from minitensor import _C
from minitensor.autograd.grad_mode import enable_grad
from minitensor.autograd.gradients import passed, reaches_others

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class _Dual(NamedTuple):
    """What `make_dual` gave, and the variable behind it."""

    given: Any
    version: int  # what it had: `given` may be written to
    variable: Any
    tangent: Any


_LEVELS: list[list[_Dual]] = []


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` gives: a value and its derivative, which is None where there is none."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Begin a level of forward mode; only one is supported at a time, as in PyTorch."""
    if _LEVELS:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _LEVELS.append([])
    _C.set_forward_mode(True)
    return len(_LEVELS) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level: what is dual in it is no longer."""
    if not _LEVELS or (level is not None and level != len(_LEVELS) - 1):
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created.")
    _LEVELS.pop()
    _C.set_forward_mode(bool(_LEVELS))


class dual_level(_C.Context):  # noqa: N801  (PyTorch's name)
    """A context within which tensors may be dual."""

    def _now(self) -> int:
        return len(_LEVELS)

    def _set(self) -> int:
        return enter_dual_level()

    def _restore(self, before: int) -> None:
        del _LEVELS[before:]
        _C.set_forward_mode(bool(_LEVELS))


def make_dual(tensor: Any, tangent: Any, *, level: int | None = None) -> Any:
    """The tensor as a dual number with the tangent: what is computed from it has a derivative along it."""
    if not _LEVELS:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    if not (tensor.is_floating_point() or tensor.is_complex()):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {tensor.dtype}")
    if not (tangent.is_floating_point() or tangent.is_complex()):
        raise ValueError(f"Expected tangent to be floating point or complex, but got: {tangent.dtype}")
    if tuple(tensor.shape) != tuple(tangent.shape):
        raise RuntimeError(
            f"Expected tangent to have the same size as primal, got {list(tangent.shape)} and {list(tensor.shape)}"
        )
    if unpack_dual(tensor).tangent is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level "
            f"{len(_LEVELS) - 1} is not supported."
        )
    with enable_grad():
        if tensor.requires_grad:
            dual = variable = tensor.view_as(tensor)
        else:
            variable = _C.want_no_gradient(tensor.detach().requires_grad_(True))
            dual = _C.take_history(tensor.detach(), variable.alias())  # which may be written to
    _LEVELS[-1].append(_Dual(dual, _version(dual), variable, tangent))
    return dual


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a dual tensor and its derivative; (tensor, None) for others."""
    if not _LEVELS:
        return UnpackedDualTensor(tensor, None)
    if not isinstance(tensor, _C.Tensor):
        raise TypeError(f"_unpack_dual(): argument 'dual' (position 1) must be Tensor, not {type(tensor).__name__}")
    if not _C.is_recorded(tensor):
        return UnpackedDualTensor(tensor, None)
    duals = _LEVELS[-1]
    for dual in duals:
        if tensor is dual.given and _version(tensor) == dual.version:
            primal = tensor.view_as(tensor) if dual.given is dual.variable else tensor.detach()
            return UnpackedDualTensor(primal, dual.tangent)
    if not duals:
        return UnpackedDualTensor(tensor, None)
    variables = [dual.variable for dual in duals]
    outer = any(v is d.given for v, d in zip(variables, duals, strict=True)) or reaches_others([tensor], variables)
    primal = tensor.view_as(tensor) if outer else tensor.detach()
    with enable_grad():
        vector = tensor.detach().new_zeros(tuple(tensor.shape)).requires_grad_(True)
        pulled = passed([tensor], variables, [vector], True, True)
        used = [(p, dual.tangent) for p, dual in zip(pulled, duals, strict=True) if p is not None]
        if not used:
            return UnpackedDualTensor(tensor, None)
        outer = outer or any(t.requires_grad for _, t in used)
        found = [(p, t) for p, t in used if _C.is_recorded(p)]
        derivative = None
        if found:
            (derivative,) = passed([p for p, _ in found], [vector], [t for _, t in found], outer, True)
        if derivative is None:
            derivative = tensor.detach().new_zeros(tuple(tensor.shape))
    return UnpackedDualTensor(primal, derivative if outer else derivative.detach())


def _version(tensor: Any) -> int:
    return 0 if tensor.is_inference() else int(tensor._version)
