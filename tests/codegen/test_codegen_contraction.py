import numpy as np
import pytest
from runtime_table import check

from minitensor_jit.ir.shape import Shape

DOTS = {
    "matrices": ((7, 5), (5, 9), (1,), (0,), (), ()),
    "both transposed": ((5, 7), (9, 5), (0,), (1,), (), ()),
    "batch": ((3, 7, 5), (3, 5, 9), (2,), (1,), (0,), (0,)),
    "batch in the middle": ((7, 3, 5), (5, 9, 3), (2,), (0,), (1,), (2,)),
    "two batch dimensions": ((2, 3, 4, 5), (2, 3, 5, 6), (3,), (2,), (0, 1), (0, 1)),
    "batch dimensions in another order": ((2, 3, 4, 5), (3, 2, 5, 6), (3,), (2,), (0, 1), (1, 0)),
    "several free dimensions": ((2, 3, 4, 5), (5, 6, 2), (3,), (0,), (0,), (2,)),
    "matrix and vector": ((7, 5), (5,), (1,), (0,), (), ()),
    "vector and matrix": ((5,), (5, 7), (0,), (0,), (), ()),
    "vectors": ((5,), (5,), (0,), (0,), (), ()),
    "outer product": ((5,), (6,), (), (), (), ()),
    "two contracted dimensions": ((4, 5, 6), (5, 4, 7), (0, 1), (1, 0), (), ()),
    "contracted dimensions apart": ((5, 4, 6), (6, 7, 5), (0, 2), (2, 0), (), ()),
    "nothing to add": ((4, 0), (0, 7), (1,), (0,), (), ()),
    "no rows": ((0, 4), (4, 7), (1,), (0,), (), ()),
}


@pytest.mark.parametrize("dtype", ["f32", "f64", "s32", "s64", "u8"])
@pytest.mark.parametrize("name", DOTS)
def test_dot(name, dtype):
    left, right, lc, rc, lb, rb = DOTS[name]
    rng = np.random.default_rng(0)
    args = [rng.integers(0, 5, d).astype(Shape(dtype).numpy_dtype) for d in (left, right)]  # exact in any order
    check(
        lambda b, x, y: b.dot(
            x, y, lhs_contracting_dims=lc, rhs_contracting_dims=rc, lhs_batch_dims=lb, rhs_batch_dims=rb
        ),
        Shape(dtype, left),
        Shape(dtype, right),
        args=args,
        fused=False,
    )


def test_dot_between_loops():
    def build(b, x, w, c):
        h = b.maximum(b.add(b.matmul(b.negate(x), w), b.broadcast(c, (7, 9), (1,))), b.full(Shape("f32", (7, 9)), 0.0))
        return b.dot(h, h, lhs_contracting_dims=(0,), rhs_contracting_dims=(0,))

    args = [np.random.default_rng(0).integers(-4, 5, d).astype(np.float32) for d in ((7, 5), (5, 9), (9,))]
    check(build, *(Shape("f32", a.shape) for a in args), args=args)


@pytest.mark.parametrize("kind", ["add", "assign", "maximum"])
def test_scatter(kind):
    rng = np.random.default_rng(0)
    x, rows = rng.normal(size=(11, 37)).astype(np.float32), rng.normal(size=(40, 37)).astype(np.float32)

    def by_row(b, x, i, u):
        return b.scatter(
            x, i, u, update_window_dims=(1,), inserted_window_dims=(0,), scatter_dims_to_operand_dims=(0,),
            index_vector_dim=1, kind=kind,
        )  # fmt: skip

    def by_element(b, x, i, u):
        return b.negate(
            b.scatter(
                b.negate(x), i, u, update_window_dims=(), inserted_window_dims=(0, 1),
                scatter_dims_to_operand_dims=(0, 1), index_vector_dim=2, kind=kind,
            )
        )  # fmt: skip

    # Indices that are out of bounds are skipped, equal ones are taken in order.
    check(
        by_row, Shape("f32", (11, 37)), Shape("s64", (40,)), Shape("f32", (40, 37)),
        args=[x, rng.integers(-1, 12, 40), rows],
    )  # fmt: skip
    check(
        by_element, Shape("f32", (11, 37)), Shape("s32", (4, 10, 2)), Shape("f32", (4, 10)),
        args=[x, rng.integers(-1, 12, (4, 10, 2)).astype(np.int32), rows[:4, :10]],
    )  # fmt: skip


def test_scatter_of_windows_into_a_constant():
    rng = np.random.default_rng(0)

    def build(b, i, u):
        zero = b.broadcast(b.constant(0.0), (3, 11, 20), ())
        return b.scatter(
            zero, i, u, update_window_dims=(0, 2), inserted_window_dims=(1,), scatter_dims_to_operand_dims=(1,),
            index_vector_dim=1,
        )  # fmt: skip

    args = [rng.integers(0, 11, 6), rng.normal(size=(3, 6, 20)).astype(np.float32)]
    check(build, Shape("s64", (6,)), Shape("f32", (3, 6, 20)), args=args)
