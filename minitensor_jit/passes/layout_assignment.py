"""Decides where arrays are transposed for matrix products: read in another order, or written in one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..ir.infer.dot import dot_dims
from ..ir.infer.infer_shape import infer_shape
from ..ir.module import Computation, Instruction, Module
from ..ir.refusal import Refusal, Refused
from ..ir.semantics.matrix import matrix_of
from ..ir.size import hint

__all__ = ["LayoutAssignment"]

Dims = tuple[int, ...]


class LayoutAssignment:
    """Chooses for each operand of a dot the array that is read: the operand, what it is a transpose of, or a new one.

    Contract: all arrays are row-major, so a layout is an order of dimensions. Afterwards the batch, free and contracted
    dimensions of every operand can each be walked with one stride, so nothing is copied when the product runs; what
    had to be transposed for that is, once for all products that read it, and fuses with what makes it. The order of
    every sum stays. Each choice costs the bytes that it moves, and the cheapest is taken. `decisions` says what is
    moved all the same.
    """

    name = "layout-assignment"

    def __init__(self) -> None:
        self.decisions: list[Refusal] = []

    def run(self, module: Module) -> bool:
        """Assign in the entry, and in what its loops and conditionals run."""
        changed = False
        for computation in module.sequences():
            changed |= _Assignment(computation, self.decisions).run()
        return changed


@dataclass(frozen=True, slots=True)
class _Choice:
    """One way to read an operand."""

    cost: int
    """The bytes that are read and written for it, besides those of the product."""
    source: Instruction
    order: Dims
    """The dimensions of the source, as they are to be in memory; in order if nothing is moved."""
    batch: Dims
    contracting: Dims
    free: Dims
    """The free dimensions of what is read, in the order that the product's result wants them."""


class _Assignment:
    def __init__(self, computation: Computation, decisions: list[Refusal]) -> None:
        self.computation = computation
        self.decisions = decisions
        self.users = computation.users()
        self.made: list[Instruction] = []
        self.transposed: dict[tuple[Instruction, Dims], Instruction] = {}
        self.replaced: dict[Instruction, Instruction] = {}

    def run(self) -> bool:
        changed = False
        for i in self.computation.instructions:
            i.operands = [self.replaced.get(o, o) for o in i.operands]
            if i.opcode == "dot" and not any(0 in o.dims for o in (i, *i.operands)):
                changed |= self.dot(i)
            else:
                self.made.append(i)
        if changed:
            self.computation.instructions = self.made
            self.computation.root = self.replaced.get(self.computation.root, self.computation.root)
            self.computation.remove_dead()
            self.computation.make_names_unique()
        return changed

    def dot(self, i: Instruction) -> bool:
        lb, lc, rb, rc = dot_dims(i.attrs)
        left, right = self.choose(i, 0, lb, lc), self.choose(i, 1, rb, rc)
        reads = [self.array(choice, i) for choice in (left, right)]
        if reads == list(i.operands):  # then the free dimensions are in order, too
            self.made.append(i)
            return False
        attrs = {key: value for key, value in i.attrs.items() if not key.endswith("_dims")}
        for key, dims in (
            ("lhs_batch_dims", left.batch), ("lhs_contracting_dims", left.contracting),
            ("rhs_batch_dims", right.batch), ("rhs_contracting_dims", right.contracting),
        ):  # fmt: skip
            if dims:
                attrs[key] = dims
        dot = self.emit(i, "dot", reads, attrs)
        # The free dimensions come out as they lie in what was read.
        b, f = len(lb), len(left.free)
        order = [
            *range(b),
            *(b + sorted(left.free).index(d) for d in left.free),
            *(b + f + sorted(right.free).index(d) for d in right.free),
        ]
        if order != sorted(order):
            dot = self.emit(i, "transpose", [dot], {"dimensions": tuple(order)})
        self.replaced[i] = dot
        return True

    def choose(self, i: Instruction, side: int, batch: Dims, contracting: Dims) -> _Choice:
        """The cheapest way to read an operand; of equally cheap ones that with the fewest arrays."""
        x = i.operands[side]
        free = tuple(d for d in range(len(x.dims)) if d not in batch and d not in contracting)
        plain = tuple(range(len(x.dims)))
        choices = []
        source, through = x, plain
        if x.opcode == "transpose":
            source, through = x.operands[0], tuple(x.attrs["dimensions"])
            groups = [tuple(through[d] for d in group) for group in (batch, contracting, free)]
            if _walkable(source, *groups):
                out_of_order = sorted(groups[2]) != list(groups[2])
                cost = _moved(i) if out_of_order else 0
                choices.append(_Choice(cost, source, tuple(range(len(plain))), *groups))
        if _walkable(x, batch, contracting, free):
            # A transpose that only products read is there for them.
            alone = x.opcode == "transpose" and all(user.opcode == "dot" for user in self.users.get(x, ()))
            choices.append(_Choice(_moved(x) if alone else 0, x, plain, batch, contracting, free))
        b, f, c = len(batch), len(free), len(contracting)
        # One transpose of a transpose.
        order = tuple(through[d] for d in (*batch, *free, *contracting))
        choices.append(
            _Choice(_moved(x), source, order, tuple(range(b)), tuple(range(b + f, b + f + c)), tuple(range(b, b + f)))
        )
        best = min(choices, key=lambda choice: choice.cost)
        if best.cost:
            why = f"{best.cost:,} bytes are moved, since no order of dimensions fits without"
            self.decisions.append(Refusal(x, i, Refused.OTHER_LAYOUT.because(why, best.cost)))
        return best

    def array(self, choice: _Choice, i: Instruction) -> Instruction:
        """What is read: made, if it has to be and no other product has it yet."""
        if choice.order == tuple(range(len(choice.order))):
            return choice.source
        key = choice.source, choice.order
        if key not in self.transposed:
            self.transposed[key] = self.emit(i, "transpose", [choice.source], {"dimensions": choice.order})
        return self.transposed[key]

    def emit(
        self, i: Instruction, opcode: str, operands: Sequence[Instruction], attrs: dict[str, object]
    ) -> Instruction:
        shape = infer_shape(opcode, [o.shape for o in operands], attrs, i.shape if opcode == "dot" else None)
        made = Instruction(f"{i.name}.{opcode}", opcode, shape, operands, attrs, metadata=i.metadata)
        self.made.append(made)
        return made


def _walkable(x: Instruction, batch: Dims, contracting: Dims, free: Dims) -> bool:
    # Out of order, the free dimensions are walked as they lie.
    return matrix_of(x.array_shape, batch, sorted(free), contracting) is not None


def _moved(x: Instruction) -> int:
    return 2 * int(hint(x.array_shape.nbytes))
