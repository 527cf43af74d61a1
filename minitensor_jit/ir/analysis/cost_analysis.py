"""What a module costs: floating-point operations, transcendental functions, and bytes of memory traffic.

Counted as XLA counts: a product of matrices is two operations for each multiply-add, an elementwise instruction one for
each element, a reduction one for each element that goes in. Bytes are those of the operands and results of what is not
fused: fusions, and instructions of the entry that no fusion has. A loop's body is counted once, since the number of its
iterations is not known; of branches the dearest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from ..module import Computation, Instruction, Module
from ..opcode import OPCODES, Trait, opcodes_with
from ..shape import leaves

__all__ = ["Cost", "cost_of", "work_of"]

_FREE = opcodes_with(Trait.FREE)


@dataclass(frozen=True, slots=True)
class Cost:
    """The sums for one run."""

    flops: int = 0
    transcendentals: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    @property
    def bytes_accessed(self) -> int:
        """Read and written."""
        return self.bytes_read + self.bytes_written

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.flops + other.flops,
            self.transcendentals + other.transcendentals,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
        )


def cost_of(module: Module) -> Cost:
    """The costs of one run of a module."""
    return _computation(module.entry, fused=False)


def work_of(instruction: Instruction) -> Cost:
    """What one run of an instruction computes, without the bytes that it moves."""
    return Cost() if instruction.opcode in _FREE else _work(instruction)


def _computation(computation: Computation, *, fused: bool) -> Cost:
    total = Cost()
    for instruction in computation.instructions:
        total += _instruction(instruction, fused=fused)
    return total


def _instruction(i: Instruction, *, fused: bool) -> Cost:
    if i.opcode in _FREE:
        return Cost()
    work = _work(i)
    if fused:
        return work
    read = sum(shape.nbytes for operand in dict.fromkeys(i.operands) for shape in leaves(operand.shape))
    written = sum(shape.nbytes for shape in leaves(i.shape))
    if i.opcode in ("while", "conditional", "call"):
        return work  # what is inside moves the bytes
    if i.opcode == "dynamic-update-slice":
        read, written = i.operands[1].array_shape.nbytes, i.operands[1].array_shape.nbytes
    elif i.opcode in ("slice", "dynamic-slice", "gather"):
        read = written
    return work + Cost(bytes_read=read, bytes_written=written)


def _work(i: Instruction) -> Cost:
    called = i.called()
    if i.opcode in ("call", "while"):
        return _sum(_computation(one, fused=False) for one in called)
    if i.opcode == "conditional":
        return max((_computation(one, fused=False) for one in called), key=lambda c: (c.flops, c.bytes_accessed))
    if i.opcode == "fusion":
        return _sum(_computation(one, fused=True) for one in called)
    elements = sum(shape.size for shape in leaves(i.shape))
    row = OPCODES.get(i.opcode)
    if i.opcode == "dot":
        sizes = i.operands[0].dims
        return Cost(flops=2 * elements * prod(sizes[d] for d in i.attrs.get("lhs_contracting_dims", ())))
    if i.opcode == "convolution":
        kernel = i.operands[1].array_shape
        numbers = i.attrs.get("dim_labels")
        output_features = kernel.dims[str(numbers).split("_")[1].split("-")[0].index("o")] if numbers else 1
        return Cost(flops=2 * elements * kernel.size // max(output_features, 1))
    if i.opcode in ("reduce", "reduce-window", "select-and-scatter", "scatter", "sort", "map"):
        inside = _sum(_computation(one, fused=True) for one in called)
        steps = i.operands[0].array_shape.size
        if i.opcode == "reduce-window":
            steps = elements * prod(getattr(i.attrs.get("window"), "size", ()) or (1,))
        return Cost(flops=inside.flops * steps, transcendentals=inside.transcendentals * steps)
    if row is None or row.kind not in ("unary", "binary", "ternary", "elementwise") or i.opcode in ("copy", "convert"):
        return Cost()
    return Cost(transcendentals=elements) if row.transcendental else Cost(flops=elements)


def _sum(costs: Iterable[Cost]) -> Cost:
    total = Cost()
    for cost in costs:
        total += cost
    return total
