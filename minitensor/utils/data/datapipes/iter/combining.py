"""Pipes that take several."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from minitensor.utils.data.datapipes.datapipe import IterDataPipe
from minitensor.utils.data.datapipes.decorators import functional_datapipe
from minitensor.utils.data.datapipes.functions import length_of

__all__ = ["ConcaterIterDataPipe", "MultiplexerIterDataPipe", "ZipperIterDataPipe"]


@functional_datapipe("concat")
class ConcaterIterDataPipe(IterDataPipe[Any]):
    """The samples of several pipes, one pipe after the other."""

    def __init__(self, *datapipes: Any) -> None:
        """ValueError without pipes, TypeError for what is none."""
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("Expected all inputs to be `IterDataPipe`")
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        for pipe in self.datapipes:
            yield from pipe

    def __len__(self) -> int:
        return sum(length_of(self, pipe) for pipe in self.datapipes)


@functional_datapipe("mux")
class MultiplexerIterDataPipe(IterDataPipe[Any]):
    """A sample of each of several pipes in turn, as long as all of them have one."""

    def __init__(self, *datapipes: Any) -> None:
        """The pipes."""
        self.datapipes = datapipes
        self.buffer: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        for samples in zip(*self.datapipes, strict=False):
            yield from samples

    def __len__(self) -> int:
        return min(length_of(self, pipe) for pipe in self.datapipes) * len(self.datapipes)


@functional_datapipe("zip")
class ZipperIterDataPipe(IterDataPipe[tuple[Any]]):
    """The samples of several pipes together, as tuples, as long as all of them have one."""

    def __init__(self, *datapipes: Any) -> None:
        """TypeError for what is no pipe."""
        if not all(isinstance(pipe, IterDataPipe) for pipe in datapipes):
            raise TypeError("All inputs are required to be `IterDataPipe` for `ZipIterDataPipe`.")
        super().__init__()
        self.datapipes = datapipes

    def __iter__(self) -> Iterator[Any]:
        yield from zip(*self.datapipes, strict=False)

    def __len__(self) -> int:
        return min(length_of(self, pipe) for pipe in self.datapipes)
