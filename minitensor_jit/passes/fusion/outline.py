"""Moves sets of instructions into called computations, each behind one `fusion` instruction."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ...ir.module import Attrs, Computation, Instruction
from ...ir.shape import TupleShape

__all__ = ["Outline", "outline"]


@dataclass(slots=True, eq=False)
class Outline:
    """What becomes one fusion: its instructions, in a topological order, and those whose values leave it."""

    members: Sequence[Instruction]
    roots: Sequence[Instruction]
    kind: str
    backend_config: str = ""


def outline(computation: Computation, groups: Iterable[Outline]) -> list[Instruction]:
    """Replace each group by a fusion; return the fusions.

    A member that is no root of its group may be in several groups: each gets a copy. Values that a group reads and does
    not contain become the parameters of its computation, in the order in which they are first read.
    """
    values: dict[Instruction, Instruction] = {}  # a root -> what stands for it now
    fusions: list[Instruction] = []
    made: list[Instruction] = []
    for number, group in enumerate(groups):
        fusion = _fuse(group, number)
        fusions.append(fusion)
        made.append(fusion)
        if len(group.roots) == 1:
            values[group.roots[0]] = fusion
            continue
        for index, root in enumerate(group.roots):
            element = Instruction(
                f"{fusion.name}.{index}", "get-tuple-element", root.shape, (fusion,), {"index": index},
                metadata=root.metadata,
            )  # fmt: skip
            values[root] = element
            made.append(element)
    if not fusions:
        return fusions
    gone = set(values)
    computation.instructions = [i for i in computation.instructions if i not in gone]
    computation.instructions += made
    for i in computation.instructions:
        i.operands = [values.get(o, o) for o in i.operands]
    computation.root = values.get(computation.root, computation.root)
    computation.sort()
    computation.make_names_unique()
    return fusions


def _fuse(group: Outline, number: int) -> Instruction:
    body: list[Instruction] = []
    copies: dict[Instruction, Instruction] = {}
    members = set(group.members)
    operands: list[Instruction] = []
    for member in group.members:
        for operand in member.operands:
            if operand not in copies:
                if operand in members:
                    raise ValueError(f"the members of a fusion are not in order: {member.name} reads {operand.name}")
                parameter = Instruction(
                    f"param_{len(operands)}", "parameter", operand.shape, parameter_number=len(operands)
                )
                copies[operand] = parameter
                operands.append(operand)
                body.append(parameter)
        copy = member.clone([copies[o] for o in member.operands])
        copies[member] = copy
        body.append(copy)
    roots = [copies[r] for r in group.roots]
    main = group.roots[0]
    if len(roots) == 1:
        root = roots[0]
    else:
        root = Instruction("outputs", "tuple", TupleShape(tuple(r.shape for r in roots)), roots)
        body.append(root)
    # Parameters first, as in every other computation.
    body.sort(key=lambda i: i.parameter_number is None)
    stem = {"kLoop": "loop", "kInput": "input", "kOutput": "output", "kCustom": group.backend_config or "custom"}.get(
        group.kind, group.kind
    )
    called = Computation(f"fused_{stem}_{main.opcode}", body, root)
    called.make_names_unique()
    attrs: Attrs = {"kind": group.kind, "calls": called}
    if group.backend_config:
        attrs["backend_config"] = group.backend_config
    return Instruction(
        f"{stem}_{main.opcode}_fusion.{number}", "fusion", root.shape, operands, attrs, metadata=main.metadata
    )
