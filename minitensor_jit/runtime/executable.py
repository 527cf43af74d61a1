"""A compiled module: machine code with one entry point, and what a caller must know to call it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from ..ir.shape import Shape
from .kernel_counters import ModuleCounters

if TYPE_CHECKING:
    from .cuda.executable import GpuExecutable

__all__ = ["AnyExecutable", "Code", "Executable", "Interface"]


class Code(Protocol):
    """Loaded machine code."""

    address: int

    def close(self) -> None:
        """Unloads it."""


@dataclass(frozen=True, slots=True)
class Interface:
    """What a module takes and gives."""

    parameter_shapes: list[Shape]
    result_shapes: list[Shape]
    aliases: frozenset[tuple[int, int]]
    """(result, parameter): this result may be written over this parameter's memory, if no other parameter and no other
    result lies there too."""
    read_before: frozenset[tuple[int, int]] = frozenset()
    """(result, parameter): nothing reads this parameter any more when the first element of this result is written, a
    window of a parameter that it may lie over. So they may share memory in any way."""


@dataclass
class Executable:
    """Native code for `int32_t entry(void** buffers, const MtRuntime* runtime)`; the result is 0 for success.

    `buffers` holds the parameters, then the results, then `scratch_bytes` of scratch memory aligned to 64 bytes (null
    if that is zero). Nothing in the code refers to an address outside it but by the names in `imports`, so
    `object_code` may be kept and loaded again in another process on an equal machine.
    """

    name: str
    interface: Interface | Callable[[], Interface]
    """Or what makes it when it is first asked for: a plan from disk knows what it needs of it."""
    scratch_bytes: int
    object_code: bytes
    code: Code
    imports: tuple[str, ...] = ()
    """The functions of the core that the object code calls by these names: `Loop.symbol`s."""
    kernels: int = 0
    instructions: Mapping[str, int] = field(default_factory=dict)
    """How many HLO instructions of each opcode went into it."""
    compile_seconds: Mapping[str, float] = field(default_factory=dict)
    counters: ModuleCounters | None = None
    """What the code counts about itself, if it was made to. Such code can't be kept for other processes."""

    def _interface(self) -> Interface:
        if not isinstance(self.interface, Interface):
            self.interface = self.interface()
        return self.interface

    @property
    def parameter_shapes(self) -> list[Shape]:
        """Of all parameters, in order."""
        return self._interface().parameter_shapes

    @property
    def result_shapes(self) -> list[Shape]:
        """Of all results, in order."""
        return self._interface().result_shapes

    @property
    def aliases(self) -> frozenset[tuple[int, int]]:
        """Which results may be written over which parameters."""
        return self._interface().aliases

    @property
    def read_before(self) -> frozenset[tuple[int, int]]:
        """Which parameters have been read when which results are written."""
        return self._interface().read_before

    @property
    def nbytes(self) -> int:
        """About how much memory it takes."""
        # The image that it was loaded from is kept beside the loaded code.
        return 2 * len(self.object_code) + 4096

    @property
    def entry_address(self) -> int:
        """The address of the entry point; 0 after `close`."""
        return self.code.address

    def close(self) -> None:
        """Unloads the code. The address must not be called any more."""
        self.code.close()


AnyExecutable: TypeAlias = "Executable | GpuExecutable"
"""Code for the CPU, or for GPUs."""
