"""One compilation unit for GPUs: the module of kernels, and what each plan launches."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from ...ir.module import Instruction
from ...runtime.buffer_assignment import Location
from ...runtime.cuda.program import (
    ALIGNMENT,
    Address,
    GpuStep,
    GpuTarget,
    HostCall,
    HostValue,
    KernelLaunch,
    MemoryCopy,
    MemoryFill,
    Scalar,
)
from ..emitter.types import MEMORY
from ..indexing.indexing_map import ZERO, Space
from ..kernel_spec import Binding, KernelPlan, KernelSpec, Root, reachable
from ..llvm.ir_text import Function, Module
from ..llvm.ir_types import I32, I64, PTR, VOID, Value, type_text
from .emitter import GpuEmitter

__all__ = ["Constants", "Copy", "Fill", "GpuUnit", "Host", "Kernel", "Launch", "Options", "PlanCode", "Symbol"]

NARROW_INDEX = 2**31 - 2**26
"""Numbers below it are computed in 32 bits: steps beyond the end of a loop must not wrap around either."""

# An array of a step: ("operand" | "result" | "temporary", its number), or ("constant", an offset).
Symbol: TypeAlias = tuple[str, int]


@dataclass(frozen=True)
class Options:
    """What the caller chooses."""

    fast_math: bool = False
    profile: bool = False
    least_vector_elements: int = 1 << 16
    """Loops over fewer elements have one in each thread: they need threads more than wide accesses."""


@dataclass(frozen=True, slots=True)
class Launch:
    """A launch whose arrays are those of any step that has the plan."""

    kernel: str
    grid: tuple[int, int, int]
    block: int
    arguments: tuple[Symbol | Scalar, ...]
    kind: str
    bytes_accessed: int
    operations: int
    shared_bytes: int = 0
    """Dynamic shared memory."""
    arithmetic: str = "f32"


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy between arrays of a step."""

    target: Symbol
    source: Symbol
    nbytes: int


@dataclass(frozen=True, slots=True)
class Fill:
    """`count` words of four bytes that all are `value`."""

    target: Symbol
    value: int
    count: int


@dataclass(frozen=True, slots=True)
class Host:
    """An instruction of a step that the host computes."""

    text: str
    operands: tuple[tuple[Symbol, Instruction], ...]
    results: tuple[tuple[Symbol, Instruction], ...]
    reason: str


@dataclass
class PlanCode:
    """What a plan emitted: the steps that run it, and the sizes of the temporary arrays that they need."""

    items: list[Launch | Copy | Fill | Host] = field(default_factory=list)
    temporaries: list[int] = field(default_factory=list)


class Constants:
    """The constants of a program in one block, each one once."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._offsets: dict[bytes, int] = {}
        self._size = 0

    def offset(self, raw: bytes) -> int:
        """Where these bytes are."""
        known = self._offsets.get(raw)
        if known is None:
            known = self._offsets[raw] = self._size
            padded = raw + bytes(-len(raw) % ALIGNMENT)
            self._parts.append(padded)
            self._size += len(padded)
        return known

    def data(self) -> bytes:
        """The block."""
        return b"".join(self._parts)


class GpuUnit:
    """The module being written."""

    def __init__(
        self,
        module: Module,
        target: GpuTarget,
        options: Options,
        constants_slot: int,
        host_values: Mapping[int, int] | None = None,
    ) -> None:
        self.module, self.target, self.options = module, target, options
        self.constants = Constants()
        self.kernels = 0
        self._constants_slot = constants_slot
        # Parameters that launches have the values of, with their sizes.
        self.host_values = host_values or {}
        self._codes: dict[KernelPlan, PlanCode] = {}
        self.code = PlanCode()
        self.renaming: dict[Symbol, Symbol] = {}
        self.written: set[int] = set()  # operands of the current plan that a result may lie over
        module.has_half_conversion = True

    # ---- plans

    def emit(self, plan: KernelPlan, spec: KernelSpec) -> PlanCode:
        """The plan's code; emitted once, however many steps have it."""
        known = self._codes.get(plan)
        if known is None:
            known = self._codes[plan] = self.code = PlanCode()
            self.written = {k for _, k in plan.in_place}
            plan.emit()
        return known

    def temporary(self, nbytes: int) -> Symbol:
        """Memory that is free again after the step."""
        self.code.temporaries.append(nbytes)
        return "temporary", len(self.code.temporaries) - 1

    def symbol(self, spec: KernelSpec, i: Instruction) -> Symbol:
        """The array of a parameter of the spec; a constant is put in memory."""
        assert i.parameter_number is not None
        binding = spec.operands[i.parameter_number]
        if isinstance(binding, Instruction):
            assert binding.literal is not None
            return "constant", self.constants.offset(binding.literal.tobytes())
        return "operand", i.parameter_number

    @contextmanager
    def renamed(self, symbols: dict[Symbol, Symbol]) -> Iterator[None]:
        """Within, kernels for another spec are emitted, whose arrays are those of the current one."""
        before, self.renaming = self.renaming, symbols
        try:
            yield
        finally:
            self.renaming = before

    def copy(self, target: Symbol, source: Symbol, nbytes: int) -> None:
        """Emits a copy."""
        if nbytes and target != source:
            self.code.items.append(Copy(target, source, nbytes))

    # ---- steps

    def address(self, location: Location) -> Address:
        """A location as the program has it."""
        if location.kind == "constant":
            return Address(self._constants_slot, self.constants.offset(location.data))
        return Address(location.slot, location.offset)

    def steps(
        self, code: PlanCode, source: str, operands: Sequence[Binding], results: Sequence[Location],
        temporaries: Sequence[Location],
    ) -> list[GpuStep]:  # fmt: skip
        """The steps of a plan with these arrays."""

        def resolve(symbol: Symbol) -> Address:
            kind, number = symbol
            if kind == "constant":
                return Address(self._constants_slot, number)
            if kind == "operand":
                binding = operands[number]
                assert isinstance(binding, Location)
                return self.address(binding)
            return self.address((results if kind == "result" else temporaries)[number])

        def by_value(number: int) -> HostValue:
            binding = operands[number]
            assert isinstance(binding, Location)
            return HostValue(binding.slot, self.host_values[binding.slot])

        made: list[GpuStep] = []
        for item in code.items:
            if isinstance(item, Copy):
                target, origin = resolve(item.target), resolve(item.source)
                if target != origin:
                    made.append(MemoryCopy(target, origin, item.nbytes))
            elif isinstance(item, Fill):
                made.append(MemoryFill(resolve(item.target), item.value, 4, item.count))
            elif isinstance(item, Host):
                read, written = (
                    tuple((resolve(s), i.array_shape) for s, i in some) for some in (item.operands, item.results)
                )
                made.append(HostCall(item.text, read, written, source, item.reason))
            else:
                arguments = tuple(
                    a if isinstance(a, Scalar) else by_value(a[1]) if a[0] == "value" else resolve(a)
                    for a in item.arguments
                )
                made.append(
                    KernelLaunch(
                        item.kernel,
                        item.grid,
                        (item.block, 1, 1),
                        item.shared_bytes,
                        arguments,
                        source,
                        item.kind,
                        item.bytes_accessed,
                        item.operations,
                        item.arithmetic,
                    )
                )
        return made


class Kernel:
    """A kernel under construction, for blocks of `threads` threads.

    `largest` is the largest number that an index computation gives: 32 bits are enough for most. `resident` is how many
    blocks shall have room on a multiprocessor at a time, which says how many registers a thread may have.
    """

    def __init__(
        self, unit: GpuUnit, spec: KernelSpec, space: Space, threads: int, largest: int, suffix: str = "",
        resident: int = 0,
    ) -> None:  # fmt: skip
        unit.kernels += 1
        self.unit, self.spec, self.space, self.threads = unit, spec, space, threads
        self.name = f"{re.sub(r'[^A-Za-z0-9_]', '_', spec.name)}_{unit.kernels}{suffix}"
        if self.name[0].isdigit():
            self.name = "_" + self.name
        attributes = f'nounwind "nvvm.maxntid"="{threads}"'
        if resident:
            attributes += f' "nvvm.minctasm"="{resident}"'
        self.function = Function(unit.module, self.name, VOID, [], attributes=attributes, linkage="ptx_kernel ")
        self.e = GpuEmitter(self.function, space, self._literal)
        self.e.index_type = I32 if largest < NARROW_INDEX else I64
        self._arguments: dict[Symbol, Value] = {}
        self._ended = False

    def argument(self, symbol: Symbol) -> Value:
        """The address of an array, as a parameter of the kernel."""
        symbol = self.unit.renaming.get(symbol, symbol)
        known = self._arguments.get(symbol)
        if known is None:
            known = Value(PTR, "ptr", f"%a{len(self._arguments)}")
            self._arguments[symbol] = known
            self.function.arguments.append(known)
            kind, number = symbol
            only_read = kind == "constant" or (kind == "operand" and number not in self.unit.written)
            self.function.argument_attributes[known.ref] = "noalias readonly " if only_read else ""
            if kind == "operand" and not only_read:
                self.e.changing.add(known.ref)
        return known

    def _literal(self, raw: bytes) -> Value:
        return self.argument(("constant", self.unit.constants.offset(raw)))

    def bind(
        self,
        roots: Sequence[Instruction],
        known: Collection[Instruction] = (),
        conditional: Collection[Instruction] = (),
    ) -> None:
        """Tells the emitter where the parameters are that the roots need besides what is `known`.

        Of the `conditional` ones some elements of a unit may be read and others not.
        """
        needed = reachable(roots) if not known else _before(roots, known)
        for i in needed:
            if i.parameter_number is None or i.is_tuple:
                continue
            binding = self.spec.operands[i.parameter_number]
            if isinstance(binding, Instruction):
                self.e.constants[i] = binding
            elif binding.kind == "parameter" and binding.slot in self.unit.host_values and not i.dims:
                self.e.pointers[i] = self._by_value(i)
            else:
                pointer = self.e.pointers[i] = self.argument(("operand", i.parameter_number))
                if i not in conditional:
                    self.e.wide_bases.add(pointer.ref)

    def _by_value(self, i: Instruction) -> Value:
        """A parameter that the launch has the value of; in place of its address."""
        assert i.parameter_number is not None
        symbol = ("value", i.parameter_number)
        known = self._arguments.get(symbol)
        if known is None:
            type_ = MEMORY[i.dtype]
            known = self._arguments[symbol] = Value(type_, type_text(type_), f"%a{len(self._arguments)}")
            self.function.arguments.append(known)
        place = Value(PTR, "ptr", known.ref)
        self.e.staged[known.ref, i.dtype, ZERO] = partial(self.e.from_memory, known, i.dtype)
        return place

    def result(self, number: int) -> Value:
        """The address of a result."""
        return self.argument(("result", number))

    def thread(self) -> Value:
        """The number of the thread among all of the grid, along x."""
        e = self.e
        block, thread = e.wide(e.register("ctaid.x")), e.wide(e.register("tid.x"))
        b = e.builders[0]
        return b.add(b.mul(block, e.index(self.threads)), thread)

    def number(self, position: int) -> Value:
        """A number of four bytes that each launch gives anew."""
        known = self._arguments.get(("number", position))
        if known is None:
            known = self._arguments["number", position] = Value(I32, "i32", f"%a{len(self._arguments)}")
            self.function.arguments.append(known)
        return known

    def end(self) -> None:
        """Ends the code; the kernel may be launched any number of times."""
        if not self._ended:
            self._ended = True
            self.e.inner.ret()

    def launch(
        self,
        blocks: int,
        kind: str,
        nbytes: int,
        operations: int,
        rows: int = 1,
        *,
        shared_bytes: int = 0,
        numbers: Sequence[Scalar] = (),
        arithmetic: str = "",
    ) -> None:
        """Launches `blocks` by `rows` blocks of the kernel, which ends here."""
        self.end()
        arguments = tuple(numbers[k] if name == "number" else (name, k) for name, k in self._arguments)
        if not arithmetic:
            wide = any(i.dtype == "f64" for i in self.spec.computation.instructions if not i.is_tuple)
            arithmetic = "f64" if wide else "f32"
        grid = blocks, rows, 1
        self.unit.code.items.append(
            Launch(self.name, grid, self.threads, arguments, kind, nbytes, operations, shared_bytes, arithmetic)
        )

    def traffic(self, roots: Sequence[Root]) -> int:
        """The bytes of the arrays that the roots need, and of the roots."""
        arrays = [*self.e.pointers, *(r for r, _ in roots)]
        return sum(i.array_shape.nbytes for i in arrays)


def _before(roots: Sequence[Instruction], known: Collection[Instruction]) -> list[Instruction]:
    """What the roots need, without what only the known ones need."""
    seen = dict.fromkeys(i for i in roots if i not in known)
    stack = list(seen)
    while stack:
        for o in stack.pop().operands:
            if o not in seen and o not in known:
                seen[o] = None
                stack.append(o)
    return list(seen)
