"""The ways to the leaves of a tree: one key for each container on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["GetAttrKey", "KeyEntry", "KeyPath", "MappingKey", "SequenceKey", "key_get", "keystr"]


@dataclass(frozen=True)
class SequenceKey:
    """A place in a list or tuple."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, obj: Any) -> Any:
        """What is in that place."""
        return obj[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """A key of a dict."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, obj: Any) -> Any:
        """What the key stands for."""
        return obj[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """An attribute."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: Any) -> Any:
        """The attribute's value."""
        return getattr(obj, self.name)


KeyEntry = Any  # has a hash, `==`, str() and get(obj)
KeyPath = tuple[KeyEntry, ...]


def keystr(kp: KeyPath) -> str:
    """A way as it would be written in Python: `['a'][0].b`."""
    return "".join(map(str, kp))


def key_get(obj: Any, kp: KeyPath) -> Any:
    """What is at the end of a way that begins at the object."""
    for key in kp:
        obj = key.get(obj)
    return obj
