"""Modules, computations and instructions: the graph that every pass reads and rewrites.

A computation keeps its instructions in a topological order: operands stand before their users. Instructions are
compared by identity; `minitensor_jit.ir.analysis.equal` compares structure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from .opcode import COLLECTIVES
from .shape import AnyShape, Shape, TupleShape

__all__ = ["Attrs", "Computation", "Instruction", "Literal", "Metadata", "Module"]

Literal = NDArray[Any]
Attrs = dict[str, Any]

# Attributes whose value is a computation, or a tuple of computations.
CALLED = (
    "to_apply",
    "calls",
    "condition",
    "body",
    "select",
    "scatter",
    "true_computation",
    "false_computation",
    "branch_computations",
    "called_computations",
)


@dataclass(frozen=True, slots=True)
class Metadata:
    """Where an instruction comes from: the source op and the user's file and line."""

    op_type: str = ""
    op_name: str = ""
    source_file: str = ""
    source_line: int = 0


class Instruction:
    """One HLO operation and the value it defines.

    `attrs` are keyed by XLA's attribute names. `literal` is set for constants only and is never written to;
    `parameter_number` for parameters only. `line` is the line in the text it was parsed from, else 0.
    """

    __slots__ = ("attrs", "line", "literal", "metadata", "name", "opcode", "operands", "parameter_number", "shape")

    def __init__(
        self,
        name: str,
        opcode: str,
        shape: AnyShape,
        operands: Iterable[Instruction] = (),
        attrs: Attrs | None = None,
        *,
        literal: Literal | None = None,
        parameter_number: int | None = None,
        metadata: Metadata | None = None,
        line: int = 0,
    ) -> None:
        self.name = name
        self.opcode = opcode
        self.shape: AnyShape = shape
        self.operands: list[Instruction] = list(operands)
        self.attrs: Attrs = attrs if attrs is not None else {}
        self.literal = literal
        self.parameter_number = parameter_number
        self.metadata = metadata
        self.line = line

    @property
    def array_shape(self) -> Shape:
        """The shape, for an instruction known to define an array; raises `TypeError` for a tuple."""
        if not isinstance(self.shape, Shape):
            raise TypeError(f"{self.name} defines a tuple, not an array")
        return self.shape

    @property
    def dims(self) -> tuple[int, ...]:
        """The dimensions of the array this defines."""
        return self.array_shape.dims

    @property
    def dtype(self) -> str:
        """The element type of the array this defines."""
        return self.array_shape.dtype

    @property
    def is_tuple(self) -> bool:
        """Whether the value is a tuple."""
        return isinstance(self.shape, TupleShape)

    @property
    def has_side_effect(self) -> bool:
        """Whether it, or what it calls, does more than to give a value: it stays although nobody reads that.

        A collective does: other devices wait for this one.
        """
        if self.opcode in COLLECTIVES:
            return True
        if not self.attrs:
            return False
        if self.attrs.get("custom_call_has_side_effect", False) is True:
            return True
        return any(i.has_side_effect for computation in self.called() for i in computation.instructions)

    def called(self) -> list[Computation]:
        """The computations this instruction names in its attributes."""
        attrs = self.attrs
        if not attrs:
            return []
        found: list[Computation] = []
        for key in CALLED:
            if key in attrs:
                value = attrs[key]
                found += value if isinstance(value, tuple) else (value,)
        return found

    def map_called(self, replace: Callable[[Computation], Computation]) -> None:
        """Puts `replace(computation)` in the place of every computation that is named in the attributes."""
        for key in CALLED:
            if key in self.attrs:
                value = self.attrs[key]
                self.attrs[key] = tuple(map(replace, value)) if isinstance(value, tuple) else replace(value)

    def clone(
        self, operands: Iterable[Instruction] | None = None, *, name: str | None = None, shape: AnyShape | None = None
    ) -> Instruction:
        """A copy with the given operands (by default the same); called computations are shared."""
        return Instruction(
            self.name if name is None else name,
            self.opcode,
            self.shape if shape is None else shape,
            self.operands if operands is None else operands,
            dict(self.attrs),
            literal=self.literal,
            parameter_number=self.parameter_number,
            metadata=self.metadata,
            line=self.line,
        )

    def __repr__(self) -> str:
        operands = ", ".join(o.name for o in self.operands)
        return f"<{self.name} = {self.shape} {self.opcode}({operands})>"


class Computation:
    """A function over HLO values: instructions in a topological order and the one that is its result."""

    __slots__ = ("instructions", "line", "name", "root")

    def __init__(self, name: str, instructions: Iterable[Instruction], root: Instruction, *, line: int = 0) -> None:
        self.name = name
        self.instructions: list[Instruction] = list(instructions)
        self.root = root
        self.line = line

    @property
    def parameters(self) -> list[Instruction]:
        """The parameters, in the order of their numbers."""
        found = [i for i in self.instructions if i.opcode == "parameter"]
        found.sort(key=lambda i: i.parameter_number or 0)
        return found

    @property
    def roots(self) -> list[Instruction]:
        """The results: the operands of a tuple root, else the root alone."""
        return list(self.root.operands) if self.root.opcode == "tuple" else [self.root]

    def users(self) -> dict[Instruction, list[Instruction]]:
        """For every instruction, the instructions that read it (once each, in order)."""
        users: dict[Instruction, list[Instruction]] = {i: [] for i in self.instructions}
        for instruction in self.instructions:
            for operand in instruction.operands:
                known = users[operand]
                if not known or known[-1] is not instruction:
                    known.append(instruction)
        return users

    def replace_all_uses(self, old: Instruction, new: Instruction) -> None:
        """Makes every reader of `old` read `new`, the root included; `old` itself stays until `remove_dead`."""
        self.replace_uses({old: new})

    def replace_uses(self, mapping: Mapping[Instruction, Instruction]) -> None:
        """`replace_all_uses` for many at once. A chain (a to b, b to c) is followed to its end."""

        def resolve(instruction: Instruction) -> Instruction:
            while (target := mapping.get(instruction)) is not None:
                instruction = target
            return instruction

        replacements = set(mapping.values())
        for user in self.instructions:
            # A replacement may read what it replaces: x -> f(x).
            if user in replacements:
                user.operands = [o if mapping.get(o) is user else resolve(o) for o in user.operands]
            else:
                user.operands = [resolve(o) for o in user.operands]
        self.root = resolve(self.root)

    def sort(self) -> None:
        """Restores the topological order after a rewrite, and drops what the root does not need.

        Instructions reachable from the root but not yet listed are taken in; parameters always stay.
        """
        order: list[Instruction] = []
        done: set[Instruction] = set()
        for parameter in self.parameters:
            done.add(parameter)
            order.append(parameter)
        # Old order first: an instruction moves only where a dependency forces it to.
        live = self._reachable()
        position = [i for i in self.instructions if i in live]
        position.append(self.root)
        for start in position:
            if start in done:
                continue
            stack: list[tuple[Instruction, int]] = [(start, 0)]
            while stack:
                node, k = stack.pop()
                if node in done:
                    continue
                while k < len(node.operands) and node.operands[k] in done:
                    k += 1
                if k < len(node.operands):
                    stack.append((node, k + 1))
                    stack.append((node.operands[k], 0))
                    if len(stack) > len(live) + 1:  # deeper than any path of a DAG
                        raise ValueError(f"computation {self.name} has a cycle through {node.name}")
                else:
                    done.add(node)
                    order.append(node)
        self.instructions = order

    def _reachable(self) -> set[Instruction]:
        stack = [self.root, *(i for i in self.instructions if i.has_side_effect)]
        seen = set(stack)
        while stack:
            for operand in stack.pop().operands:
                if operand not in seen:
                    seen.add(operand)
                    stack.append(operand)
        return seen

    def remove_dead(self) -> bool:
        """Removes instructions that neither the root nor a side effect needs; returns whether any went.

        Parameters stay.
        """
        live = self._reachable()
        kept = [i for i in self.instructions if i in live or i.opcode == "parameter"]
        changed = len(kept) != len(self.instructions)
        self.instructions = kept
        return changed

    def clone(
        self,
        mapping: dict[Instruction, Instruction] | None = None,
        *,
        name: str | None = None,
        computations: Mapping[Computation, Computation] | None = None,
    ) -> Computation:
        """A copy. `mapping`, if given, is filled with old instruction -> new; `computations` maps called ones."""
        mapping = {} if mapping is None else mapping
        copies: list[Instruction] = []
        for instruction in self.instructions:
            copy = instruction.clone([mapping[o] for o in instruction.operands])
            if computations:
                copy.map_called(lambda c: computations.get(c, c))
            mapping[instruction] = copy
            copies.append(copy)
        return Computation(name or self.name, copies, mapping[self.root], line=self.line)

    def make_names_unique(self) -> None:
        """Gives instructions that share a name a new suffix."""
        taken: set[str] = set()
        following: dict[str, int] = {}
        for instruction in self.instructions:
            name = instruction.name
            if name in taken:
                stem, _, suffix = name.rpartition(".")
                stem = stem if stem and suffix.isdigit() else name
                n = following.get(stem, len(self.instructions))
                while (name := f"{stem}.{n}") in taken:
                    n += 1
                following[stem] = n + 1
                instruction.name = name
            taken.add(name)

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self.instructions)

    def __len__(self) -> int:
        return len(self.instructions)

    def __repr__(self) -> str:
        return f"<Computation {self.name}: {len(self.instructions)} instructions>"


class Module:
    """Computations, called ones before their callers, and the one where execution starts."""

    __slots__ = ("computations", "entry", "name")

    def __init__(self, name: str, computations: Iterable[Computation], entry: Computation) -> None:
        self.name = name
        self.computations: list[Computation] = list(computations)
        self.entry = entry

    @staticmethod
    def from_entry(name: str, entry: Computation) -> Module:
        """A module of `entry` and everything it calls."""
        module = Module(name, [entry], entry)
        module.collect()
        return module

    @staticmethod
    def alone(i: Instruction) -> Module:
        """A module of a copy of one instruction, whose operands are parameters."""
        parameters = [Instruction(f"p{k}", "parameter", o.shape, parameter_number=k) for k, o in enumerate(i.operands)]
        root = i.clone(parameters)
        return Module.from_entry(f"alone_{i.name}", Computation("main", [*parameters, root], root)).clone()

    def collect(self) -> None:
        """Rebuilds the list of computations from what the entry calls, callees first, and makes names unique."""
        order: list[Computation] = []
        seen: set[Computation] = set()

        def visit(computation: Computation) -> None:
            if computation in seen:
                return
            seen.add(computation)
            for instruction in computation.instructions:
                for callee in instruction.called():
                    visit(callee)
            order.append(computation)

        visit(self.entry)
        self.computations = order
        taken: set[str] = {self.entry.name}
        for computation in order:
            if computation is self.entry:
                continue
            name, n = computation.name, 0
            while name in taken:
                n += 1
                name = f"{computation.name}.{n}"
            computation.name = name
            taken.add(name)

    def clone(self, mapping: dict[Instruction, Instruction] | None = None) -> Module:
        """A deep copy; constants' arrays, which are immutable, are shared."""
        mapping = {} if mapping is None else mapping
        computations: dict[Computation, Computation] = {}
        for computation in self.computations:
            computations[computation] = computation.clone(mapping, computations=computations)
        return Module(self.name, computations.values(), computations[self.entry])

    def sequences(self) -> list[Computation]:
        """The computations whose instructions run one after the other, callees first.

        They are the entry and what loops, conditionals and calls of them name; not combiners, comparators and fusions.
        """
        found: set[Computation] = {self.entry}
        for computation in reversed(self.computations):  # callers before what they call
            if computation in found:
                for i in computation.instructions:
                    if i.opcode in ("while", "conditional", "call"):
                        found.update(i.called())
        return [c for c in self.computations if c in found]

    def instruction_count(self) -> int:
        """The number of instructions in all computations."""
        return sum(len(c) for c in self.computations)

    def transform(self, rewrite: Callable[[Computation], bool]) -> bool:
        """Applies `rewrite` to every computation; returns whether any said that it changed."""
        changed = False
        for computation in list(self.computations):
            changed |= rewrite(computation)
        return changed

    def __str__(self) -> str:
        from .text.printer import print_module

        return print_module(self)

    def __repr__(self) -> str:
        return f"<Module {self.name}: {len(self.computations)} computations, {self.instruction_count()} instructions>"
