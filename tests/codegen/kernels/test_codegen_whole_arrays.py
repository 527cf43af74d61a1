"""Windows, order, random bits, linear algebra and calls, compiled: the evaluator's results, with and without passes.

Numbers are small integers wherever sums are formed, so that their order makes no difference.
"""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from runtime_table import agree, compile_and_run

from minitensor_jit.codegen.errors import CompileError
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.evaluate.custom_calls import register_custom_call
from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.module import Computation, Instruction
from minitensor_jit.ir.narrow import array_of, wide_array
from minitensor_jit.ir.semantics.window import Window
from minitensor_jit.ir.shape import Shape
from minitensor_jit.passes.pipeline import PipelineOptions, run_pipeline
from minitensor_jit.tools.module_files import compile_and_run as run_module

pytestmark = pytest.mark.sampled(3)

Build = Callable[..., "Instruction | Sequence[Instruction]"]


def small(shape: Shape, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if shape.dtype == "pred":
        return rng.integers(0, 2, shape.dims).astype(bool)
    numbers = rng.integers(0 if shape.kind == "u" else -4, 5, shape.dims)
    if shape.kind == "c":
        numbers = numbers + 1j * rng.integers(-4, 5, shape.dims)
    return array_of(numbers, shape.dtype)


def check(build: Build, *shapes: Shape, args: Sequence[np.ndarray] = (), rtol: float = 0) -> list[np.ndarray]:
    b = Builder("m")
    module = b.build(build(b, *(b.parameter(s) for s in shapes)))
    given = list(args) or [small(s, k) for k, s in enumerate(shapes)]
    want = evaluate(module, given)
    for version in (module.clone(), run_pipeline(module.clone(), PipelineOptions(verify=True))):
        for k, (got, wanted) in enumerate(zip(compile_and_run(version, given), want, strict=True)):
            if rtol:
                np.testing.assert_allclose(got, wanted, rtol, rtol)
            else:
                assert agree(wide_array(got), wide_array(wanted)), f"result {k} of\n{version}\n{got}\nnot\n{wanted}"
    return want


def f32(*dims: int) -> Shape:
    return Shape("f32", dims)


def combiner(opcodes: str, dtype: str = "f32") -> Computation:
    """(a, b) -> a + a - b for "2a-b", the larger of a and b for ">"."""
    c = Builder("combine")
    a, b = c.parameter(Shape(dtype)), c.parameter(Shape(dtype))
    if opcodes == "2a-b":
        return c.build_computation(c.subtract(c.add(a, a), b))
    if opcodes == ">":
        return c.build_computation(c.compare(a, b, "GT"))
    return c.build_computation(c.compare(a, b, "LT"))


# ---- windows

WINDOWS = [
    "{size=1x3x1 stride=1x2x1}",
    "{size=2x3x3 stride=1x2x3 pad=0_0x1_1x2_0}",
    "{size=1x2x2 stride=1x1x2 pad=0_0x-1_0x0_-1}",
    "{size=1x3x2 lhs_dilate=1x2x1 rhs_dilate=1x1x3}",
    "{size=3x7x9 pad=1_1x3_3x8_0}",
    "{size=3x7x5}",
    "{size=1x9x1}",
    "{size=1x1x23 pad=0_0x0_0x22_0}",
    "{size=2x1x10 stride=1x1x3 pad=0_0x0_0x18_0 rhs_dilate=1x1x2}",
    "{size=1x1x1 stride=2x3x1 pad=1_0x0_0x0_2}",
]


@pytest.mark.parametrize("kind", ["add", "maximum", "multiply", "2a-b"])
@pytest.mark.parametrize("window", WINDOWS)
def test_reduce_window(window: str, kind: str):
    window_ = Window.parse(window)
    function = combiner(kind) if kind == "2a-b" else kind
    check(lambda b, x, init: b.reduce_window(x, init, window_, function), f32(3, 7, 9), f32())


def test_sums_of_small_windows_have_the_evaluators_bits():
    x = np.random.default_rng(0).normal(size=(9, 40)).astype(np.float32)
    window = Window.parse("{size=3x4 stride=2x1 pad=1_1x2_1}")
    check(lambda b, x, init: b.reduce_window(x, init, window, "add"), f32(9, 40), f32(), args=[x, np.float32(0)])


@pytest.mark.parametrize("dtype", ["s8", "u16", "bf16", "f16", "f64", "pred", "c64"])
def test_reduce_window_of_every_type(dtype: str):
    window = Window.parse("{size=2x3 stride=1x2 pad=1_0x1_1}")
    kind = "or" if dtype == "pred" else "add"
    check(lambda b, x, init: b.reduce_window(x, init, window, kind), Shape(dtype, (5, 8)), Shape(dtype))


def test_reduce_window_of_several():
    def build(b: Builder, x: Instruction, n: Instruction) -> list[Instruction]:
        c = Builder("first_largest")
        old, place, new, at = (c.parameter(Shape(d)) for d in ("f32", "s32", "f32", "s32"))
        keep = c.compare(old, new, "GE")
        combine = c.build_computation((c.select(keep, old, new), c.select(keep, place, at)))
        window = Window.parse("{size=3x3 stride=2x1 pad=1_1x1_1}")
        inits = (b.constant(-9.0), b.constant(-1))
        made = b.emit("reduce-window", (x, n, *inits), {"window": window, "to_apply": combine})
        return [b.get_tuple_element(made, 0), b.get_tuple_element(made, 1)]

    check(build, f32(8, 7), Shape("s32", (8, 7)))


def test_an_empty_window_gives_the_initial_value():
    window = Window.parse("{size=2x2}")
    check(lambda b, x, init: b.reduce_window(x, init, window, "add"), f32(1, 5), f32())
    check(lambda b, x, init: b.reduce_window(x, init, Window.parse("{size=2x0}"), "add"), f32(4, 5), f32())


@pytest.mark.parametrize("window", ["{size=2x2 stride=2x2}", "{size=3x2 stride=2x1 pad=1_1x0_1}", "{size=1x5}"])
@pytest.mark.parametrize("dtype", ["f32", "s32", "bf16"])
def test_select_and_scatter(window: str, dtype: str):
    window_ = Window.parse(window)
    source = Shape(dtype, window_.positions((6, 9)))
    c = Builder("ge")
    ge = c.build_computation(c.compare(c.parameter(Shape(dtype)), c.parameter(Shape(dtype)), "GE"))
    d = Builder("sum")
    total = d.build_computation(d.add(d.parameter(Shape(dtype)), d.parameter(Shape(dtype))))
    check(
        lambda b, x, s, init: b.select_and_scatter(x, s, init, window_, select=ge, scatter=total),
        Shape(dtype, (6, 9)), source, Shape(dtype),
    )  # fmt: skip


CONVOLUTIONS = [
    ("b01f_01io->b01f", (2, 6, 7, 3), (3, 2, 3, 4), "{size=3x2}", 1, 1),
    ("bf01_oi01->bf01", (2, 3, 6, 7), (4, 3, 3, 3), "{size=3x3 stride=2x1 pad=1_1x2_0}", 1, 1),
    ("01bf_o01i->f0b1", (6, 7, 2, 4), (6, 2, 2, 2), "{size=2x2 rhs_dilate=2x1}", 2, 1),
    ("bf01_oi01->bf01", (4, 3, 5, 5), (6, 3, 2, 2), "{size=2x2}", 1, 2),
    ("bf01_io01->bf01", (2, 3, 4, 4), (3, 5, 3, 3), "{size=3x3 pad=2_2x2_1 lhs_dilate=2x3 rhs_reversal=1x1}", 1, 1),
    ("b0f_0io->b0f", (2, 9, 3), (4, 3, 2), "{size=4 pad=-1_-2}", 1, 1),
    ("bf012_oi012->bf012", (1, 2, 4, 4, 4), (3, 2, 2, 2, 2), "{size=2x2x2}", 1, 1),
    ("bf_io->bf", (5, 3), (3, 4), "{}", 1, 1),
    ("bf01_oi01->bf01", (2, 6, 5, 5), (6, 1, 3, 3), "{size=3x3 pad=1_1x1_1}", 6, 1),
    ("bf01_oi01->bf01", (2, 3, 2, 2), (4, 3, 3, 3), "{size=3x3}", 1, 1),
]


@pytest.mark.parametrize(("labels", "lhs", "rhs", "window", "features", "batches"), CONVOLUTIONS)
def test_convolution(labels: str, lhs: tuple, rhs: tuple, window: str, features: int, batches: int):
    def build(b: Builder, x: Instruction, k: Instruction) -> Instruction:
        return b.convolution(
            x, k, dim_labels=labels, window=Window.parse(window), feature_group_count=features,
            batch_group_count=batches,
        )  # fmt: skip

    check(build, f32(*lhs), f32(*rhs))


def test_a_large_convolution_is_one_of_the_eager_kernel():
    """Its matrix of windows would have 10 million elements."""

    def build(b: Builder, x: Instruction, k: Instruction) -> Instruction:
        window = Window.parse("{size=3x3 stride=2x1 pad=1_1x1_1 rhs_dilate=1x2}")
        return b.convolution(x, k, dim_labels="b01f_01io->b01f", window=window, feature_group_count=2)

    x, k = f32(8, 64, 66, 64), f32(3, 3, 32, 8)
    check(build, x, k)
    b = Builder("m")
    module = run_pipeline(b.build(build(b, b.parameter(x), b.parameter(k))))
    assert any(i.opcode == "kernel-call" for i in module.entry)


@pytest.mark.parametrize(("dtype", "wider"), [("s8", "s32"), ("bf16", None), ("f64", None), ("c64", None)])
def test_convolution_types(dtype: str, wider: str | None):
    window = Window.parse("{size=2x2}")
    check(
        lambda b, x, k: b.convolution(x, k, dim_labels="bf01_oi01->bf01", window=window, dtype=wider),
        Shape(dtype, (2, 3, 4, 5)), Shape(dtype, (4, 3, 2, 2)),
    )  # fmt: skip


# ---- order


def comparator(*dtypes: str, direction: str = "LT", order: str = "") -> Computation:
    c = Builder("before")
    parameters = [c.parameter(Shape(d)) for dtype in dtypes for d in (dtype, dtype)]
    attrs = {"direction": direction} | ({"type": order} if order else {})
    return c.build_computation(c.emit("compare", parameters[:2], attrs))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("dtype", ["f32", "s64", "u8", "bf16", "pred"])
def test_sort_with_payloads(axis: int, dtype: str):
    def build(b: Builder, x: Instruction, y: Instruction) -> list[Instruction]:
        made = b.sort((x, b.iota(Shape("s32", x.dims), axis), y), axis, comparator(dtype, "s32", "c64"))
        return [b.get_tuple_element(made, k) for k in range(3)]

    check(build, Shape(dtype, (4, 9, 5)), Shape("c64", (4, 9, 5)))


def test_sort_in_total_order_and_by_two_keys():
    x = np.array([3, np.nan, -0.0, 0.0, -np.inf, 1e-40, -np.nan, 2, -1e-40, np.inf], np.float32)

    def total(b: Builder, x: Instruction) -> Instruction:
        return b.sort((x,), 0, comparator("f32", order="TOTALORDER"))

    (sorted_,) = check(total, f32(10), args=[x])
    assert np.isnan(sorted_[[0, -1]]).all()

    def keys(b: Builder, x: Instruction, y: Instruction) -> list[Instruction]:
        c = Builder("before")
        a0, b0, a1, b1 = (c.parameter(Shape("s32")) for _ in range(4))
        first = c.compare(a0, b0, "LT")
        less = c.or_(first, c.and_(c.compare(a0, b0, "EQ"), c.compare(a1, b1, "GT")))
        made = b.sort((x, y), 0, c.build_computation(less))
        return [b.get_tuple_element(made, 0), b.get_tuple_element(made, 1)]

    check(keys, Shape("s32", (300,)), Shape("s32", (300,)))


def test_sort_of_many_is_not_quadratic():
    n = 200_000
    x = np.random.default_rng(0).permutation(n).astype(np.float32)
    b = Builder("m")
    module = b.build(b.sort((b.parameter(f32(n)),), 0, comparator("f32")))
    (got,) = compile_and_run(module, [x])
    assert np.array_equal(got, np.arange(n, dtype=np.float32))


@pytest.mark.parametrize("dtype", ["f32", "f16", "s16", "u32"])
@pytest.mark.parametrize("largest", [True, False])
def test_topk(dtype: str, largest: bool):
    def build(b: Builder, x: Instruction) -> list[Instruction]:
        made = b.topk(x, 3, largest=largest)
        return [b.get_tuple_element(made, 0), b.get_tuple_element(made, 1)]

    check(build, Shape(dtype, (4, 11)))


# ---- random bits


@pytest.mark.parametrize("dims", [(), (5,), (3, 4), (2, 0)])
@pytest.mark.parametrize("dtype", ["u8", "u32", "s64"])
@pytest.mark.parametrize(("algorithm", "words"), [("rng_philox", 3), ("rng_default", 2), ("rng_three_fry", 2)])
def test_random_bits(algorithm: str, words: int, dtype: str, dims: tuple[int, ...]):
    def build(b: Builder, state: Instruction) -> list[Instruction]:
        made = b.rng_bit_generator(state, Shape(dtype, dims), algorithm)
        return [b.get_tuple_element(made, 0), b.get_tuple_element(made, 1)]

    state = np.array([0x0123456789ABCDEF, 2**64 - 2, 7][:words], np.uint64)
    check(build, Shape("u64", (words,)), args=[state])


# ---- functions of elements

COMPLEX = ["abs", "sign", "sqrt", "rsqrt", "exponential", "exponential-minus-one", "log", "log-plus-one", "tanh"]
COMPLEX += ["logistic", "sine", "cosine", "tan", "asin", "acos", "sinh", "cosh", "asinh", "acosh", "atanh"]


@pytest.mark.parametrize("dtype", ["c64", "c128"])
@pytest.mark.parametrize("opcode", COMPLEX)
def test_complex_functions(opcode: str, dtype: str):
    rng = np.random.default_rng(1)
    x = (rng.normal(size=37) + 1j * rng.normal(size=37)).astype(Shape(dtype).numpy_dtype)
    check(lambda b, z: b.emit(opcode, (z,)), Shape(dtype, (37,)), args=[x], rtol=1e-5 if dtype == "c64" else 1e-12)


def test_complex_powers_and_reductions():
    rng = np.random.default_rng(1)
    x, y = ((rng.normal(size=(5, 7)) + 1j * rng.normal(size=(5, 7))).astype(np.complex64) for _ in range(2))
    shape = Shape("c64", (5, 7))
    check(lambda b, x, y: b.power(x, y), shape, shape, args=[x, y], rtol=1e-4)
    zero = np.complex64(0)
    check(lambda b, x, init: b.reduce(x, init, (1,), "add"), shape, Shape("c64"), args=[x, zero], rtol=1e-5)
    check(lambda b, x, init: b.reduce(x, init, (0,), "multiply"), shape, Shape("c64"), args=[x, zero + 1], rtol=1e-5)
    check(lambda b, x, y: b.matmul(x, b.transpose(y, (1, 0))), shape, shape)


@pytest.mark.parametrize(
    ("dtype", "wider"), [("s8", "s32"), ("u8", "u32"), ("bf16", "f32"), ("f16", "f32"), ("f32", "f64")]
)
def test_products_in_a_wider_type(dtype: str, wider: str):
    attrs = {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (0,)}
    check(
        lambda b, x, y: b.emit("dot", (x, y), dict(attrs), shape=Shape(wider, (3, 4))),
        Shape(dtype, (3, 50)), Shape(dtype, (50, 4)),
    )  # fmt: skip


@pytest.mark.parametrize("dtype", ["s8", "s32", "s64", "u8", "u32", "u64"])
def test_integer_powers(dtype: str):
    x = np.array([0, 1, 2, 3, 5, 7, 255, 254] * 6).astype(Shape(dtype).numpy_dtype)
    y = np.repeat([0, 1, 2, 5, 63, 255], 8).astype(x.dtype)
    check(lambda b, x, y: b.power(x, y), Shape(dtype, (48,)), Shape(dtype, (48,)), args=[x, y])


@pytest.mark.parametrize("dtype", ["s8", "u16", "s32", "u64"])
def test_leading_zeros(dtype: str):
    bits = 8 * Shape(dtype).itemsize
    x = np.array([0, 1, 2**bits - 1, *(2**k for k in range(bits))], np.uint64).astype(Shape(dtype).numpy_dtype)
    check(lambda b, x: b.emit("count-leading-zeros", (x,)), Shape(dtype, x.shape), args=[x])


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize(("exponent", "mantissa"), [(5, 10), (8, 7), (4, 3), (2, 0), (11, 52), (8, 23), (1, 1)])
def test_reduce_precision(dtype: str, exponent: int, mantissa: int):
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(size=60), 10.0 ** rng.integers(-40, 38, 60), [0.0, -0.0, np.inf, -np.inf, np.nan]])
    attrs = {"exponent_bits": exponent, "mantissa_bits": mantissa}
    shape = Shape(dtype, x.shape)
    check(lambda b, x: b.emit("reduce-precision", (x,), dict(attrs)), shape, args=[array_of(x, dtype)])


@pytest.mark.parametrize(("dtype", "rtol"), [("f32", 1e-6), ("f64", 1e-14), ("bf16", 0)])
def test_cube_roots(dtype: str, rtol: float):
    x = np.array([0.0, -0.0, 8, -27, 1e-30, np.inf, -np.inf, np.nan, 0.3, 1e30])
    check(lambda b, x: b.emit("cbrt", (x,)), Shape(dtype, (10,)), args=[array_of(x, dtype)], rtol=rtol)


def test_map_and_casts_to_other_sizes():
    c = Builder("f")
    p, q = c.parameter(f32()), c.parameter(f32())
    function = c.build_computation(c.add(c.multiply(p, q), c.constant(2.0)))
    check(lambda b, x, y: b.map(function, x, y), f32(3, 11), f32(3, 11))

    def casts(b: Builder, x: Instruction) -> list[Instruction]:
        halves = b.bitcast_convert(b.add(x, x), "u16")
        return [b.add(halves, halves), b.bitcast_convert(b.xor(halves, halves), "f32")]

    check(casts, f32(4, 3))


# ---- indices


def test_scatter_of_several_operands():
    def build(b: Builder, x: Instruction, y: Instruction, at: Instruction, u: Instruction, v: Instruction) -> list:
        c = Builder("combine")
        a, n, d, m = (c.parameter(Shape(t)) for t in ("f32", "s32", "f32", "s32"))
        larger = c.compare(d, a, "GT")
        function = c.build_computation((c.select(larger, d, a), c.add(n, m)))
        attrs = {
            "update_window_dims": (1,), "inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,),
            "index_vector_dim": 1, "to_apply": function,
        }  # fmt: skip
        made = b.emit("scatter", (x, y, at, u, v), attrs)
        return [b.get_tuple_element(made, 1), b.get_tuple_element(made, 0)]

    at = np.array([[0], [4], [2], [0], [9], [-1]], np.int32)
    shapes = (f32(5, 6), Shape("s32", (5, 6)), Shape("s32", (6, 1)), f32(6, 6), Shape("s32", (6, 6)))
    args = [small(s, k) for k, s in enumerate(shapes)]
    args[2] = at
    check(build, *shapes, args=args)


def test_batching_dimensions():
    gather = {
        "offset_dims": (2,), "collapsed_slice_dims": (1,), "start_index_map": (1,), "index_vector_dim": 2,
        "slice_sizes": (1, 1, 4), "operand_batching_dims": (0,), "start_indices_batching_dims": (0,),
    }  # fmt: skip
    at = np.array([[[0], [4], [9]], [[1], [-3], [2]]], np.int8)
    x = small(f32(2, 5, 4), 0)
    check(lambda b, x, i: b.emit("gather", (x, i), dict(gather)), f32(2, 5, 4), Shape("s8", (2, 3, 1)), args=[x, at])
    c = Builder("add")
    total = c.build_computation(c.add(c.parameter(f32()), c.parameter(f32())))
    scatter = {
        "update_window_dims": (2,), "inserted_window_dims": (1,), "scatter_dims_to_operand_dims": (1,),
        "index_vector_dim": 2, "input_batching_dims": (0,), "scatter_indices_batching_dims": (0,), "to_apply": total,
    }  # fmt: skip
    shapes = (f32(2, 5, 4), Shape("s8", (2, 3, 1)), f32(2, 3, 4))
    check(lambda b, x, i, u: b.emit("scatter", (x, i, u), dict(scatter)), *shapes, args=[x, at, small(shapes[2], 2)])


# ---- what Python computes


def test_linear_algebra_and_transforms():
    x = np.random.default_rng(0).normal(size=(3, 4, 4)).astype(np.float32)
    definite = x @ np.swapaxes(x, -1, -2) + 4 * np.eye(4, dtype=np.float32)
    shape = f32(3, 4, 4)

    def build(b: Builder, a: Instruction, y: Instruction) -> list[Instruction]:
        half = b.cholesky(b.add(a, a))
        return [b.add(b.triangular_solve(half, y), y), b.real(b.fft(y, "RFFT", (4,)))]

    check(build, shape, shape, args=[definite, x], rtol=1e-5)


def test_custom_calls():
    register_custom_call("test.sum_and_difference", lambda i, x: (x[0] + x[1], x[0] - x[1]))

    def build(b: Builder, x: Instruction, y: Instruction) -> list[Instruction]:
        from minitensor_jit.ir.shape import TupleShape

        made = b.custom_call("test.sum_and_difference", [x, b.negate(y)], TupleShape((f32(6), f32(6))))
        return [b.get_tuple_element(made, 1), b.multiply(b.get_tuple_element(made, 0), x)]

    check(build, f32(6), f32(6))


def test_what_a_custom_call_raises_is_raised():
    def fails(i: Instruction, x: Sequence[np.ndarray]) -> np.ndarray:
        raise ValueError("not today")

    register_custom_call("test.fails", fails)
    register_custom_call("test.shape", lambda i, x: x[0][:2])
    for target, message in (("test.fails", "ValueError: not today"), ("test.shape", r"gave float32\[2\]")):
        b = Builder("m")
        module = b.build(b.custom_call(target, [b.parameter(f32(3))], f32(3)))
        with pytest.raises(RuntimeError, match=message):
            run_module(module, [np.zeros(3, np.float32)])
    b = Builder("m")
    module = b.build(b.custom_call("test.nobody", [b.parameter(f32(3))], f32(3)))
    with pytest.raises(CompileError, match=r"test\.nobody"):
        compile_and_run(module, [np.zeros(3, np.float32)])
