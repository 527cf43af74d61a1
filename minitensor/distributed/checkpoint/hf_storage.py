"""Checkpoints of all ranks in files of safetensors: the names that libraries import; there are none."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]


class HuggingFaceStorageReader:
    """What would read them. To make one is a NotImplementedError."""

    def __new__(cls, *arguments: Any, **named: Any) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError("HuggingFaceStorageReader: checkpoints of all ranks are not read")


class HuggingFaceStorageWriter:
    """What would write them. To make one is a NotImplementedError."""

    def __new__(cls, *arguments: Any, **named: Any) -> NoReturn:
        """Raise NotImplementedError."""
        raise NotImplementedError("HuggingFaceStorageWriter: checkpoints of all ranks are not written")
