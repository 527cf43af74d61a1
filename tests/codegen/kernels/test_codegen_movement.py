import numpy as np
import pytest
from runtime_table import check

import minitensor as mt
from minitensor_jit.codegen.cpu.compiler import compile_module
from minitensor_jit.codegen.cpu.kernels import loop_kernel
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.shape import Shape
from minitensor_jit.passes.pipeline import run_pipeline


def f32(*dims):
    return Shape("f32", dims)


def test_broadcast():
    check(lambda b, x, y: b.add(b.broadcast(x, (4, 5, 6), (1,)), b.broadcast(y, (4, 5, 6), (0, 2))), f32(5), f32(4, 6))
    check(lambda b, x: b.negate(b.broadcast(x, (100, 37), ())), f32())


@pytest.mark.parametrize("dims", [(37, 45), (7, 9, 33), (1, 64, 3, 20), (2, 3, 4, 5, 6, 7, 2, 3)])
def test_transpose(dims):
    order = tuple(reversed(range(len(dims))))
    check(lambda b, x: b.add(b.transpose(x, order), b.transpose(x, order)), f32(*dims))
    swapped = (*order[2:], order[0], order[1])
    check(lambda b, x: b.negate(b.transpose(x, swapped)), f32(*dims))


@pytest.mark.parametrize("dtype", ["f32", "f64", "s32", "pred", "u8"])
@pytest.mark.parametrize("dims", [(64, 48), (37, 45), (16, 16), (130, 17), (5, 40, 33)])
def test_transpose_in_tiles(dims, dtype, monkeypatch):
    monkeypatch.setattr(loop_kernel, "TILED", 1)
    order = (*range(len(dims) - 2), len(dims) - 1, len(dims) - 2)
    flipped = Shape(dtype, tuple(dims[d] for d in order))

    def build(b, x, y):
        across = b.transpose(x, order)
        return [
            b.select(b.compare(across, y, "EQ"), across, y),
            b.broadcast(across, (2, *flipped.dims), range(1, len(dims) + 1)),
        ]

    check(build, Shape(dtype, dims), flipped)


def test_tiles_are_for_inner_loops_of_a_vector_and_more(monkeypatch):
    """Inner loops of a few vectors and of one are in tiles; what the rest of a vector would be is not."""
    made = []
    units = loop_kernel.tile_units
    monkeypatch.setattr(loop_kernel, "TILED", 1)
    monkeypatch.setattr(loop_kernel, "tile_units", lambda *a: made.append(a) or units(*a))
    for dims, tiles in (((48, 64), True), ((64, 50), True), ((64, 16), True), ((3, 640), False)):
        made.clear()
        check(lambda b, x: b.add(b.transpose(x, (1, 0)), b.transpose(x, (1, 0))), f32(*reversed(dims)))
        assert bool(made) is tiles, dims


def test_reshape_that_does_not_follow_dimensions():
    check(lambda b, x, y: b.add(b.reshape(b.broadcast(y, (6, 35), (1,)), (15, 14)), x), f32(15, 14), f32(35))
    check(lambda b, x, y: b.add(b.reshape(b.transpose(y, (1, 0)), (15, 14)), x), f32(15, 14), f32(6, 35))
    check(lambda b, x: b.negate(b.reshape(b.slice(x, (1, 2), (7, 37), (1, 1)), (10, 21))), f32(8, 40))


def test_slice_and_reverse():
    check(lambda b, x: b.negate(b.slice(x, (1, 2), (9, 40), (2, 3))), f32(10, 41))
    check(lambda b, x: b.negate(b.reverse(x, (0, 1))), f32(10, 41))
    check(lambda b, x: b.add(b.reverse(x, (1,)), x), Shape("u8", (5, 70)))


@pytest.mark.parametrize("axis", [0, 1])
def test_concatenate(axis):
    dims = [[10, 41], [10, 41], [10, 41]]
    dims[1][axis], dims[2][axis] = 3, 0
    check(lambda b, *x: b.negate(b.concatenate(x, axis)), *(f32(*d) for d in dims))
    check(lambda b, *x: b.negate(b.concatenate(x, axis)), *(Shape("pred", tuple(d)) for d in dims[:0]), f32(10, 41))


def test_reshape_around_concatenate():
    check(lambda b, x, y: b.reshape(b.concatenate((b.reshape(x, (10, 41)), y), 1), (44, 10)), f32(41, 10), f32(10, 3))


@pytest.mark.parametrize(
    "padding", [((1, 2, 0), (0, 3, 0)), ((-1, 2, 0), (2, -3, 0)), ((1, 2, 1), (2, 3, 2)), ((0, 0, 0), (0, 0, 0))]
)
def test_pad(padding):
    check(lambda b, x: b.pad(x, b.constant(7.0), padding), f32(5, 17))


def test_pad_of_nothing():
    check(lambda b, x: b.pad(x, b.constant(7.0), ((2, 3, 0), (0, 0, 0))), f32(0, 17))


@pytest.mark.parametrize("dtype", ["s32", "s64", "u64", "f32", "f64", "u8"])
def test_iota(dtype):
    check(lambda b: [b.iota(Shape(dtype, (9, 21)), 0), b.iota(Shape(dtype, (9, 21)), 1)])
    check(lambda b: b.negate(b.convert(b.iota(Shape(dtype, (200,)), 0), "f32")))


def test_constants():
    table = np.arange(24, dtype=np.float32).reshape(4, 6)
    check(lambda b, x: b.add(x, b.constant(table)), f32(4, 6))
    check(lambda b: [b.constant(table), b.constant(3.0), b.constant(np.zeros((3, 3), bool))])
    check(lambda b, x: b.add(x, b.slice(b.constant(table), (1, 2), (2, 3), (1, 1))), f32(1, 1))


def test_roots_that_are_parameters_or_equal():
    check(lambda b, x, y: [x, y, x, b.reshape(x, (6, 4))], f32(4, 6), Shape("pred", (2,)))

    def twice(b, x):
        y = b.negate(x)
        return [y, y, b.reshape(y, (24,)), b.add(y, y)]

    check(twice, f32(4, 6))


@pytest.mark.parametrize("start", [(4, 5), (50, -3), (-(2**31), 2**31 - 1)])
@pytest.mark.parametrize("dtype", ["s32", "s64"])
def test_dynamic_slices(start, dtype):
    at = [np.array(s, Shape(dtype).numpy_dtype) for s in start]
    x, u = (np.random.default_rng(0).normal(size=n).astype(np.float32) for n in ((9, 33), (3, 20)))
    scalars = [Shape(dtype)] * 2
    check(lambda b, x, i, j: b.negate(b.dynamic_slice(x, (i, j), (3, 20))), f32(9, 33), *scalars, args=[x, *at])
    check(
        lambda b, x, u, i, j: b.dynamic_update_slice(x, u, (i, j)), f32(9, 33), f32(3, 20), *scalars, args=[x, u, *at]
    )
    check(
        lambda b, x, u, i, j: b.negate(b.dynamic_update_slice(b.negate(x), b.negate(u), (i, j))),
        f32(9, 33),
        f32(3, 20),
        *scalars,
        args=[x, u, *at],
    )


@pytest.mark.parametrize("dtype", ["s32", "s64", "u8"])
def test_gather_of_rows_and_columns(dtype):
    indices = np.random.default_rng(1).integers(0 if dtype == "u8" else -3, 15, 40).astype(Shape(dtype).numpy_dtype)
    x = np.random.default_rng(0).normal(size=(11, 37)).astype(np.float32)

    def rows(b, x, i):
        return b.gather(
            x,
            i,
            offset_dims=(1,),
            collapsed_slice_dims=(0,),
            start_index_map=(0,),
            index_vector_dim=1,
            slice_sizes=(1, 37),
        )

    def columns(b, x, i):
        return b.gather(
            x,
            i,
            offset_dims=(0,),
            collapsed_slice_dims=(1,),
            start_index_map=(1,),
            index_vector_dim=1,
            slice_sizes=(37, 1),
        )

    check(rows, f32(11, 37), Shape(dtype, (40,)), args=[x, indices])
    check(columns, f32(37, 11), Shape(dtype, (40,)), args=[x.T.copy(), indices])


def test_gather_along_a_dimension():
    def take(b, x, i):
        row = b.iota(Shape("s64", (37, 5, 1)), 0)
        starts = b.concatenate((row, b.reshape(i, (37, 5, 1))), 2)
        return b.negate(
            b.gather(
                x,
                starts,
                offset_dims=(),
                collapsed_slice_dims=(0, 1),
                start_index_map=(0, 1),
                index_vector_dim=2,
                slice_sizes=(1, 1),
            )
        )

    indices = np.random.default_rng(1).integers(-3, 15, (37, 5))
    check(take, f32(37, 11), Shape("s64", (37, 5)), args=[np.arange(407, dtype=np.float32).reshape(37, 11), indices])


def test_zero_sized_arrays():
    check(lambda b, x: [b.add(x, x), b.reduce_sum(x, (0,)), b.reduce_max(x, (0,)), b.reduce_sum(x, (1,))], f32(0, 5))


@pytest.mark.parametrize("dtype", ["f32", "u8"])
def test_loops_are_cut_where_another_operand_begins(dtype):
    """Then no vector is put together from two of them: of narrow types the lanes would be loaded one by one."""
    shapes = Shape(dtype, (30, 256)), Shape(dtype, (30, 128))

    def build(b, x, y):
        zero = b.constant(0, dtype)
        return b.pad(b.concatenate([b.reverse(y, (1,)), x, y], 1), zero, [(0, 0), (32, 0)])

    b, texts = Builder("test"), {}
    module = run_pipeline(b.build(build(b, *(b.parameter(s) for s in shapes))))
    compile_module(module, name="test", dump=lambda kind, text: texts.update({kind: text})).close()
    (text,) = (text for kind, text in texts.items() if kind.endswith("no-opt.ll"))
    assert "masked.load" not in text
    check(build, *shapes)


@pytest.mark.parametrize("seed", range(24))
def test_random_pieces(seed):
    """Joined, padded, reversed and cut out of each other, of every length and type, alone and in sums."""
    rng = np.random.default_rng(seed)
    dtype = rng.choice(["f32", "f64", "u8", "s64", "pred", "f16", "c64"])
    rows = int(rng.choice([1, 3, 50]))
    widths = [int(n) for n in rng.choice([1, 3, 7, 16, 31, 64, 100, 513, 9000 // rows], 3)]
    axis = int(rng.integers(2))
    shapes = [Shape(dtype, (rows, n) if axis else (n, rows)) for n in widths]

    def build(b, *parts):
        pieces = list(parts)
        for _ in range(4):
            x = pieces[rng.integers(len(pieces))]
            n = x.dims[axis]
            along = [(0, 0), (0, 0)]
            match rng.integers(4):
                case 0:
                    pieces.append(b.concatenate([x, pieces[rng.integers(len(pieces))], x][: rng.integers(2, 4)], axis))
                case 1:
                    along[axis] = int(rng.integers(-(n // 3), 40)), int(rng.integers(-(n // 3), 40))
                    pieces.append(b.pad(x, b.constant(np.ones((), x.array_shape.numpy_dtype)), along))
                case 2:
                    pieces.append(b.reverse(x, (axis,)))
                case _:
                    low = [0, 0]
                    low[axis] = int(rng.integers(n))
                    pieces.append(b.slice(x, low, x.dims, (1, 1)))
        results = pieces[3:]
        return [*results, b.select(b.compare(results[-1], results[-1], "EQ"), results[-1], results[-1])]

    state = rng.bit_generator.state

    def again(b, *parts):
        rng.bit_generator.state = state
        return build(b, *parts)

    check(again, *shapes)


def test_windows_of_wider_rows_are_slices_not_gathers():
    """The memory of such an argument ends in the middle of a row."""
    x = mt.randn(40, 50)
    programs = {
        "columns": lambda t: t[:, 1:] - t[:, :-1],
        "inside": lambda t: t[1:-1, 1:-1] * 4 - t[:-2, 1:-1] - t[2:, 1:-1] - t[1:-1, 2:] - t[1:-1, :-2],
        "part of heads": lambda t: t.view(5, 8, 2, 25)[:, :, 1].transpose(0, 1) * 2,
        "every other column": lambda t: t[:, 3::2] + 1,
    }
    for name, program in programs.items():
        f = mt.function(program, jit_compile=True)
        assert mt.equal(f(x), program(x)), name
        assert "gather" not in f.lower(x).as_text("hlo"), name
