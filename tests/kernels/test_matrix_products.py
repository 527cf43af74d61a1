"""A product's bits depend on nothing but its operands: not on how they are packed, cut and shared out."""

import itertools

import numpy as np
import pytest

import minitensor as mt


@pytest.fixture(params=[1, 2])
def threads(request):
    before = mt.get_num_threads()
    mt.set_num_threads(request.param)
    yield request.param
    mt.set_num_threads(before)


def laid_out(array, transposed, padding):
    """A tensor of the array's values whose rows (columns, transposed) lie further apart by ``padding`` elements."""
    if transposed:
        return laid_out(array.T, False, padding).t()
    rows, cols = array.shape
    whole = np.zeros((rows, cols + padding), array.dtype)
    whole[:, :cols] = array
    return mt.from_numpy(whole)[:, :cols]


# Rows 4096 bytes apart fall into one set of a cache and are packed, and columns too; so are columns that many tiles
# share, and a large second operand. Several blocks of both, in every direction, and the last ones not whole.
SIZES = [
    (150, 1024, 200),
    (75, 2048, 97),
    (300, 1536, 1500),
    (141, 3072, 65),
    (64, 1024, 1024),
    (29, 513, 31),
    (1024, 530, 150),
    (205, 83, 1060),
]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("size", SIZES, ids=str)
def test_parts_of_a_product_are_products_of_parts(size, dtype, threads):
    m, k, n = size
    rng = np.random.default_rng(m)
    a, b = (rng.integers(-9, 9, shape) if dtype == "int64" else rng.normal(size=shape) for shape in ((m, k), (k, n)))
    a, b = a.astype(dtype), b.astype(dtype)
    rows = [slice(0, 3), slice(m // 2 - 2, m // 2 + 2), slice(m - 3, m)]
    cols = [slice(0, 5), slice(n // 2 - 2, n // 2 + 2), slice(n - 5, n)]
    parts = {
        (i, j): (mt.from_numpy(a[rows[i]].copy()) @ mt.from_numpy(b[:, cols[j]].copy())).numpy()
        for i, j in itertools.product(range(3), repeat=2)
    }
    whole = None
    for a_transposed, b_transposed, padding in ((0, 0, 0), (0, 0, 24), (1, 0, 0), (0, 1, 0), (1, 1, 8)):
        product = (laid_out(a, a_transposed, padding) @ laid_out(b, b_transposed, padding)).numpy()
        if whole is None:
            whole = product
            close = a.astype("float64") @ b.astype("float64")
            scale = np.abs(a.astype("float64")) @ np.abs(b.astype("float64"))
            steps = k * (0 if dtype == "int64" else np.finfo(dtype).eps)
            assert (np.abs(whole - close) <= steps * scale).all()
            for (i, j), part in parts.items():
                assert np.array_equal(whole[rows[i], cols[j]], part)
        assert np.array_equal(product, whole), (a_transposed, b_transposed, padding)


def test_products_use_what_is_packed_once_for_one_matrix_only():
    first, second = (mt.rand(200, 1024) for _ in range(2))
    b, other = (mt.rand(1024, 1024) for _ in range(2))
    alone = [(x[70:75].clone() @ y).numpy() for x, y in ((first, b), (second, b), (first, other))]
    for _ in range(2):
        for (x, y), part in zip(((first, b), (second, b), (first, other)), alone, strict=True):
            assert np.array_equal((x @ y).numpy()[70:75], part)


@pytest.mark.parametrize("dtype", [mt.bfloat16, mt.float16], ids=str)
@pytest.mark.parametrize("few", [1, 2, 7, 64])
@pytest.mark.parametrize("large", [(1100, 203), (70, 1000), (512, 4096), (2000, 35)], ids=str)
def test_few_rows_of_half_precision_round_the_product_of_float32(large, few, dtype, threads):
    rng = np.random.default_rng(few)
    k = large[0]
    x, w = rng.normal(size=(few, k)).astype("float32"), rng.normal(size=large).astype("float32")
    for transposed, padding in ((0, 0), (0, 24), (1, 0), (1, 8)):
        a, b = mt.from_numpy(x).to(dtype), mt.from_numpy(w).to(dtype)
        b = b.t().contiguous().t() if transposed else b
        if padding:
            wide = mt.nn.functional.pad(b.t() if transposed else b, (0, padding))
            b = wide[:, :-padding].t() if transposed else wide[:, :-padding]
        expected = (a.float() @ b.float()).to(dtype).view(mt.int16).numpy()
        products = [a @ b, (b.t() @ a.t()).t(), (a.t().contiguous().t() @ b)]
        products += [mt.mv(b.t(), a[0]).unsqueeze(0)] if few == 1 else [(a.unsqueeze(1) @ b).squeeze(1)]
        for product in products:
            assert np.array_equal(product.contiguous().view(mt.int16).numpy(), expected), (transposed, padding)
