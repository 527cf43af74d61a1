"""Each form of kernel on the emulated GPU, at sizes that take it, against the CPU's bits."""

import numpy as np
import pytest
from gpu_run import TARGET, Runner, check, compile_for_gpu, compile_module, run_on_cpu

from minitensor_jit.codegen.nvptx import unit
from minitensor_jit.codegen.nvptx.kernels import sort
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.module import Instruction
from minitensor_jit.ir.shape import Shape
from minitensor_jit.passes.pipeline import run_pipeline

pytestmark = pytest.mark.sampled(6)

RNG = np.random.default_rng(0)


def normal(*dims: int, dtype: str = "f32") -> np.ndarray:
    return RNG.normal(size=dims).astype(Shape(dtype).numpy_dtype)


def softmax(b: Builder, x: Instruction) -> Instruction:
    top = b.reduce_max(x, (1,))
    e = b.emit("exponential", (b.emit("subtract", (x, b.broadcast(top, x.dims, (0,)))),))
    return b.emit("divide", (e, b.broadcast(b.reduce_sum(e, (1,)), x.dims, (0,))))


def norm(b: Builder, x: Instruction, weight: Instruction) -> Instruction:
    n = b.full(Shape(x.dtype, (x.dims[0],)), x.dims[1])
    mean = b.emit("divide", (b.reduce_sum(x, (1,)), n))
    d = b.emit("subtract", (x, b.broadcast(mean, x.dims, (0,))))
    variance = b.emit("divide", (b.reduce_sum(b.emit("multiply", (d, d)), (1,)), n))
    scale = b.emit("rsqrt", (b.emit("add", (variance, b.full(variance.shape, 1e-5))),))
    y = b.emit("multiply", (d, b.broadcast(scale, x.dims, (0,))))
    return b.emit("multiply", (y, b.broadcast(weight, x.dims, (1,))))


ROWS = [
    (5, 3),
    (300, 8),
    (7, 31),
    (4, 64),
    (9, 100),
    (3, 1000),
    (3, 1025),
    (2, 4096),
    (1, 5000),
    (2, 12288),
    (2, 17001),
]


@pytest.mark.parametrize("dims", ROWS)
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_rows(dims: tuple[int, int], dtype: str):
    shape = Shape(dtype, dims)
    check(softmax, shape, args=[normal(*dims, dtype=dtype)], only_fused=True)
    check(norm, shape, Shape(dtype, dims[1:]), args=[normal(*dims, dtype=dtype), normal(dims[1], dtype=dtype)])
    check(lambda b, x: (b.reduce_sum(x, (1,)), b.reduce_max(x, (1,))), shape, args=[normal(*dims, dtype=dtype)])


def test_a_fused_softmax_is_one_kernel():
    b = Builder("softmax")
    module = run_pipeline(b.build([softmax(b, b.parameter(Shape("f32", (16, 4096))))]))
    assert [s.kind for s in compile_for_gpu(module).steps] == ["row-reduce"]


@pytest.mark.parametrize("size", [20000, 9_000_000])
def test_few_long_rows_are_divided(size: int):
    x = normal(size)
    b = Builder("sum")
    module = run_pipeline(b.build([b.reduce_sum(b.parameter(Shape("f32", (size,))), (0,))]))
    program = compile_for_gpu(module)
    assert [s.kind for s in program.steps] == ["row-reduce", "row-combine"]
    (got,) = Runner(program, [x]).results()
    assert got.tobytes() == run_on_cpu(module, [x])[0].tobytes()


@pytest.mark.parametrize("dims", [(5, 3), (256, 7), (257, 12), (300, 64), (20000, 4)])
def test_columns(dims: tuple[int, int]):
    check(lambda b, x: (b.reduce_sum(x, (0,)), b.reduce_max(x, (0,))), Shape("f32", dims), args=[normal(*dims)])
    check(lambda b, x: b.reduce_sum(b.emit("multiply", (x, x)), (1,)), Shape("f64", (3, *dims)))


@pytest.mark.parametrize(("dims", "axis"), [((3, 50), 1), ((2, 70), 1), ((1, 500), 1), ((300, 3), 0), ((1, 1000), 1)])
def test_sorts_longer_than_a_piece(dims: tuple[int, int], axis: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sort, "PIECE", 64)

    def build(b: Builder, x: Instruction) -> list[Instruction]:
        c = Builder("before")
        p = [c.parameter(Shape(d)) for d in ("s32", "s32", "s32", "s32")]
        made = b.sort((x, b.iota(Shape("s32", dims), axis)), axis, c.build_computation(c.compare(p[0], p[1], "LT")))
        return [b.get_tuple_element(made, 0), b.get_tuple_element(made, 1)]

    check(build, Shape("s32", dims), args=[RNG.integers(0, 50, dims).astype(np.int32)])


@pytest.mark.parametrize("kind", ["add", "set"])
@pytest.mark.parametrize(("rows", "width", "count"), [(10, 5, 40), (7, 40, 100), (100, 1, 300), (5, 100, 1)])
def test_scatters_apply_updates_in_order(kind: str, rows: int, width: int, count: int):
    def build(b: Builder, x: Instruction, i: Instruction, u: Instruction) -> Instruction:
        c = Builder("combine")
        p = [c.parameter(Shape("f32")), c.parameter(Shape("f32"))]
        combiner = c.build_computation(c.emit("add", p) if kind == "add" else p[1])
        attrs = {"update_window_dims": (1,), "inserted_window_dims": (0,), "scatter_dims_to_operand_dims": (0,)}
        return b.emit("scatter", (x, i, u), {**attrs, "index_vector_dim": 1, "to_apply": combiner})

    at = RNG.integers(-1, rows + 1, (count, 1)).astype(np.int32)
    shapes = Shape("f32", (rows, width)), Shape("s32", (count, 1)), Shape("f32", (count, width))
    check(build, *shapes, args=[normal(rows, width), at, normal(count, width)])


@pytest.mark.parametrize("n", [256, 130, 131])
def test_a_product_with_an_epilogue(n: int):
    def build(b: Builder, x: Instruction, y: Instruction, z: Instruction) -> Instruction:
        d = b.dot(x, y, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,))
        return b.emit("tanh", (b.emit("add", (d, b.broadcast(z, d.dims, (1,)))),))

    args = [normal(200, 40), normal(40, n), normal(n)]
    check(build, *[Shape("f32", a.shape) for a in args], args=args, only_fused=True)


@pytest.mark.parametrize(
    ("left", "right", "contracting"),
    [((20, 600), (600, 24), (1, 0)), ((20, 1050), (24, 1050), (1, 1)), ((100, 20), (100, 24), (0, 0)),
     ((256, 20), (20, 256), (1, 0)), ((260, 20), (20, 257), (1, 0)), ((1, 600), (600, 24), (1, 0)),
     ((24, 600), (600, 1), (1, 0)), ((24, 1100), (1100,), (1, 0))],
)  # fmt: skip
def test_products(left: tuple[int, ...], right: tuple[int, ...], contracting: tuple[int, int]):
    def build(b: Builder, x: Instruction, y: Instruction) -> Instruction:
        return b.dot(x, y, lhs_contracting_dims=contracting[:1], rhs_contracting_dims=contracting[1:])

    check(build, Shape("f32", left), Shape("f32", right), args=[normal(*left), normal(*right)], fused=False)


@pytest.mark.parametrize("dtype", ["f32", "u8", "f64", "bf16", "pred"])
@pytest.mark.parametrize(
    ("dims", "order"), [((64, 96), (1, 0)), ((33, 50), (1, 0)), ((3, 40, 70), (0, 2, 1)), ((20, 5, 40), (2, 1, 0))]
)
def test_transposes(dims: tuple[int, ...], order: tuple[int, ...], dtype: str):
    x = RNG.integers(0, 2, dims).astype(bool) if dtype == "pred" else RNG.integers(0, 200, dims)
    shape = Shape(dtype, dims)
    x = x.astype(np.uint16).view(shape.numpy_dtype) if dtype == "bf16" else x.astype(shape.numpy_dtype)
    check(lambda b, x: b.transpose(x, order), shape, args=[x], fused=False)


def test_transposes_have_no_bank_conflicts():
    b = Builder("transpose")
    x, y = b.parameter(Shape("f32", (96, 160))), b.parameter(Shape("f32", (160, 96)))
    module = b.build([b.emit("add", (b.transpose(x, (1, 0)), y))])
    program = compile_for_gpu(run_pipeline(module))
    assert [s.kind for s in program.steps] == ["transpose"]
    args = [normal(96, 160), normal(160, 96)]
    runner = Runner(program, args, measure=True)
    (got,) = runner.results()
    assert got.tobytes() == (args[0].T + args[1]).tobytes()
    counts = runner.machine.counts
    assert counts.bank_conflicts == 0
    # Each sector is moved once.
    assert (counts.global_sectors_read + counts.global_sectors_written) * 32 == 3 * args[0].nbytes


@pytest.mark.parametrize("dtype", ["f32", "f64", "s32", "u8", "pred", "bf16", "f16", "s64"])
def test_numbers_of_the_host_are_passed_by_value(dtype: str):
    b = Builder("scaled")
    x, k = b.parameter(Shape("f32", (300,))), b.parameter(Shape(dtype, ()))
    wide = b.broadcast(b.convert(k, "f32"), (300,), ())
    module = b.build([b.emit("multiply", (x, wide)), b.reduce_sum(b.emit("add", (x, wide)), (0,))])
    run_pipeline(module)
    given = [normal(300), np.asarray(RNG.integers(1, 2)).astype("V2" if dtype == "bf16" else Shape(dtype).numpy_dtype)]
    given[1] = np.asarray(given[1]).view(Shape(dtype).numpy_dtype)
    program = compile_module(module.clone(), name="m", target=TARGET, host_values=[1])
    assert 1 not in program.addressed
    for got, wanted in zip(Runner(program, given).results(), run_on_cpu(module, given), strict=True):
        assert got.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(("dims", "axis"), [((5, 300), 1), ((9, 64), 1), ((1, 1000), 1), ((200, 7), 0), ((3, 20), 1)])
def test_the_first_of_the_largest(dims: tuple[int, int], axis: int):
    def build(b: Builder, x: Instruction) -> list[Instruction]:
        c = Builder("larger")
        v, i, w, j = (c.parameter(Shape(d)) for d in ("f32", "s32", "f32", "s32"))
        later = c.emit("and", (c.compare(w, v, "EQ"), c.compare(j, i, "LT")))
        other = c.emit("or", (c.compare(w, v, "GT"), later))
        combiner = c.build_computation([c.select(other, w, v), c.select(other, j, i)])
        start = b.constant(-np.inf, "f32"), b.constant(2**31 - 1, "s32")
        operands = (x, b.iota(Shape("s32", dims), axis), *start)
        made = b.emit("reduce", operands, {"dimensions": (axis,), "to_apply": combiner})
        return [b.get_tuple_element(made, 0), b.get_tuple_element(made, 1)]

    check(build, Shape("f32", dims), args=[RNG.integers(0, 20, dims).astype(np.float32)])


@pytest.mark.parametrize(("first", "second"), [(5, 5), (4, 4), (6, 10), (3, 13)])
def test_joined_arrays_are_read_within_their_bounds(first: int, second: int):
    def build(b: Builder, x: Instruction, y: Instruction) -> list[Instruction]:
        joined = b.concatenate([x, y], 0)
        return [b.emit("negate", (joined,)), b.reduce_sum(joined, (0,)), b.pad(x, b.constant(1, "f32"), [(2, 3, 1)])]

    check(build, Shape("f32", (first,)), Shape("f32", (second,)))


def test_loops_of_more_units_than_threads():
    x, y = normal(300_001), normal(300_001)
    check(lambda b, x, y: b.emit("multiply", (x, b.emit("tanh", (y,)))), *[Shape("f32", x.shape)] * 2, args=[x, y])


def test_indices_of_64_bits(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(unit, "NARROW_INDEX", 0)
    x, y = normal(33, 70), normal(70)
    shapes = Shape("f32", (33, 70)), Shape("f32", (70,))
    check(norm, *shapes, args=[x, y])
    check(lambda b, x, y: b.reduce_sum(b.emit("add", (x, b.broadcast(y, x.dims, (1,)))), (0,)), *shapes, args=[x, y])
    check(lambda b, x, y: b.pad(b.transpose(x, (1, 0)), b.constant(0, "f32"), [(1, 2, 1), (-1, 3, 0)]), *shapes)
    check(lambda b, x, y: b.dot(x, y, lhs_contracting_dims=(1,), rhs_contracting_dims=(0,)), *shapes, args=[x, y])
    check(lambda b, x, _: b.dot(x, x, lhs_contracting_dims=(1,), rhs_contracting_dims=(1,)), *shapes, args=[x, y])


@pytest.mark.parametrize(("build", "dims"), [(softmax, (4, 4096)), (softmax, (16, 512))])
def test_a_row_that_is_held_is_moved_once(build, dims: tuple[int, int]):
    b = Builder("rows")
    module = run_pipeline(b.build([build(b, b.parameter(Shape("f32", dims)))]))
    x = normal(*dims)
    runner = Runner(compile_for_gpu(module), [x], measure=True)
    runner.results()
    counts = runner.machine.counts
    assert 32 * counts.global_sectors_read == 32 * counts.global_sectors_written == x.nbytes
    assert counts.bank_conflicts == 0


def test_sums_of_whole_arrays_move_them_once():
    b = Builder("sum")
    x, y, z = (b.parameter(Shape("f32", (100_000,))) for _ in range(3))
    module = run_pipeline(b.build([b.reduce_sum(b.emit("add", (x, b.emit("multiply", (y, z)))), (0,))]))
    runner = Runner(compile_for_gpu(module), [normal(100_000) for _ in range(3)], measure=True)
    runner.results()
    assert 32 * runner.machine.counts.global_sectors_read < 3 * 400_000 * 1.01
