"""What the row and the column kernels share: which reductions a computation has, and their shape."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..ir.module import Instruction
from ..ir.semantics.reduction import (
    COLUMN_BLOCK,
    COLUMN_BLOCKS,
    LANES,
    ROW_BLOCK,
    ROW_BLOCKS,
    collapse,
    identity,
    reduction_kind,
)
from ..ir.size import NotSymbolic, Size
from .emitter.elementwise import combine
from .emitter.types import MEMORY, dtype_constant
from .indexing.indexing_map import AffineExpr, Index, Space
from .llvm.ir_text import Builder
from .llvm.ir_types import Value, vector

__all__ = ["LANES", "Reduction", "column_blocks", "fold_lanes", "fold_vectors", "reductions", "row_blocks"]


@dataclass(frozen=True)
class Reduction:
    """One reduce as a single step `[outer, length, inner]`."""

    instruction: Instruction
    kind: str
    outer: int
    length: int
    inner: int

    @property
    def input(self) -> Instruction:
        """What is reduced."""
        return self.instruction.operands[0]

    @property
    def dtype(self) -> str:
        """The element type."""
        return self.instruction.dtype

    @property
    def shape(self) -> tuple[int, int, int]:
        """The step."""
        return self.outer, self.length, self.inner

    def identity(self, lanes: int = 1) -> Value:
        """The value that changes nothing."""
        return dtype_constant(self.dtype, identity(self.kind, self.instruction.array_shape.numpy_dtype), lanes)

    def neutral(self, lanes: int = 1) -> Value:
        """A value that changes nothing that began at the identity: an addition that LLVM leaves out in masked lanes.

        Zeros it would shuffle in, with an instruction (vexpandps) that takes tens of cycles on some processors.
        """
        if self.kind == "add" and self.instruction.array_shape.kind == "f":
            return dtype_constant(self.dtype, -0.0, lanes)
        return self.identity(lanes)

    def memory_identity(self, b: Builder, lanes: int) -> Value:
        """The same as it lies in memory."""
        value = self.identity(lanes)
        return value if self.dtype != "pred" else b.zext(value, vector(MEMORY["pred"], lanes))

    def combine(self, b: Builder, x: Value, y: Value) -> Value:
        """Combines two values, or two vectors lane by lane."""
        return combine(b, self.kind, self.dtype, x, y)

    def input_index(self, space: Space, kept: AffineExpr, reduced: AffineExpr) -> Index:
        """The index of the input for flat positions among the kept and among the reduced dimensions."""
        dims, dimensions = self.input.dims, self.instruction.attrs["dimensions"]
        outside = iter(space.delinearize(kept, [n for d, n in enumerate(dims) if d not in dimensions]))
        inside = iter(space.delinearize(reduced, [n for d, n in enumerate(dims) if d in dimensions]))
        return tuple(next(inside) if d in dimensions else next(outside) for d in range(len(dims)))


def single_step(i: Instruction) -> Reduction | None:
    """The reduction that an instruction is, if it is one step of a known kind."""
    if len(i.operands) != 2:
        return None
    kind = reduction_kind(i.attrs["to_apply"])
    if kind is None:
        return None
    shape = i.operands[0].array_shape
    steps = collapse(shape.dims, i.attrs["dimensions"])
    if shape.size == 0 or len(steps) > 1:
        return None
    outer, length, inner = steps[0] if steps else (shape.size, 1, 1)
    return Reduction(i, kind, outer, length, inner)


def reductions(instructions: Iterable[Instruction]) -> list[Reduction | None]:
    """All reduces among the instructions; None for one that is not a single step."""
    return [single_step(i) for i in instructions if i.opcode == "reduce"]


def _blocks_each(length: int, most: int) -> int:
    """How many of the smallest blocks one block is. Of lengths that aren't known, only those are compiled with 1."""
    if isinstance(length, Size):
        if length > most:
            raise NotSymbolic(f"a reduction over {length}")
        return 1
    return -(-length // most)


def row_blocks(length: int) -> tuple[int, int]:
    """The size and the number of the blocks of a row step."""
    size = ROW_BLOCK * _blocks_each(length, ROW_BLOCK * ROW_BLOCKS)
    return size, -(-length // size)


def column_blocks(length: int) -> tuple[int, int]:
    """The size and the number of the blocks of a column step."""
    size = COLUMN_BLOCK * _blocks_each(length, COLUMN_BLOCK * COLUMN_BLOCKS)
    return size, -(-length // size)


def fold_vectors(b: Builder, reduction: Reduction, vectors: Sequence[Value]) -> Value:
    """Combines vectors by halving, lane by lane. Those that are missing to a power of two would be identities."""
    parts = list(vectors)
    width = 1
    while width < len(parts):
        width *= 2
    while width > 1:
        width //= 2
        for k in range(width):
            if k + width < len(parts):
                parts[k] = reduction.combine(b, parts[k], parts[k + width])
        del parts[width:]
    return parts[0]


def fold_lanes(b: Builder, reduction: Reduction, vectors: Sequence[Value]) -> Value:
    """Combines all lanes by halving."""
    value = fold_vectors(b, reduction, vectors)
    while value.lanes > 1:
        half = value.lanes // 2
        low = b.shuffle(value, value, range(half)) if half > 1 else b.extract_element(value, 0)
        high = b.shuffle(value, value, range(half, 2 * half)) if half > 1 else b.extract_element(value, 1)
        value = reduction.combine(b, low, high)
    return value
