"""What the rules of shape inference share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .shape import AnyShape, Shape, TupleShape

if TYPE_CHECKING:
    from .module import Computation

__all__ = ["Attrs", "Rule", "ShapeError", "check_combiner", "declared_array", "distinct", "same", "same_dims"]

Attrs = dict[str, Any]
Rule = Callable[[Sequence[Shape], Attrs, AnyShape | None], AnyShape]


class ShapeError(ValueError):
    """The operands or attributes of an instruction do not fit together."""


def same_dims(opcode: str, shapes: Sequence[Shape]) -> tuple[int, ...]:
    """The dimensions that all operands have."""
    dims = shapes[0].dims
    for k, shape in enumerate(shapes):
        if shape.dims != dims:
            raise ShapeError(f"{opcode}: operand 0 is {shapes[0]} but operand {k} is {shape}; dimensions must be equal")
    return dims


def same(opcode: str, shapes: Sequence[Shape]) -> Shape:
    """The shape that all operands have."""
    same_dims(opcode, shapes)
    for k, shape in enumerate(shapes):
        if shape.dtype != shapes[0].dtype:
            raise ShapeError(f"{opcode}: operand 0 is {shapes[0]} but operand {k} is {shape}; types must be equal")
    return shapes[0]


def declared_array(opcode: str, declared: AnyShape | None) -> Shape:
    """The declared shape, which must be one of an array."""
    if not isinstance(declared, Shape):
        raise ShapeError(f"{opcode} needs an array shape, got {declared}")
    return declared


def distinct(what: str, dimensions: Sequence[int], rank: int) -> None:
    """Raises `ShapeError` unless the dimensions are distinct ones of an array of that rank."""
    if len(set(dimensions)) != len(dimensions) or any(not 0 <= d < rank for d in dimensions):
        raise ShapeError(f"{what}: dimensions {list(dimensions)} are not distinct or out of range for rank {rank}")


def check_combiner(opcode: str, computation: Computation, takes: Sequence[Shape], gives: Sequence[Shape]) -> None:
    """Raises `ShapeError` unless a computation takes and gives these shapes."""
    have = [p.shape for p in computation.parameters]
    if have != list(takes):
        raise ShapeError(
            f"{opcode}: {computation.name} takes ({', '.join(map(str, have))}), expected ({', '.join(map(str, takes))})"
        )
    root = computation.root.shape
    want: AnyShape = gives[0] if len(gives) == 1 else TupleShape(tuple(gives))
    if root != want:
        raise ShapeError(f"{opcode}: {computation.name} gives {root}, expected {want}")
