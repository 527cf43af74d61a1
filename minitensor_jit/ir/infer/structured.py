"""Shape rules of what takes tuples or calls computations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ..shape import AnyShape, Shape, TupleShape
from .checks import Attrs, ShapeError, wrong

if TYPE_CHECKING:
    from ..module import Computation

__all__ = ["STRUCTURED", "branches"]

Rule = Callable[[str, Sequence[AnyShape], Attrs, AnyShape | None], AnyShape]


def _tuple(opcode: str, operands: Sequence[AnyShape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    return TupleShape(tuple(operands))


def _element(opcode: str, operands: Sequence[AnyShape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    source, index = operands[0], attrs["index"]
    if not isinstance(source, TupleShape):
        raise ShapeError(f"get-tuple-element reads the array {source}, expected a tuple")
    if not 0 <= index < len(source.elements):
        raise ShapeError(f"get-tuple-element index {index} is out of range for {len(source.elements)} elements")
    return source.elements[index]


def _takes(opcode: str, callee: Computation, operands: Sequence[AnyShape]) -> None:
    parameters = callee.parameters
    if len(parameters) != len(operands):
        wrong(f"{opcode} passes {len(operands)} operands to {callee.name}, which has {len(parameters)}")
    for k, (parameter, shape) in enumerate(zip(parameters, operands, strict=True)):
        if parameter.shape != shape:
            wrong(f"operand {k} of {opcode} is {shape}, parameter {k} of {callee.name} is {parameter.shape}")


def _call(opcode: str, operands: Sequence[AnyShape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    callee: Computation = attrs["calls" if opcode == "fusion" else "to_apply"]
    _takes(opcode, callee, operands)
    return callee.root.shape


def _while(opcode: str, operands: Sequence[AnyShape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    condition, body = attrs["condition"], attrs["body"]
    _takes("while", condition, operands)
    _takes("while", body, operands)
    if condition.root.shape != Shape("pred"):
        wrong(f"while: {condition.name} gives {condition.root.shape}, expected pred[]")
    if body.root.shape != operands[0]:
        wrong(f"while: {body.name} gives {body.root.shape}, but its state is {operands[0]}")
    return operands[0]


def branches(attrs: Attrs) -> tuple[Computation, ...]:
    """The branches of a conditional, in the order of its operands; of one on a pred the true branch first."""
    if "branch_computations" in attrs:
        return tuple(attrs["branch_computations"])
    if "true_computation" not in attrs or "false_computation" not in attrs:
        raise ShapeError("conditional needs branch_computations, or true_computation and false_computation")
    return attrs["true_computation"], attrs["false_computation"]


def _conditional(opcode: str, operands: Sequence[AnyShape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    called = branches(attrs)
    by_number = "branch_computations" in attrs
    if not operands or operands[0] not in ((Shape("s32"), Shape("pred")) if by_number else (Shape("pred"),)):
        wrong(f"conditional chooses by {operands[0] if operands else 'nothing'}, expected a number or pred[]")
    if len(operands) != len(called) + 1 or not called:
        wrong(f"conditional has {len(called)} branches and {len(operands)} operands, expected one more")
    if operands[0] == Shape("pred") and len(called) != 2:
        wrong(f"conditional on a pred has {len(called)} branches")
    for branch, operand in zip(called, operands[1:], strict=True):
        _takes("conditional", branch, [operand])
        first = called[0]
        if branch.root.shape != first.root.shape:
            wrong(f"conditional: {first.name} gives {first.root.shape}, {branch.name} {branch.root.shape}")
    return called[0].root.shape


def _barrier(opcode: str, operands: Sequence[AnyShape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    return operands[0]


def _custom(opcode: str, operands: Sequence[AnyShape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if declared is None:
        raise ShapeError("a custom-call needs a shape")
    return declared


STRUCTURED: Final[dict[str, Rule]] = {
    "tuple": _tuple,
    "get-tuple-element": _element,
    "fusion": _call,
    "call": _call,
    "while": _while,
    "conditional": _conditional,
    "opt-barrier": _barrier,
    "custom-call": _custom,
}
