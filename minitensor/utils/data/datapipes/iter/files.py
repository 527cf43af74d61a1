"""Pipes that begin: of what can be iterated over, and of files."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from typing import Any

from minitensor._warning import warn
from minitensor.utils.data.datapipes.datapipe import IterDataPipe
from minitensor.utils.data.datapipes.decorators import functional_datapipe
from minitensor.utils.data.datapipes.functions import length_of, listed, opened

__all__ = [
    "FileListerIterDataPipe", "FileOpenerIterDataPipe", "IterableWrapperIterDataPipe", "StreamReaderIterDataPipe",
]  # fmt: skip


class IterableWrapperIterDataPipe(IterDataPipe[Any]):
    """What can be iterated over as a pipe; copied for each iteration, unless `deepcopy` is False."""

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        """The samples."""
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        samples = self.iterable
        if self.deepcopy:
            try:
                samples = copy.deepcopy(samples)
            except TypeError:
                warn(
                    "The input iterable can not be deepcopied, please be aware of in-place modification would affect "
                    "source data."
                )
        yield from samples

    def __len__(self) -> int:
        return length_of(self, self.iterable)


class _OfLength(IterDataPipe[Any]):
    length: int

    def __len__(self) -> int:
        if self.length == -1:
            raise TypeError(f"{type(self).__name__} instance doesn't have valid length")
        return self.length


@functional_datapipe("list_files")
class FileListerIterDataPipe(_OfLength):
    """The paths of the files in folders whose names fit one of the masks, sorted unless `non_deterministic`."""

    def __init__(
        self, root: Any = ".", masks: str | list[str] = "", *, recursive: bool = False, abspath: bool = False,
        non_deterministic: bool = False, length: int = -1,
    ) -> None:  # fmt: skip
        """`root`: a folder, several, or a pipe of them; `length`: what `len()` is to say."""
        super().__init__()
        roots = [root] if isinstance(root, str) else root
        self.datapipe = roots if isinstance(roots, IterDataPipe) else IterableWrapperIterDataPipe(roots)
        self.masks, self.recursive, self.abspath = masks, recursive, abspath
        self.non_deterministic, self.length = non_deterministic, length

    def __iter__(self) -> Iterator[Any]:
        for root in self.datapipe:
            yield from listed(root, self.masks, self.recursive, self.abspath, self.non_deterministic)


@functional_datapipe("open_files")
class FileOpenerIterDataPipe(_OfLength):
    """Paths with their open files, which close themselves."""

    def __init__(self, datapipe: Any, mode: str = "r", encoding: str | None = None, length: int = -1) -> None:
        """`mode`: b, t, rb, rt or r. ValueError for others."""
        super().__init__()
        if mode not in ("b", "t", "rb", "rt", "r"):
            raise ValueError(f"Invalid mode {mode}")
        if "b" in mode and encoding is not None:
            raise ValueError("binary mode doesn't take an encoding argument")
        self.datapipe, self.mode, self.encoding, self.length = datapipe, mode, encoding, length

    def __iter__(self) -> Iterator[Any]:
        yield from opened(self.datapipe, self.mode, self.encoding)


@functional_datapipe("read_from_stream")
class StreamReaderIterDataPipe(IterDataPipe[Any]):
    """What is in files, whole or in chunks, with their paths."""

    def __init__(self, datapipe: Any, chunk: int | None = None) -> None:
        """`chunk`: how much at a time."""
        self.datapipe, self.chunk = datapipe, chunk

    def __iter__(self) -> Iterator[Any]:
        for path, stream in self.datapipe:
            while data := stream.read(self.chunk):
                yield path, data
            stream.close()
