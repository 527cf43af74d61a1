"""The classes and functions that a checkpoint may name besides those of the format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "lookup", "safe_globals"]

_allowed: dict[str, Any] = {}


def _name_of(thing: Any) -> tuple[str, Any]:
    if isinstance(thing, tuple):
        thing, name = thing
        return str(name), thing
    if not hasattr(thing, "__module__") or not hasattr(thing, "__qualname__"):
        raise TypeError(f"expected a class, a function or a pair of one and its name, got {type(thing).__name__}")
    return f"{thing.__module__}.{thing.__qualname__}", thing


def add_safe_globals(safe_globals: Sequence[Any]) -> None:
    """Let checkpoints name these classes and functions: each one, or a pair (it, "module.name").

    Loading a file that names them *calls* them with what the file says. Only list what is harmless with any arguments.
    """
    _allowed.update(_name_of(thing) for thing in safe_globals)


def get_safe_globals() -> list[Any]:
    """What `add_safe_globals` has added."""
    return list(_allowed.values())


def clear_safe_globals() -> None:
    """Forget what was added."""
    _allowed.clear()


@contextmanager
def safe_globals(safe_globals: Sequence[Any]) -> Iterator[None]:
    """Within the block, checkpoints may name these classes and functions too."""
    before = dict(_allowed)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _allowed.clear()
        _allowed.update(before)


def lookup(name: str) -> Any:
    """What was added under a name, or None."""
    return _allowed.get(name)
