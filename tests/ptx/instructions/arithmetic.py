"""What one instruction computes, over NumPy vectors or scalars: the functions that the translated blocks call."""

from __future__ import annotations

import numpy as np

from .fma import fma_f32, fma_f64

U32, U64 = np.uint32, np.uint64
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
SIGNED = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}

# Bits of results: a device's arithmetic gives one NaN in f32 and f16.


def bits32(x):
    raw = x.view(np.uint32)
    wrong = x != x
    return np.where(wrong, U32(0x7FFFFFFF), raw) if wrong.any() else raw


def bits16(x):
    raw = x.view(np.uint16)
    wrong = x != x
    return np.where(wrong, np.uint16(0x7FFF), raw) if wrong.any() else raw


def bits64(x):
    return x.view(np.uint64)


# Integers


def with_carry(x, y, carry, sign):
    one = x.dtype.type(1)
    c = np.asarray(carry).astype(x.dtype) * one
    if sign == "+":
        low = x + y
        total = low + c
        return total, (low < x) | (total < low)
    low = x - y
    total = low - c
    return total, (x < y) | (low < c)


def high_product_u(x, y):
    mask, half = U64(0xFFFFFFFF), U64(32)
    xl, xh, yl, yh = x & mask, x >> half, y & mask, y >> half
    low = xl * yl
    middle = xh * yl + (low >> half)
    other = xl * yh + (middle & mask)
    return xh * yh + (middle >> half) + (other >> half)


def high_product_s(x, y):
    ux, uy = x.view(np.uint64), y.view(np.uint64)
    high = high_product_u(ux, uy)
    high = high - np.where(x < 0, uy, U64(0)) - np.where(y < 0, ux, U64(0))
    return high.view(np.int64)


def low24_u(x):
    return x.astype(np.uint64) & U64(0xFFFFFF)


def low24_s(x):
    return ((x << 8) >> 8).astype(np.int64)


def divide_u(x, y):
    return np.where(y == 0, x.dtype.type(np.iinfo(x.dtype).max), x // y)


def remainder_u(x, y):
    return np.where(y == 0, x, x % y)


def divide_s(x, y):
    one = x.dtype.type(1)
    down = x // y
    toward_zero = down + np.where((down * y != x) & ((x < 0) != (y < 0)), one, one - one)
    return np.where(y == 0, -one, toward_zero)


def remainder_s(x, y):
    return np.where(y == 0, x, x - divide_s(x, y) * y)


def shift_left(x, n):
    if x.dtype.itemsize < 4:
        n = np.minimum(n, U32(8 * x.dtype.itemsize))
    return x << n.astype(x.dtype)


def shift_right(x, n):
    # More than the width: as far as it goes.
    if x.dtype.kind == "i":
        n = np.minimum(n, U32(8 * x.dtype.itemsize - 1))
    elif x.dtype.itemsize < 4:
        n = np.minimum(n, U32(8 * x.dtype.itemsize))
    return x >> n.astype(x.dtype)


def funnel_l(low, high, n, wrap):
    n = n & U32(31) if wrap else np.minimum(n, U32(32))
    both = (high.astype(np.uint64) << U64(32)) | low
    return ((both << n.astype(np.uint64)) >> U64(32)).astype(np.uint32)


def funnel_r(low, high, n, wrap):
    n = n & U32(31) if wrap else np.minimum(n, U32(32))
    both = (high.astype(np.uint64) << U64(32)) | low
    return (both >> n.astype(np.uint64)).astype(np.uint32)


def lop3(x, y, z, table):
    total = U32(0)
    for k in range(8):
        if table >> k & 1:
            total = total | ((x if k & 4 else ~x) & (y if k & 2 else ~y) & (z if k & 1 else ~z))
    return total


def popc(x):
    return np.bitwise_count(x).astype(np.uint32)


def bit_length(x):
    if x.dtype.itemsize == 8:
        high = (x >> U64(32)).astype(np.uint32)
        return np.where(high != 0, bit_length(high) + U32(32), bit_length(x.astype(np.uint32)))
    return np.frexp(x.astype(np.float64))[1].astype(np.uint32)


def clz(x):
    return U32(8 * x.dtype.itemsize) - bit_length(x)


def brev(x):
    bits = 8 * x.dtype.itemsize
    kind = x.dtype.type
    shift, mask = bits // 2, (1 << bits) - 1
    while shift:
        # Bits whose place has this power of two clear.
        keep = kind(sum(1 << k for k in range(bits) if not k & shift) & mask)
        x = ((x >> kind(shift)) & keep) | ((x & keep) << kind(shift))
        shift //= 2
    return x


def bfind(x, amount):
    bits = 8 * x.dtype.itemsize
    if x.dtype.kind == "i":
        x = np.where(x < 0, ~x, x)
    length = bit_length(x.astype(UNSIGNED[bits // 8]))
    place = (U32(bits) - length) if amount else (length - U32(1))
    return np.where(length == 0, U32(0xFFFFFFFF), place)


def bfe(x, position, length):
    bits = 8 * x.dtype.itemsize
    p = (position & U32(255)).astype(np.int64)
    n = (length & U32(255)).astype(np.int64)
    raw = x.view(UNSIGNED[bits // 8])
    kept = np.where(p < bits, shift_right(raw, p.astype(np.uint32)), raw.dtype.type(0))
    # How many bits are the value's own; above them is the sign.
    own = np.clip(bits - p, 0, np.minimum(n, bits))
    full = raw.dtype.type(np.iinfo(raw.dtype).max)
    mask = np.where(own >= bits, full, shift_left(np.ones_like(raw), own.astype(np.uint32)) - raw.dtype.type(1))
    value = kept & mask
    if x.dtype.kind == "i":
        top = np.clip(p + n - 1, 0, bits - 1)
        negative = (shift_right(raw, top.astype(np.uint32)) & raw.dtype.type(1) != 0) & (n != 0)
        value = np.where(negative, value | ~mask, value).view(x.dtype)
    return value


def bfi(x, y, position, length):
    kind = y.dtype.type
    bits = 8 * y.dtype.itemsize
    p, n = position & U32(255), np.minimum(length & U32(255), U32(bits))
    ones = np.where(n >= bits, kind(np.iinfo(y.dtype).max), shift_left(np.ones_like(y), n) - kind(1))
    mask = shift_left(ones, p)
    return (y & ~mask) | (shift_left(x, p) & mask)


def prmt(x, y, selector):
    both = x.astype(np.uint64) | (y.astype(np.uint64) << U64(32))
    total = U32(0)
    for k in range(4):
        nibble = (selector >> U32(4 * k)) & U32(15)
        byte = (both >> ((nibble & U32(7)).astype(np.uint64) * U64(8))) & U64(255)
        sign = np.where(byte & U64(128), U64(255), U64(0))
        total = total | (np.where(nibble & U32(8), sign, byte).astype(np.uint32) << U32(8 * k))
    return total


def dp4a(x, y, z, left, right):
    total = z
    for k in range(4):
        p, q = (((v >> U32(8 * k)) & U32(255)).astype(np.uint8) for v in (x, y))
        p = p.view(np.int8) if left == "s32" else p
        q = q.view(np.int8) if right == "s32" else q
        total = total + (p.astype(np.int64) * q.astype(np.int64)).astype(z.dtype)
    return total


def clip_integer(x, kind, bits):
    to = np.iinfo((SIGNED if kind == "s" else UNSIGNED)[bits // 8])
    of = np.iinfo(x.dtype)
    return np.clip(x, x.dtype.type(max(to.min, of.min)), x.dtype.type(min(to.max, of.max)))


# Floating point


def from_bf16(x):
    return (x.astype(np.uint32) << U32(16)).view(np.float32)


def _odd(x, error):
    """`x`, a rounded value, rounded to odd instead: then rounding again to a shorter format can't go wrong."""
    bits = x.view(UNSIGNED[x.dtype.itemsize])
    even = (bits & bits.dtype.type(1)) == 0
    move = even & (error != 0) & np.isfinite(error)
    return np.where(move, np.nextafter(x, np.where(error > 0, x.dtype.type(np.inf), x.dtype.type(-np.inf))), x)


def _sum_and_error(x, y):
    total = x + y
    part = total - x
    return total, (x - (total - part)) + (y - part)


def _odd_f32(x, error=0.0):
    """A float64, and what it lacks, as a float32 rounded to odd."""
    short = x.astype(np.float32)
    missing = x - short.astype(np.float64)
    return _odd(short, np.where(missing != 0, missing, error))


def fma_f16(x, y, z):
    total, error = _sum_and_error(x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64))
    return _odd(total, error).astype(np.float16)


def fma_bf16(x, y, z):
    total, error = _sum_and_error(x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64))
    return _odd_f32(_odd(total, error))


def _toward(near, missing, mode):
    """`near` is rounded to nearest and `missing` the sign of what it lacks: the value in a directed mode."""
    kind = near.dtype.type
    if mode == "rz":
        return np.where(_toward(near, missing, "rm") >= 0, _toward(near, missing, "rm"), _toward(near, missing, "rp"))
    if mode == "rm":
        return np.where(missing < 0, np.nextafter(near, kind(-np.inf)), near)
    return np.where(missing > 0, np.nextafter(near, kind(np.inf)), near)


def _directed(total, error, mode):
    near = total.astype(np.float32)
    missing = total - near.astype(np.float64)
    return _toward(near, np.where(missing != 0, missing, error), mode)


def directed_add(x, y, mode):
    return _directed(*_sum_and_error(x.astype(np.float64), y.astype(np.float64)), mode)


def directed_sub(x, y, mode):
    return directed_add(x, -y, mode)


def directed_mul(x, y, mode):
    return _directed(x.astype(np.float64) * y.astype(np.float64), 0.0, mode)


def directed_fma(x, y, z, mode):
    return _directed(*_sum_and_error(x.astype(np.float64) * y.astype(np.float64), z.astype(np.float64)), mode)


def flush(x):
    """Subnormal numbers as zeros of their sign."""
    return np.where(np.abs(x) < np.finfo(x.dtype).smallest_normal, np.copysign(x.dtype.type(0), x), x)


def saturate(x):
    kind = x.dtype.type
    return np.where(x > 0, np.minimum(x, kind(1)), kind(0))


def relu(x):
    return np.where(x > 0, x, np.where(x == x, x.dtype.type(0), x))


def wide(function, x):
    return function(x.astype(np.float64)).astype(x.dtype)


def reciprocal(x):
    return x.dtype.type(1) / x


def reciprocal_root(x):
    return (1.0 / np.sqrt(x.astype(np.float64))).astype(x.dtype)


def float_min(x, y, propagate):
    raw = UNSIGNED[x.dtype.itemsize]
    least = np.where(x == y, (x.view(raw) | y.view(raw)).view(x.dtype), np.fmin(x, y))
    return np.where((x != x) | (y != y), x.dtype.type(np.nan), least) if propagate else least


def float_max(x, y, propagate):
    raw = UNSIGNED[x.dtype.itemsize]
    most = np.where(x == y, (x.view(raw) & y.view(raw)).view(x.dtype), np.fmax(x, y))
    return np.where((x != x) | (y != y), x.dtype.type(np.nan), most) if propagate else most


# Conversions


def to_bf16(x, mode="rn"):
    """The bits of a value in bfloat16."""
    if x.dtype != np.float32:
        x = _odd_f32(x.astype(np.float64))
    bits = x.view(np.uint32)
    if mode == "rn":
        rounded = (bits + (U32(0x7FFF) + ((bits >> U32(16)) & U32(1)))) >> U32(16)
    elif mode == "rz":
        rounded = bits >> U32(16)
    else:
        raise ValueError(f"rounding {mode} to bf16")
    return np.where(x != x, U32(0x7FFF), rounded).astype(np.uint16)


def to_f16(x, mode="rn"):
    if x.dtype.kind != "f":
        x = x.astype(np.float64)
    near = x.astype(np.float16)
    if mode != "rn":
        near = _toward(near, x - near.astype(x.dtype), mode)
    return bits16(near)


def to_float(x, bits, mode):
    to = np.float32 if bits == 32 else np.float64
    if mode == "rn" or (x.dtype.kind == "f" and x.dtype.itemsize * 8 <= bits):
        return x.astype(to)
    if bits == 64 or (x.dtype.itemsize == 8 and x.dtype.kind != "f"):
        raise ValueError(f"a conversion of {x.dtype} to f{bits} with rounding {mode}")
    return _directed(x.astype(np.float64), 0.0, mode)


def to_tf32(bits, mode):
    """The nearest value with ten bits of mantissa."""
    special = (bits & U32(0x7F800000)) == U32(0x7F800000)
    if mode == "rna":
        rounded = bits + U32(0x1000)
    elif mode == "rn":
        rounded = bits + U32(0xFFF) + ((bits >> U32(13)) & U32(1))
    else:
        rounded = bits
    return np.where(special, bits, rounded & U32(0xFFFFE000))


def to_integer(x, kind, bits):
    """A whole number, clamped; what NaN becomes is the ISA's."""
    to = (SIGNED if kind == "s" else UNSIGNED)[bits // 8]
    limits = np.iinfo(to)
    wide_x = x.astype(np.float64)
    top = float(limits.max) if bits < 64 else float(2 ** (63 if kind == "s" else 64))
    inside = (wide_x > float(limits.min)) & (wide_x < top)
    value = np.where(inside, wide_x, 0.0).astype(to)
    value = np.where(wide_x >= top, to(limits.max), np.where(wide_x <= float(limits.min), to(limits.min), value))
    unknown = to(0) if x.dtype != np.float64 and bits < 64 else UNSIGNED[bits // 8](1 << (bits - 1)).view(to)
    return np.where(x != x, unknown, value)


fma_f32, fma_f64 = fma_f32, fma_f64
