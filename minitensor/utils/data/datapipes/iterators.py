"""One iterator at a time: a new one of a pipe ends the one before."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["described", "watched"]


def described(pipe: Any) -> str:
    """The pipe's class with its arguments, for errors."""
    names = inspect.signature(type(pipe)).parameters
    held = [(name, value) for name, value in vars(pipe).items() if name in names]
    shown = [
        f"{name}={value.__name__}" if inspect.isfunction(value) else f"{name}={value!r}"
        for name, value in sorted(held, key=lambda pair: pair[0])
    ]
    return f"{type(pipe).__name__}({', '.join(shown)})"


class _Watched:
    """An iterator of a pipe that can be ended by another."""

    def __init__(self, iterator: Iterator[Any], pipe: Any, number: Any) -> None:
        self._iterator, self._pipe, self._number = iterator, pipe, number

    def __iter__(self) -> _Watched:
        return self

    def __next__(self) -> Any:
        pipe = self._pipe
        if not pipe._is_valid(self._number):
            source = getattr(pipe, "main_datapipe", None) if getattr(pipe, "_is_child_datapipe", False) else None
            what = (
                "because another iterator has been created from the same IterDataPipe: " + described(pipe)
                if source is None
                else f"because a new iterator has been created from one of the ChildDataPipes of {described(source)}."
            )
            raise RuntimeError(
                f"This iterator has been invalidated {what}\nThis may be caused by multiple references to the same "
                "IterDataPipe. We recommend using `.fork()` if that is necessary."
            )
        try:
            found = next(self._iterator)
        except StopIteration:
            raise
        except Exception as error:
            text = "thrown by __iter__ of"
            first = error.args[0] if error.args else None
            if not isinstance(first, str):
                error.args = (f"\nThis exception is {text} {described(pipe)}",)
            elif text not in first and "has been invalidated" not in first:
                error.args = (f"{first}\nThis exception is {text} {described(pipe)}", *error.args[1:])
            raise
        pipe._number_of_samples_yielded += 1
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)

    def __del__(self) -> None:
        close = getattr(self._iterator, "close", None)
        if close is not None and inspect.isgenerator(self._iterator):
            close()


def watched(made: Callable[[Any], Iterator[Any]]) -> Callable[[Any], Any]:
    """An `__iter__` whose iterators end those before, after the pipe was reset."""

    @functools.wraps(made)
    def begin(pipe: Any) -> Any:
        number = pipe._begin()
        iterator = made(pipe)
        if isinstance(iterator, _Watched) and iterator._pipe is pipe:  # of a base class
            return iterator
        return _Watched(iterator, pipe, number)

    begin._watched = True  # type: ignore[attr-defined]
    return begin
