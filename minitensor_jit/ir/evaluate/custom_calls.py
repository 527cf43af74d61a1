"""The registry of custom-calls: what a target means, as a function on arrays.

`register_custom_call("target", function)` adds one; the function gets the instruction and its operands' values and
gives the value. The ones of LAPACK that JAX calls are in `custom_calls_lapack.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from ..module import Instruction
from .elementwise import Rule, Value

__all__ = ["custom_call", "custom_call_targets", "find_custom_call", "register_custom_call"]

_CALLS: Final[dict[str, Rule]] = {}


def register_custom_call(target: str, function: Rule) -> None:
    """Says what a custom-call to `target` computes; a second registration of a name replaces the first."""
    if not target or target.startswith("mt."):
        raise ValueError(f"a custom-call's target must not be empty or begin with mt., got {target!r}")
    _CALLS[target] = function


def custom_call(*targets: str) -> Callable[[Rule], Rule]:
    """Registers the function that it decorates."""

    def decorate(function: Rule) -> Rule:
        for target in targets:
            register_custom_call(target, function)
        return function

    return decorate


def custom_call_targets() -> list[str]:
    """The names of all targets that are known."""
    from . import custom_calls_lapack  # noqa: F401

    return sorted(_CALLS)


def find_custom_call(i: Instruction) -> Rule:
    """The function of a custom-call; raises `NotImplementedError` naming the target that is not known."""
    target = str(i.attrs["custom_call_target"])
    if target not in _CALLS:
        custom_call_targets()
    if target not in _CALLS:
        raise NotImplementedError(f"{i.name}: no custom-call is registered for the target {target!r}")
    return _CALLS[target]


@custom_call("Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "annotate_device_placement")
def _identity(i: Instruction, x: Sequence[Value]) -> Any:
    return x[0]
