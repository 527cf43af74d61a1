"""The threads of a batch of blocks, as the translated code sees them: who they are, their memory, and their warps."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .errors import PtxFault
from .instructions.atomics import apply_atomic
from .instructions.matrix import MatrixLanes
from .memory import CONST_BASE, LOCAL_BASE, SHARED_BASE, UNWRITTEN, WINDOW, WRITTEN, Memory, Space, Storage
from .races import ATOMIC, PLAIN, Races
from .traffic import Traffic

U32 = np.uint32


@dataclass(frozen=True)
class Checks:
    """What is looked for besides what can't be done at all."""

    uninitialized: bool = True
    races: bool = True
    convergence: bool = True
    """Of shuffles and votes: whether all threads that the mask names are there."""


class Lanes(MatrixLanes):
    """`n` threads stand together; `index` are their numbers in the batch, or None for all."""

    def __init__(
        self,
        machine,
        kernel,
        grid,
        block,
        first,
        blocks,
        shared_bytes,
        arguments,
        memory: Memory,
        checks: Checks,
        launch_races,
    ):
        self.machine = machine
        self.kernel = kernel
        self.grid, self.block = grid, block
        self.first, self.blocks = first, blocks
        self.memory = memory
        self.arguments = np.frombuffer(arguments, np.uint8)
        self.checks = checks
        size = block[0] * block[1] * block[2]
        self.total = blocks * size
        self.everyone = np.arange(self.total)
        self.thread_of = np.tile(np.arange(size), blocks)
        self.cta_of = np.repeat(np.arange(blocks), size)
        warps = -(-size // 32)
        self.warps = blocks * warps
        self.warp_of = self.cta_of * warps + self.thread_of // 32
        self.lane_of = self.thread_of % 32
        self.slot_of = self.warp_of * 32 + self.lane_of
        self.warp_size = np.bincount(self.warp_of, minlength=self.warps)
        self.alive_count = np.full(blocks, size)
        self.alive = np.ones(self.total, bool)
        self.shared_size = kernel.layouts["shared"].size + shared_bytes
        self.shared_bytes = shared_bytes
        stride = -(-self.shared_size // 64) * 64
        local = kernel.layouts["local"].size
        local_stride = -(-local // 32) * 32
        self.spaces = {
            "global": Space("global", memory.storage, memory.base, len(memory.storage.bytes)),
            "shared": Space("shared", Storage(stride * blocks, UNWRITTEN), 0, self.shared_size, stride or 64),
            "local": Space("local", Storage(local_stride * self.total, UNWRITTEN), 0, local, local_stride or 32),
        }
        constants = Storage(max(len(kernel.const_data), 1), WRITTEN)
        constants.bytes[: len(kernel.const_data)] = np.frombuffer(bytes(kernel.const_data), np.uint8)
        self.spaces["const"] = Space("const", constants, 0, len(kernel.const_data))
        self.variables = machine.global_addresses(kernel, memory) if kernel.globals else {}
        self.specials: dict[str, np.ndarray] = {}
        self.special_now: dict[str, object] = {}
        self.traffic = Traffic(self) if machine.measure else None
        self.races = Races(self, launch_races, kernel.granules["shared"]) if launch_races is not None else None
        self.start_copies()
        self.stand(None)

    # Where the threads stand

    def stand(self, index: np.ndarray | None) -> None:
        self.index = index
        self.n = self.total if index is None else len(index)
        self.special_now.clear()

    def here(self, values: np.ndarray) -> np.ndarray:
        return values if self.index is None else values[self.index]

    def piece(self, space: str):
        if space == "shared":
            return self.here(self.cta_of) if self.blocks > 1 else np.int64(0)
        return self.here(self.everyone)

    def end(self, index: np.ndarray | None) -> None:
        index = self.everyone if index is None else index
        self.alive[index] = False
        self.alive_count -= np.bincount(self.cta_of[index], minlength=self.blocks)

    def coordinates(self, number: int, sizes: tuple[int, int, int]) -> tuple[int, int, int]:
        return number % sizes[0], number // sizes[0] % sizes[1], number // (sizes[0] * sizes[1])

    def fault(self, kind: str, line: int, wrong, message: str, address=None) -> None:
        """Raises, for the first thread for which `wrong` holds."""
        place = int(np.argmax(wrong)) if np.ndim(wrong) else 0
        thread = place if self.index is None else int(self.index[place])
        if address is not None:
            value = int(address[place]) if np.ndim(address) else int(address)
            message = message.format(value)
            if "global" in message:
                message += self.neighbours(value)
        where = self.coordinates(int(self.thread_of[thread]), self.block)
        block = self.coordinates(self.first + int(self.cta_of[thread]), self.grid)
        count = int(np.count_nonzero(wrong))
        others = f" and {count - 1} more" if count > 1 else ""
        raise PtxFault(
            kind, f"{message} ({self.kernel.name}, PTX line {line}, thread {where} of block {block}{others})"
        )

    def neighbours(self, address: int) -> str:
        owner = self.memory.owner(address)
        if owner is None:
            return ""
        inside = "in" if owner[0] <= address < owner[0] + owner[1] else "after"
        start, size = owner
        return f"; it lies {inside} the allocation {start:#x} of {size} bytes, {address - start} bytes from its start"

    # Special registers

    def special(self, name: str):
        if name not in self.special_now:
            value = self.specials.get(name)
            if value is None:
                value = self.specials[name] = self.make_special(name)
            self.special_now[name] = value if value.ndim == 0 else self.here(value)
        return self.special_now[name]

    def make_special(self, name: str):
        base, _, axis = name.partition(".")
        k = "xyz".index(axis) if axis else 0
        sizes = {"tid": self.block, "ctaid": self.grid}.get(base)
        if sizes is not None:
            number = self.thread_of if base == "tid" else self.first + self.cta_of
            if sizes[k] == 1:
                return U32(0)
            below = sizes[0] * sizes[1] if k == 2 else sizes[0] if k == 1 else 1
            if base == "ctaid" and self.blocks == 1:
                return U32(self.first // below % sizes[k])
            return (number // below % sizes[k]).astype(U32)
        lane = self.lane_of
        plain = {
            "ntid": lambda: U32(self.block[k]),
            "nctaid": lambda: U32(self.grid[k]),
            "laneid": lambda: lane.astype(U32),
            "warpid": lambda: (self.thread_of // 32).astype(U32),
            "nwarpid": lambda: U32(-(-self.block[0] * self.block[1] * self.block[2] // 32)),
            "lanemask_eq": lambda: (1 << lane).astype(U32),
            "lanemask_lt": lambda: ((1 << lane) - 1).astype(U32),
            "lanemask_le": lambda: ((2 << lane) - 1).astype(U32),
            "lanemask_gt": lambda: (~((2 << lane) - 1)).astype(U32),
            "lanemask_ge": lambda: (~((1 << lane) - 1)).astype(U32),
            "dynamic_smem_size": lambda: U32(self.shared_bytes),
            "total_smem_size": lambda: U32(self.shared_size),
            "smid": lambda: (self.cta_of % 4).astype(U32),
            "nsmid": lambda: U32(4),
            "gridid": lambda: U32(1),
            "clock": lambda: U32(0),
            "clock_hi": lambda: U32(0),
            "clock64": lambda: np.uint64(0),
            "globaltimer": lambda: np.uint64(0),
        }
        if base not in plain:
            raise PtxFault("special register", f"%{name} isn't known")
        return plain[base]()

    # Memory

    def global_address(self, name: str):
        return np.uint64(self.variables[name])

    def base(self, space: str):
        return np.uint64({"shared": SHARED_BASE, "local": LOCAL_BASE, "const": CONST_BASE}[space])

    def is_space(self, space: str, address):
        if space == "global":
            return address < np.uint64(SHARED_BASE)
        base = self.base(space)
        return (address >= base) & (address < base + np.uint64(WINDOW))

    def resolve(self, space: str, address, line: int):
        """The state space of a generic address, which all threads here must agree on."""
        if space != "generic":
            return self.spaces[space], address
        for name in ("shared", "local", "const"):
            inside = self.is_space(name, address)
            if inside.any():
                if not inside.all():
                    self.fault(
                        "generic address",
                        line,
                        ~inside,
                        "threads access different state spaces at once, which isn't supported",
                    )
                return self.spaces[name], address - self.base(name)
        return self.spaces["global"], address

    def parameter(self, address, size: int, count: int, line: int) -> tuple:
        address = address.astype(np.int64)
        if (address % (size * count)).any():
            self.fault("misaligned address", line, address % (size * count) != 0, "parameter address {:#x}", address)
        outside = (address < 0) | (address + size * count > len(self.arguments))
        if outside.any():
            self.fault(
                "out of bounds",
                line,
                outside,
                f"parameter address {{:#x}}, where {len(self.arguments)} bytes are",
                address,
            )
        values = []
        for k in range(count):
            place = address + k * size
            if place.ndim == 0:
                values.append(np.frombuffer(self.arguments[place : place + size].tobytes(), f"u{size}")[0])
            else:
                values.append(self.arguments[place[:, None] + np.arange(size)].copy().view(f"u{size}")[:, 0])
        return tuple(values)

    def load(self, space: str, address, size: int, count: int, line: int, how: str = "") -> tuple:
        where, address = self.resolve(space, address, line)
        return where.load(self, address, size, count, line, how)

    def store(self, space: str, address, values: tuple, size: int, line: int, how: str = "") -> None:
        where, address = self.resolve(space, address, line)
        where.store(self, address, values, size, line, how)

    def atomic(self, operation: str, space: str, address, values: tuple, size: int, form: str, line: int):
        where, address = self.resolve(space, address, line)
        return apply_atomic(self, where, operation, address, values, size, form, line)

    def note_read(self, space: Space, offset, size: int, line: int, how: str = "") -> None:
        space.reads += size * self.n
        if self.traffic is not None:
            self.traffic.note(space, offset, size, "read")
        if self.races is not None and space.name in self.races.spaces and how != "strong":
            self.races.read(space, offset, size, line, how == "nc")

    def note_write(self, space: Space, offset, size: int, line: int, how: str = "") -> None:
        space.writes += size * self.n
        if self.traffic is not None:
            self.traffic.note(space, offset, size, "written")
        if self.races is not None and space.name in self.races.spaces:
            self.races.write(space, offset, size, line, ATOMIC if how == "strong" else PLAIN)

    def note_atomic(self, space: Space, offset, size: int, line: int) -> None:
        space.reads += size * self.n
        space.writes += size * self.n
        if self.races is not None and space.name in self.races.spaces:
            self.races.write(space, offset, size, line, ATOMIC)
            if space.name == "global":
                self.races.synchronize(offset)

    def fence(self) -> None:
        if self.races is not None:
            self.races.fence()

    def count_bytes(self, counts) -> None:
        if self.traffic is not None:
            self.traffic.add_to(counts)
        counts.global_bytes_read += self.spaces["global"].reads
        counts.global_bytes_written += self.spaces["global"].writes
        counts.shared_bytes_read += self.spaces["shared"].reads
        counts.shared_bytes_written += self.spaces["shared"].writes

    # Barriers and warps

    def barrier(self, index: np.ndarray, key: np.ndarray) -> None:
        if self.races is not None:
            self.races.barrier(index, key)

    def present(self) -> np.ndarray:
        """The mask of the threads that stand here, for each warp."""
        lane, warp = self.here(self.lane_of), self.here(self.warp_of)
        return np.bincount(warp, weights=np.ldexp(1.0, lane), minlength=self.warps).astype(np.uint64).astype(U32)

    def active_mask(self):
        return self.present()[self.here(self.warp_of)]

    def members(self, mask, line: int) -> None:
        """Checks a mask: the threads that it names stand here, and every thread here is in its own."""
        if not self.checks.convergence:
            return
        warp, lane = self.here(self.warp_of), self.here(self.lane_of)
        # Threads that don't exist are nobody's.
        exists = ((np.uint64(1) << self.warp_size.astype(np.uint64)) - np.uint64(1)).astype(U32)[warp]
        missing = mask & exists & ~self.present()[warp]
        if missing.any():
            self.fault("divergent warp", line, missing != 0, "threads that the mask names aren't here")
        absent = (mask >> lane.astype(U32)) & U32(1) == 0
        if absent.any():
            self.fault("divergent warp", line, absent, "the mask lacks the thread itself")

    def positions(self) -> np.ndarray:
        """Where in the vectors the thread of each slot is, -1 for threads that aren't here."""
        place = np.full(self.warps * 32, -1)
        place[self.here(self.slot_of)] = np.arange(self.n)
        return place

    def shuffle(self, mode: str, x, b, c, mask, line: int) -> tuple:
        self.members(mask, line)
        lane = self.here(self.lane_of)
        b = (b & U32(31)).astype(np.int64)
        c = c.astype(np.int64)
        clamp, segment = c & 31, (c >> 8) & 31
        low = lane & segment
        limit = low | (clamp & ~segment)
        if mode == "up":
            source = lane - b
            inside = source >= limit
        else:
            source = lane + b if mode == "down" else lane ^ b if mode == "bfly" else low | (b & ~segment)
            inside = source <= limit
        source = np.where(inside, source, lane)
        if np.ndim(x) == 0:
            return x, inside
        place = self.positions()[self.here(self.slot_of) - lane + source]
        if (place < 0).any():
            self.fault("divergent warp", line, place < 0, "a shuffle reads a thread that isn't here")
        return x[place], inside

    def ballot(self, test) -> np.ndarray:
        test = np.broadcast_to(test, self.n)
        weights = np.where(test, np.ldexp(1.0, self.here(self.lane_of)), 0.0)
        return np.bincount(self.here(self.warp_of), weights=weights, minlength=self.warps).astype(np.uint64).astype(U32)

    def vote(self, how: str, test, mask, line: int):
        self.members(mask, line)
        warp = self.here(self.warp_of)
        true = self.ballot(test)[warp] & mask
        named = mask & self.present()[warp]
        if how == "ballot":
            return true
        return {"any": true != 0, "all": true == named, "uni": (true == 0) | (true == named)}[how]

    def match(self, how: str, x, mask, line: int) -> tuple:
        self.members(mask, line)
        x = np.broadcast_to(x, self.n)
        place = self.positions().reshape(-1, 32)[self.here(self.warp_of)]
        same = (place >= 0) & (x[place] == x[:, None])
        equal = (same.astype(np.uint64) << np.arange(32, dtype=np.uint64)).sum(axis=1).astype(U32) & mask
        if how == "any":
            return equal, None
        whole = equal == (mask & self.present()[self.here(self.warp_of)])
        return np.where(whole, equal, U32(0)), whole

    def redux(self, operation: str, x, mask, line: int):
        self.members(mask, line)
        x = np.broadcast_to(x, self.n)
        place = self.positions().reshape(-1, 32)[self.here(self.warp_of)]
        lanes = np.arange(32, dtype=U32)
        named = ((np.broadcast_to(mask, self.n)[:, None] >> lanes) & U32(1) != 0) & (place >= 0)
        values = x[place]
        limits = np.iinfo(x.dtype)
        ufunc, neutral = {
            "add": (np.add, 0), "min": (np.minimum, limits.max), "max": (np.maximum, limits.min),
            "and": (np.bitwise_and, limits.max), "or": (np.bitwise_or, 0), "xor": (np.bitwise_xor, 0),
        }[operation]  # fmt: skip
        return ufunc.reduce(np.where(named, values, x.dtype.type(neutral)), axis=1, dtype=x.dtype)

    def elect(self, mask, line: int) -> tuple:
        self.members(mask, line)
        leader = (np.bitwise_count((mask & (~mask + U32(1))) - U32(1))).astype(U32)
        return np.broadcast_to(leader, self.n), leader == self.here(self.lane_of).astype(U32)

    def warp_barrier(self, mask, line: int) -> None:
        self.members(mask, line)
        if self.races is not None:
            self.races.warp_barrier()
