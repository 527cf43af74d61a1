"""Products in a row, which compiled code hands over as one: each is that of its own matrices."""

import numpy as np
import pytest

import minitensor as mt


@pytest.fixture(params=[1, 2])
def threads(request):
    before = mt.get_num_threads()
    mt.set_num_threads(request.param)
    yield request.param
    mt.set_num_threads(before)


@pytest.mark.parametrize("added", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("m", "k", "n"), [(4, 3, 5), (6, 16, 96), (64, 80, 200), (200, 80, 64), (33, 7, 2)])
def test_each_is_of_its_own_matrices(threads, m, k, n, dtype, added):
    """Of small whole numbers, so that sums are exact in any order: NumPy's."""
    rng = np.random.default_rng(0)
    lefts = [rng.integers(-4, 5, (m, k)).astype(dtype) for _ in range(5)]
    rights = [rng.integers(-4, 5, (k, n)).astype(dtype) for _ in range(5)]
    sums = [rng.integers(-4, 5, (m, n)).astype(dtype) for _ in range(5)]

    @mt.function(jit_compile=True)
    def products(*tensors):
        a, b, c = tensors[:5], tensors[5:10], tensors[10:]
        return tuple(z + x @ y if added else x @ y for x, y, z in zip(a, b, c, strict=True))

    given = [mt.from_numpy(array) for array in (*lefts, *rights, *sums)]
    for _ in range(2):
        for got, a, b, c in zip(products(*given), lefts, rights, sums, strict=True):
            assert np.array_equal(got.numpy(), a @ b + (c if added else 0))
