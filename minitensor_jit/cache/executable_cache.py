"""Compiled clusters by what their modules are: bounded by bytes, least recently used first to leave.

What belongs to a compiled function is only known as long as something launches it: it goes when the function goes.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from weakref import WeakValueDictionary

from minitensor import _forks
from minitensor_jit.runtime.executable import AnyExecutable

__all__ = ["ExecutableCache", "module_id"]


def module_id(text: str) -> str:
    """What a module is known by: the SHA-256 of its text."""
    return hashlib.sha256(text.encode()).hexdigest()


class ExecutableCache:
    """Executables by `module_id`; safe to use from several threads."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.hits = 0
        self.misses = 0
        self.evicted = 0
        self._owned: OrderedDict[str, tuple[AnyExecutable, int]] = OrderedDict()
        # The bytes of those, each as it was when it came: adding them up anew takes as long as there are many.
        self._kept = 0
        self._known: WeakValueDictionary[str, AnyExecutable] = WeakValueDictionary()
        self._lock = _forks.lock()

    def __len__(self) -> int:
        return len(self._known)

    @property
    def nbytes(self) -> int:
        """What all that are alive take."""
        return sum(executable.nbytes for executable in self._known.values())

    def alive(self) -> list[tuple[str, AnyExecutable]]:
        """All that are known, with their modules."""
        with self._lock:
            return list(self._known.items())

    def has(self, module: str) -> bool:
        """Whether the executable of a module is known."""
        return module in self._known

    def find(self, module: str) -> AnyExecutable | None:
        """The executable of a module."""
        with self._lock:
            known = self._known.get(module)
            if known is None:
                self.misses += 1
                return None
            self.hits += 1
            if module in self._owned:
                self._owned.move_to_end(module)
            return known

    def insert(self, module: str, executable: AnyExecutable, *, keep: bool) -> None:
        """Make an executable known; it is kept alive here, if `keep`, until others need the room."""
        dying = []  # until the lock is free
        with self._lock:
            self._known[module] = executable
            if not keep:
                return
            before = self._owned.pop(module, None)
            if before is not None:
                dying.append(before[0])
                self._kept -= before[1]
            size = executable.nbytes
            self._owned[module] = executable, size
            self._kept += size
            # The newest stays, however large; plans that launch one of the others keep it alive.
            while self._kept > self.limit and len(self._owned) > 1:
                _, (gone, freed) = self._owned.popitem(last=False)
                dying.append(gone)
                self._kept -= freed
                self.evicted += 1

    def clear(self) -> None:
        """Forget all; plans that still launch one keep it alive."""
        with self._lock:
            dying = list(self._owned.values())
            self._owned.clear()
            self._kept = 0
            self._known.clear()
        dying.clear()
