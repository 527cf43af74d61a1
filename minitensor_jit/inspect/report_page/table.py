"""Values that are written once and meant by their number."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

__all__ = ["Table"]

T = TypeVar("T", bound=Hashable)


class Table(Generic[T]):
    """Numbers values in the order of their first use."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._numbers: dict[T, int] = {}

    def __call__(self, value: T) -> int:
        """The value's number."""
        number = self._numbers.get(value)
        if number is None:
            number = self._numbers[value] = len(self.values)
            self.values.append(value)
        return number
