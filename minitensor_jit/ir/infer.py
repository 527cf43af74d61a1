"""Shape inference, one rule an opcode, used by the builder, the verifier and the passes.

A rule gets the operands' shapes, the attributes and the declared shape, and returns the shape that the instruction
must have or raises `ShapeError`. The declared shape is only read by opcodes whose result the operands do not fix
(reshape, broadcast, convert, iota, ...); the builder passes the wanted shape there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from .opcode import OPCODES, opcode_of
from .shape import AnyShape, Shape, TupleShape

if TYPE_CHECKING:
    from .module import Computation

__all__ = ["RULES", "ShapeError", "infer_shape"]

Attrs = dict[str, Any]
Rule = Callable[[Sequence[Shape], Attrs, AnyShape | None], AnyShape]


class ShapeError(ValueError):
    """The operands or attributes of an instruction do not fit together."""


def infer_shape(opcode: str, operands: Sequence[AnyShape], attrs: Attrs, declared: AnyShape | None = None) -> AnyShape:
    """The shape of `opcode(operands), attrs`; raises `ShapeError` saying what does not fit."""
    row = opcode_of(opcode)
    if row.arity is not None and len(operands) != row.arity:
        raise ShapeError(f"{opcode} takes {row.arity} operand(s), got {len(operands)}")
    for key in row.required:
        if key not in attrs:
            raise ShapeError(f"{opcode} needs the attribute {key}")
    if opcode in ("tuple", "get-tuple-element", "fusion", "call"):
        return _structured(opcode, operands, attrs)
    arrays: list[Shape] = []
    for k, shape in enumerate(operands):
        if not isinstance(shape, Shape):
            raise ShapeError(f"operand {k} of {opcode} is the tuple {shape}, expected an array")
        arrays.append(shape)
    return RULES[opcode](arrays, attrs, declared)


def _structured(opcode: str, operands: Sequence[AnyShape], attrs: Attrs) -> AnyShape:
    if opcode == "tuple":
        return TupleShape(tuple(operands))
    if opcode == "get-tuple-element":
        source, index = operands[0], attrs["index"]
        if not isinstance(source, TupleShape):
            raise ShapeError(f"get-tuple-element reads the array {source}, expected a tuple")
        if not 0 <= index < len(source.elements):
            raise ShapeError(f"get-tuple-element index {index} is out of range for {len(source.elements)} elements")
        return source.elements[index]
    callee: Computation = attrs["calls" if opcode == "fusion" else "to_apply"]
    parameters = callee.parameters
    if len(parameters) != len(operands):
        raise ShapeError(f"{opcode} passes {len(operands)} operands to {callee.name}, which has {len(parameters)}")
    for k, (parameter, shape) in enumerate(zip(parameters, operands, strict=True)):
        if parameter.shape != shape:
            raise ShapeError(f"operand {k} of {opcode} is {shape}, parameter {k} of {callee.name} is {parameter.shape}")
    return callee.root.shape


def _same_dims(opcode: str, shapes: Sequence[Shape]) -> tuple[int, ...]:
    dims = shapes[0].dims
    for k, shape in enumerate(shapes):
        if shape.dims != dims:
            raise ShapeError(f"{opcode}: operand 0 is {shapes[0]} but operand {k} is {shape}; dimensions must be equal")
    return dims


def _same(opcode: str, shapes: Sequence[Shape]) -> Shape:
    _same_dims(opcode, shapes)
    for k, shape in enumerate(shapes):
        if shape.dtype != shapes[0].dtype:
            raise ShapeError(f"{opcode}: operand 0 is {shapes[0]} but operand {k} is {shape}; types must be equal")
    return shapes[0]


def _elementwise(opcode: str) -> Rule:
    allowed = OPCODES[opcode].dtypes

    def rule(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
        shape = _same(opcode, shapes)
        if shape.kind not in allowed:
            raise ShapeError(f"{opcode} is not defined for {shape.dtype}")
        return shape

    return rule


def _declared(opcode: str, declared: AnyShape | None) -> Shape:
    if not isinstance(declared, Shape):
        raise ShapeError(f"{opcode} needs an array shape, got {declared}")
    return declared


def _parameter(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if declared is None:
        raise ShapeError("a parameter needs a shape")
    return declared


def _constant(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    return _declared("constant", declared)


def _iota(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    shape = _declared("iota", declared)
    dimension = attrs["iota_dimension"]
    if not 0 <= dimension < shape.rank:
        raise ShapeError(f"iota_dimension {dimension} is out of range for {shape}")
    if shape.dtype == "pred":
        raise ShapeError("iota is not defined for pred")
    return shape


def _part(opcode: str) -> Rule:
    """Of a complex number the type of its parts; of others, if they are allowed, their own."""

    def rule(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
        source = shapes[0]
        if source.kind not in OPCODES[opcode].dtypes:
            raise ShapeError(f"{opcode} is not defined for {source.dtype}")
        return source.with_dtype({"c64": "f32", "c128": "f64"}.get(source.dtype, source.dtype))

    return rule


def _complex(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    parts = _same("complex", shapes)
    if parts.dtype not in ("f32", "f64"):
        raise ShapeError(f"complex is not defined for {parts.dtype}")
    return parts.with_dtype("c64" if parts.dtype == "f32" else "c128")


def _is_finite(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if not shapes[0].is_floating:
        raise ShapeError(f"is-finite is not defined for {shapes[0].dtype}")
    return shapes[0].with_dtype("pred")


def _convert(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    shape = _declared("convert", declared)
    if shape.dims != shapes[0].dims:
        raise ShapeError(f"convert changes the dimensions of {shapes[0]} to {shape}")
    if shapes[0].kind == "c" and shape.kind != "c":
        raise ShapeError(f"convert from {shapes[0].dtype} to {shape.dtype} would drop the imaginary part")
    return shape


def _bitcast_convert(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    shape = _declared("bitcast-convert", declared)
    if shape.dims != shapes[0].dims or shape.itemsize != shapes[0].itemsize:
        raise ShapeError(f"bitcast-convert from {shapes[0]} to {shape}: dimensions and element size must be equal")
    return shape


DIRECTIONS: Final = ("EQ", "NE", "LT", "LE", "GT", "GE")


def _compare(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if attrs["direction"] not in DIRECTIONS:
        raise ShapeError(f"compare direction {attrs['direction']} is none of {', '.join(DIRECTIONS)}")
    if shapes[0].kind == "c" and attrs["direction"] not in ("EQ", "NE"):
        raise ShapeError(f"compare direction {attrs['direction']} is not defined for {shapes[0].dtype}")
    return _same("compare", shapes).with_dtype("pred")


def _select(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    _same_dims("select", shapes)
    if shapes[0].dtype != "pred":
        raise ShapeError(f"select chooses by {shapes[0].dtype}, expected pred")
    return _same("select", shapes[1:])


def _broadcast(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    shape, source, dimensions = _declared("broadcast", declared), shapes[0], attrs["dimensions"]
    if shape.dtype != source.dtype:
        raise ShapeError(f"broadcast changes the type of {source} to {shape}")
    if len(dimensions) != source.rank:
        raise ShapeError(f"broadcast of {source} needs {source.rank} dimensions, got {list(dimensions)}")
    if any(a >= b for a, b in pairwise(dimensions)):
        raise ShapeError(f"broadcast dimensions {list(dimensions)} must increase")
    for k, d in enumerate(dimensions):
        if not 0 <= d < shape.rank:
            raise ShapeError(f"broadcast dimension {d} is out of range for {shape}")
        if shape.dims[d] != source.dims[k]:
            raise ShapeError(f"broadcast maps dimension {k} of {source} to dimension {d} of {shape}; sizes differ")
    return shape


def _reshape(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    shape = _declared("reshape", declared)
    if shape.dtype != shapes[0].dtype or shape.size != shapes[0].size:
        raise ShapeError(f"reshape from {shapes[0]} to {shape}: type and number of elements must be equal")
    return shape


def _transpose(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    source, dimensions = shapes[0], attrs["dimensions"]
    if sorted(dimensions) != list(range(source.rank)):
        raise ShapeError(f"transpose dimensions {list(dimensions)} are no permutation for {source}")
    return source.with_dims(tuple(source.dims[d] for d in dimensions))


def _slice(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    source, bounds = shapes[0], attrs["slice"]
    if len(bounds) != source.rank:
        raise ShapeError(f"slice of {source} needs {source.rank} ranges, got {len(bounds)}")
    dims = []
    for d, (start, limit, stride) in enumerate(bounds):
        if not 0 <= start <= limit <= source.dims[d] or stride < 1:
            raise ShapeError(f"slice range [{start}:{limit}:{stride}] does not fit dimension {d} of {source}")
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
            raise ShapeError(f"concatenate on dimension {axis}: operand 0 is {first} but operand {k} is {shape}")
    return first.with_dims((*first.dims[:axis], sum(s.dims[axis] for s in shapes), *first.dims[axis + 1 :]))


def _pad(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    source, value, padding = shapes[0], shapes[1], attrs["padding"]
    if value != Shape(source.dtype):
        raise ShapeError(f"pad of {source} with a padding value of shape {value}, expected {source.dtype}[]")
    if not source.rank:
        raise ShapeError("pad of a scalar")
    if len(padding) != source.rank:
        raise ShapeError(f"pad of {source} needs {source.rank} paddings, got {len(padding)}")
    dims = []
    for d, (low, high, interior) in enumerate(padding):
        size = source.dims[d] + low + high + max(source.dims[d] - 1, 0) * interior
        if interior < 0 or size < 0:
            raise ShapeError(f"padding {low}_{high}_{interior} does not fit dimension {d} of {source}")
        dims.append(size)
    return source.with_dims(tuple(dims))


def _reverse(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    _distinct("reverse", attrs["dimensions"], shapes[0].rank)
    return shapes[0]


def _distinct(what: str, dimensions: Sequence[int], rank: int) -> None:
    if len(set(dimensions)) != len(dimensions) or any(not 0 <= d < rank for d in dimensions):
        raise ShapeError(f"{what}: dimensions {list(dimensions)} are not distinct or out of range for rank {rank}")


def _indices(opcode: str, source: Shape, starts: Sequence[Shape]) -> None:
    if len(starts) != source.rank:
        raise ShapeError(f"{opcode} of {source} needs {source.rank} start indices, got {len(starts)}")
    for start in starts:
        if start.dims or not start.is_integral:
            raise ShapeError(f"{opcode} start index {start} is not an integer scalar")


def _dynamic_slice(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if not shapes:
        raise ShapeError("dynamic-slice needs an operand")
    source, sizes = shapes[0], attrs["dynamic_slice_sizes"]
    _indices("dynamic-slice", source, shapes[1:])
    if len(sizes) != source.rank or any(not 0 <= s <= d for s, d in zip(sizes, source.dims, strict=True)):
        raise ShapeError(f"dynamic_slice_sizes {list(sizes)} do not fit {source}")
    return source.with_dims(tuple(sizes))


def _dynamic_update_slice(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if len(shapes) < 2:
        raise ShapeError("dynamic-update-slice needs an operand and an update")
    source, update = shapes[0], shapes[1]
    _indices("dynamic-update-slice", source, shapes[2:])
    fits = update.rank == source.rank and all(u <= d for u, d in zip(update.dims, source.dims, strict=True))
    if update.dtype != source.dtype or not fits:
        raise ShapeError(f"dynamic-update-slice: update {update} does not fit {source}")
    return source


def _reduce(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if not shapes or len(shapes) % 2:
        raise ShapeError(f"reduce needs as many initial values as inputs, got {len(shapes)} operands")
    n = len(shapes) // 2
    inputs, inits = shapes[:n], shapes[n:]
    dims = _same_dims("reduce", inputs)
    reduced = attrs["dimensions"]
    _distinct("reduce", reduced, len(dims))
    for x, init in zip(inputs, inits, strict=True):
        if init != Shape(x.dtype):
            raise ShapeError(f"reduce of {x} with an initial value of shape {init}, expected {x.dtype}[]")
    _combiner("reduce", attrs["to_apply"], [*inits, *inits], inits)
    kept = tuple(d for k, d in enumerate(dims) if k not in reduced)
    results = tuple(x.with_dims(kept) for x in inputs)
    return results[0] if n == 1 else TupleShape(results)


def _combiner(opcode: str, computation: Computation, takes: Sequence[Shape], gives: Sequence[Shape]) -> None:
    have = [p.shape for p in computation.parameters]
    if have != list(takes):
        raise ShapeError(
            f"{opcode}: {computation.name} takes ({', '.join(map(str, have))}), expected ({', '.join(map(str, takes))})"
        )
    root = computation.root.shape
    want: AnyShape = gives[0] if len(gives) == 1 else TupleShape(tuple(gives))
    if root != want:
        raise ShapeError(f"{opcode}: {computation.name} gives {root}, expected {want}")


def _sort(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if not shapes:
        raise ShapeError("sort needs an operand")
    dims = _same_dims("sort", shapes)
    _axis("sort", attrs, len(dims))
    takes = [Shape(s.dtype) for s in shapes for _ in range(2)]
    _combiner("sort", attrs["to_apply"], takes, [Shape("pred")])
    return shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes))


def dot_dims(attrs: Attrs) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """(lhs batch, lhs contracting, rhs batch, rhs contracting) dimensions of a dot."""
    keys = ("lhs_batch_dims", "lhs_contracting_dims", "rhs_batch_dims", "rhs_contracting_dims")
    a, b, c, d = (tuple(attrs.get(key, ())) for key in keys)
    return a, b, c, d


def _dot(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    lhs, rhs = shapes
    lb, lc, rb, rc = dot_dims(attrs)
    if lhs.dtype != rhs.dtype:
        raise ShapeError(f"dot of {lhs} and {rhs}: types must be equal")
    if len(lb) != len(rb) or len(lc) != len(rc):
        raise ShapeError("dot: lhs and rhs need equally many batch and equally many contracting dimensions")
    _distinct("dot lhs", (*lb, *lc), lhs.rank)
    _distinct("dot rhs", (*rb, *rc), rhs.rank)
    for what, left, right in (("batch", lb, rb), ("contracting", lc, rc)):
        for a, b in zip(left, right, strict=True):
            if lhs.dims[a] != rhs.dims[b]:
                raise ShapeError(f"dot of {lhs} and {rhs}: {what} dimensions {a} and {b} have different sizes")
    batch = tuple(lhs.dims[d] for d in lb)
    left_free = tuple(n for d, n in enumerate(lhs.dims) if d not in lb and d not in lc)
    right_free = tuple(n for d, n in enumerate(rhs.dims) if d not in rb and d not in rc)
    return lhs.with_dims(batch + left_free + right_free)


def _no_batching(opcode: str, attrs: Attrs, *keys: str) -> None:
    for key in keys:
        if attrs.get(key):
            raise ShapeError(f"{opcode} with {key} is not supported")


def _gather(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    source, starts = shapes
    _no_batching("gather", attrs, "operand_batching_dims", "start_indices_batching_dims")
    if not starts.is_integral:
        raise ShapeError(f"gather indices {starts} are not integers")
    offset, collapsed = attrs["offset_dims"], attrs["collapsed_slice_dims"]
    index_map, vector_dim, sizes = attrs["start_index_map"], attrs["index_vector_dim"], attrs["slice_sizes"]
    _distinct("gather collapsed_slice_dims", collapsed, source.rank)
    _distinct("gather start_index_map", index_map, source.rank)
    if not 0 <= vector_dim <= starts.rank:
        raise ShapeError(f"gather index_vector_dim {vector_dim} is out of range for {starts}")
    length = starts.dims[vector_dim] if vector_dim < starts.rank else 1
    if length != len(index_map):
        raise ShapeError(f"gather index vectors have {length} entries, start_index_map has {len(index_map)}")
    if len(sizes) != source.rank or any(not 0 <= s <= d for s, d in zip(sizes, source.dims, strict=True)):
        raise ShapeError(f"gather slice_sizes {list(sizes)} do not fit {source}")
    if any(sizes[d] != 1 for d in collapsed):
        raise ShapeError(f"gather collapses a dimension whose slice size is not 1: {list(sizes)}")
    window = [sizes[d] for d in range(source.rank) if d not in collapsed]
    batch = [n for d, n in enumerate(starts.dims) if d != vector_dim]
    rank = len(window) + len(batch)
    _distinct("gather offset_dims", offset, rank)
    if len(offset) != len(window) or list(offset) != sorted(offset):
        raise ShapeError(f"gather offset_dims {list(offset)} must be {len(window)} increasing dimensions")
    w, b = iter(window), iter(batch)
    return source.with_dims(tuple(next(w) if d in offset else next(b) for d in range(rank)))


def _scatter(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    source, indices, updates = shapes
    _no_batching("scatter", attrs, "input_batching_dims", "scatter_indices_batching_dims")
    if not indices.is_integral:
        raise ShapeError(f"scatter indices {indices} are not integers")
    if updates.dtype != source.dtype:
        raise ShapeError(f"scatter of {updates.dtype} updates into {source.dtype}")
    window, inserted = attrs["update_window_dims"], attrs["inserted_window_dims"]
    index_map, vector_dim = attrs["scatter_dims_to_operand_dims"], attrs["index_vector_dim"]
    _distinct("scatter update_window_dims", window, updates.rank)
    _distinct("scatter inserted_window_dims", inserted, source.rank)
    _distinct("scatter scatter_dims_to_operand_dims", index_map, source.rank)
    if not 0 <= vector_dim <= indices.rank:
        raise ShapeError(f"scatter index_vector_dim {vector_dim} is out of range for {indices}")
    length = indices.dims[vector_dim] if vector_dim < indices.rank else 1
    if length != len(index_map):
        raise ShapeError(
            f"scatter index vectors have {length} entries, scatter_dims_to_operand_dims has {len(index_map)}"
        )
    bounds = [n for d, n in enumerate(source.dims) if d not in inserted]
    if len(bounds) != len(window) or any(updates.dims[d] > n for d, n in zip(window, bounds, strict=True)):
        raise ShapeError(f"scatter window of {updates} does not fit {source}")
    batch = [n for d, n in enumerate(indices.dims) if d != vector_dim]
    if [n for d, n in enumerate(updates.dims) if d not in window] != batch:
        raise ShapeError(f"scatter updates {updates} do not have the batch dimensions {batch} of {indices}")
    _combiner("scatter", attrs["to_apply"], [Shape(source.dtype)] * 2, [Shape(source.dtype)])
    return source


def _elementwise_call(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    shape = _declared("elementwise-call", declared)
    if not shapes:
        raise ShapeError("elementwise-call needs an operand")
    if _same("elementwise-call", shapes).dims != shape.dims:
        raise ShapeError(f"elementwise-call from {shapes[0]} to {shape}: dimensions must be equal")
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
    "dot": _dot,
    "gather": _gather,
    "scatter": _scatter,
}
