"""What the rules of shape inference share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ..shape import AnyShape, Shape, TupleShape

if TYPE_CHECKING:
    from ..module import Computation

__all__ = [
    "Attrs",
    "Rule",
    "ShapeError",
    "Unjudged",
    "accumulated",
    "check_combiner",
    "collected",
    "declared_array",
    "distinct",
    "same",
    "same_dims",
    "wrong",
]

Attrs = dict[str, Any]
Rule = Callable[[Sequence[Shape], Attrs, AnyShape | None], AnyShape]


class ShapeError(ValueError):
    """The operands or attributes of an instruction do not fit together."""


class Unjudged(Exception):  # noqa: N818  (whoever wants all that is wrong has been told)
    """What is missing has been said; without it nothing more can be."""


class _Collecting(threading.local):
    messages: list[str] | None = None


_collecting = _Collecting()


def wrong(message: str) -> None:
    """A rule is broken: raises `ShapeError`; inside `collected`, which wants all of them, notes it and returns.

    Where a rule can't be judged further without what is missing, it raises `ShapeError` itself.
    """
    if _collecting.messages is None:
        raise ShapeError(message)
    _collecting.messages.append(message)


def collected(infer: Callable[[], AnyShape]) -> tuple[list[str], AnyShape | None]:
    """Every rule that `infer` finds broken, and the shape if there is none."""
    found = _collecting.messages = []
    try:
        shape = infer()
    except ShapeError as error:
        found.append(str(error))
    except Unjudged:
        pass
    except Exception as error:
        # After a broken rule this is only what follows from it.
        if not found:
            if not isinstance(error, (AttributeError, TypeError, IndexError)):
                raise
            found.append(f"malformed attribute: {error}")
    finally:
        _collecting.messages = None
    return (found, None) if found else ([], shape)


def same_dims(opcode: str, shapes: Sequence[Shape]) -> tuple[int, ...]:
    """The dimensions that all operands have."""
    dims = shapes[0].dims
    for k, shape in enumerate(shapes):
        if shape.dims != dims:
            wrong(f"{opcode}: operand 0 is {shapes[0]} but operand {k} is {shape}; dimensions must be equal")
    return dims


def same(opcode: str, shapes: Sequence[Shape]) -> Shape:
    """The shape that all operands have."""
    same_dims(opcode, shapes)
    for k, shape in enumerate(shapes):
        if shape.dtype != shapes[0].dtype:
            wrong(f"{opcode}: operand 0 is {shapes[0]} but operand {k} is {shape}; types must be equal")
    return shapes[0]


def declared_array(opcode: str, declared: AnyShape | None) -> Shape:
    """The declared shape, which must be one of an array."""
    if not isinstance(declared, Shape):
        raise ShapeError(f"{opcode} needs an array shape, got {declared}")
    return declared


def distinct(what: str, dimensions: Sequence[int], rank: int) -> None:
    """Raises `ShapeError` unless the dimensions are distinct ones of an array of that rank."""
    if len(set(dimensions)) != len(dimensions) or any(not 0 <= d < rank for d in dimensions):
        wrong(f"{what}: dimensions {list(dimensions)} are not distinct or out of range for rank {rank}")


def accumulated(opcode: str, operand: Shape, declared: AnyShape | None) -> Shape:
    """The shape of a product, which may be declared to be of another, wider type than its operands."""
    if isinstance(declared, Shape) and declared.dtype != operand.dtype:
        wider = declared.itemsize >= operand.itemsize
        if not wider or (declared.kind != operand.kind and not (operand.kind in "iu" and declared.kind in "if")):
            wrong(f"{opcode} of {operand.dtype} does not give {declared.dtype}")
        return operand.with_dtype(declared.dtype)
    return operand


def check_combiner(opcode: str, computation: Computation, takes: Sequence[Shape], gives: Sequence[Shape]) -> None:
    """Raises `ShapeError` unless a computation takes and gives these shapes."""
    have = [p.shape for p in computation.parameters]
    if have != list(takes):
        wrong(
            f"{opcode}: {computation.name} takes ({', '.join(map(str, have))}), expected ({', '.join(map(str, takes))})"
        )
    root = computation.root.shape
    want: AnyShape = gives[0] if len(gives) == 1 else TupleShape(tuple(gives))
    if root != want:
        wrong(f"{opcode}: {computation.name} gives {root}, expected {want}")
