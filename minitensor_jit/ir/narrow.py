"""Types that are stored but not computed in: a wider type computes, and its results are rounded once.

NumPy has no bfloat16; arrays of it have the dtype `shape.BFLOAT16`, whose one field has the bits.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .module import Computation, Instruction
from .shape import BFLOAT16, DTYPES, AnyShape, TupleShape, dtype_of
from .small_types import SMALL_FLOATS, SMALL_INTEGERS, decoded, encoded

__all__ = ["NARROW", "WIDER", "array_of", "is_narrow", "narrowed", "wide_array", "widened", "widened_shape"]

Array = NDArray[Any]

NARROW: Final = frozenset({"f16", "bf16"})
# The types that are only stored, and what each is computed in.
WIDER: Final = {
    **dict.fromkeys((*NARROW, *SMALL_FLOATS), "f32"),
    **{name: DTYPES[name].kind.replace("i", "s") + "32" for name in SMALL_INTEGERS},
}

# What works on the elements as they lie in memory, whatever their type.
_ANY_TYPE: Final = frozenset(
    {"parameter", "constant", "iota", "tuple", "get-tuple-element", "call", "fusion", "select", "copy", "convert"}
    | {"bitcast-convert", "broadcast", "reshape", "bitcast", "transpose", "slice", "concatenate", "pad", "reverse"}
    | {"dynamic-slice", "dynamic-update-slice", "gather", "kernel-call", "custom-call", "while", "conditional"}
    | {"bitcast-reinterpret", "opt-barrier", "rng", "rng-bit-generator"}
    # Between devices an element has its own size; what combines them knows how it is computed in.
    | {"all-gather", "all-reduce", "all-reduce-start", "all-reduce-done", "all-to-all", "collective-broadcast"}
    | {"collective-permute", "reduce-scatter"}
)


# ---- arrays


def wide_array(x: Array) -> Array:
    """Arrays of types that are only stored as those of wider types, exactly; others as they are."""
    if x.dtype == BFLOAT16:
        bits = np.asarray(x["bfloat16"]).astype(np.uint32, order="C") << np.uint32(16)
        return np.asarray(bits).view(np.float32)
    if x.dtype.names is not None:
        return decoded(x, dtype_of(x.dtype))
    return x.astype(np.float32) if x.dtype == np.float16 else x


def array_of(value: ArrayLike, dtype: str) -> Array:
    """Real or complex numbers as elements of a type, rounded to nearest even; integers wrap.

    What becomes float16 or bfloat16 is rounded to float32 first.
    """
    numpy_dtype = DTYPES[dtype].numpy
    array = np.asarray(value)
    if array.dtype.names is not None:
        array = wide_array(array)
    if dtype in SMALL_FLOATS or dtype in SMALL_INTEGERS:
        return encoded(array, dtype)
    if dtype in NARROW:
        with np.errstate(over="ignore"):
            single = np.asarray(array.astype(np.float32, order="C"))
            if dtype == "f16":
                return single.astype(np.float16, order="C")
        bits = single.view(np.uint32)
        rounded = (bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))) >> np.uint32(16)
        rounded = np.where(np.isnan(single), np.uint32(0x7FC0), rounded).astype(np.uint16)
        return rounded.view(BFLOAT16)
    if array.dtype == object:  # integers beyond int64
        array = np.vectorize(lambda n: int(n) & (2**64 - 1), otypes=[np.uint64])(array)
    return array.astype(numpy_dtype, order="C")


# ---- instructions


def is_narrow(i: Instruction) -> bool:
    """Whether an instruction computes in a type that is only stored."""
    if i.opcode in _ANY_TYPE:
        return False
    if i.opcode == "scatter" and i.attrs["to_apply"].root.opcode == "parameter":
        return False
    return any(_has_narrow(shape) for shape in (i.shape, *(o.shape for o in i.operands)))


def _has_narrow(shape: AnyShape) -> bool:
    if isinstance(shape, TupleShape):
        return any(map(_has_narrow, shape.elements))
    return shape.dtype in WIDER


def widened_shape(shape: AnyShape) -> AnyShape:
    """The shape with the types that are computed in."""
    if isinstance(shape, TupleShape):
        return TupleShape(tuple(map(widened_shape, shape.elements)))
    return shape.with_dtype(WIDER[shape.dtype]) if shape.dtype in WIDER else shape


def widened(i: Instruction, operands: list[Instruction] | None = None) -> Instruction:
    """The same instruction in wider types, on `operands`; without them on stand-ins that have only their shapes."""
    if operands is None:
        operands = [Instruction(o.name, "parameter", widened_shape(o.shape), parameter_number=0) for o in i.operands]
    copy = i.clone(operands, shape=widened_shape(i.shape))
    copy.map_called(_widened_computation)
    return copy


def _widened_computation(computation: Computation) -> Computation:
    """A function of scalars in wider types."""
    if not any(_has_narrow(i.shape) for i in computation.instructions):
        return computation
    made: dict[Instruction, Instruction] = {}
    for i in computation.instructions:
        copy = widened(i, [made[o] for o in i.operands])
        if i.literal is not None:
            copy.literal = wide_array(i.literal)
            copy.literal.setflags(write=False)
        made[i] = copy
    return Computation(f"{computation.name}_wide", made.values(), made[computation.root])


def narrowed(value: Any, shape: AnyShape) -> Any:
    """The value of a widened instruction, in the shape's types."""
    if isinstance(shape, TupleShape):
        return tuple(narrowed(v, s) for v, s in zip(value, shape.elements, strict=True))
    return array_of(value, shape.dtype) if shape.dtype in WIDER else value
