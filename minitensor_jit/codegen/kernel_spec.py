"""What every target calls a kernel before it has code: a computation, where its values are, and a plan."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from ..ir.analysis.cost_analysis import cost_of
from ..ir.module import Computation, Instruction, Module
from ..ir.opcode import is_elementwise
from ..ir.size import hint
from ..runtime.buffer_assignment import Location
from .emitter.elementwise import COST

__all__ = [
    "Binding",
    "KernelPlan",
    "KernelSpec",
    "Root",
    "Sequential",
    "element_cost",
    "flops_of",
    "location_of",
    "reachable",
    "source_ops",
]

# What a kernel's parameter is bound to: memory, or a constant instruction that is folded into the kernel.
Binding: TypeAlias = Location | Instruction

# A result of a computation: its instruction and its number.
Root: TypeAlias = tuple[Instruction, int]


@dataclass
class KernelSpec:
    """One kernel to make: a computation and, once buffers are assigned, where its parameters and results are."""

    name: str
    computation: Computation
    operands: list[Binding] = field(default_factory=list)
    results: list[Location] = field(default_factory=list)

    @property
    def roots(self) -> list[Root]:
        """Each result's instruction and number."""
        return [(r, n) for n, r in enumerate(self.computation.roots)]


class KernelPlan(Protocol):
    """A kernel whose form has been found to fit, ready to be emitted."""

    @property
    def in_place(self) -> set[tuple[int, int]]:
        """(result, operand): the result may lie over the operand, each element being read before it is written."""

    def emit(self) -> None:
        """Emits the functions, and their launch into the entry."""


@dataclass(frozen=True, slots=True)
class Sequential:
    """A step that may be launched as one with others of its key, which follow it."""

    key: Hashable
    elsewhere: tuple[int, ...]
    """The operands of which an element of the result needs others than that at its own place."""


def location_of(binding: Binding) -> Location:
    """Where a parameter is in memory; a constant is put there."""
    if isinstance(binding, Location):
        return binding
    assert binding.literal is not None
    return Location("constant", data=binding.literal.tobytes())


def reachable(roots: Sequence[Instruction]) -> dict[Instruction, None]:
    """Everything the roots need, in no particular order."""
    seen: dict[Instruction, None] = dict.fromkeys(roots)
    stack = list(roots)
    while stack:
        for o in stack.pop().operands:
            if o not in seen:
                seen[o] = None
                stack.append(o)
    return seen


def element_cost(instructions: Mapping[Instruction, None], size: int) -> int:
    """The rough cost of one of `size` elements, in simple operations: what has fewer elements counts in proportion."""
    total = 0.0
    for i in instructions:
        if i.is_tuple:
            continue
        if is_elementwise(i.opcode):
            cost = COST.get(i.opcode, 1)
        elif i.opcode in ("parameter", "gather", "concatenate", "pad", "reduce"):
            cost = 1
        else:
            continue
        elements = max((hint(o.array_shape.size) for o in i.operands if not o.is_tuple), default=0)
        total += cost * min(1.0, max(elements, hint(i.array_shape.size)) / max(hint(size), 1))
    return max(1, round(total))


def flops_of(spec: KernelSpec) -> int:
    """The operations on elements that a spec does; a function such as exp counts as one."""
    cost = cost_of(Module.from_entry("kernel", spec.computation.clone()))
    return cost.flops + cost.transcendentals


def source_ops(spec: KernelSpec) -> tuple[tuple[str, str, int], ...]:
    """The ops of the user's program that a spec stands for, their files and lines."""
    found: dict[tuple[str, str, int], None] = {}
    for instruction in spec.computation.instructions:
        about = instruction.metadata
        if about is not None and about.op_type:
            found[about.op_type, about.source_file, about.source_line] = None
    return tuple(found)
