"""Shape inference, one rule an opcode, used by the builder, the verifier and the passes.

A rule gets the operands' shapes, the attributes and the declared shape, and returns the shape that the instruction
must have or raises `ShapeError`; for the verifier, which wants all that is wrong, `wrong` goes on instead. The declared
shape is only read by opcodes whose result the operands do not fix (reshape, broadcast, convert, iota, ...); the builder
passes the wanted shape there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from ..opcode import OPCODES, opcode_of
from ..semantics.collective import COLLECTIVE_RULES
from ..shape import AnyShape, Shape, TupleShape
from .checks import (
    Attrs,
    Rule,
    ShapeError,
    Unjudged,
    check_combiner,
    collected,
    declared_array,
    distinct,
    same,
    same_dims,
    wrong,
)
from .dot import infer_dot
from .index import INDEX_RULES
from .linalg import LINALG_RULES
from .structured import STRUCTURED
from .window import WINDOW_RULES

__all__ = ["RULES", "ShapeError", "broken_rules", "infer_shape"]


def infer_shape(opcode: str, operands: Sequence[AnyShape], attrs: Attrs, declared: AnyShape | None = None) -> AnyShape:
    """The shape of `opcode(operands), attrs`; raises `ShapeError` saying what does not fit."""
    row = opcode_of(opcode)
    if row.arity is not None and len(operands) != row.arity:
        raise ShapeError(f"{opcode} takes {row.arity} operand(s), got {len(operands)}")
    missing = [key for key in row.required if key not in attrs]
    for key in missing:
        wrong(f"{opcode} needs the attribute {key}")
    if missing and opcode in STRUCTURED:
        raise Unjudged
    if opcode in STRUCTURED:
        return STRUCTURED[opcode](opcode, operands, attrs, declared)
    arrays = [shape for shape in operands if isinstance(shape, Shape)]
    for k, shape in enumerate(operands):
        if not isinstance(shape, Shape):
            wrong(f"operand {k} of {opcode} is the tuple {shape}, expected an array")
    if missing or len(arrays) < len(operands):
        raise Unjudged
    return RULES[opcode](arrays, attrs, declared)


def broken_rules(
    opcode: str, operands: Sequence[AnyShape], attrs: Attrs, declared: AnyShape | None
) -> tuple[list[str], AnyShape | None]:
    """Every rule that an instruction breaks, and the shape that it must have if it breaks none."""
    return collected(lambda: infer_shape(opcode, operands, attrs, declared))


def _elementwise(opcode: str) -> Rule:
    allowed = OPCODES[opcode].dtypes + OPCODES[opcode].uncompiled

    def rule(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
        shape = same(opcode, shapes)
        if shape.kind not in allowed:
            wrong(f"{opcode} is not defined for {shape.dtype}")
        return shape

    return rule


def _parameter(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if declared is None:
        raise ShapeError("a parameter needs a shape")
    return declared


def _constant(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    return declared_array("constant", declared)


def _iota(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    shape = declared_array("iota", declared)
    dimension = attrs["iota_dimension"]
    if not 0 <= dimension < shape.rank:
        wrong(f"iota_dimension {dimension} is out of range for {shape}")
    if shape.dtype == "pred":
        wrong("iota is not defined for pred")
    return shape


def _part(opcode: str) -> Rule:
    """Of a complex number the type of its parts; of others, if they are allowed, their own."""

    def rule(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
        source = shapes[0]
        if source.kind not in OPCODES[opcode].dtypes:
            wrong(f"{opcode} is not defined for {source.dtype}")
        return source.with_dtype({"c64": "f32", "c128": "f64"}.get(source.dtype, source.dtype))

    return rule


def _complex(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    parts = same("complex", shapes)
    if parts.dtype not in ("f32", "f64"):
        wrong(f"complex is not defined for {parts.dtype}")
    return parts.with_dtype("c64" if parts.dtype == "f32" else "c128")


def _is_finite(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if not shapes[0].is_floating:
        wrong(f"is-finite is not defined for {shapes[0].dtype}")
    return shapes[0].with_dtype("pred")


def _convert(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    shape = declared_array("convert", declared)
    if shape.dims != shapes[0].dims:
        wrong(f"convert changes the dimensions of {shapes[0]} to {shape}")
    if shapes[0].kind == "c" and shape.kind != "c":
        wrong(f"convert from {shapes[0].dtype} to {shape.dtype} would drop the imaginary part")
    return shape


def _bitcast_convert(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    shape = declared_array("bitcast-convert", declared)
    if shape.dims != shapes[0].dims or shape.itemsize != shapes[0].itemsize:
        wrong(f"bitcast-convert from {shapes[0]} to {shape}: dimensions and element size must be equal")
    return shape


DIRECTIONS: Final = ("EQ", "NE", "LT", "LE", "GT", "GE")


def _bitcast_reinterpret(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    shape, source = declared_array("bitcast-convert", declared), shapes[0]
    small, large = (source, shape) if source.itemsize < shape.itemsize else (shape, source)
    parts = large.itemsize // small.itemsize
    if "pred" in (shape.dtype, source.dtype) or parts < 2 or small.dims != (*large.dims, parts):
        wrong(
            f"bitcast-convert from {source} to {shape}: the smaller elements need one dimension more, of their number"
            " in a larger one"
        )
    return shape


def _map(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if not shapes:
        raise ShapeError("map needs an operand")
    dims = same_dims("map", shapes)
    if tuple(attrs["dimensions"]) != tuple(range(len(dims))):
        wrong(f"map dimensions {list(attrs['dimensions'])} must be all {len(dims)} in order")
    gives = attrs["to_apply"].root.shape
    check_combiner("map", attrs["to_apply"], [Shape(x.dtype) for x in shapes], [gives])
    if not isinstance(gives, Shape) or gives.dims:
        raise ShapeError(f"map: {attrs['to_apply'].name} gives {gives}, expected a scalar")
    return gives.with_dims(dims)


def _compare(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if attrs["direction"] not in DIRECTIONS:
        wrong(f"compare direction {attrs['direction']} is none of {', '.join(DIRECTIONS)}")
    if shapes[0].kind == "c" and attrs["direction"] not in ("EQ", "NE"):
        wrong(f"compare direction {attrs['direction']} is not defined for {shapes[0].dtype}")
    return same("compare", shapes).with_dtype("pred")


def _select(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    same_dims("select", shapes)
    if shapes[0].dtype != "pred":
        wrong(f"select chooses by {shapes[0].dtype}, expected pred")
    on, off = shapes[1:]
    if on.dtype != off.dtype:
        wrong(f"select: operand 1 is {on} but operand 2 is {off}; types must be equal")
    return on


def _broadcast(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    shape, source, dimensions = declared_array("broadcast", declared), shapes[0], attrs["dimensions"]
    if shape.dtype != source.dtype:
        wrong(f"broadcast changes the type of {source} to {shape}")
    if len(dimensions) != source.rank:
        wrong(f"broadcast of {source} needs {source.rank} dimensions, got {list(dimensions)}")
    if any(a >= b for a, b in pairwise(dimensions)):
        wrong(f"broadcast dimensions {list(dimensions)} must increase")
    for k, d in enumerate(dimensions):
        if not 0 <= d < shape.rank:
            wrong(f"broadcast dimension {d} is out of range for {shape}")
        elif k < source.rank and shape.dims[d] != source.dims[k]:
            wrong(f"broadcast maps dimension {k} of {source} to dimension {d} of {shape}; sizes differ")
    return shape


def _reshape(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    shape = declared_array("reshape", declared)
    if shape.dtype != shapes[0].dtype or shape.size != shapes[0].size:
        wrong(f"reshape from {shapes[0]} to {shape}: type and number of elements must be equal")
    return shape


def _transpose(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    source, dimensions = shapes[0], attrs["dimensions"]
    if sorted(dimensions) != list(range(source.rank)):
        wrong(f"transpose dimensions {list(dimensions)} are no permutation for {source}")
    return source.with_dims(tuple(source.dims[d] for d in dimensions))


def _slice(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    source, bounds = shapes[0], attrs["slice"]
    if len(bounds) != source.rank:
        wrong(f"slice of {source} needs {source.rank} ranges, got {len(bounds)}")
    dims = []
    for d, (start, limit, stride) in enumerate(bounds):
        if not 0 <= start <= limit <= source.dims[d] or stride < 1:
            wrong(f"slice range [{start}:{limit}:{stride}] does not fit dimension {d} of {source}")
        dims.append(-(-(limit - start) // stride))
    return source.with_dims(tuple(dims))


def _axis(opcode: str, attrs: Attrs, rank: int) -> int:
    dimensions = attrs["dimensions"]
    if len(dimensions) != 1 or not 0 <= dimensions[0] < rank:
        raise ShapeError(f"{opcode} needs one dimension below {rank}, got {list(dimensions)}")
    return int(dimensions[0])


def _concatenate(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if not shapes:
        raise ShapeError("concatenate needs an operand")
    first = shapes[0]
    axis = _axis("concatenate", attrs, first.rank)
    for k, shape in enumerate(shapes):
        rest = shape.dims[:axis] + shape.dims[axis + 1 :]
        if shape.dtype != first.dtype or shape.rank != first.rank or rest != first.dims[:axis] + first.dims[axis + 1 :]:
            wrong(f"concatenate on dimension {axis}: operand 0 is {first} but operand {k} is {shape}")
    return first.with_dims((*first.dims[:axis], sum(s.dims[axis] for s in shapes), *first.dims[axis + 1 :]))


def _pad(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    source, value, padding = shapes[0], shapes[1], attrs["padding"]
    if value != Shape(source.dtype):
        wrong(f"pad of {source} with a padding value of shape {value}, expected {source.dtype}[]")
    if not source.rank:
        wrong("pad of a scalar")
    if len(padding) != source.rank:
        wrong(f"pad of {source} needs {source.rank} paddings, got {len(padding)}")
    dims = []
    for d, (low, high, interior) in enumerate(padding):
        size = source.dims[d] + low + high + max(source.dims[d] - 1, 0) * interior
        if interior < 0 or size < 0:
            wrong(f"padding {low}_{high}_{interior} does not fit dimension {d} of {source}")
        dims.append(size)
    return source.with_dims(tuple(dims))


def _reverse(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    distinct("reverse", attrs["dimensions"], shapes[0].rank)
    return shapes[0]


def _indices(opcode: str, source: Shape, starts: Sequence[Shape]) -> None:
    if len(starts) != source.rank:
        wrong(f"{opcode} of {source} needs {source.rank} start indices, got {len(starts)}")
    for start in starts:
        if start.dims or not start.is_integral:
            wrong(f"{opcode} start index {start} is not an integer scalar")


def _dynamic_slice(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if not shapes:
        raise ShapeError("dynamic-slice needs an operand")
    source, sizes = shapes[0], attrs["dynamic_slice_sizes"]
    _indices("dynamic-slice", source, shapes[1:])
    if len(sizes) != source.rank or any(not 0 <= s <= d for s, d in zip(sizes, source.dims, strict=True)):
        wrong(f"dynamic_slice_sizes {list(sizes)} do not fit {source}")
    return source.with_dims(tuple(sizes))


def _dynamic_update_slice(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if len(shapes) < 2:
        raise ShapeError("dynamic-update-slice needs an operand and an update")
    source, update = shapes[0], shapes[1]
    _indices("dynamic-update-slice", source, shapes[2:])
    fits = update.rank == source.rank and all(u <= d for u, d in zip(update.dims, source.dims, strict=True))
    if update.dtype != source.dtype or not fits:
        wrong(f"dynamic-update-slice: update {update} does not fit {source}")
    return source


def _reduce(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if not shapes or len(shapes) % 2:
        raise ShapeError(f"reduce needs as many initial values as inputs, got {len(shapes)} operands")
    n = len(shapes) // 2
    inputs, inits = shapes[:n], shapes[n:]
    dims = same_dims("reduce", inputs)
    reduced = attrs["dimensions"]
    distinct("reduce", reduced, len(dims))
    for x, init in zip(inputs, inits, strict=True):
        if init != Shape(x.dtype):
            wrong(f"reduce of {x} with an initial value of shape {init}, expected {x.dtype}[]")
    elements = [Shape(x.dtype) for x in inputs]
    check_combiner("reduce", attrs["to_apply"], [*elements, *elements], elements)
    kept = tuple(d for k, d in enumerate(dims) if k not in reduced)
    results = tuple(x.with_dims(kept) for x in inputs)
    return results[0] if n == 1 else TupleShape(results)


def _sort(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if not shapes:
        raise ShapeError("sort needs an operand")
    dims = same_dims("sort", shapes)
    takes = [Shape(s.dtype) for s in shapes for _ in range(2)]
    check_combiner("sort", attrs["to_apply"], takes, [Shape("pred")])
    _axis("sort", attrs, len(dims))
    return shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes))


def _elementwise_call(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    shape = declared_array("elementwise-call", declared)
    if not shapes:
        raise ShapeError("elementwise-call needs an operand")
    if same("elementwise-call", shapes).dims != shape.dims:
        wrong(f"elementwise-call from {shapes[0]} to {shape}: dimensions must be equal")
    return shape


def _kernel_call(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if declared is None:
        raise ShapeError("kernel-call needs a shape")
    return declared


RULES: Final[dict[str, Rule]] = {
    **{name: _elementwise(name) for name, row in OPCODES.items() if row.kind in ("unary", "binary", "ternary")},
    "parameter": _parameter,
    "constant": _constant,
    "iota": _iota,
    "elementwise-call": _elementwise_call,
    "abs": _part("abs"),
    "real": _part("real"),
    "imag": _part("imag"),
    "complex": _complex,
    "is-finite": _is_finite,
    "convert": _convert,
    "bitcast-convert": _bitcast_convert,
    "compare": _compare,
    "select": _select,
    "broadcast": _broadcast,
    "reshape": _reshape,
    "bitcast": _reshape,
    "bitcast-reinterpret": _bitcast_reinterpret,
    "map": _map,
    "transpose": _transpose,
    "slice": _slice,
    "concatenate": _concatenate,
    "pad": _pad,
    "reverse": _reverse,
    "dynamic-slice": _dynamic_slice,
    "dynamic-update-slice": _dynamic_update_slice,
    "reduce": _reduce,
    "sort": _sort,
    "kernel-call": _kernel_call,
    "dot": infer_dot,
    **INDEX_RULES,
    **WINDOW_RULES,
    **LINALG_RULES,
    **COLLECTIVE_RULES,
}
