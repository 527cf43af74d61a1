"""rng-bit-generator: Philox 4x32-10 and Threefry 2x32-20 in integer arithmetic, as the evaluator has them."""

from __future__ import annotations

from math import prod
from typing import Final

from ...ir.builder import Builder
from ...ir.module import Instruction
from ...ir.semantics.draw import draw
from ...ir.shape import Shape, TupleShape
from .rule import Rule

__all__ = ["RANDOM_RULES"]

_M0, _M1 = 0xD2511F53, 0xCD9E8D57
_W0, _W1 = 0x9E3779B9, 0xBB67AE85
_LOW: Final = 0xFFFFFFFF
_ROTATIONS: Final = ((13, 15, 26, 6), (17, 29, 16, 24))


class _Words:
    """Arithmetic on 64-bit words of the same dimensions, with scalars and numbers where they fit."""

    def __init__(self, b: Builder, dims: tuple[int, ...]) -> None:
        self.b, self.shape = b, Shape("u64", dims)

    def fit(self, x: Instruction | int) -> Instruction:
        if isinstance(x, int):
            return self.b.full(self.shape, x)
        return x if x.dims == self.shape.dims else self.b.broadcast(x, self.shape.dims)

    def op(self, opcode: str, x: Instruction, y: Instruction | int) -> Instruction:
        return self.b.emit(opcode, (self.fit(x), self.fit(y)))

    def low(self, x: Instruction) -> Instruction:
        return self.op("and", x, _LOW)

    def high(self, x: Instruction) -> Instruction:
        return self.op("shift-right-logical", x, 32)

    def join(self, low: Instruction, high: Instruction) -> Instruction:
        return self.op("or", low, self.op("shift-left", high, 32))


def _philox(w: _Words, c: list[Instruction], key: tuple[Instruction, Instruction]) -> list[Instruction]:
    one = _Words(w.b, ())
    k0, k1 = key
    for _ in range(10):
        p0, p1 = w.op("multiply", c[0], _M0), w.op("multiply", c[2], _M1)
        c = [
            w.op("xor", w.op("xor", w.high(p1), c[1]), k0),
            w.low(p1),
            w.op("xor", w.op("xor", w.high(p0), c[3]), k1),
            w.low(p0),
        ]
        k0, k1 = one.low(one.op("add", k0, _W0)), one.low(one.op("add", k1, _W1))
    return c


def _threefry(w: _Words, c: list[Instruction], key: tuple[Instruction, Instruction]) -> list[Instruction]:
    one = _Words(w.b, ())
    keys = (*key, one.op("xor", one.op("xor", key[0], key[1]), 0x1BD11BDA))
    x, y = (w.low(w.op("add", word, k)) for word, k in zip(c, keys, strict=False))
    for group in range(5):
        for r in _ROTATIONS[group % 2]:
            x = w.low(w.op("add", x, y))
            turned = w.op("or", w.op("shift-left", y, r), w.op("shift-right-logical", y, 32 - r))
            y = w.op("xor", w.low(turned), x)
        x = w.low(w.op("add", x, keys[(group + 1) % 3]))
        y = w.low(w.op("add", w.op("add", y, keys[(group + 2) % 3]), group + 1))
    return [x, y]


def _in_memory(b: Builder, words: list[Instruction]) -> list[Instruction]:
    """Every word is computed once, though what interleaves them reads one or another for each element."""
    held = b.emit("opt-barrier", (b.tuple(*words),))
    return [b.get_tuple_element(held, k) for k in range(len(words))]


def _as_type(b: Builder, words: Instruction, shape: Shape) -> Instruction:
    unsigned = f"u{8 * shape.itemsize}"
    narrow = words if unsigned == "u64" else b.convert(words, unsigned)
    return narrow if shape.dtype == unsigned else b.bitcast_convert(narrow, shape.dtype)


def _word(b: Builder, state: Instruction, k: int) -> Instruction:
    return b.reshape(b.slice(state, (k,), (k + 1,)), ())


def _philox_bits(b: Builder, state: Instruction, shape: Shape) -> tuple[list[Instruction], Instruction]:
    """The state behind the key, and the elements as 64-bit words."""
    one = _Words(b, ())
    wide = shape.itemsize == 8
    count = -(-shape.size * (2 if wide else 1) // 4)
    first = _word(b, state, 0)
    low, high = _word(b, state, 1), _word(b, state, 2) if state.dims[0] == 3 else first
    w = _Words(b, (count,))
    lows = w.op("add", b.iota(w.shape), low)
    carry = b.convert(b.compare(lows, w.fit(low), "LT"), "u64")
    highs = w.op("add", carry, high)
    counter = [w.low(lows), w.high(lows), w.low(highs), w.high(highs)]
    c = _philox(w, counter, (one.low(first), one.high(first)))
    parts = [w.join(c[0], c[1]), w.join(c[2], c[3])] if wide else c
    columns = [b.reshape(part, (count, 1)) for part in _in_memory(b, parts)]
    flat = b.reshape(b.concatenate(columns, 1), (count * len(columns),))
    following = one.op("add", low, count)
    after = [following]
    if state.dims[0] == 3:
        after.append(one.op("add", high, b.convert(b.compare(following, low, "LT"), "u64")))
    return after, b.reshape(b.slice(flat, (0,), (shape.size,)), shape.dims)


def _threefry_bits(b: Builder, state: Instruction, shape: Shape) -> tuple[list[Instruction], Instruction]:
    """As `_philox_bits`. Of small elements, the two words of a counter lie beside each other in one dimension."""
    one = _Words(b, ())
    key = _word(b, state, 0)
    dims = shape.dims or (1,)
    split = next((d for d, n in enumerate(dims) if n % 2 == 0), dims.index(max(dims)))
    half = dims if shape.itemsize == 8 else (*dims[:split], -(-dims[split] // 2), *dims[split + 1 :])
    used = prod(half)
    first = _word(b, state, 1)
    flat = _Words(b, (used,))
    counters = b.reshape(flat.op("add", b.iota(flat.shape), first), half)
    w = _Words(b, half)
    words = _threefry(w, [w.low(counters), w.high(counters)], (one.low(key), one.high(key)))
    after = [one.op("add", first, used)]
    if shape.itemsize == 8:
        return after, b.reshape(w.join(*words), shape.dims)
    apart = (*half[: split + 1], 1, *half[split + 1 :])
    both = b.concatenate([b.reshape(word, apart) for word in _in_memory(b, words)], split + 1)
    full = (*half[:split], 2 * half[split], *half[split + 1 :])
    return after, b.reshape(b.slice(b.reshape(both, full), (0,) * len(dims), dims), shape.dims)


def _bits(b: Builder, i: Instruction) -> Instruction | None:
    assert isinstance(i.shape, TupleShape)
    state, shape = i.operands[0], i.shape.elements[1]
    if not isinstance(shape, Shape) or not shape.size or state.dtype != "u64":
        return None
    make = _threefry_bits if i.attrs["algorithm"] == "rng_three_fry" else _philox_bits
    after, bits = make(b, state, shape)
    kept = [_word(b, state, k) for k in range(1 + len(after), state.dims[0])]
    words = [b.reshape(x, (1,)) for x in (_word(b, state, 0), *after, *kept)]
    return b.tuple(b.concatenate(words, 0), _as_type(b, bits, shape))


RANDOM_RULES: Final[dict[str, Rule]] = {"rng": draw, "rng-bit-generator": _bits}
