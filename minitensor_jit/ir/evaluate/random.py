"""The evaluator's rule for rng-bit-generator: Philox 4x32-10 and Threefry 2x32-20 (Salmon and others, SC 2011)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ..builder import Builder
from ..module import Instruction
from ..semantics.draw import draw
from ..shape import Shape, TupleShape
from .computation import evaluate_computation
from .elementwise import Array, Rule, Value

__all__ = ["RANDOM_RULES", "philox4x32", "threefry2x32"]

_M0, _M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW: Final = np.uint64(0xFFFFFFFF)
_32: Final = np.uint64(32)


def philox4x32(counter: Sequence[Array], key: tuple[int, int]) -> list[Array]:
    """Four words for each counter of four words (held in u64), after ten rounds."""
    c0, c1, c2, c3 = (np.asarray(c, np.uint64) for c in counter)
    k0, k1 = key
    for _ in range(10):
        p0, p1 = c0 * _M0, c2 * _M1
        c0, c1, c2, c3 = (p1 >> _32) ^ c1 ^ np.uint64(k0), p1 & _LOW, (p0 >> _32) ^ c3 ^ np.uint64(k1), p0 & _LOW
        k0, k1 = (k0 + _W0) & 0xFFFFFFFF, (k1 + _W1) & 0xFFFFFFFF
    return [c0, c1, c2, c3]


_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))


def threefry2x32(counter: Sequence[Array], key: tuple[int, int]) -> list[Array]:
    """Two words for each counter of two words (held in u64), after twenty rounds."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ 0x1BD11BDA)
    x, y = ((np.asarray(c, np.uint64) + np.uint64(k)) & _LOW for c, k in zip(counter, keys, strict=False))
    for group in range(5):
        for r in _ROTATIONS[group % 2]:
            x = (x + y) & _LOW
            y = ((y << np.uint64(r)) | (y >> np.uint64(32 - r))) & _LOW
            y ^= x
        x = (x + np.uint64(keys[(group + 1) % 3])) & _LOW
        y = (y + np.uint64(keys[(group + 2) % 3]) + np.uint64(group + 1)) & _LOW
    return [x, y]


def _counters(low: int, high: int, count: int) -> tuple[Array, Array]:
    """`count` 128-bit numbers from a first one on, as their lower and upper halves."""
    lows = np.uint64(low) + np.arange(count, dtype=np.uint64)
    return lows, np.uint64(high) + (lows < np.uint64(low)).astype(np.uint64)


def _three_fry(shape: Shape, key: tuple[int, int], first: int) -> tuple[Array, int]:
    """The bits of an array as u64, and how many counters they used.

    Where elements have 32 bits or fewer, the two words of a counter lie beside each other in the first dimension of
    even size, else in the longest one, which is padded.
    """
    dims = shape.dims or (1,)
    split = next((d for d, n in enumerate(dims) if n % 2 == 0), int(np.argmax(dims)))
    half = dims if shape.itemsize == 8 else (*dims[:split], -(-dims[split] // 2), *dims[split + 1 :])
    used = int(np.prod(half))
    counters = (np.uint64(first) + np.arange(used, dtype=np.uint64)).reshape(half)
    low, high = threefry2x32([counters & _LOW, counters >> _32], key)
    if shape.itemsize == 8:
        return low | (high << _32), used
    both = np.stack([low, high], split + 1).reshape(*half[:split], 2 * half[split], *half[split + 1 :])
    return np.ascontiguousarray(both[(slice(None),) * split + (slice(dims[split]),)]), used


def _bits(i: Instruction, x: Sequence[Value]) -> Value:
    assert isinstance(i.shape, TupleShape)
    shape = i.shape.elements[1]
    assert isinstance(shape, Shape)
    state = [int(n) for n in x[0]]
    size = shape.size
    wide = shape.itemsize == 8
    words = size * 2 if wide else size
    key = (state[0] & 0xFFFFFFFF, state[0] >> 32)
    after = np.array(x[0])
    if i.attrs["algorithm"] == "rng_three_fry":
        stream, used = _three_fry(shape, key, state[1])
        after[1] = np.uint64((state[1] + used) & (2**64 - 1))
        return after, stream.astype(np.dtype(f"u{shape.itemsize}")).view(shape.numpy_dtype).reshape(shape.dims)
    # The state is the key and a counter of one or two words; of one, the key is the upper half.
    count = -(-words // 4)
    low, high = (state[1], state[2]) if len(state) == 3 else (state[1], state[0])
    lows, highs = _counters(low, high, count)
    made = philox4x32([lows & _LOW, lows >> _32, highs & _LOW, highs >> _32], key)
    stream = np.stack(made, -1).reshape(-1)
    following = low + count
    after[1] = np.uint64(following & (2**64 - 1))
    if len(state) == 3:
        after[2] = np.uint64((high + (following >> 64)) & (2**64 - 1))
    if wide:
        pairs = stream.reshape(-1, 2)
        stream = pairs[:, 0] | (pairs[:, 1] << _32)
    unsigned = np.dtype(f"u{shape.itemsize}")
    return after, stream[:size].astype(unsigned).view(shape.numpy_dtype).reshape(shape.dims)


def _rng(i: Instruction, x: Sequence[Value]) -> Value:
    b = Builder("rng")
    stand_ins = [b.parameter(o.array_shape) for o in i.operands]
    made = b.build_computation(draw(b, i.clone(stand_ins)))
    return evaluate_computation(made, x)


RANDOM_RULES: Final[dict[str, Rule]] = {"rng": _rng, "rng-bit-generator": _bits}
