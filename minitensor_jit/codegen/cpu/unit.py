"""One compilation unit: the LLVM module of an executable, its kernels, and how the entry launches them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from ...ir.library import loop_of
from ...ir.module import Instruction
from ...ir.size import Size, hint
from ...runtime.buffer_assignment import Location
from ..abi import PARALLEL_FOR
from ..emitter.elemental import Emitter
from ..indexing.indexing_map import Space
from ..kernel_spec import KernelSpec, reachable
from ..llvm.ir_text import Block, Builder, Function, Module
from ..llvm.ir_types import I1, I8, I32, I64, PTR, VOID, Value, constant
from .target_machine import CpuTarget

__all__ = ["FlatKernel", "Options", "Unit"]


# What calls loops of eager kernels calls them for so many vectors at once, or for half of them where operands lie
# otherwise, whose addresses are code for every lane. Measured with sin, erf and gelu: a call for one vector took twice
# as long as the function's own work, by its latency; for sixteen vectors what lies between two calls leaves registers.
VECTORS_OF_CALLS = 8
# In an entry of so few lines, some nanoseconds are much of a call, and little of compiling it.
_SHORT_ENTRY = 64


def _generate_quickly(function: Function) -> None:
    """Has LLVM's fast code generator take a function, if each of its launches runs at most once a call.

    Such code is a few nanoseconds a launch slower, and takes an eighth of the time to generate: there may be hundreds.
    """
    if function.runs_once:
        function.attributes = f"noinline optnone {function.attributes}"


@dataclass(frozen=True)
class Options:
    """What the caller chooses."""

    fast_math: bool = False
    threads: int = 2  # how many there will probably be; any number gives the same bits
    # Work below this runs on the calling thread; the unit is about one simple operation on one element.
    parallel_threshold: int = 65536
    # Results larger than this bypass the caches.
    streaming_store_bytes: int = 32 << 20
    # Whether the code measures itself; then it has addresses of this process in it.
    profile: bool = False
    # Whether lines of LLVM text say which HLO instruction they are for.
    annotated: bool = False


@dataclass(frozen=True, slots=True)
class FlatKernel:
    """A function over elements; what one costs; and the multiples of elements at which it had better be cut."""

    function: Function
    cost: int
    step: int


@dataclass
class Unit:
    """The module being written. `entry` is the function that runs all kernels in order."""

    module: Module
    target: CpuTarget
    options: Options
    allocate: Callable[[int], Location]
    kernels: int = 0
    gemm_arguments: Value | None = None
    table_filler: Function | None = None
    # By the key of what they compute: kernels of any number of elements that read their addresses from a table, and
    # which of them there will be because several loops run as one.
    flat_kernels: dict[Hashable, FlatKernel] = field(default_factory=dict)
    horizontal: set[Hashable] = field(default_factory=set)
    _pointers: dict[tuple[str, Location], Value] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.module.attributes.extend(self.target.attributes)
        self.module.has_half_conversion = self.target.half_conversion
        self.module.narrowest_mask = self.target.narrowest_mask
        self.module.annotated = self.options.annotated
        self.module.metadata["!0"] = "!{i32 1}"
        self.entry = Function(self.module, "entry", I32, [(PTR, "buffers"), (PTR, "runtime")], linkage="")
        self.builder = Builder(self.entry, self.entry.block("entry"))

    @contextmanager
    def within(self, function: Function, allocate: Callable[[int], Location]) -> Iterator[None]:
        """What is emitted inside goes to another function of the entry's form; its temporary memory is given."""
        before = self.entry, self.builder, self.gemm_arguments, self.allocate
        self.entry, self.allocate, self.gemm_arguments = function, allocate, None
        self.builder = Builder(function, function.block("entry"))
        try:
            yield
        finally:
            self.entry, self.builder, self.gemm_arguments, self.allocate = before
        _generate_quickly(function)

    def finish(self) -> str:
        """Ends the entry and gives the module's text."""
        self.builder.ret(constant(I32, 0))
        if sum(len(block.lines) for block in self.entry.blocks) > _SHORT_ENTRY:
            _generate_quickly(self.entry)
        return str(self.module)

    # ---- memory

    def temporary(self, nbytes: int) -> Location:
        """Scratch memory that is free again after the current spec."""
        return self.allocate(nbytes)

    def pointer(self, b: Builder, buffers: Value, location: Location) -> Value:
        """The address of a buffer, from the array of buffers."""
        if location.kind == "constant":
            return self.module.data(location.data)
        key = (b.function.name, location)
        known = self._pointers.get(key)
        if known is None:
            # Ahead of everything, so that the address is known in every branch.
            b = Builder(b.function, b.function.head)
            slot = b.gep(buffers, location.slot, PTR)
            offset = location.offset if isinstance(location.offset, int) else constant(I64, location.offset)
            known = b.gep(b.load(slot, PTR, 8), offset, I8)
            self._pointers[key] = known
        return known

    def pointers(self, locations: Sequence[Location]) -> Value:
        """An array of addresses, for a call of the runtime from the entry."""
        b, buffers = self.builder, self.entry.arguments[0]
        array = self.entry.alloca(PTR, max(1, len(locations)))
        for place, location in enumerate(locations):
            b.store(self.pointer(b, buffers, location), b.gep(array, place, PTR), 8)
        return array

    # ---- kernels

    def lanes(self, instructions: Sequence[Instruction]) -> int:
        """The number of lanes that suits the element types that these instructions work on."""
        sizes = [i.array_shape.itemsize for i in instructions if not i.is_tuple]
        wide = [s for s in sizes if s >= 4]
        return self.target.vector_bytes // (min(wide) if wide else max(sizes, default=4))

    def calls_loops(self, instructions: Iterable[Instruction]) -> bool:
        """Whether the code of these instructions calls loops of eager kernels."""
        return any(
            i.opcode == "elementwise-call"
            and (loop := loop_of(i)) is not None
            and loop.symbol not in self.module.inline
            for i in instructions
        )

    def free_lanes(self, instructions: Sequence[Instruction], inner: int, *, contiguous: bool = True) -> int:
        """The number of lanes of a loop where it changes no bit: more for calls, of which each takes nanoseconds.

        But no more than the loop of `inner` elements fills to two thirds: a call computes all of its lanes.
        """
        least = lanes = self.lanes(instructions)
        if self.calls_loops(instructions):
            lanes *= VECTORS_OF_CALLS if contiguous else VECTORS_OF_CALLS // 2
            while lanes > least and 2 * lanes * -(-hint(inner) // lanes) > 3 * hint(inner):
                lanes //= 2
        return lanes

    def kernel(self, spec: KernelSpec, lanes: int, space: Space, *, suffix: str = "") -> Emitter:
        """A new kernel function `(buffers, begin, end)`, with the spec's parameters bound."""
        self.kernels += 1
        name = f"{spec.name}.{self.kernels}{suffix}"
        function = Function(self.module, f'"{name}"', VOID, [(PTR, "ctx"), (I64, "begin"), (I64, "end")])
        e = Emitter(function, space, lanes)
        self.bind(e, spec, function.arguments[0])
        return e

    def bind(self, e: Emitter, spec: KernelSpec, buffers: Value) -> None:
        """Tells the emitter where the spec's parameters are."""
        used = reachable(spec.computation.roots)
        for parameter, binding in zip(spec.computation.parameters, spec.operands, strict=True):
            if parameter not in used:
                continue
            if isinstance(binding, Instruction):
                e.constants[parameter] = binding
            else:
                e.pointers[parameter] = self.pointer(e.builders[0], buffers, binding)

    def result_pointer(self, e: Emitter, location: Location) -> Value:
        """The address that a kernel writes a result to."""
        return self.pointer(e.builders[0], e.function.arguments[0], location)

    def launch(self, kernel: Function, count: int, work: int) -> None:
        """Runs a kernel over `count` units whose work is `work` altogether: in parallel if that pays."""
        b = self.builder
        buffers, runtime = self.entry.arguments
        units = constant(I64, count).ref
        threshold = self.options.parallel_threshold
        if not isinstance(count, Size) and (count <= 1 or hint(work) < threshold):
            b.raw(f"call void {kernel.reference.ref}(ptr {buffers.ref}, i64 0, i64 {units})")
            return
        # Where the count is not known yet, the grain decides at run time whether there is more than one part.
        grain = max(1, hint(count) * (threshold // 2) // max(1, hint(work)))
        function = b.load(b.gep(runtime, PARALLEL_FOR, PTR), PTR, 8)
        b.raw(f"call void {function.ref}(i64 {units}, i64 {grain}, ptr {kernel.reference.ref}, ptr {buffers.ref})")

    @contextmanager
    def unless_equal(self, one: Location, other: Location) -> Iterator[None]:
        """What is emitted inside runs unless two places are the same memory."""
        b, buffers = self.builder, self.entry.arguments[0]
        pointers = self.pointer(b, buffers, one), self.pointer(b, buffers, other)
        then, otherwise, after = self.condition_blocks()
        b.cbranch(b.emit(I1, "i1", f"icmp eq ptr {pointers[0].ref}, {pointers[1].ref}"), then, otherwise)
        b.position_at_end(then)
        b.branch(after)
        b.position_at_end(otherwise)
        yield
        b.branch(after)
        b.position_at_end(after)

    def condition_blocks(self) -> tuple[Block, Block, Block]:
        """Blocks of the entry for a choice: then, otherwise, after."""
        return self.entry.block("then"), self.entry.block("else"), self.entry.block("after")
