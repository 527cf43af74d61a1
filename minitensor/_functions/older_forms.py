"""Calls in a form that PyTorch deprecated and still takes: factors before the tensors, as `x.add(2, y)`."""

from __future__ import annotations

import inspect
import numbers
from typing import Any

from minitensor import _C
from minitensor._warning import warn

__all__ = ["rearranged"]

_warned = [False]


def rearranged(function: Any, args: tuple[Any, ...], more: dict[str, Any]) -> tuple[tuple[Any, ...], Any] | None:
    """The arguments of such a call as the function has them today, with PyTorch's warning; None of another call.

    What several factors have in common is that those at the end may be missing. The tensor that is added to comes first
    in a method, and behind the first factor in a function.
    """
    factors: tuple[str, ...] = function._older_form
    tensors = [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.POSITIONAL_OR_KEYWORD]
    if len(tensors) < 2:  # an in-place form, whose signature is that of what it stores
        return None
    count = len(args) - len(tensors)
    if not 0 < count <= len(factors) or any(name in more for name in (*factors, *tensors)):
        return None
    if len(factors) > 1 and not _is_number(args[1]):
        args = (args[1], args[0], *args[2:])
    given = args[1 : 1 + count]
    if not all(map(_is_number, given)) or not isinstance(args[0], _C.Tensor):
        return None
    _warn(function.__name__, factors[:count], tensors[1:], factors)
    return (args[0], *args[1 + count :]), {**more, **dict(zip(factors, given, strict=False))}


def _is_number(value: Any) -> bool:
    """Whether PyTorch takes it as a number: a tensor of one element without dimensions and history, too."""
    if isinstance(value, _C.Tensor):
        return value.ndim == 0 and not value.requires_grad
    return isinstance(value, numbers.Number)


def _warn(name: str, given: tuple[str, ...], tensors: list[str], factors: tuple[str, ...]) -> None:
    from minitensor.settings import is_warn_always_enabled

    if _warned[0] and not is_warn_always_enabled():
        return
    _warned[0] = True
    before = [f"Number {factor}" for factor in given]
    of = [f"Tensor {tensor}" for tensor in tensors]
    after = [f"Number {factor} = 1" for factor in factors]
    warn(
        f"This overload of {name} is deprecated:\n\t{name}({', '.join(before + of)})\n"
        f"Consider using one of the following signatures instead:\n\t{name}({', '.join([*of, '*', *after])})"
    )
