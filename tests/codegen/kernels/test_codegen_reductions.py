import itertools
import re

import numpy as np
import pytest
from runtime_table import agree, check, compile_and_run

from minitensor_jit.codegen.cpu.compiler import compile_module
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.shape import Shape

pytestmark = pytest.mark.sampled(2)


def f32(*dims):
    return Shape("f32", dims)


SHAPES = [
    (7,), (64,), (100,), (5000,), (9000,), (3, 10), (3, 16), (5, 100), (4, 1000), (2, 9000), (1, 7), (7, 1), (300, 5),
    (300, 64), (1000, 37), (20000, 3), (41, 301), (601, 1110), (3, 5, 7), (3, 400, 17), (2, 3, 4, 5),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["f32", "f64", "s32", "u8"])
@pytest.mark.parametrize("dims", SHAPES)
def test_all_dimensions(dtype, dims):
    shape = Shape(dtype, dims)

    for count in range(1, len(dims) + 1):
        for dimensions in itertools.combinations(range(len(dims)), count):
            check(lambda b, x, d=dimensions: b.reduce_sum(x, d), shape, fused=False)
            if dtype == "f32":
                check(lambda b, x, d=dimensions: [b.reduce_max(x, d), b.reduce_sum(b.negate(x), d)], shape)


# The definition of docs/numerics.md once more, as plain as can be.


def row_sum(x):
    r = len(x)
    block = 4096 * -(-r // (4096 * 1024))
    totals = []
    for start in range(0, r, block):
        lanes = [np.float32(0)] * 64
        for k in range(start, min(r, start + block)):
            lanes[k % 64] += x[k]
        w = 32
        while w:
            for lane in range(w):
                lanes[lane] = lanes[lane] + lanes[lane + w]
            w //= 2
        totals.append(lanes[0])
    total = totals[0]
    for t in totals[1:]:
        total = total + t
    return total


def column_sum(x):
    r = len(x)
    block = 256 * -(-r // (256 * 64))
    total = None
    for start in range(0, r, block):
        part = np.zeros(x.shape[1], np.float32)
        for row in x[start : start + block]:
            part = part + row
        total = part if total is None else total + part
    return total


@pytest.mark.parametrize("size", [1, 63, 64, 65, 4095, 4096, 4097, 20001])
def test_order_of_the_row_step(size):
    x = (np.random.default_rng(size).normal(size=size) * 10.0 ** np.random.default_rng(1).integers(-4, 4, size)).astype(
        np.float32
    )
    builder = Builder("rows")
    module = builder.build(builder.reduce_sum(builder.parameter(f32(size)), (0,)))
    (got,) = compile_and_run(module, [x])
    assert agree(got, np.asarray(row_sum(x)))


@pytest.mark.parametrize("size", [1, 255, 256, 257, 600, 20000])
def test_order_of_the_column_step(size):
    x = (np.random.default_rng(size).normal(size=(size, 21)) * 1000).astype(np.float32)
    builder = Builder("columns")
    module = builder.build(builder.reduce_sum(builder.parameter(f32(size, 21)), (0,)))
    (got,) = compile_and_run(module, [x])
    assert agree(got, column_sum(x))


@pytest.mark.parametrize("width", [8, 40, 200])
def test_the_kernels_of_a_column_step_in_parallel_are_named_after_what_they_do(width):
    """As profiles show them: first each block of rows is combined, then the blocks are."""
    builder = Builder("columns")
    module = builder.build(builder.reduce_sum(builder.parameter(f32(40_000, width)), (0,)))
    found = {}
    compile_module(module, name="columns", dump=found.__setitem__).close()
    kernels = re.findall(r"^define internal void @\"?\S+?(\.[a-z]+)?\"?\(", found["ir-no-opt.ll"], re.MULTILINE)
    assert kernels == [".blocks", ".combine"]


def test_long_rows_are_cut_into_larger_blocks():
    n = 4096 * 1024 + 4096 * 3 + 5
    x = np.random.default_rng(0).normal(size=n).astype(np.float32)
    check(lambda b, v: b.reduce_sum(b.multiply(v, v), (0,)), f32(n), args=[x], fused=False)


@pytest.mark.parametrize("kind", ["and", "or", "maximum", "minimum", "add", "multiply"])
def test_reductions_of_pred(kind):
    for dims, dimensions in (((7,), (0,)), ((5, 100), (1,)), ((300, 5), (0,)), ((3, 9000), (1,))):
        check(
            lambda b, x, d=dimensions: b.reduce(x, b.constant(kind in ("and", "minimum", "multiply"), "pred"), d, kind),
            Shape("pred", dims),
        )


def test_products_and_initial_values():
    for dims, dimensions in (((7,), (0,)), ((5, 100), (1,)), ((300, 5), (0,)), ((4, 5, 6), (0, 2))):
        check(lambda b, x, d=dimensions: b.reduce(x, b.constant(2.0), d, "multiply"), f32(*dims))
        check(lambda b, x, i, d=dimensions: b.reduce(x, i, d, "add"), f32(*dims), f32())


@pytest.mark.parametrize("length", [1, 3, 10, 16, 33, 74, 100, 5000])
def test_sums_of_negative_zeros_are_zero(length):
    x = np.full((20, length), -0.0, np.float32)
    check(lambda b, v: [b.reduce_sum(v, (1,)), b.reduce_sum(b.multiply(v, v), (1,))], f32(20, length), args=[x])


def test_fused_inputs():
    check(lambda b, x, y: b.reduce_sum(b.add(x, b.multiply(y, y)), (0,)), f32(30000), f32(30000))
    check(lambda b, x, y: b.reduce_sum(b.add(x, b.broadcast(y, (300, 70), (1,))), (0, 1)), f32(300, 70), f32(70))
    for dimensions in ((0,), (1,), (0, 1)):
        check(
            lambda b, x, y, d=dimensions: b.reduce_sum(b.add(b.transpose(x, (1, 0)), y), d), f32(70, 300), f32(300, 70)
        )
    check(lambda b, x, y: b.reduce_sum(b.add(x, b.broadcast(y, (5, 600, 70), (2,))), (1,)), f32(5, 600, 70), f32(70))


def test_wide_columns_with_results_of_all_shapes():
    def build(b, x, y, bias):
        t = b.add(x, b.broadcast(bias, x.dims, (1,)))
        product = b.multiply(t, y)
        c = b.reduce_sum(product, (0,))
        return [c, b.reduce_max(t, (0,)), product, b.reduce(b.compare(x, y, "LT"), b.constant(False), (0,), "or")]

    check(build, f32(70, 1200), f32(70, 1200), f32(1200))


def softmax(b, x):
    dims, kept = x.dims, tuple(range(len(x.dims) - 1))
    last = (len(dims) - 1,)
    e = b.exponential(b.subtract(x, b.broadcast(b.reduce_max(x, last), dims, kept)))
    total = b.reduce_sum(e, last)
    return [b.divide(e, b.broadcast(total, dims, kept)), b.log(total)]


@pytest.mark.parametrize("dims", [(100, 10), (5, 64), (7, 100), (3, 1000), (2, 5000), (1, 300), (2, 3, 33)])
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_row_fusion(dims, dtype):
    x = np.random.default_rng(0).normal(size=dims).astype(Shape(dtype).numpy_dtype)
    check(softmax, Shape(dtype, dims), args=[x], ulp=40)


def test_row_fusion_with_results_of_both_shapes_and_broadcast_inputs():
    def build(b, x, bias):
        x = b.add(x, b.broadcast(bias, (50, 33), (1,)))
        mean = b.divide(b.reduce_sum(x, (1,)), b.full(f32(50), 33.0))
        centred = b.subtract(x, b.broadcast(mean, (50, 33), (0,)))
        variance = b.reduce_sum(b.multiply(centred, centred), (1,))
        scaled = b.multiply(centred, b.broadcast(b.rsqrt(variance), (50, 33), (0,)))
        return [scaled, mean, variance, b.reduce_max(b.abs(scaled), (1,))]

    check(build, f32(50, 33), f32(33))


def argmax(dimension):
    def build(b, x):
        c = Builder("greater")
        v0, i0, v1, i1 = (c.parameter(Shape(t)) for t in ("f32", "s32", "f32", "s32"))
        keep = c.compare(v0, v1, "GE")
        greater = c.build_computation([c.select(keep, v0, v1), c.select(keep, i0, i1)])
        position = b.iota(Shape("s32", x.dims), dimension)
        both = b.reduce((x, position), (b.constant(-np.inf), b.constant(0)), (dimension,), greater)
        return [b.get_tuple_element(both, 0), b.get_tuple_element(both, 1)]

    return build


@pytest.mark.parametrize(
    ("dims", "dimension"), [((7,), 0), ((5, 100), 1), ((5, 100), 0), ((300, 5), 0), ((4, 6, 40), 1)]
)
def test_reduction_of_two_operands_by_a_computation(dims, dimension):
    x = np.random.default_rng(0).integers(0, 9, dims).astype(np.float32)
    check(argmax(dimension), f32(*dims), args=[x])
