"""What `rng` draws, written with `rng-bit-generator`: the evaluator and the expander have it from here.

XLA leaves open which numbers these are. Here every run draws the same: those of the instruction's own stream, which the
parser numbers. So it must run once in a run of the module, which the verifier checks.
"""

from __future__ import annotations

import re
from typing import Final

import numpy as np

from ..builder import Builder
from ..module import Computation, Instruction, Module
from ..narrow import WIDER
from ..shape import Shape, TupleShape

__all__ = ["DISTRIBUTIONS", "draw", "runs_more_than_once", "stream_of", "with_stream"]

DISTRIBUTIONS: Final = ("rng_uniform", "rng_normal")
_STREAM: Final = re.compile(r'\brng_stream="(\d+)"')


def stream_of(i: Instruction) -> int | None:
    """The number of an instruction's stream."""
    found = _STREAM.search(str(i.attrs.get("frontend_attributes", "")))
    return int(found[1]) if found else None


def with_stream(i: Instruction, number: int) -> None:
    """Gives an instruction a stream."""
    others = str(i.attrs.get("frontend_attributes", "{}"))[1:-1]
    i.attrs["frontend_attributes"] = "{" + ",".join([*([others] if others else []), f'rng_stream="{number}"']) + "}"


def runs_more_than_once(module: Module, home: Computation) -> bool:
    """Whether what is in `home` may run more than once, or not, in a run of the module."""
    while home is not module.entry:
        calls = [(c, j) for c in module.computations for j in c.instructions if home in j.called()]
        if len(calls) != 1 or calls[0][1].opcode not in ("call", "fusion"):
            return True
        home = calls[0][0]
    return False


def draw(b: Builder, i: Instruction) -> Instruction:
    """The instruction's result, of its operands."""
    low, high = i.operands
    shape = i.array_shape
    if shape.dtype in WIDER:
        low, high = (b.convert(x, WIDER[shape.dtype]) for x in (low, high))
        return b.convert(_numbers(b, i, low, high, shape.with_dtype(WIDER[shape.dtype])), shape.dtype)
    return _numbers(b, i, low, high, shape)


def _numbers(b: Builder, i: Instruction, first: Instruction, second: Instruction, shape: Shape) -> Instruction:
    def everywhere(x: Instruction) -> Instruction:
        return b.broadcast(x, shape.dims) if shape.dims else x

    if i.attrs["distribution"] == "rng_normal":
        # Box and Muller's transformation.
        size = b.sqrt(b.multiply(b.full(shape, -2.0), b.log(b.subtract(b.full(shape, 1.0), _uniform(b, i, shape, 0)))))
        angle = b.multiply(b.full(shape, 6.283185307179586), _uniform(b, i, shape, 1))
        return b.add(everywhere(first), b.multiply(everywhere(second), b.multiply(size, b.cosine(angle))))
    if shape.kind == "f":
        span = everywhere(b.subtract(second, first))
        return b.add(everywhere(first), b.multiply(_uniform(b, i, shape, 0), span))
    # The span as an unsigned number, so that it does not overflow.
    unsigned = shape.with_dtype(f"u{8 * shape.itemsize}")
    span = b.subtract(*(x if shape.kind == "u" else b.bitcast_convert(x, unsigned.dtype) for x in (second, first)))
    steps = b.emit("remainder", (_bits(b, i, unsigned, 0), everywhere(span)))
    return b.add(everywhere(first), steps if shape.kind == "u" else b.bitcast_convert(steps, shape.dtype))


def _uniform(b: Builder, i: Instruction, shape: Shape, part: int) -> Instruction:
    """Numbers in [0, 1): as many bits as the mantissa has."""
    bits = _bits(b, i, shape.with_dtype("u32" if shape.dtype == "f32" else "u64"), part)
    kept = 23 if shape.dtype == "f32" else 52
    whole = b.emit("shift-right-logical", (bits, b.full(bits.array_shape, 8 * bits.array_shape.itemsize - kept)))
    return b.multiply(b.convert(whole, shape.dtype), b.full(shape, 2.0**-kept))


def _bits(b: Builder, i: Instruction, shape: Shape, part: int) -> Instruction:
    """The bits of an array, from the stream's part of that number."""
    state = b.constant(np.array([stream_of(i) or 0, part << 48], np.uint64))
    pair = b.emit(
        "rng-bit-generator", (state,), {"algorithm": "rng_philox"}, shape=TupleShape((state.array_shape, shape))
    )
    return b.get_tuple_element(pair, 1)
