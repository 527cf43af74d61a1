"""Views, indexing, cat, matmul and sorting: against NumPy in many layouts, and their errors."""

import itertools

import numpy as np
import pytest

import minitensor as mt
from minitensor.ops.index import index_add, index_copy, index_select
from minitensor.ops.scatter import gather, scatter_add

DTYPES = ["bool", "uint8", "int32", "int64", "float32", "float64"]


def random(shape, dtype="float32", seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return np.asarray(rng.standard_normal(shape) * 10).astype(dtype)
    return np.asarray(rng.integers(0, 2 if dtype == "bool" else 20, shape)).astype(dtype)


def layouts(x):
    """Tensors with the values of `x` in different places of memory."""
    yield mt.from_numpy(x.copy())
    if x.ndim:
        yield mt.from_numpy(np.asfortranarray(x))
        yield mt.from_numpy(np.repeat(x, 2, axis=-1))[..., ::2]
    if x.ndim > 1:
        order = [*range(1, x.ndim), 0]
        yield mt.from_numpy(np.ascontiguousarray(x.transpose(order))).permute(*np.argsort(order).tolist())


def equal(got, want, note=""):
    got = got.numpy()
    assert (got.shape, got.dtype) == (want.shape, want.dtype), note
    np.testing.assert_array_equal(got, want, err_msg=str(note))


# ---- views


def test_view_succeeds_exactly_where_no_copy_is_needed():
    shapes = [(24,), (2, 12), (4, 6), (2, 3, 4), (3, 8), (1, 24), (2, 1, 12), (2, 2, 6), (4, 3, 2), (24, 1)]
    bases = []
    for base in shapes:
        array = np.arange(24, dtype=np.float32).reshape(base)
        bases += [array.transpose(p) for p in itertools.permutations(range(array.ndim))]
        bases.append(np.repeat(array, 2, axis=-1)[..., ::2])
        bases.append(np.repeat(array, 2, axis=0)[::2])
    for array in bases:
        t = mt.from_numpy(array)
        for shape in shapes:
            if np.shares_memory(array, array.reshape(shape)):
                equal(t.view(*shape), array.reshape(shape))
            else:
                with pytest.raises(RuntimeError, match="view size is not compatible with input"):
                    t.view(*shape)


def test_view_sizes():
    x = mt.arange(24).view(2, 3, 4)
    assert x.view(-1).shape == (24,)
    assert x.view(6, -1).shape == (6, 4)
    assert mt.zeros(0, 3).view(0).shape == (0,)
    assert mt.zeros(0, 3).view(5, 0, 2).shape == (5, 0, 2)
    with pytest.raises(RuntimeError, match=r"shape '\[5, -1\]' is invalid for input of size 24"):
        x.view(5, -1)
    with pytest.raises(RuntimeError, match="only one dimension can be inferred"):
        x.view(-1, -1)
    with pytest.raises(RuntimeError, match=r"invalid shape dimension -2 at index 0 of shape \[-2, 3\]"):
        x.view(-2, 3)
    with pytest.raises(RuntimeError, match="cannot reshape tensor of 0 elements"):
        mt.zeros(0).view(0, -1)


def test_views_share_memory_and_offsets_add_up():
    x = mt.arange(24).reshape(2, 3, 4)
    y = x[1:].transpose(1, 2)[:, 1:, ::2]
    want = np.arange(24).reshape(2, 3, 4)[1:].transpose(0, 2, 1)[:, 1:, ::2]
    equal(y, want)
    equal(y.select(2, -1).unsqueeze(0).expand(5, -1, -1), np.broadcast_to(want[:, :, -1], (5, 1, 3)))
    y[...] = -1
    assert (x.numpy()[1, ::2, 1:] == -1).all()
    assert x.numpy()[0].min() == 0


def test_diagonal_and_unfold():
    x = random((4, 5, 6))
    for t in layouts(x):
        for offset in range(-6, 7):
            equal(t.diagonal(offset, 0, 2), np.diagonal(x, offset, 0, 2))
            equal(t.diagonal(offset, -1, 1), np.diagonal(x, offset, 2, 1))
        windows = np.lib.stride_tricks.sliding_window_view(x, 3, axis=1)[:, ::2]
        equal(t.unfold(1, 3, 2), windows)


def test_view_errors():
    x = mt.ones(2, 3, 4)
    for error, match, view in [
        (RuntimeError, r"The expanded size of the tensor \(3\) must match the existing size \(2\) at non-singleton",
         lambda: x.expand(3, 3, 4)),
        (RuntimeError, "isn't allowed in a leading, non-existing dimension 0", lambda: x.expand(-1, 2, 3, 4)),
        (RuntimeError, r"the number of sizes provided \(2\)", lambda: x.expand(3, 4)),
        (RuntimeError, r"input.dim\(\) = 3 is not equal to len\(dims\) = 2", lambda: x.permute(0, 1)),
        (RuntimeError, "duplicate dims are not allowed", lambda: x.permute(0, 1, 1)),
        (IndexError, r"Dimension out of range \(expected to be in range of \[-3, 2\], but got 4\)",
         lambda: x.transpose(0, 4)),
        (IndexError, r"but got 4\)", lambda: x.unsqueeze(4)),
        (IndexError, r"select\(\): index 2 out of range for tensor of size \[2, 3, 4\] at dimension 0",
         lambda: x.select(0, 2)),
        (RuntimeError, "diagonal dimensions cannot be identical 0, 0", lambda: x.diagonal(0, 0, 0)),
        (RuntimeError, "maximum size for tensor at dimension 0 is 2 but size is 3", lambda: x.unfold(0, 3, 1)),
        (RuntimeError, "step is 0 but must be > 0", lambda: x.unfold(0, 2, 0)),
        (RuntimeError, "mismatch in length of strides and shape", lambda: x.as_strided((2, 3), (1,))),
        (RuntimeError, "requiring a storage size of 136 are out of bounds for storage of size 96",
         lambda: x.as_strided((5, 10), (1, 1), 20)),
        (RuntimeError, "Negative strides are not supported", lambda: x.as_strided((2,), (-1,))),
        (RuntimeError, "out of bounds|overflow", lambda: x.as_strided((2, 2), (2**62, 2**62))),
    ]:  # fmt: skip
        with pytest.raises(error, match=match):
            view()


# ---- matrix products


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8"])
def test_matmul_broadcasts_like_numpy(dtype):
    pairs = [
        ((3,), (3,)), ((3,), (3, 4)), ((2, 3), (3,)), ((2, 3), (3, 4)), ((5, 2, 3), (3, 4)), ((2, 3), (5, 3, 4)),
        ((5, 2, 3), (5, 3, 4)), ((5, 1, 2, 3), (4, 3, 2)), ((4, 2, 3), (3,)), ((3,), (4, 3, 2)), ((6, 1, 1, 3), (3, 2)),
        ((2, 0), (0, 3)), ((0, 3), (3, 2)), ((2, 3, 0, 4), (4, 5)), ((3, 4, 1, 2), (1, 4, 2, 1)), ((1, 1), (1, 1)),
        ((2, 1, 3, 70), (2, 70, 5)),
    ]  # fmt: skip
    for a_shape, b_shape in pairs:
        a, b = random(a_shape, dtype), random(b_shape, dtype, seed=1)
        want = np.matmul(a, b)
        for x, y in itertools.product(layouts(a), layouts(b)):
            got = mt.matmul(x, y).numpy()
            assert got.shape == want.shape
            assert got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-3)


@pytest.mark.at_once(reason="it counts what is allocated at a call")
def test_matmul_reads_strided_operands_without_copies():
    x = mt.ones(1000, 500)
    y = mt.ones(1000, 8)
    (x.t() @ y).sum().item()
    before = mt.allocator_stats()
    product = x.t() @ y
    after = mt.allocator_stats()
    assert after["allocations"] - before["allocations"] == 1
    assert product.shape == (500, 8)


def test_matmul_errors():
    one = mt.ones
    for error, match, a, b in [
        (RuntimeError, r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 4x5\)", one(2, 3), one(4, 5)),
        (RuntimeError, r"mat1 and mat2 shapes cannot be multiplied \(4x3 and 4x5\)", one(2, 2, 3), one(4, 5)),
        (RuntimeError, r"inconsistent tensor size, expected tensor \[3\] and src \[4\]", one(3), one(4)),
        (RuntimeError, r"size mismatch, got input \(2\), mat \(2x3\), vec \(4\)", one(2, 3), one(4)),
        (RuntimeError, r"batch2 tensor to be: \[2, 3\] but got: \[2, 4\]", one(2, 2, 3), one(2, 4, 5)),
        (RuntimeError, r"The size of tensor a \(2\) must match the size of tensor b \(3\)", one(2, 2, 3), one(3, 3, 5)),
        (RuntimeError, "both arguments to matmul need to be at least 1D, but they are 0D and 1D", mt.tensor(1.0),
         one(4)),
        (RuntimeError, "expected m1 and m2 to have the same dtype, but got: float != double", one(2, 3),
         one(3, 2, dtype=mt.float64)),
        (NotImplementedError, "not implemented for 'Bool'", one(2, 2, dtype=mt.bool), one(2, 2, dtype=mt.bool)),
    ]:  # fmt: skip
        with pytest.raises(error, match=match):
            mt.matmul(a, b)


# ---- indexing


@pytest.mark.parametrize("dtype", DTYPES)
def test_gather_and_scatter_add(dtype):
    rng = np.random.default_rng(0)
    x = random((4, 5, 6), dtype)
    for dim, index_dtype in itertools.product(range(3), ["int64", "int32"]):
        shape = [3, 4, 5]
        shape[dim] = 9
        index = rng.integers(0, x.shape[dim], shape).astype(index_dtype)
        src = random(shape, dtype, seed=2)
        cut = tuple(slice(None) if d == dim else slice(n) for d, n in enumerate(shape))
        want = np.take_along_axis(x[cut], index.astype(np.int64), dim)
        added = x.copy()
        for place in np.ndindex(*shape):
            at = (*place[:dim], index[place], *place[dim + 1 :])
            added[at] = added[at] | src[place] if dtype == "bool" else added[at] + src[place]
        for t, i, s in itertools.product(layouts(x), layouts(index), layouts(src)):
            equal(gather(t, i, dim), want)
            equal(scatter_add(t, i, s, dim), added)


@pytest.mark.parametrize("dtype", DTYPES)
def test_index_select_add_and_copy(dtype):
    rng = np.random.default_rng(0)
    x = random((4, 5, 6), dtype)
    for dim, shape in itertools.product(range(3), [(0,), (1,), (7,), (2, 3)]):
        index = rng.integers(0, x.shape[dim], shape)
        want = np.take(x, index, dim)
        src = random(want.shape, dtype, seed=3)
        added, copied = x.copy(), x.copy()
        lead = (slice(None),) * dim
        for k in np.ndindex(*shape):
            at, value = (*lead, index[k]), src[(*lead, *k)]
            added[at] = added[at] | value if dtype == "bool" else added[at] + value
            copied[at] = value
        for t, i, s in itertools.product(layouts(x), layouts(index), layouts(src)):
            equal(index_select(t, i, dim), want)
            equal(index_add(t, i, s, dim), added)
            equal(index_copy(t, i, s, dim), copied)


def test_index_add_keeps_the_index_order_on_any_number_of_threads():
    rng = np.random.default_rng(0)
    x, index, src = random((3, 50, 400)), rng.integers(0, 50, 3000), random((3, 3000, 400), seed=1)
    threads = mt.get_num_threads()
    results = []
    try:
        for n in (1, 2, 3):
            mt.set_num_threads(n)
            results.append(index_add(mt.from_numpy(x), mt.from_numpy(index), mt.from_numpy(src), 1).numpy().tobytes())
    finally:
        mt.set_num_threads(threads)
    want = x.copy()
    np.add.at(want, (slice(None), index), src)
    assert results == [want.tobytes()] * 3


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_the_first_of_several_wrong_indices_is_reported_on_any_number_of_threads():
    x, index = mt.arange(10), mt.zeros(2_000_000, dtype=mt.int64)
    index[300_000], index[900_000], index[1_999_999] = 33, 77, 55
    threads = mt.get_num_threads()
    try:
        for n in (1, 2, 3, 5):
            mt.set_num_threads(n)
            for function in (index_select, gather):
                for _ in range(10):
                    with pytest.raises(
                        (IndexError, RuntimeError), match="index 33 is out of bounds for dimension 0 with size 10"
                    ):
                        function(x, index, 0)
    finally:
        mt.set_num_threads(threads)


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_index_errors_come_before_any_write():
    x = mt.zeros(10, 3)
    bad = mt.tensor([0, 12])
    with pytest.raises(IndexError, match="index 12 is out of bounds for dimension 0 with size 10"):
        index_select(x, bad, 0)
    with pytest.raises(RuntimeError, match="index -11 is out of bounds for dimension 0 with size 10"):
        index_add(x, mt.tensor([0, -11]), mt.ones(2, 3), 0)
    with pytest.raises(RuntimeError, match="index 12 is out of bounds for dimension 0 with size 10"):
        gather(x, mt.tensor([[12, 0, 0]]), 0)
    with pytest.raises(RuntimeError, match="index -1 is out of bounds for dimension 0 with size 10"):
        scatter_add(x, mt.tensor([[0, 0, -1]]), mt.ones(1, 3), 0)
    with pytest.raises(RuntimeError, match=r"gather\(\): Expected dtype int32/int64 for index"):
        gather(x, mt.zeros(1, 3, dtype=mt.uint8), 0)
    with pytest.raises(RuntimeError, match="Index tensor must have the same number of dimensions as input tensor"):
        gather(x, mt.tensor([0]), 0)
    with pytest.raises(RuntimeError, match=r"expected index \[1, 4\] to be no larger than self \[10, 3\] apart"):
        gather(x, mt.tensor([[0, 0, 0, 0]]), 0)
    with pytest.raises(RuntimeError, match="must have the same scalar type"):
        index_add(x, mt.tensor([0]), mt.ones(1, 3, dtype=mt.float64), 0)
    with pytest.raises(RuntimeError, match=r"source has shape \[1, 4\].*expects \[1, 3\]"):
        index_copy(x, mt.tensor([0]), mt.ones(1, 4), 0)
    assert x.sum().item() == 0


# ---- cat, triangles, order


def test_cat():
    parts = [random((2, n, 3), seed=n) for n in (1, 4, 0, 2)]
    want = np.concatenate(parts, 1)
    for tensors in zip(*(layouts(p) for p in parts), strict=True):
        equal(mt.cat(list(tensors), 1), want)
        equal(mt.cat(list(tensors), -2), want)
    mixed = mt.cat([mt.tensor([True]), mt.tensor([2], dtype=mt.uint8), mt.tensor([1.5])])
    assert mixed.dtype == mt.float32
    assert mixed.tolist() == [1.0, 2.0, 1.5]
    assert mt.cat([mt.zeros(0), mt.ones(2, 2)], 1).shape == (2, 2)
    assert mt.cat([mt.zeros(0), mt.zeros(0)]).shape == (0,)
    with pytest.raises(RuntimeError, match=r"Expected size 3 but got size 2 for tensor number 1 in the list"):
        mt.cat([mt.ones(2, 3), mt.ones(2, 2)])
    with pytest.raises(RuntimeError, match="Tensors must have same number of dimensions: got 2 and 1"):
        mt.cat([mt.ones(2, 3), mt.ones(3)])
    with pytest.raises(RuntimeError, match=r"zero-dimensional tensor \(at position 0\) cannot be concatenated"):
        mt.cat([mt.tensor(1.0)])
    with pytest.raises((ValueError, RuntimeError), match="expected a non-empty list of Tensors"):
        mt.cat([])


@pytest.mark.parametrize("dtype", DTYPES)
def test_triangles_and_cumsum(dtype):
    x = random((3, 4, 6), dtype)
    for t in layouts(x):
        for diagonal in range(-7, 8):
            equal(t.tril(diagonal), np.tril(x, diagonal))
            equal(t.triu(diagonal), np.triu(x, diagonal))
        for dim in range(-3, 3):
            wide, result = (np.float64, x.dtype) if x.dtype.kind == "f" else (np.int64, np.int64)
            equal(t.cumsum(dim), np.cumsum(x, dim, dtype=wide).astype(result))
    with pytest.raises(RuntimeError, match="tril: input tensor must have at least 2 dimensions"):
        mt.ones(3).tril()


@pytest.mark.parametrize("dtype", DTYPES)
def test_sort_is_stable(dtype):
    x = (random((7, 40, 3), dtype) % 5 if dtype != "bool" else random((7, 40, 3), dtype)).astype(dtype)
    for t, dim in itertools.product(layouts(x), range(3)):
        values, indices = mt.sort(t, dim)
        want = np.argsort(x, dim, kind="stable")
        equal(indices, want)
        equal(values, np.take_along_axis(x, want, dim))
        values, indices = mt.sort(t, dim, descending=True)
        flipped = np.flip(x, dim)
        want = x.shape[dim] - 1 - np.flip(np.argsort(flipped, dim, kind="stable"), dim)
        equal(indices, want)
        equal(values, np.take_along_axis(x, want, dim))


def test_sort_puts_nan_last():
    x = mt.tensor([float("nan"), 1.0, float("inf"), -0.0, 0.0, -1.0])
    assert mt.sort(x)[1].tolist() == [5, 3, 4, 1, 2, 0]
    assert mt.sort(x, descending=True)[1].tolist() == [0, 2, 1, 3, 4, 5]
    many = random((50_000,))
    many[::1000] = np.nan
    equal(mt.sort(mt.from_numpy(many))[1], np.argsort(many, kind="stable"))


@pytest.mark.parametrize("dtype", DTYPES)
def test_nonzero_and_masked_select(dtype):
    x = random((4, 1, 7), dtype)
    x[1] = 0
    for t in layouts(x):
        equal(mt.nonzero(t), np.stack(np.nonzero(x), 1))
    for shape in [(4, 1, 7), (3, 7), (1,), (4, 5, 1)]:
        mask = random(shape, "bool", seed=4)
        both = np.broadcast_arrays(x, mask)
        for t, m in itertools.product(layouts(x), layouts(mask)):
            equal(mt.masked_select(t, m), both[0][both[1]])
    with pytest.raises(RuntimeError, match="expected BoolTensor for mask"):
        mt.masked_select(mt.ones(3), mt.ones(3))


@pytest.mark.parametrize("shape", [(1, 3), (2, 1), (1, 1), (3,), (1,)])
def test_what_masks_and_values_repeat_is_read_where_it_is(shape):
    """Along dimensions of two elements, too: beside what is repeated there is something else."""
    x, around = random((2, 3)), tuple(slice(0, n) for n in shape)
    whole = np.array([[True, False, True, False], [False, True, False, True]] * 2)
    many = random((4, 4), seed=1)
    mask, values = mt.from_numpy(whole), mt.from_numpy(many)
    while mask.ndim > len(shape):
        mask, values, whole, many = mask[0], values[0], whole[0], many[0]
    mask, values, wanted, others = mask[around], values[around], whole[around], many[around]
    t = mt.from_numpy(x)
    np.testing.assert_array_equal(t.masked_fill(mask, 7.0), np.where(wanted, np.float32(7), x))
    np.testing.assert_array_equal(mt.where(mask, t, values), np.where(wanted, x, others))
    np.testing.assert_array_equal(t.masked_select(mask), x[np.broadcast_to(wanted, x.shape)])
    written = t.clone()
    written[mt.tensor([[1], [0]]), mt.tensor([2, 0, 1])] = values
    expected = x.copy()
    expected[[[1], [0]], [2, 0, 1]] = others
    np.testing.assert_array_equal(written, expected)
    written = t.clone()
    written.masked_scatter_(mask, mt.arange(6.0))
    expected = x.copy()
    expected[np.broadcast_to(wanted, x.shape)] = np.arange(np.broadcast_to(wanted, x.shape).sum())
    np.testing.assert_array_equal(written, expected)


@pytest.mark.parametrize("more", [0, 1, 2, 4])
@pytest.mark.parametrize("threads", [1, 2, 3, 5])
def test_long_rows_are_sorted_in_parts_that_hold_all(threads, more):
    """Rows so long that all threads sort each together (`kParallel` in csrc/kernels/cpu/sort/sort.cpp)."""
    n = (1 << 17) // threads * threads + 2 * threads + more
    x = np.random.default_rng(n).integers(-(1 << 40), 1 << 40, n)
    before = mt.get_num_threads()
    mt.set_num_threads(threads)
    try:
        values, places = mt.sort(mt.tensor(x), stable=True)
        small, _ = mt.sort(mt.tensor((x % 100).astype(np.int32)))
    finally:
        mt.set_num_threads(before)
    assert np.array_equal(values.numpy(), np.sort(x))
    assert np.array_equal(places.numpy(), np.argsort(x, kind="stable"))
    assert np.array_equal(small.numpy(), np.sort((x % 100).astype(np.int32)))
