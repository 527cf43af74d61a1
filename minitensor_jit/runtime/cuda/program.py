"""A program for a GPU, as code generation makes it: PTX, and the steps that run a module.

Plain frozen data: a program can be pickled, kept on disk, and run by whatever can load PTX.

Buffers are numbered as on the CPU: the parameters, then the results, then one block of scratch memory
(`scratch_bytes`), then one block of constants (`constants`, copied to the device once). All begin at addresses that
are multiples of `ALIGNMENT`; a parameter that lies elsewhere (a view) must be copied first. A result may be written
over a parameter only as `aliases` says. Steps run in order, on one stream.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

from ...ir.shape import Shape

__all__ = [
    "ALIGNMENT",
    "Address",
    "Argument",
    "Branch",
    "GpuProgram",
    "GpuStep",
    "GpuTarget",
    "HostCall",
    "HostValue",
    "KernelLaunch",
    "MemoryCopy",
    "MemoryFill",
    "Scalar",
    "WhileLoop",
]

ALIGNMENT: Final = 16
"""Every buffer begins at a multiple of so many bytes, since kernels read and write 16 bytes at a time."""


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """What code is generated for. Cubins are cached by `name` and `ptx_version`; grids depend on the rest too."""

    name: str
    """As ptxas has it: sm_75, sm_80, ..."""
    compute_capability: tuple[int, int]
    ptx_version: tuple[int, int]
    """At least that which the processor needs, at most that which the driver reads."""
    multiprocessors: int
    threads_per_multiprocessor: int
    shared_bytes_per_block: int = 48 << 10
    """What a kernel may have without being asked for more; kernels here never have more."""
    warp_size: int = 32
    max_threads_per_block: int = 1024

    @staticmethod
    def of(name: str, *, multiprocessors: int | None = None, ptx_version: tuple[int, int] | None = None) -> GpuTarget:
        """The target by its name, such as `sm_90`.

        A processor without an entry gets the code of the newest one that is not newer than it. `multiprocessors` is the
        number of them on the device at hand. Raises `ValueError` for a name that is none, for what is older
        than sm_75, and for a PTX version that the processor is not in.
        """
        digits = name.removeprefix("sm_").rstrip("af")
        if not name.startswith("sm_") or not digits.isdigit() or len(digits) < 2:
            raise ValueError(f"a processor such as 'sm_90' was expected, not {name!r}")
        capability = int(digits[:-1]), int(digits[-1])
        known = [t for t in _TARGETS if t.compute_capability <= capability]
        if not known:
            raise ValueError(f"{name} is older than sm_75, the oldest processor that code is generated for")
        target = known[-1]
        if ptx_version is not None:
            # An older driver reads the code of an older processor, as long as PTX has that.
            while target.ptx_version > ptx_version and len(known) > 1:
                known.pop()
                target = known[-1]
            if target.ptx_version > ptx_version:
                version = ".".join(map(str, ptx_version))
                raise ValueError(f"PTX {version} is older than 6.3, the oldest version that code is generated in")
        return target if multiprocessors is None else replace(target, multiprocessors=multiprocessors)


# (processor, PTX version, multiprocessors of a usual device, threads on each).
_TARGETS: Final = tuple(
    GpuTarget(f"sm_{major}{minor}", (major, minor), version, multiprocessors, threads)
    for major, minor, version, multiprocessors, threads in (
        (7, 5, (6, 3), 40, 1024),
        (8, 0, (7, 0), 108, 2048),
        (8, 6, (7, 1), 84, 1536),
        (8, 9, (7, 8), 128, 1536),
        (9, 0, (7, 8), 132, 2048),
        (10, 0, (8, 6), 148, 2048),
        (12, 0, (8, 7), 170, 1536),
    )
)


@dataclass(frozen=True, slots=True)
class Address:
    """`offset` bytes into buffer number `slot`."""

    slot: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Scalar:
    """A number that is passed by value, as an integer of `nbytes` bytes (its low bits, for negative ones)."""

    value: int
    nbytes: int


@dataclass(frozen=True, slots=True)
class HostValue:
    """The `nbytes` bytes of parameter number `slot`, an array without dimensions, passed by value."""

    slot: int
    nbytes: int


Argument: TypeAlias = Address | Scalar | HostValue


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """One launch. Arguments stand one after the other, each aligned to its size; an address takes 8 bytes."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int
    """Dynamic shared memory; what a kernel always has is declared in it."""
    arguments: tuple[Argument, ...]
    source: str = ""
    """The HLO instruction that it computes, for profiles."""
    kind: str = ""
    """Which sort of kernel it is: loop, row-reduce, ..."""
    bytes_accessed: int = 0
    """Of global memory, each element that is needed once."""
    operations: int = 0
    """About how many simple operations on elements."""
    arithmetic: str = "f32"
    """What does most of them: f32, f64, or tensor cores on f16 (bf16 too) or tf32."""
    ops: tuple[tuple[str, str, int], ...] = ()
    """For profiles: the ops of the user's program that it stands for, their files and lines."""


@dataclass(frozen=True, slots=True)
class MemoryCopy:
    """A copy on the device; source and target don't overlap, but they may be the same address: then it is none."""

    target: Address
    source: Address
    nbytes: int


@dataclass(frozen=True, slots=True)
class MemoryFill:
    """`count` elements of `nbytes` bytes (1, 2 or 4) that all are the low bytes of `value`."""

    target: Address
    value: int
    nbytes: int
    count: int


@dataclass(frozen=True, slots=True)
class HostCall:
    """An instruction that is computed over copies in the host's memory.

    `text` is a module of this one instruction: `ir.parser.parse_module` reads it, `ir.evaluator.evaluate` computes it.
    """

    text: str
    operands: tuple[tuple[Address, Shape], ...]
    results: tuple[tuple[Address, Shape], ...]
    source: str = ""
    reason: str = ""
    """Why it has no code for the device."""


@dataclass(frozen=True, slots=True)
class WhileLoop:
    """Runs `condition`, reads the pred (one byte) at `predicate`, and, while it is not 0, runs `body` and again."""

    condition: tuple[GpuStep, ...]
    predicate: Address
    body: tuple[GpuStep, ...]


@dataclass(frozen=True, slots=True)
class Branch:
    """Runs one of the branches.

    With `is_pred`, `index` is a pred (one byte): the first branch if it isn't 0, else the second. Otherwise it is an
    int32, the branch's number; the last one if there is none of that number.
    """

    index: Address
    is_pred: bool
    branches: tuple[tuple[GpuStep, ...], ...]


GpuStep: TypeAlias = KernelLaunch | MemoryCopy | MemoryFill | HostCall | WhileLoop | Branch


@dataclass(frozen=True)
class GpuProgram:
    """A compiled module."""

    name: str
    target: GpuTarget
    ptx: str
    """One PTX module with all kernels; empty if there is none."""
    steps: tuple[GpuStep, ...]
    parameter_shapes: tuple[Shape, ...]
    result_shapes: tuple[Shape, ...]
    scratch_bytes: int
    constants: bytes
    aliases: frozenset[tuple[int, int]]
    """(result, parameter): this result may be written over this parameter's memory, if no other parameter and no other
    result lies there too."""
    read_before: frozenset[tuple[int, int]] = frozenset()
    """(result, parameter) of which the parameter has been read when the result is written."""
    instructions: Mapping[str, int] = field(default_factory=dict)
    """How many HLO instructions of each opcode went into it."""
    compile_seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def scratch_slot(self) -> int:
        """The number of the buffer that is scratch memory."""
        return len(self.parameter_shapes) + len(self.result_shapes)

    @property
    def constants_slot(self) -> int:
        """The number of the buffer that has the constants."""
        return self.scratch_slot + 1

    def all_steps(self) -> Iterator[GpuStep]:
        """Every step, also those of loops and branches, in the order of the text."""
        stack = list(reversed(self.steps))
        while stack:
            step = stack.pop()
            yield step
            if isinstance(step, WhileLoop):
                stack.extend(reversed((*step.condition, *step.body)))
            elif isinstance(step, Branch):
                stack.extend(s for branch in reversed(step.branches) for s in reversed(branch))

    @property
    def addressed(self) -> frozenset[int]:
        """The buffers that steps have addresses in; parameters that are only passed by value need no memory."""
        found: set[int] = set()
        for step in self.all_steps():
            if isinstance(step, KernelLaunch):
                found.update(a.slot for a in step.arguments if isinstance(a, Address))
            elif isinstance(step, MemoryCopy):
                found.update((step.target.slot, step.source.slot))
            elif isinstance(step, MemoryFill):
                found.add(step.target.slot)
            elif isinstance(step, HostCall):
                found.update(at.slot for at, _ in (*step.operands, *step.results))
            else:
                found.add((step.predicate if isinstance(step, WhileLoop) else step.index).slot)
        return frozenset(found)

    @property
    def kernels(self) -> int:
        """The number of launches in the text, each one counted once."""
        return sum(isinstance(s, KernelLaunch) for s in self.all_steps())
