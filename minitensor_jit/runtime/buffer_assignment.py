"""Where every array of a module lives while it runs: parameters, results, and slots of one scratch block."""

from __future__ import annotations

import bisect
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

from ..ir.size import Size

__all__ = ["ALIGNMENT", "BufferAssignment", "Location"]

ALIGNMENT = 64


@dataclass(frozen=True, slots=True)
class Location:
    """A place in memory: `offset` bytes into buffer number `slot`, or constant data."""

    kind: str  # parameter, result, scratch or constant
    slot: int = -1
    offset: int = 0
    data: bytes = b""


@dataclass(slots=True)
class _Free:
    offset: int
    size: int


class BufferAssignment:
    """Hands out scratch memory step by step.

    A slot is used again once the last reader of its value has run, or by what that reader itself makes.

    Best fit by offset: the first free range that is large enough, so the block stays small and the addresses warm.
    """

    def __init__(self) -> None:
        self.size = 0
        self._free: list[_Free] = []
        self._held: dict[Hashable, _Free] = {}

    def allocate(self, key: Hashable, nbytes: int) -> int:
        """The offset of a new slot for the value `key`."""
        size = -(-nbytes // ALIGNMENT) * ALIGNMENT
        if isinstance(size, Size) or isinstance(self.size, Size):
            return self._allocate_unknown(key, size or ALIGNMENT)
        size = max(ALIGNMENT, size)
        best = min((f for f in self._free if f.size >= size), key=lambda f: (f.size, f.offset), default=None)
        if best is not None:
            offset = best.offset
            best.offset += size
            best.size -= size
            if not best.size:
                self._free.remove(best)
        elif self._free and self._free[-1].offset + self._free[-1].size == self.size:
            # The last range is free but too short: let it grow.
            offset = self._free.pop().offset
            self.size = offset + size
        else:
            offset = self.size
            self.size += size
        self._held[key] = _Free(offset, size)
        return offset

    def holds(self, key: Hashable) -> bool:
        """Whether the value has a slot."""
        return key in self._held

    def hand_over(self, old: Hashable, new: Hashable) -> None:
        """The value `old` dies where `new` is made: its slot is now that of `new`, which is written over it."""
        self._held[new] = self._held.pop(old)

    def _allocate_unknown(self, key: Hashable, size: int) -> int:
        """As `allocate`, where sizes are symbols: only a slot of the very same size is used again."""
        best = next((f for f in self._free if f.size == size), None)
        if best is not None:
            self._free.remove(best)
        else:
            best = _Free(self.size, size)
            self.size += size
        self._held[key] = best
        return best.offset

    def release(self, key: Hashable) -> None:
        """The value is dead; its slot may be used again."""
        freed = self._held.pop(key)
        if isinstance(self.size, Size):
            self._free.append(freed)
            return
        at = bisect.bisect([f.offset for f in self._free], freed.offset)
        self._free.insert(at, freed)
        if at + 1 < len(self._free) and freed.offset + freed.size == self._free[at + 1].offset:
            freed.size += self._free.pop(at + 1).size
        if at and self._free[at - 1].offset + self._free[at - 1].size == freed.offset:
            self._free[at - 1].size += freed.size
            self._free.pop(at)

    def release_all(self, keys: Iterable[Hashable]) -> None:
        """Releases several values; those without a slot are ignored."""
        for key in keys:
            if key in self._held:
                self.release(key)
