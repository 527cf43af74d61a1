import random
import re

import numpy as np

from minitensor_jit.codegen.cpu.compiler import compile_module
from minitensor_jit.codegen.indexing.indexing_map import AffineExpr, FloorDiv, Space, Var
from minitensor_jit.codegen.indexing.movement import accesses
from minitensor_jit.codegen.indexing.space import Nest, refine
from minitensor_jit.ir.builder import Builder
from minitensor_jit.ir.shape import Shape
from minitensor_jit.ir.text.parser import parse_module
from minitensor_jit.passes.pipeline import run_pipeline
from minitensor_jit.runtime.run_arrays import run_on_arrays


def value(lin: AffineExpr, at: dict) -> int:
    def atom(a) -> int:
        return at[a] if isinstance(a, Var) else value(a.lin, at) // a.divisor

    return lin.const + sum(c * atom(a) for a, c in lin.terms)


def test_splitting_and_merging_cancel():
    space = Space()
    v = space.var("v", 5 * 6 * 7)
    index = space.delinearize(v, (5, 6, 7))
    assert Space.linearize(index, (5, 6, 7)) == v
    again = space.delinearize(Space.linearize(index, (5, 6, 7)), (30, 7))
    assert Space.linearize(again, (30, 7)) == v


def test_indices_are_right_for_all_values():
    rng = random.Random(0)
    for _ in range(200):
        factors = [rng.choice([1, 2, 3, 4, 5]) for _ in range(4)]
        size = factors[0] * factors[1] * factors[2] * factors[3]
        space = Space()
        v = space.var("v", size)
        dims = (factors[0] * factors[1], factors[2] * factors[3])
        i, j = space.delinearize(v, dims)
        swapped = Space.linearize((j, i), dims[::-1])
        k, m = space.delinearize(swapped, (factors[3] * factors[0], factors[1] * factors[2]))
        for n in range(size):
            at = {v.terms[0][0]: n} if v.terms else {}
            assert (value(i, at), value(j, at)) == divmod(n, dims[1])
            s = value(j, at) * dims[0] + value(i, at)
            assert (value(k, at), value(m, at)) == divmod(s, factors[1] * factors[2])
            for lin in (i, j, k, m):
                low, high = space.range(lin)
                assert low <= value(lin, at) <= high


def nest_of(build, *shapes):
    b = Builder("nest")
    root = build(b, *(b.parameter(s) for s in shapes))
    return refine(
        root.array_shape.size,
        lambda space, flat: accesses(space, [(root, space.delinearize(flat, root.dims))]).all_forms(),
    )


def test_contiguous_accesses_need_one_loop():
    shape = Shape("f32", (3, 4, 5, 6))
    assert nest_of(lambda b, x, y: b.add(b.reshape(x, (3, 4, 5, 6)), y), Shape("f32", (60, 6)), shape).extents == (360,)


def test_loops_are_cut_where_an_access_needs_it():
    f32 = Shape("f32", (3, 4, 5, 6))
    assert nest_of(lambda b, x, y: b.add(x, b.broadcast(y, x.dims, (2, 3))), f32, Shape("f32", (5, 6))).extents == (
        12,
        30,
    )
    assert nest_of(lambda b, x, y: b.add(x, b.broadcast(y, x.dims, (1,))), f32, Shape("f32", (4,))).extents == (
        3,
        4,
        30,
    )
    assert nest_of(lambda b, x: b.transpose(x, (1, 0)), Shape("f32", (8, 9))).extents == (9, 8)


def test_a_nest_leaves_out_cuts_that_do_not_divide():
    assert Nest.from_cuts(24, [6, 4]).extents == (6, 4)
    assert Nest.from_cuts(24, [12, 4, 5]).extents == (2, 3, 4)


def test_a_division_that_is_left_is_a_division():
    space = Space()
    v = space.var("v", 24)
    (lin, _) = space.delinearize(v, (4, 6))
    ((atom, c),) = lin.terms
    assert isinstance(atom, FloorDiv)
    assert (atom.divisor, c) == (6, 1)


def test_indices_beyond_32_bits() -> None:
    """Lanes count in 32 bits where the range allows it, and not here: 64 numbers of 2^33, of which none is stored."""
    step = 1 << 27
    text = f"""
ENTRY e {{
  x = s64[{64 * step}] iota(), iota_dimension=0
  r = s64[64] slice(x), slice={{[5:{64 * step}:{step}]}}
  y = s64[64] parameter(0)
  ROOT s = s64[64] add(r, y)
}}
"""
    module = run_pipeline(parse_module(text))
    (got,) = run_on_arrays(compile_module(module, name="far"), [np.ones(64, np.int64)])
    assert got.tolist() == [6 + k * step for k in range(64)]


def added_along(axis: int, length: int = 40) -> tuple[np.ndarray, np.ndarray, str]:
    """What a matrix is after three rows or columns are added to it, what NumPy makes of it, and the code."""
    b, text = Builder("m"), {}
    c = Builder("add")
    add = c.build_computation(c.add(c.parameter(Shape("f32")), c.parameter(Shape("f32"))))
    attrs = {
        "update_window_dims": (1,), "inserted_window_dims": (axis,), "scatter_dims_to_operand_dims": (axis,),
        "index_vector_dim": 1, "to_apply": add,
    }  # fmt: skip
    shapes = Shape("f32", (40, length) if axis == 0 else (length, 40)), Shape("s32", (3, 1)), Shape("f32", (3, length))
    module = b.build(b.emit("scatter", tuple(b.parameter(s) for s in shapes), attrs))
    rng = np.random.default_rng(axis)
    x, u = (rng.integers(-9, 9, s.dims).astype(np.float32) for s in (shapes[0], shapes[2]))
    at = np.array([[39], [7], [39]], np.int32)
    (got,) = run_on_arrays(compile_module(module, name="m", dump=text.__setitem__), [x, at, u])
    np.add.at(x if axis == 0 else x.T, at[:, 0], u)
    return got, x, text["ir-no-opt.ll"]


def test_rows_and_columns_are_added_where_they_lie() -> None:
    """A row's elements as vectors; those of a column are apart in memory."""
    got, want, row = added_along(0)
    assert np.array_equal(got, want)
    got, want, column = added_along(1)
    assert np.array_equal(got, want)
    assert re.search(r"fadd <\d+ x float>", row)
    assert not re.search(r"fadd <\d+ x float>", column)


def test_short_rows_are_added_as_short_vectors() -> None:
    """Of as many lanes as there are elements, not of a register's with most of them masked."""
    for length, vector in ((2, "<2 x float>"), (3, "<4 x float>")):
        got, want, row = added_along(0, length)
        assert np.array_equal(got, want)
        assert set(re.findall(r"fadd (<\d+ x float>)", row)) == {vector}
