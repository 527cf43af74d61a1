"""Which element of an operand an element of the result reads: one rule for each data movement opcode.

`operand_indices` is the only place that knows these rules: the emitter follows them to emit loads, and `accesses`
follows them without emitting anything, to find out how a computation reads its inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Final

from ...ir.module import Instruction
from ...ir.opcode import is_elementwise
from ..errors import CompileError
from .indexing_map import ZERO, AffineExpr, DynamicIndex, FloorDiv, Index, Space

__all__ = ["Accesses", "Condition", "accesses", "concatenate_offsets", "operand_indices", "pad_conditions"]


@dataclass(frozen=True, slots=True)
class Condition:
    """`low <= lin < high`, and, with a step, that `lin - low` is a multiple of it."""

    lin: AffineExpr
    low: int
    high: int
    step: int = 1

    def always(self, space: Space) -> bool:
        """Whether it holds wherever the form is evaluated."""
        low, high = space.range(self.lin)
        return self.low <= low and high < self.high and self.step == 1


Rule = Callable[[Space, Instruction, Index], list[Index]]


def _same(space: Space, i: Instruction, index: Index) -> list[Index]:
    return [index] * len(i.operands)


def _broadcast(space: Space, i: Instruction, index: Index) -> list[Index]:
    return [tuple(index[d] for d in i.attrs["dimensions"])]


def _reshape(space: Space, i: Instruction, index: Index) -> list[Index]:
    source = i.operands[0].dims
    return [index if source == i.dims else space.delinearize(Space.linearize(index, i.dims), source)]


def _transpose(space: Space, i: Instruction, index: Index) -> list[Index]:
    at: list[AffineExpr] = [ZERO] * len(index)
    for k, d in enumerate(i.attrs["dimensions"]):
        at[d] = index[k]
    return [tuple(at)]


def _slice(space: Space, i: Instruction, index: Index) -> list[Index]:
    return [tuple(x * stride + start for x, (start, _, stride) in zip(index, i.attrs["slice"], strict=True))]


def _reverse(space: Space, i: Instruction, index: Index) -> list[Index]:
    flipped = i.attrs["dimensions"]
    return [tuple(x * -1 + (i.dims[d] - 1) if d in flipped else x for d, x in enumerate(index))]


def _dynamic_slice(space: Space, i: Instruction, index: Index) -> list[Index]:
    source, sizes = i.operands[0].dims, i.attrs["dynamic_slice_sizes"]
    starts = [space.dyn(o, (), n - s) for o, n, s in zip(i.operands[1:], source, sizes, strict=True)]
    return [tuple(x + s for x, s in zip(index, starts, strict=True))]


def _gather(space: Space, i: Instruction, index: Index) -> list[Index]:
    source, indices, attrs = i.operands[0].dims, i.operands[1], i.attrs
    offset, vector_dim = attrs["offset_dims"], attrs["index_vector_dim"]
    batch = [x for d, x in enumerate(index) if d not in offset]
    window = iter(x for d, x in enumerate(index) if d in offset)
    starts = {}
    for k, d in enumerate(attrs["start_index_map"]):
        at = list(batch)
        if vector_dim < len(indices.dims):
            at.insert(vector_dim, AffineExpr(k))
        starts[d] = space.dyn(indices, tuple(at), source[d] - attrs["slice_sizes"][d])
    within = [ZERO if d in attrs["collapsed_slice_dims"] else next(window) for d in range(len(source))]
    return [tuple(x + starts.get(d, ZERO) for d, x in enumerate(within))]


_RULES: Final[dict[str, Rule]] = {
    "broadcast": _broadcast,
    "reshape": _reshape,
    "bitcast": _reshape,
    "transpose": _transpose,
    "slice": _slice,
    "reverse": _reverse,
    "dynamic-slice": _dynamic_slice,
    "gather": _gather,
}


def operand_indices(space: Space, i: Instruction, index: Index) -> list[Index]:
    """For the operands that are read element by element, the index at which each one is read."""
    rule = _RULES.get(i.opcode)
    if rule is None:
        if not is_elementwise(i.opcode):
            raise CompileError(i.opcode, "not an operation on single elements")
        rule = _same
    return rule(space, i, index)


def concatenate_offsets(i: Instruction) -> list[int]:
    """Where each operand of a concatenate begins."""
    axis, offsets = i.attrs["dimensions"][0], [0]
    for o in i.operands[:-1]:
        offsets.append(offsets[-1] + o.dims[axis])
    return offsets


def pad_conditions(i: Instruction, index: Index) -> tuple[list[Condition], list[AffineExpr], list[int]]:
    """When an element of a pad comes from the operand; the index before and the divisor for interior padding."""
    conditions, shifted, steps = [], [], []
    for x, n, (low, high, interior) in zip(index, i.operands[0].dims, i.attrs["padding"], strict=True):
        step = interior + 1
        if low > 0 or high > 0 or interior:
            conditions.append(Condition(x, low, low + (n - 1) * step + 1, step))
        shifted.append(x - low)
        steps.append(step)
    return conditions, shifted, steps


def update_conditions(space: Space, i: Instruction, index: Index) -> tuple[list[Condition], Index]:
    """When an element of a dynamic-update-slice comes from the update, and its index there."""
    conditions, at = [], []
    for x, start, n, u in zip(index, i.operands[2:], i.dims, i.operands[1].dims, strict=True):
        within = x - space.dyn(start, (), n - u)
        if u != n:
            conditions.append(Condition(within, 0, u))
        at.append(within)
    return conditions, tuple(at)


@dataclass
class Accesses:
    """How a computation reads: for each leaf the forms of the element numbers, and all other forms it evaluates."""

    leaves: dict[Instruction, set[AffineExpr]] = field(default_factory=dict)
    forms: set[AffineExpr] = field(default_factory=set)
    conditional: set[Instruction] = field(default_factory=set)
    """The leaves that some elements are read of, or not, as a condition says."""
    borders: set[tuple[AffineExpr, int]] = field(default_factory=set)
    """Where another operand begins, of those that a concatenation or a pad chooses from: at this value of the form."""

    def all_forms(self) -> set[AffineExpr]:
        """Every form that will be evaluated."""
        return self.forms.union(*self.leaves.values())


def accesses(
    space: Space, roots: Iterable[tuple[Instruction, Index]], leaves: Collection[Instruction] = ()
) -> Accesses:
    """Follows the roots down to parameters, constants and `leaves`, without emitting anything."""
    found = Accesses()
    seen: set[tuple[Instruction, Index, bool]] = set()
    # The third entry: whether the element is only read under a condition.
    stack = [(i, index, False) for i, index in roots]

    def note(lin: AffineExpr, under: bool) -> None:
        if lin in found.forms:
            return
        found.forms.add(lin)
        for atom, _ in lin.terms:
            if isinstance(atom, DynamicIndex):
                stack.append((atom.source, atom.index, under))
            elif isinstance(atom, FloorDiv):
                note(atom.lin, under)

    def visit(i: Instruction, index: Index, under: bool) -> None:
        opcode = i.opcode
        if opcode == "parameter" or opcode == "constant" or i in leaves:
            lin = Space.linearize(index, i.dims)
            found.leaves.setdefault(i, set()).add(lin)
            if under:
                found.conditional.add(i)
            note(lin, under)
        elif opcode == "iota":
            note(index[i.attrs["iota_dimension"]], under)
        elif opcode == "concatenate":
            axis = i.attrs["dimensions"][0]
            note(index[axis], under)
            found.borders.update((index[axis], offset) for offset in concatenate_offsets(i)[1:])
            for o, offset in zip(i.operands, concatenate_offsets(i), strict=True):
                if 0 not in o.dims:
                    stack.append((o, (*index[:axis], index[axis] - offset, *index[axis + 1 :]), True))
        elif opcode == "pad":
            conditions, shifted, steps = pad_conditions(i, index)
            conditions = [c for c in conditions if not c.always(space)]
            for condition in conditions:
                note(condition.lin, under)
                found.borders |= {(condition.lin, condition.low), (condition.lin, condition.high)}
            stack.append((i.operands[1], (), under))
            if 0 not in i.operands[0].dims:
                at = tuple(space.div(x, s) for x, s in zip(shifted, steps, strict=True))
                stack.append((i.operands[0], at, under or bool(conditions)))
        elif opcode == "dynamic-update-slice":
            conditions, at = update_conditions(space, i, index)
            conditions = [c for c in conditions if not c.always(space)]
            for condition in conditions:
                note(condition.lin, under)
                found.borders |= {(condition.lin, condition.low), (condition.lin, condition.high)}
            stack.append((i.operands[0], index, under))
            if 0 not in i.operands[1].dims:
                stack.append((i.operands[1], at, True))
        else:
            stack.extend((o, at, under) for o, at in zip(i.operands, operand_indices(space, i, index), strict=False))

    while stack:
        entry = stack.pop()
        if entry in seen:
            continue
        seen.add(entry)
        if entry[2]:
            with space.conditional():
                visit(*entry)
        else:
            visit(*entry)
    return found
