"""Steps of optimizers as programs, where `MT_JIT_FLAGS` records a whole program (csrc/bindings/jit/whole_step.cpp)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor_jit.functions.arguments import flatten
from minitensor_jit.state.observer import Observer

__all__ = ["programs", "record"]


class _Steps:
    """The programs are looked up; what has none is recorded by the caller."""

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        raise AssertionError("the caller records")

    def more(self, what: str) -> int:
        """There are no programs below these."""
        return 0

    def forget(self) -> None:
        """There is nothing else to forget."""


class _StepObserver(Observer):
    """Notes what the optimizer has; its step is the framework's own, and reads nothing else."""

    def __init__(self, optimizer: Any) -> None:
        super().__init__(())
        self._optimizer = optimizer

    def begin(self, fn: Any) -> None:
        """Watch the step."""
        optimizer = self._optimizer
        super().begin(fn)
        self._guarded(self._kind, optimizer)
        self._guarded(self._enters, fn, optimizer)
        self._guarded(self._framework, "step", (optimizer,))


def programs() -> Any:
    """What has the programs of steps."""
    return _C.CompiledFunction(_Steps())


def record(compiled: Any, step: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Return ``step(*args)``, which is recorded, and keep its program if it can be."""
    result, guards = _C.observed(_StepObserver(args[0]), step, args, {})
    tensors, structure = flatten(result)
    compiled.finish((), tuple(tensors), structure, guards)
    return result
