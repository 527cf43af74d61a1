"""What is known of a program before it runs."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Callable
from typing import Any

KINDS = ("branches", "decoding", "examples", "large", "learning", "numerics", "pictures", "sequences", "training")
"""The modules that have programs."""


@dataclasses.dataclass(frozen=True)
class Program:
    """A function to be timed with `iterations`; `few` show whether it works. `pays`: compiling has something to win."""

    run: Callable[[int], Any]
    iterations: int
    few: int
    pays: bool

    @property
    def name(self) -> str:
        """``kind.function``."""
        return f"{self.run.__module__.rpartition('.')[2]}.{self.run.__name__}"


def program(iterations: int, few: int = 3, pays: bool = False) -> Callable[[Callable[[int], Any]], Program]:
    """Make a program of a function."""
    return lambda run: Program(run, iterations, few, pays)


def load(kind: str) -> dict[str, Program]:
    """Return the programs of a kind by name."""
    module = importlib.import_module(f"benchmarks.programs.{kind}")
    return {p.name: p for p in vars(module).values() if isinstance(p, Program)}


def load_all() -> dict[str, Program]:
    """Return all programs by name."""
    return {name: p for kind in KINDS for name, p in load(kind).items()}


def plain(value: Any) -> Any:
    """Return a result as Python's numbers and lists, whose text has every bit."""
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value
