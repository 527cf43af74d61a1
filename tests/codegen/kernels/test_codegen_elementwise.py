import numpy as np
import pytest
from runtime_table import check

from minitensor_jit.codegen.emitter.elementwise import ELEMENTWISE
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.opcode import OPCODES
from minitensor_jit.ir.shape import Shape

pytestmark = pytest.mark.sampled(3)

KINDS = {"pred": "b", "u8": "u", "s32": "i", "s64": "i", "u32": "u", "u64": "u", "f32": "f", "f64": "f"}
UNARY = sorted(o for o in ELEMENTWISE if OPCODES[o].kind == "unary" and "convert" not in o)
BINARY = sorted(o for o in ELEMENTWISE if OPCODES[o].kind == "binary" and o != "compare")
SIZES = [(), (1,), (7,), (3, 50), (2000,)]


def cases(opcodes):
    return [(o, d) for o in opcodes for d, kind in KINDS.items() if kind in OPCODES[o].dtypes]


def ulp(opcode, dtype):
    """How far NumPy's approximation may be from ours; everything else is exact."""
    return 4 if OPCODES[opcode].transcendental and KINDS[dtype] == "f" else 0


@pytest.mark.parametrize(("opcode", "dtype"), cases(UNARY))
def test_unary(opcode, dtype):
    attributes = {"exponent_bits": 6, "mantissa_bits": 9} if opcode == "reduce-precision" else None
    for dims in SIZES:
        check(lambda b, x: b.emit(opcode, (x,), attributes), Shape(dtype, dims), ulp=ulp(opcode, dtype), fused=False)


@pytest.mark.parametrize(("opcode", "dtype"), cases(BINARY))
def test_binary(opcode, dtype):
    for dims in SIZES:
        shape = Shape(dtype, dims)
        check(lambda b, x, y: b.emit(opcode, (x, y)), shape, shape, ulp=ulp(opcode, dtype), fused=False)


@pytest.mark.parametrize("dtype", KINDS)
def test_compare_select_and_clamp(dtype):
    for dims in SIZES:
        shape = Shape(dtype, dims)
        check(
            lambda b, x, y: [b.compare(x, y, d) for d in ("EQ", "NE", "LT", "LE", "GT", "GE")],
            shape,
            shape,
            fused=False,
        )
        check(lambda b, p, x, y: b.select(p, x, y), Shape("pred", dims), shape, shape)
        if dtype != "pred":
            check(lambda b, low, x, high: b.clamp(low, x, high), shape, shape, shape)


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("target", KINDS)
def test_convert(source, target):
    for dims in SIZES:
        check(lambda b, x: b.convert(x, target), Shape(source, dims), fused=False)


@pytest.mark.parametrize("source", ["f32", "f64"])
@pytest.mark.parametrize("target", ["u8", "s32", "s64", "u32", "u64"])
def test_convert_of_what_does_not_fit(source, target):
    edges = [2.0**k * s + d for k in (7, 8, 31, 32, 63, 64) for s in (1, -1) for d in (-1, 0, 1)]
    x = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 0.5, -0.5, *edges], Shape(source).numpy_dtype)
    check(lambda b, v: b.convert(v, target), Shape(source, x.shape), args=[x], fused=False)


def test_bitcast_convert():
    check(lambda b, x: b.bitcast_convert(x, "s32"), Shape("f32", (77,)))
    check(lambda b, x: b.bitcast_convert(x, "f64"), Shape("u64", (77,)))


def test_integer_division_never_traps():
    low = np.iinfo(np.int32).min
    x = np.array([5, low, low, -7, 0], np.int32)
    y = np.array([0, -1, 0, 2, 0], np.int32)
    shape = Shape("s32", (5,))
    check(lambda b, p, q: [b.divide(p, q), b.remainder(p, q)], shape, shape, args=[x, y])


def test_zeros_and_nan_in_maximum_and_minimum():
    special = [0.0, -0.0, np.nan, 1.0, -np.inf]
    x, y = (np.array(v, np.float32).reshape(-1) for v in np.meshgrid(special, special))
    shape = Shape("f32", (25,))
    check(lambda b, p, q: [b.maximum(p, q), b.minimum(p, q)], shape, shape, args=[x, y])


def test_no_contraction():
    # a * b + c with one rounding differs from that with two.
    a = np.full(64, 1 + 2.0**-12, np.float32)
    shape = Shape("f32", (64,))
    check(lambda b, x, y: b.add(b.multiply(x, x), y), shape, shape, args=[a, -(a * a)])


def test_a_long_chain_is_one_kernel():
    def chain(b, x, y):
        for _ in range(40):
            x = b.add(b.multiply(x, y), y)
        return x

    shape = Shape("f32", (1000,))
    check(chain, shape, shape)


def test_shared_values_are_emitted_once():
    # 2^60 paths lead to the parameter.
    def doubling(b, x):
        for _ in range(60):
            x = b.add(x, x)
        return x

    check(doubling, Shape("f32", (33,)))


def test_mixed_types_in_one_loop():
    def build(b, x, i, p):
        wide = b.convert(x, "f64")
        return [
            b.add(wide, b.convert(i, "f64")),
            b.select(p, x, b.convert(i, "f32")),
            b.compare(i, b.convert(x, "s64"), "LT"),
        ]

    check(build, Shape("f32", (9, 37)), Shape("s64", (9, 37)), Shape("pred", (9, 37)))


def test_a_chain_longer_than_the_stack_of_python():
    def chain(b, x):
        f = Builder("fused")
        y = f.parameter(x.shape)
        for _ in range(3000):
            y = f.reshape(f.add(f.reshape(y, (5, 4)), f.constant(np.full((5, 4), 0.5, np.float32))), (4, 5))
        return b.fusion(f.build_computation(y), x)

    check(chain, Shape("f32", (4, 5)))
