"""Memory with a shadow: a byte beside each byte says whether it belongs to anybody and whether it was ever written.

Global memory is one arena at an address that no host pointer has. Shared and local memory are such arrays too, one
piece for each block or thread of a launch.
"""

from __future__ import annotations

from bisect import bisect_right

import numpy as np

from .errors import PtxFault

NOBODYS, UNWRITTEN, WRITTEN = 0, 1, 255
ALIGNMENT = 512
GAP = 512
GLOBAL_BASE = 0x0200_0000_0000
SHARED_BASE = 0x7F00_0000_0000
LOCAL_BASE = 0x7F80_0000_0000
CONST_BASE = 0x7F40_0000_0000
WINDOW = 1 << 32
"""Where the other state spaces lie among generic addresses."""


def words(array: np.ndarray, size: int) -> np.ndarray:
    """The bytes as elements of `size` bytes; those of more than 8 are rows."""
    if size <= 8:
        return array.view(f"u{size}")
    return array.view(np.uint64).reshape(-1, size // 8)


class Storage:
    """Bytes and their shadow, seen in every width."""

    def __init__(self, size: int, state: int = NOBODYS):
        size = -(-size // 64) * 64
        self.bytes = np.zeros(size, np.uint8)
        self.shadow = np.zeros(size, np.uint8) if state == NOBODYS else np.full(size, state, np.uint8)
        self.data = {w: words(self.bytes, w) for w in (1, 2, 4, 8, 16, 32)}
        self.states = {w: words(self.shadow, w) for w in (1, 2, 4, 8, 16, 32)}


def repeated(byte: int, size: int) -> np.generic:
    return np.frombuffer(bytes([byte] * min(size, 8)), f"u{min(size, 8)}")[0]


ALL_WRITTEN = {w: repeated(WRITTEN, w) for w in (1, 2, 4, 8, 16, 32)}
ALL_OWNED = {w: repeated(UNWRITTEN, w) for w in (1, 2, 4, 8, 16, 32)}


class OutOfMemoryError(Exception):
    """No room for an allocation."""


class Memory:
    """The global memory of a device: allocations with gaps between them."""

    def __init__(self, capacity: int = 1 << 28, base: int = GLOBAL_BASE):
        self.capacity = capacity
        self.base = base
        # Only what is touched takes memory of the host. Gaps must not reduce the capacity.
        self.storage = Storage(2 * capacity + (1 << 20))
        self.blocks: dict[int, int] = {}
        self.starts: list[int] = []
        self.used = 0
        self.launches = 0
        self.records: dict[int, tuple[np.ndarray, np.ndarray]] = {}
        """Who wrote and read what last, by the granule in bytes: `races.LaunchRaces`."""
        self.globals: dict[int, dict[str, int]] = {}
        """The addresses of the variables of each machine that was launched here."""

    def allocate(self, size: int, *, written: bool = False) -> int:
        """Raises OutOfMemoryError where nothing is free."""
        if size < 0:
            raise ValueError(f"{size} bytes")
        room = -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        if self.used + room > self.capacity:
            raise OutOfMemoryError(f"{size} bytes, of {self.capacity} are {self.used} in use")
        at, place = 0, 0
        for start in self.starts:
            if start - place >= room + GAP:
                break
            place = start + -(-max(self.blocks[start], 1) // ALIGNMENT) * ALIGNMENT + GAP
            at += 1
        if place + room + GAP > len(self.storage.bytes):
            raise OutOfMemoryError(f"{size} bytes: memory is in pieces")
        self.starts.insert(at, place)
        self.blocks[place] = size
        self.used += room
        self.storage.shadow[place : place + size] = WRITTEN if written else UNWRITTEN
        return self.base + place

    def free(self, address: int) -> None:
        place = address - self.base
        if place not in self.blocks:
            raise PtxFault("free", f"{address:#x} isn't the start of an allocation")
        size = self.blocks.pop(place)
        self.starts.remove(place)
        self.used -= -(-max(size, 1) // ALIGNMENT) * ALIGNMENT
        self.storage.shadow[place : place + size] = NOBODYS

    def owner(self, address: int) -> tuple[int, int] | None:
        """Start and size of the allocation at or before an address."""
        k = bisect_right(self.starts, address - self.base) - 1
        return None if k < 0 else (self.base + self.starts[k], self.blocks[self.starts[k]])

    def _place(self, address: int, size: int) -> slice:
        place = address - self.base
        if place < 0 or place + size > len(self.storage.bytes):
            raise PtxFault("out of bounds", f"{size} bytes at {address:#x} aren't device memory")
        if size and not self.storage.shadow[place : place + size].all():
            raise PtxFault("out of bounds", f"{size} bytes at {address:#x} aren't within an allocation")
        return slice(place, place + size)

    def write(self, address: int, data: bytes | np.ndarray) -> None:
        raw = np.frombuffer(data, np.uint8)
        place = self._place(address, len(raw))
        self.storage.bytes[place] = raw
        self.storage.shadow[place] = WRITTEN

    def read(self, address: int, size: int) -> bytes:
        return self.storage.bytes[self._place(address, size)].tobytes()

    def is_written(self, address: int, size: int) -> bool:
        return bool((self.storage.shadow[self._place(address, size)] == WRITTEN).all())

    def copy(self, to: int, of: int, size: int) -> None:
        source, target = self._place(of, size), self._place(to, size)
        self.storage.bytes[target] = self.storage.bytes[source].copy()
        self.storage.shadow[target] = self.storage.shadow[source].copy()

    def launch_began(self) -> None:
        """Counts launches."""
        self.launches += 1

    def forget(self, address: int, size: int) -> None:
        """What lies there counts as never written: memory that a pool hands out again."""
        self.storage.shadow[self._place(address, size)] = UNWRITTEN


class Space:
    """A state space as the threads of a launch see it.

    `stride` separates the pieces of blocks (shared) or threads (local).
    """

    def __init__(self, name: str, storage: Storage, base: int, limit: int, stride: int = 0):
        self.name = name
        self.storage = storage
        self.base = base
        self.limit = limit
        self.stride = stride
        self.reads = self.writes = 0

    def locate(self, m, address, size: int, line: int):
        """Offsets in the storage, checked."""
        offset = address.astype(np.int64) - self.base
        wrong = (offset & (size - 1)) != 0
        if wrong.any():
            m.fault("misaligned address", line, wrong, f"{self.name} address {{:#x}} for {size} bytes", address)
        wrong = (offset < 0) | (offset > self.limit - size)
        if wrong.any():
            m.fault("out of bounds", line, wrong, f"{self.name} address {{:#x}}{self.bounds()}", address)
        if self.stride:
            offset = offset + m.piece(self.name) * self.stride
        return offset

    def bounds(self) -> str:
        return f", where {self.limit} bytes are" if self.stride else " belongs to no allocation"

    def load(self, m, address, size: int, count: int, line: int, how: str = "") -> tuple:
        total = size * count
        offset = self.locate(m, address, total, line)
        place = offset // total
        states = self.storage.states[total].take(place, axis=0)
        good = states == ALL_WRITTEN[total]
        if not good.all():
            self.unreadable(m, address, states, good, total, line)
        m.note_read(self, offset, total, line, how)
        value = self.storage.data[total].take(place, axis=0)
        if count == 1:
            return (value,)
        if value.ndim == (1 if total > 8 else 0):  # one address for all
            parts = np.atleast_1d(value).view(f"u{size}")
            return tuple(parts[k] for k in range(count))
        return tuple(np.ascontiguousarray(value.view(f"u{size}").reshape(-1, count).T))

    def store(self, m, address, values: tuple, size: int, line: int, how: str = "") -> None:
        count = len(values)
        total = size * count
        offset = np.broadcast_to(self.locate(m, address, total, line), m.n)
        place = offset // total
        states = self.storage.states[total][place]
        owned = (states & ALL_OWNED[total]) == ALL_OWNED[total]
        if not owned.all():
            wrong = ~owned if owned.ndim == 1 else ~owned.all(axis=1)
            m.fault("out of bounds", line, wrong, self.complaint(address), address)
        rows = np.empty((m.n, count), f"u{size}")
        for k, value in enumerate(values):
            rows[:, k] = value
        wide = rows.view(np.uint64) if total > 8 else rows.view(f"u{total}")[:, 0]
        m.note_write(self, offset, total, line, how)
        self.storage.data[total][place] = wide
        self.storage.states[total][place] = ALL_WRITTEN[total]
        if m.races is not None and self.name != "local":
            same = self.storage.data[total][place] == wide
            if not same.all():
                wrong = ~same if same.ndim == 1 else ~same.all(axis=1)
                words = f"{self.name} address {{:#x}} is written by several threads at once, with different values"
                m.fault("race", line, wrong, words, address)

    def complaint(self, address) -> str:
        return f"{self.name} address {{:#x}} belongs to no allocation"

    def unreadable(self, m, address, states, good, total: int, line: int) -> None:
        states = np.atleast_1d(states).reshape(-1, total // min(total, 8))
        raw = states.view(np.uint8).reshape(len(states), total)
        nobodys = (raw == NOBODYS).any(axis=1)
        if nobodys.any():
            m.fault("out of bounds", line, nobodys, self.complaint(address), address)
        if m.checks.uninitialized:
            m.fault(
                "uninitialized memory",
                line,
                (raw == UNWRITTEN).any(axis=1),
                f"{self.name} address {{:#x}} was never written",
                address,
            )

    def load_atomic(self, m, address, size: int, line: int):
        """For an atomic operation: it is no reader that others could race with."""
        offset = np.broadcast_to(self.locate(m, address, size, line), m.n)
        place = offset // size
        states = self.storage.states[size][place]
        good = states == ALL_WRITTEN[size]
        if not good.all():
            self.unreadable(m, address, states, good, size, line)
        m.note_atomic(self, offset, size, line)
        return self.storage.data[size][place]

    def store_atomic(self, m, address, value: np.ndarray, size: int, line: int) -> None:
        self.storage.data[size][np.broadcast_to(self.locate(m, address, size, line), m.n) // size] = value
