"""Checks the invariants of a module and reports every violation."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from .infer.infer_shape import broken_rules
from .module import CALLED, Computation, Instruction, Module
from .opcode import ANYWHERE, OPCODES
from .semantics.draw import runs_more_than_once
from .shape import Shape
from .text.syntax import is_identifier

__all__ = ["VerificationError", "Violation", "check", "verify"]

FUSION_KINDS = ("kLoop", "kInput", "kOutput", "kCustom")


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule; `line` is 0 for a module that was not parsed from text."""

    computation: str
    instruction: str
    message: str
    line: int = 0

    def __str__(self) -> str:
        where = f"{self.computation}.{self.instruction}" if self.instruction else self.computation
        return f"{f'line {self.line}: ' if self.line else ''}{where}: {self.message}"


class VerificationError(ValueError):
    """A module breaks rules of the IR; `violations` are all of them."""

    def __init__(self, violations: list[Violation], context: str = "") -> None:
        self.violations = violations
        title = f"the module is not valid{f' {context}' if context else ''}"
        super().__init__("\n  ".join([f"{title}:", *map(str, violations)]))


def check(module: Module, context: str = "") -> None:
    """Raises `VerificationError` with every violation, if there is one."""
    if violations := verify(module):
        raise VerificationError(violations, context)


def verify(module: Module) -> list[Violation]:
    """Every violation of the rules of the IR, in the order of the module."""
    found: list[Violation] = []
    names: set[str] = set()
    above: set[Computation] = set()
    if not is_identifier(module.name):
        found.append(Violation(module.name, "", "the module's name is not one that XLA reads"))
    if module.entry not in module.computations:
        found.append(Violation(module.name, "", f"the entry {module.entry.name} is not among the computations"))
    for computation in module.computations:
        if computation.name in names:
            found.append(Violation(computation.name, "", "the computation's name is used twice", computation.line))
        if not is_identifier(computation.name):
            found.append(
                Violation(computation.name, "", "the computation's name is not one that XLA reads", computation.line)
            )
        names.add(computation.name)
        found.extend(_computation(computation, above))
        above.add(computation)
    for computation in module.computations:
        for i in computation.instructions:
            if i.opcode == "rng" and runs_more_than_once(module, computation):
                message = "rng may run several times, or not, and would draw the same numbers each time"
                found.append(Violation(computation.name, i.name, message, i.line))
    return found


def _computation(computation: Computation, above: set[Computation]) -> Iterator[Violation]:
    defined: set[Instruction] = set()
    names: set[str] = set()
    for instruction in computation.instructions:
        for message in _instruction(instruction, defined, above):
            yield Violation(computation.name, instruction.name, message, instruction.line)
        if not is_identifier(instruction.name):
            yield Violation(computation.name, instruction.name, "the name is not one that XLA reads", instruction.line)
        if instruction.name in names:
            yield Violation(computation.name, instruction.name, "the name is used twice", instruction.line)
        names.add(instruction.name)
        defined.add(instruction)
    if computation.root not in defined:
        yield Violation(
            computation.name, "", f"the root {computation.root.name} is not in the computation", computation.line
        )
    numbers = [p.parameter_number for p in computation.parameters]
    if numbers != list(range(len(numbers))):
        yield Violation(
            computation.name,
            "",
            f"parameters are numbered {numbers}, expected 0 to {len(numbers) - 1}",
            computation.line,
        )


def _instruction(i: Instruction, defined: set[Instruction], above: set[Computation]) -> Iterator[str]:
    row = OPCODES.get(i.opcode)
    if row is None:
        yield f"unknown opcode {i.opcode!r}"
        return
    for operand in i.operands:
        if operand not in defined:
            yield f"operand {operand.name} is not defined above it in this computation"
    for key in i.attrs:
        if key not in row.required and key not in row.optional and key not in ANYWHERE:
            yield f"{i.opcode} has no attribute {key!r}"
        if key in CALLED:
            value = i.attrs[key]
            for callee in value if isinstance(value, tuple) else (value,):
                if callee not in above:
                    yield f"{key}={getattr(callee, 'name', callee)} is no computation that stands above this one"
    if i.opcode == "constant":
        yield from _literal(i)
    elif i.literal is not None:
        yield "only a constant has a literal"
    if (i.parameter_number is not None) != (i.opcode == "parameter"):
        yield "a parameter, and nothing else, has a parameter number"
    if i.opcode == "all-reduce-done" and any(o.opcode != "all-reduce-start" for o in i.operands):
        yield f"all-reduce-done ends an all-reduce-start, its operand is a {i.operands[0].opcode}"
    if i.opcode == "fusion" and i.attrs.get("kind") not in FUSION_KINDS:
        yield f"fusion kind {i.attrs.get('kind')} is none of {', '.join(FUSION_KINDS)}"
    broken, shape = broken_rules(i.opcode, [o.shape for o in i.operands], i.attrs, i.shape)
    yield from broken
    if not broken and shape != i.shape:
        yield f"is declared {i.shape} but must be {shape}"


def _literal(i: Instruction) -> Iterator[str]:
    if i.literal is None:
        yield "a constant needs a literal"
    elif isinstance(i.shape, Shape):
        if i.literal.shape != i.shape.dims:
            yield f"the literal has dimensions {list(i.literal.shape)}, the shape is {i.shape}"
        if i.literal.dtype != i.shape.numpy_dtype:
            yield f"the literal is {i.literal.dtype}, the shape is {i.shape}"
