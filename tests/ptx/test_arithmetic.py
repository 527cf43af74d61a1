"""Instructions that compute: against exact arithmetic, on edges and on random bits."""

from fractions import Fraction

import numpy as np
import pytest

from .kernels import apply

RNG = np.random.default_rng(7)
EDGES32 = np.array(
    [0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFFFFFE, 0xFFFFFFFF, 0x00FF00FF], np.uint32
)
EDGES64 = np.array(
    [0, 1, 63, 64, (1 << 32) - 1, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 12345678901234567890], np.uint64
)


def grid_of(edges, count=2, extra=40):
    edges = np.concatenate(
        [
            edges,
            RNG.integers(0, 1 << (8 * edges.itemsize), extra, edges.dtype, endpoint=False)
            if edges.itemsize < 8
            else RNG.integers(0, 1 << 63, extra, np.uint64) * np.uint64(2) + np.uint64(1),
        ]
    )
    return [g.ravel() for g in np.meshgrid(*[edges] * count)]


def signed(value, bits):
    return value - (1 << bits) if value >> (bits - 1) else value


def truncated(x, y):
    quotient = abs(x) // abs(y)
    return quotient if (x < 0) == (y < 0) else -quotient


INTEGER = {
    "add.s": lambda x, y, b: x + y,
    "sub.s": lambda x, y, b: x - y,
    "mul.lo.s": lambda x, y, b: x * y,
    "mul.hi.u": lambda x, y, b: x * y >> b,
    "mul.hi.s": lambda x, y, b: signed(x, b) * signed(y, b) >> b,
    "div.u": lambda x, y, b: x // y if y else -1,
    "div.s": lambda x, y, b: truncated(signed(x, b), signed(y, b)) if y else -1,
    "rem.u": lambda x, y, b: x % y if y else x,
    "rem.s": lambda x, y, b: signed(x, b) - truncated(signed(x, b), signed(y, b)) * signed(y, b) if y else x,
    "min.s": lambda x, y, b: min(signed(x, b), signed(y, b)),
    "max.u": lambda x, y, b: max(x, y),
    "and.b": lambda x, y, b: x & y,
    "or.b": lambda x, y, b: x | y,
    "xor.b": lambda x, y, b: x ^ y,
}


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("name", INTEGER)
def test_integers(name, bits):
    x, y = grid_of(EDGES32 if bits == 32 else EDGES64)
    got = apply(f"{name}{bits} %y, %x0, %x1;", [x, y], x.dtype)
    expected = [INTEGER[name](int(p), int(q), bits) % (1 << bits) for p, q in zip(x, y, strict=True)]
    np.testing.assert_array_equal(got, np.array(expected, x.dtype))


@pytest.mark.parametrize("bits", [16, 32, 64])
@pytest.mark.parametrize("name", ["shl.b", "shr.u", "shr.s"])
def test_shifts_beyond_the_width(name, bits):
    x, n = grid_of(np.array([1, 3, (1 << (bits - 1)) | 5, (1 << bits) - 1], f"u{bits // 8}"), 2, 0)[0], None
    n = np.array([0, 1, bits - 1, bits, bits + 1, 255, 1 << 31, (1 << 32) - 1], np.uint32)
    x, n = (g.ravel() for g in np.meshgrid(x, n))
    got = apply(f"{name}{bits} %y, %x0, %x1;", [x, n], x.dtype)
    for value, amount, result in zip(x.tolist(), n.tolist(), got.tolist(), strict=True):
        whole = signed(value, bits) if name == "shr.s" else value
        shifted = whole << min(amount, bits) if name == "shl.b" else whole >> min(amount, bits)
        assert result == shifted % (1 << bits), (value, amount)


def test_wide_products_and_sums():
    x, y = grid_of(EDGES32)
    z = np.arange(len(x), dtype=np.uint64) << np.uint64(40)
    got = apply("mad.wide.s32 %y, %x0, %x1, %x2;", [x, y, z], np.uint64)
    expected = [(signed(int(p), 32) * signed(int(q), 32) + int(r)) % (1 << 64) for p, q, r in zip(x, y, z, strict=True)]
    assert got.tolist() == expected
    got = apply("mul.wide.u32 %y, %x0, %x1;", [x, y], np.uint64)
    assert got.tolist() == [int(p) * int(q) for p, q in zip(x, y, strict=True)]


def test_carries_go_through_a_chain():
    x, y = grid_of(EDGES64)
    body = """
    mov.b64 {%r1, %r2}, %x0; mov.b64 {%r3, %r4}, %x1;
    add.cc.u32 %r5, %r1, %r3; addc.cc.u32 %r6, %r2, %r4; addc.u32 %r7, 0, 0;
    sub.cc.u32 %r5, %r5, %r3; subc.u32 %r6, %r6, %r4;
    mov.b64 %y, {%r6, %r7};"""
    got = apply(body, [x, y], np.uint64)
    expected = [((int(p) >> 32) | (int(p) + int(q) >> 64) << 32) for p, q in zip(x, y, strict=True)]
    assert got.tolist() == expected


def test_bits():
    x, y = grid_of(EDGES32)
    assert apply("popc.b32 %y, %x0;", [x], np.uint32).tolist() == [int(v).bit_count() for v in x]
    assert apply("clz.b32 %y, %x0;", [x], np.uint32).tolist() == [32 - int(v).bit_length() for v in x]
    assert apply("brev.b32 %y, %x0;", [x], np.uint32).tolist() == [int(f"{v:032b}"[::-1], 2) for v in x]
    wide = grid_of(EDGES64, 1)[0]
    assert apply("clz.b64 %y, %x0;", [wide], np.uint32).tolist() == [64 - int(v).bit_length() for v in wide]
    assert apply("brev.b64 %y, %x0;", [wide], np.uint64).tolist() == [int(f"{v:064b}"[::-1], 2) for v in wide]
    got = apply("bfind.u32 %y, %x0;", [x], np.uint32)
    assert got.tolist() == [(int(v).bit_length() - 1) % (1 << 32) for v in x]
    got = apply("lop3.b32 %y, %x0, %x1, 0x0f0f0f0f, 0xE8;", [x, y], np.uint32)
    third = np.uint32(0x0F0F0F0F)
    np.testing.assert_array_equal(got, (x & y) | (x & third) | (y & third))
    got = apply("prmt.b32 %y, %x0, %x1, 0x9075;", [x, y], np.uint32)
    raw = np.stack([x, y], 1).view(np.uint8)
    sign = np.where(raw[:, 1] & 128, 255, 0).astype(np.uint32)
    expected = (
        raw[:, 5].astype(np.uint32) | raw[:, 7].astype(np.uint32) << 8 | raw[:, 0].astype(np.uint32) << 16 | sign << 24
    )
    np.testing.assert_array_equal(got, expected)
    for amount in (0, 7, 31, 32, 40):
        got = apply(f"shf.l.clamp.b32 %y, %x0, %x1, {amount};", [x, y], np.uint32)
        assert got.tolist() == [
            ((int(q) << 32 | int(p)) << min(amount, 32) >> 32) % (1 << 32) for p, q in zip(x, y, strict=True)
        ]
        got = apply(f"shf.r.wrap.b32 %y, %x0, %x1, {amount};", [x, y], np.uint32)
        assert got.tolist() == [((int(q) << 32 | int(p)) >> amount % 32) % (1 << 32) for p, q in zip(x, y, strict=True)]


@pytest.mark.parametrize("kind", ["u", "s"])
def test_bit_fields(kind):
    x = grid_of(EDGES32, 1)[0]
    for position, length in ((0, 8), (4, 28), (8, 0), (31, 1), (28, 12), (0, 32)):
        got = apply(f"bfe.{kind}32 %y, %x0, {position}, {length};", [x], np.uint32)
        for value, result in zip(x.tolist(), got.tolist(), strict=True):
            field = value >> position & ((1 << length) - 1)
            if kind == "s" and length:
                top = min(position + length - 1, 31)
                if value >> top & 1:
                    field |= -1 << (top - position + 1)
            assert result == field % (1 << 32), (hex(value), position, length)
    got = apply("bfi.b32 %y, %x0, 0x12345678, 8, 12;", [x], np.uint32)
    np.testing.assert_array_equal(
        got, (np.uint32(0x12345678) & ~np.uint32(0xFFF00)) | ((x & np.uint32(0xFFF)) << np.uint32(8))
    )


# Floating point

FLOATS = np.array([0, -0.0, 1, -1, 1.5, 3, 1 / 3, 1e-45, -1e-45, 1.17549435e-38, 1.1754942e-38, 3.4028235e38,
                   -3.4028235e38, np.inf, -np.inf, np.nan, 1 + 2**-23, 1 - 2**-24, 2**-126, 2**-149, 2**127, 2**64,
                   0.1], np.float32)  # fmt: skip


def exactly(value: Fraction, dtype) -> float:
    """A fraction rounded to the nearest number of a format, ties to even."""
    if value == 0:
        return 0.0
    info = np.finfo(dtype)
    bits, least = info.nmant + 1, int(np.log2(float(info.smallest_normal))) - info.nmant
    exponent = 0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if Fraction(2) ** exponent > size:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - bits + 1, least)
    whole = round(size / unit)  # ties to even
    result = whole * unit
    if result > Fraction(float(info.max)):
        return np.inf if value > 0 else -np.inf
    return float(result) if value > 0 else -float(result)


def check_bits(got, expected):
    both = np.isnan(got) & np.isnan(expected)
    raw = f"u{got.dtype.itemsize}"
    np.testing.assert_array_equal(np.where(both, 0, got.view(raw)), np.where(both, 0, expected.view(raw)))


@pytest.mark.parametrize(("name", "dtype"), [("f32", np.float32), ("f64", np.float64), ("f16", np.float16)])
def test_fused_multiply_add_rounds_once(name, dtype):
    raw = f"u{np.dtype(dtype).itemsize}"
    random = RNG.integers(0, 1 << min(63, 8 * np.dtype(dtype).itemsize), (3, 4000), np.uint64).astype(raw).view(dtype)
    # Products that nearly cancel the sum are where rounding twice shows.
    x = np.concatenate([random[0], 1 + RNG.integers(0, 500, 4000).astype(dtype) * np.finfo(dtype).eps])
    y = np.concatenate([random[1], 1 - RNG.integers(0, 500, 4000).astype(dtype) * np.finfo(dtype).eps])
    with np.errstate(all="ignore"):
        z = np.concatenate([random[2], -(x * y)[4000:]])
        tiny = np.concatenate([z[:4000], RNG.choice([1, -1], 4000).astype(dtype) * np.finfo(dtype).eps / dtype(2)])
    for c in (z, tiny):
        finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(c)
        p, q, r = x[finite], y[finite], c[finite]
        got = apply(f"fma.rn.{name} %y, %x0, %x1, %x2;", [p, q, r], dtype)
        exact = [
            exactly(Fraction(float(i)) * Fraction(float(j)) + Fraction(float(k)), dtype)
            for i, j, k in zip(p, q, r, strict=True)
        ]
        np.testing.assert_array_equal(got, np.array(exact, dtype))


@pytest.mark.parametrize("name", ["add.rn", "sub.rn", "mul.rn", "div.rn"])
def test_float_arithmetic(name):
    x, y = (g.ravel() for g in np.meshgrid(FLOATS, FLOATS))
    got = apply(f"{name}.f32 %y, %x0, %x1;", [x, y], np.float32)
    ufunc = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide}[name[:3]]
    with np.errstate(all="ignore"):
        check_bits(got, ufunc(x, y))
    # A device has one NaN.
    assert set(got.view(np.uint32)[np.isnan(got)].tolist()) == {0x7FFFFFFF}


@pytest.mark.parametrize("mode", ["rz", "rm", "rp"])
def test_directed_rounding(mode):
    x = RNG.standard_normal(3000).astype(np.float32)
    y = (RNG.standard_normal(3000) * 2.0 ** RNG.integers(-40, 40, 3000)).astype(np.float32)
    for name, compute in (("add", lambda a, b: a + b), ("mul", lambda a, b: a * b)):
        got = apply(f"{name}.{mode}.f32 %y, %x0, %x1;", [x, y], np.float32)
        for a, b, result in zip(x, y, got, strict=True):
            exact = compute(Fraction(float(a)), Fraction(float(b)))
            way = mode if mode != "rz" else "rm" if exact > 0 else "rp"
            value = Fraction(float(result))
            beyond = Fraction(float(np.nextafter(result, np.float32(np.inf if way == "rm" else -np.inf))))
            assert (value <= exact < beyond) if way == "rm" else (beyond < exact <= value)


def test_minimum_and_maximum_know_signs_of_zero_and_nan():
    x, y = (g.ravel() for g in np.meshgrid(FLOATS, FLOATS))
    low = apply("min.f32 %y, %x0, %x1;", [x, y], np.float32)
    check_bits(
        low[(x == 0) & (y == 0)],
        np.where(np.signbit(x) | np.signbit(y), np.float32(-0.0), np.float32(0))[(x == 0) & (y == 0)],
    )
    np.testing.assert_array_equal(low, np.fmin(x, y))
    high = apply("max.NaN.f32 %y, %x0, %x1;", [x, y], np.float32)
    np.testing.assert_array_equal(high, np.maximum(x, y))


def test_comparisons_with_nan():
    x, y = (g.ravel() for g in np.meshgrid(FLOATS, FLOATS))
    unordered = np.isnan(x) | np.isnan(y)
    with np.errstate(invalid="ignore"):
        ordered = {"eq": x == y, "ne": (x != y) & ~unordered, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}
    for name, expected in ordered.items():
        for suffix, wanted in (("", expected), ("u", expected | unordered)):
            got = apply(f"setp.{name}{suffix}.f32 %p2, %x0, %x1; selp.b32 %y, 1, 0, %p2;", [x, y], np.uint32)
            np.testing.assert_array_equal(got != 0, wanted, err_msg=name + suffix)
    got = apply("setp.nan.f32 %p2|%p3, %x0, %x1; selp.b32 %r4, 1, 0, %p2; selp.b32 %y, 2, %r4, %p3;", [x, y], np.uint32)
    np.testing.assert_array_equal(got, np.where(unordered, 1, 2))


def test_conversions_to_integers_saturate():
    x = np.concatenate(
        [FLOATS, np.array([0.5, 1.5, 2.5, -0.5, -1.5, 2147483648.0, -2147483904.0, 255.5, 256, 1e10], np.float32)]
    )
    for mode, ufunc in (("rni", np.rint), ("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil)):
        got = apply(f"cvt.{mode}.s32.f32 %y, %x0;", [x], np.int32)
        whole = np.nan_to_num(ufunc(x.astype(np.float64)), nan=0, posinf=2**40, neginf=-(2**40))
        np.testing.assert_array_equal(got, np.clip(whole, -(2**31), 2**31 - 1).astype(np.int32))
    got = apply("cvt.rzi.u64.f32 %y, %x0;", [x], np.uint64)
    assert got[list(x).index(np.inf)] == 2**64 - 1
    assert got[12] == 0  # the negative largest
    assert got[15] == 1 << 63  # NaN
    got = apply(
        "cvt.sat.s8.s32 %r5, %x0; mov.b32 %y, %r5;", [np.array([0, 127, 128, -128, -129, 1 << 30], np.int32)], np.int32
    )
    assert got.tolist() == [0, 127, 127, -128, -128, 127]


def test_conversions_between_integers_extend_signs():
    x = np.array([0, 127, 128, 255, 32768, 65535, 1 << 31, (1 << 32) - 1], np.uint32)
    assert apply("cvt.s64.s32 %y, %x0;", [x], np.int64).tolist() == x.view(np.int32).tolist()
    assert apply("cvt.u64.u32 %y, %x0;", [x], np.int64).tolist() == x.tolist()
    assert apply("cvt.s32.s8 %y, %x0;", [x], np.int32).tolist() == x.astype(np.uint8).view(np.int8).tolist()
    assert apply("cvt.u32.u16 %y, %x0;", [x], np.int32).tolist() == x.astype(np.uint16).tolist()


def test_conversions_of_floats_round_once():
    import ml_dtypes

    x = np.concatenate([FLOATS, RNG.integers(0, 1 << 32, 20000, np.uint32).view(np.float32)])
    with np.errstate(all="ignore"):
        check_bits(apply("cvt.rn.f16.f32 %y, %x0;", [x], np.float16), x.astype(np.float16))
        brain = apply("cvt.rn.bf16.f32 %y, %x0;", [x], np.uint16)
        expected = x.astype(ml_dtypes.bfloat16).view(np.uint16)
        np.testing.assert_array_equal(np.where(np.isnan(x), 0, brain), np.where(np.isnan(x), 0, expected))
        check_bits(
            apply("cvt.f32.bf16 %y, %x0;", [brain], np.float32), (brain.astype(np.uint32) << 16).view(np.float32)
        )
        both = apply("cvt.rn.bf16x2.f32 %y, %x0, %x1;", [x, -x], np.uint32)
        np.testing.assert_array_equal((both >> 16)[~np.isnan(x)], brain[~np.isnan(x)])
        wide = RNG.integers(0, 1 << 63, 20000, np.uint64).view(np.float64)
        check_bits(apply("cvt.rn.f32.f64 %y, %x0;", [wide], np.float32), wide.astype(np.float32))
        toward_zero = apply("cvt.rz.f32.f64 %y, %x0;", [wide], np.float32)
        assert (np.abs(toward_zero.astype(np.float64)) <= np.abs(wide))[np.isfinite(wide)].all()
    large = np.array([1, 2**24 + 1, 2**53 + 1, 2**63 - 1, -(2**63), -(2**24) - 1], np.int64)
    check_bits(apply("cvt.rn.f32.s64 %y, %x0;", [large], np.float32), large.astype(np.float32))
    check_bits(apply("cvt.rn.f64.u64 %y, %x0;", [large], np.float64), large.view(np.uint64).astype(np.float64))


def test_half_and_brain_arithmetic():
    import ml_dtypes

    x, y = RNG.standard_normal((2, 3000)).astype(np.float16)
    check_bits(apply("add.rn.f16 %y, %x0, %x1;", [x, y], np.float16), x + y)
    pairs = apply("mul.rn.f16x2 %y, %x0, %x1;", [x.view(np.uint32), y.view(np.uint32)], np.uint32)
    check_bits(pairs.view(np.float16), x * y)
    p, q, r = (RNG.standard_normal((3, 3000)) * 2.0 ** RNG.integers(-9, 9, (3, 3000))).astype(ml_dtypes.bfloat16)
    got = apply("fma.rn.bf16 %y, %x0, %x1, %x2;", [v.view(np.uint16) for v in (p, q, r)], np.uint16)
    exact = p.astype(np.float64) * q.astype(np.float64) + r.astype(np.float64)
    np.testing.assert_array_equal(got, exact.astype(ml_dtypes.bfloat16).view(np.uint16))


def test_tf32_has_ten_bits():
    x = RNG.standard_normal(1000).astype(np.float32)
    got = apply("cvt.rna.tf32.f32 %y, %x0;", [x], np.float32)
    assert not (got.view(np.uint32) & 0x1FFF).any()
    assert (np.abs(got - x) <= np.abs(x) * 2.0**-11).all()


def test_flushing_and_saturation():
    x = FLOATS[~np.isnan(FLOATS)]
    got = apply("add.rn.ftz.f32 %y, %x0, 0f00000000;", [x], np.float32)
    np.testing.assert_array_equal(got, np.where(np.abs(x) < 2**-126, 0, x))
    got = apply("add.rn.sat.f32 %y, %x0, 0f00000000;", [FLOATS], np.float32)
    np.testing.assert_array_equal(got, np.where(np.isnan(FLOATS), 0, np.clip(FLOATS, 0, 1)))


def test_signs_are_bits():
    x = FLOATS
    np.testing.assert_array_equal(apply("neg.f32 %y, %x0;", [x], np.uint32), x.view(np.uint32) ^ np.uint32(1 << 31))
    np.testing.assert_array_equal(apply("abs.f32 %y, %x0;", [x], np.uint32), x.view(np.uint32) & np.uint32(0x7FFFFFFF))
    np.testing.assert_array_equal(
        apply("copysign.f32 %y, 0fbf800000, %x0;", [x], np.uint32), x.view(np.uint32) | np.uint32(1 << 31)
    )
