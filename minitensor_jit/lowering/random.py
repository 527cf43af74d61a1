"""Random numbers as HLO, for GPUs: the same numbers as the CPU's kernels draw (docs/numerics.md).

On the CPU compiled code calls these kernels. A GPU has none, so what they do is written here: the bits of a Philox
stream, and the arithmetic that makes numbers of them.
"""

from __future__ import annotations

from typing import Final

from minitensor_jit.ir.module import Instruction
from minitensor_jit.ir.shape import Shape
from minitensor_jit.lowering.call import RecordedCall
from minitensor_jit.lowering.context import Lowering
from minitensor_jit.lowering.gpu_row import GpuRow

__all__ = ["draw", "draws_on_gpus"]

_NARROW = 1 << 32
"""Up to such a range, an integer takes one word of 32 bits."""


def draws_on_gpus(call: RecordedCall) -> bool:
    """Whether the call has HLO of its own for GPUs."""
    known = _LOWERINGS.get(call.row.name)
    return known is not None and known.fits(call)


def draw(b: Lowering, call: RecordedCall, position: Instruction) -> Instruction:
    """The call's result; `position` has the seed and the offset in the stream."""
    b.begin(call)
    dtype, dims = call.results[0]
    size = 1
    for n in dims:
        size *= n
    if size == 0:
        return b.full(Shape(dtype, dims), 0)
    made = _LOWERINGS[call.row.name].lower(b, call, position, size)
    return b.reshape(b.to_dtype(made, dtype), dims)


def _uniform_numbers(b: Lowering, call: RecordedCall, position: Instruction, size: int) -> Instruction:
    _, low, high, *_ = call.params
    return _times_plus(b, _unit(b, _words(b, position, (size,), call.compute), call.compute), high - low, low)


def _normal_numbers(b: Lowering, call: RecordedCall, position: Instruction, size: int) -> Instruction:
    _, mean, deviation, *_ = call.params
    return _times_plus(b, _normal(b, position, size, call.compute), deviation, mean)


def _integers(b: Lowering, call: RecordedCall, position: Instruction, size: int) -> Instruction:
    low, high, *_ = call.params
    word = b.convert(_words(b, position, (size,), "f32"), "u64")
    above = b.shift_right_logical(b.multiply(word, b.full(word.array_shape, high - low)), b.full(word.array_shape, 32))
    return b.add(b.convert(above, "s64"), b.full(Shape("s64", (size,)), low))


def _of_floats(call: RecordedCall) -> bool:
    return call.compute in ("f32", "f64")


def _of_narrow_range(call: RecordedCall) -> bool:
    low, high, *_ = call.params
    return bool(0 < high - low <= _NARROW)


_LOWERINGS: Final[dict[str, GpuRow]] = {
    "uniform": GpuRow(_uniform_numbers, fits=_of_floats),
    "normal": GpuRow(_normal_numbers, fits=_of_floats),
    "randint": GpuRow(_integers, fits=_of_narrow_range),
}
"""By the name of the op; `lower(b, call, position, size)`."""


def _times_plus(b: Lowering, x: Instruction, factor: float, term: float) -> Instruction:
    return b.add(b.multiply(x, b.full(x.array_shape, factor)), b.full(x.array_shape, term))


def _words(b: Lowering, position: Instruction, dims: tuple[int, ...], compute: str) -> Instruction:
    """Random words, of 64 bits for float64 and of 32 for others."""
    seed, offset = b.slice(position, (0,), (1,)), b.slice(position, (1,), (2,))
    # The key, then the lower and the upper half of the counter.
    state = b.concatenate([seed, b.full(Shape("u64", (1,)), 0), offset], 0)
    bits = Shape("u64" if compute == "f64" else "u32", dims)
    return b.get_tuple_element(b.rng_bit_generator(state, bits, "rng_philox"), 1)


def _unit(b: Lowering, words: Instruction, compute: str) -> Instruction:
    """Numbers in [0, 1): the upper 24 or 53 bits."""
    shift, signed, unit = (11, "s64", 2.0**-53) if compute == "f64" else (8, "s32", 2.0**-24)
    upper = b.shift_right_logical(words, b.full(words.array_shape, shift))
    number = b.convert(b.bitcast_convert(upper, signed), compute)
    return b.multiply(number, b.full(number.array_shape, unit))


def _normal(b: Lowering, position: Instruction, size: int, compute: str) -> Instruction:
    """Box and Muller's method over pairs of neighbours."""
    pairs = (size + 1) // 2
    u = _unit(b, _words(b, position, (pairs, 2), compute), compute)
    u1, u2 = b.slice(u, (0, 0), (pairs, 1)), b.slice(u, (0, 1), (pairs, 2))
    logarithm = b.log(b.subtract(b.full(u1.array_shape, 1.0), u1))
    radius = b.sqrt(b.multiply(b.full(u1.array_shape, -2.0), logarithm))
    even = b.multiply(radius, b.elementwise_call("_cospi2", u2))
    odd = b.multiply(radius, b.elementwise_call("_sinpi2", u2))
    flat = b.reshape(b.concatenate([even, odd], 1), (2 * pairs,))
    return b.slice(flat, (0,), (size,))
