"""Dual numbers: values that carry a derivative along.

A dual tensor is a variable of the tape with a tangent noted beside it. The tangent of a result is the derivative of its
vjp, which is linear in its vector: two backward passes, when somebody asks for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from minitensor.autograd.gradients import grad
from minitensor.autograd.modes import enable_grad

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

_LEVELS: list[list[tuple[Any, Any]]] = []


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` gives: a value and its derivative, which is None where there is none."""

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Begin a level of forward mode; only one is supported at a time, as in PyTorch."""
    if _LEVELS:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _LEVELS.append([])
    return len(_LEVELS) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level: what is dual in it is no longer."""
    if not _LEVELS or (level is not None and level != len(_LEVELS) - 1):
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created.")
    _LEVELS.pop()


class dual_level:  # noqa: N801  (PyTorch's name)
    """A context within which tensors may be dual."""

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exception: object) -> None:
        exit_dual_level()


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
    with enable_grad():
        dual = tensor.view_as(tensor) if tensor.requires_grad else tensor.detach().requires_grad_(True)
    _LEVELS[-1].append((dual, tangent))
    return dual


def unpack_dual(tensor: Any, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a dual tensor and its derivative; (tensor, None) for others."""
    if not _LEVELS or not tensor.requires_grad:
        return UnpackedDualTensor(tensor, None)
    for dual, tangent in _LEVELS[-1]:
        if tensor is dual:
            return UnpackedDualTensor(tensor.detach(), tangent)
    pairs = _LEVELS[-1]
    if not pairs:
        return UnpackedDualTensor(tensor, None)
    with enable_grad():
        vector = tensor.detach().new_zeros(tuple(tensor.shape)).requires_grad_(True)
        pulled = grad(tensor, [dual for dual, _ in pairs], vector, create_graph=True, allow_unused=True)
        used = [(p, tangent) for p, (_, tangent) in zip(pulled, pairs, strict=True) if p is not None]
        if not used:
            return UnpackedDualTensor(tensor, None)
        outer = any(t.requires_grad for _, t in used)
        found = [p for p, _ in used if p.requires_grad]
        if not found:
            return UnpackedDualTensor(tensor.detach(), tensor.detach().new_zeros(tuple(tensor.shape)))
        given = [t for p, t in used if p.requires_grad]
        (derivative,) = grad(found, [vector], given, create_graph=outer, retain_graph=True, materialize_grads=True)
    return UnpackedDualTensor(tensor.detach(), derivative)
