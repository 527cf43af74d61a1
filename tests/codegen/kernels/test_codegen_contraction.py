import ctypes

import numpy as np
import pytest
from runtime_table import GEMM, Gemm, check

from minitensor import _C
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


SLOTS = {"float32": 2, "float64": 3, "int32": 4, "int64": 5, "uint8": 6}


@pytest.mark.parametrize("dtype", SLOTS)
@pytest.mark.parametrize("size", [(1, 1, 1), (3, 4, 5), (5, 37, 7), (33, 70, 9), (130, 45, 300), (4, 3, 0)], ids=str)
@pytest.mark.parametrize("form", ["one B", "one A", "apart", "rows apart", "reversed"])
@pytest.mark.parametrize("batch", [0, 1, 2, 5])
def test_products_of_the_runtime_write_what_is_theirs(dtype, size, form, batch):
    """What compiled code calls: batches that lie anyhow, with nothing written between and behind the results."""
    m, n, k = size
    gap = 3 if form in ("apart", "rows apart") else 0
    rng = np.random.default_rng(m)

    def made(count, rows, cols):
        return rng.integers(-4 * (dtype != "uint8"), 5, (count, rows, cols + gap * (form == "rows apart"))).astype(
            dtype
        )

    a, b = made(1 if form == "one A" else batch, m, k), made(1 if form == "one B" else batch, k, n)
    c = np.full((batch + 2, m + gap, n + gap * (form == "rows apart")), 77, dtype)
    a_step = 0 if form == "one A" else a.strides[0] // a.itemsize
    b_step = 0 if form == "one B" else b.strides[0] // b.itemsize
    g = Gemm(
        m, n, k, batch, a.ctypes.data, a.shape[2], 1, a_step, b.ctypes.data, b.shape[2], 1, b_step,
        c[1].ctypes.data, c.shape[2], 1, c.strides[0] // c.itemsize, 0, 0,
    )  # fmt: skip
    if form == "reversed" and batch:
        # The last matrix first, and rows from below.
        g.a, g.abs, g.ars = a[-1, -1].ctypes.data if k else a.ctypes.data, -a_step, -a.shape[2]
        g.b, g.bbs = b[-1].ctypes.data, -b_step
        g.c, g.cbs = c[batch].ctypes.data, -g.cbs
    real = ctypes.cast(_C.runtime_address(), ctypes.POINTER(ctypes.c_int64))
    GEMM(real[SLOTS[dtype]])(ctypes.addressof(g))
    want = np.full_like(c, 77)
    with np.errstate(over="ignore"):
        rows = a[:, ::-1] if form == "reversed" else a
        want[1 : batch + 1, :m, :n] = np.matmul(rows[..., :k], b[..., :n])[:batch]
    np.testing.assert_array_equal(c, want)
