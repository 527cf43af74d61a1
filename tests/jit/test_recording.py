"""Recorded programs have the values of eager ones: through views, in-place writes and memory that is shared."""

import numpy as np
import pytest
from fuzz.programs import compiler_failures
from recording import flushes, recorded

import minitensor as mt


def arange(*shape, dtype=mt.float32):
    count = int(np.prod(shape))
    return mt.arange(0, count, dtype=dtype).reshape(shape)


# ---- views and in-place writes: each case returns everything that can be seen afterwards


def write_through_a_view(x):
    v = x[1:3]
    v.mul_(10)
    return x, v


def write_through_a_view_of_a_view(x):
    v = x[1:][:, 2]
    v.add_(100)
    w = x.T[2]
    w.neg_()
    return x, v, w


def read_a_view_before_and_after(x):
    v = x[0]
    before = v * 1
    x.add_(1)
    after = v * 1
    return before, after, v, x


def overlapping_reads(x):
    a, b = x[:-1], x[1:]
    total = a + b
    a.add_(b)
    return total, a, b, x


def overlapping_write(x):
    x[1:].copy_(x[:-1])
    flat = x.reshape(-1)
    flat[:-1].mul_(flat[1:])
    return x


def data_attribute(x):
    y = x * 2
    y.data.add_(1)
    z = y.data
    z[0] = -5
    return y, z


def data_assignment(x):
    y = x * 2
    view = y[0]
    y.data = x + 100
    y.mul_(2)
    return y, view, x


def chained_slices(x):
    x[1:][1:][:, 1:][:, ::2] = 7
    x[0][2:].sub_(3)
    x[..., -1] += 1
    return x


def transposed_writes(x):
    t = x.T
    t[1:3] *= 2
    t.copy_(t + 1)
    u = x.permute(1, 0)
    u[0, :].fill_(9)
    return x, t, u


def expanded_reads(x):
    row = x[0].expand(4, 5)
    y = row + x
    x[0].add_(1)
    return y, row + 0, row.T @ row, x


def item_assignment(x):
    x[2, 3] = 1.5
    x[-1, -1] = x[0, 1] * 4
    x[1] = mt.arange(5)
    x[:, 0] = mt.tensor([[7.0]])
    x[x > 15] = 0
    x[mt.tensor([0, 3])] = x[mt.tensor([3, 0])] * 2
    return x


def diagonal_writes(x):
    x.diagonal().add_(50)
    x.diagonal(1)[1:] = -1
    return x, x.diagonal()


def strided_writes(x):
    x.as_strided((3, 2), (7, 2), 1).mul_(-1)
    x.reshape(-1)[::3].add_(0.5)
    return x, x.as_strided((2, 2), (5, 1), 6)


def whole_writes(x):
    v = x[1]
    x.zero_()
    x.copy_(mt.ones(5))
    v.fill_(3)
    x.reshape(-1)[4:7] = 2
    return x, v


def in_place_chain(x):
    y = x.exp().clamp(0, 50)
    y.sub_(1).mul_(y).sqrt_().add_(x)
    y /= 3
    y **= 2
    return y, x


def write_with_itself(x):
    x.add_(x)
    x.mul_(x.T.reshape(4, 5))
    x[0].add_(x[0])
    return x


def mixed_dtypes(x):
    i = x.long()
    i[1:].add_(True)
    i.mul_(3)
    x.add_(i)
    b = i > 5
    b[0] = True
    return x, i, b, b[0] & b[1]


def slots_of_a_buffer(x):
    out = mt.zeros(6, 5)
    for i in range(4):
        out[i].copy_(x[i] * i)
        out[4].add_(out[i])
    out[5] = out[:5].sum(0)
    return out


def swap(x):
    a, b = x[0].clone(), x[1].clone()
    x[0], x[1] = b, a
    return x


def dropped_base(x):
    v = (x * 3)[1:, 1]
    v.add_(1)
    return v


CASES = [
    write_through_a_view,
    write_through_a_view_of_a_view,
    read_a_view_before_and_after,
    overlapping_reads,
    overlapping_write,
    data_attribute,
    data_assignment,
    chained_slices,
    transposed_writes,
    expanded_reads,
    item_assignment,
    diagonal_writes,
    strided_writes,
    whole_writes,
    in_place_chain,
    write_with_itself,
    mixed_dtypes,
    slots_of_a_buffer,
    swap,
    dropped_base,
]


def arrays(result):
    result = result if isinstance(result, tuple) else (result,)
    return [(t.dtype, t.stride(), t.storage_offset(), t.numpy().tobytes(), t.tolist()) for t in result]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("options", [{}, {"auto_jit": 1, "min_cluster_size": 4}], ids=str)
@pytest.mark.parametrize(
    "make", [lambda: arange(4, 5), lambda: arange(4, 5) + 0, lambda: arange(5, 4).T, lambda: arange(6, 7)[1:5, 1:6]]
)
@pytest.mark.parametrize("case", CASES)
def test_views_and_writes(case, make, options):
    x, y = make(), make()
    eager = arrays((*_tuple(case(x)), x))
    with recorded(**options):
        z = make()
        inside = case(z)  # what is written is itself recorded
        outside = case(y)  # what is written was there before
    assert arrays((*_tuple(inside), z)) == eager
    assert arrays((*_tuple(outside), y)) == eager


def _tuple(result):
    return result if isinstance(result, tuple) else (result,)


# ---- memory shared with NumPy and DLPack


def test_reads_numpy_memory_as_it_was():
    array = np.arange(4, dtype=np.float32)
    x = mt.from_numpy(array)
    with recorded():
        y = x * 2
        array[:] = -1
        z = x * 2
    assert y.tolist() == [0, 2, 4, 6]
    assert z.tolist() == [-2] * 4


def test_writes_numpy_memory_at_once():
    array = np.arange(4, dtype=np.float32)
    x = mt.from_numpy(array)
    with recorded():
        x.add_(1)
        assert array.tolist() == [1, 2, 3, 4]
        x[1:].mul_(2)
        assert array.tolist() == [1, 4, 6, 8]
        array += 1
        assert (x * 1).tolist() == [2, 5, 7, 9]


def test_numpy_of_a_recorded_value_shares_its_memory():
    with recorded():
        x = arange(4) + 1
        array = x.numpy()
        x.mul_(2)
        assert array.tolist() == [2, 4, 6, 8]
        array[0] = 100
        y = x + 0
        array[0] = 200
    assert y.tolist() == [100, 4, 6, 8]
    assert x.tolist() == [200, 4, 6, 8]


def test_numpy_view_taken_after_a_recorded_read():
    x = arange(4) + 0
    with recorded():
        y = x * 1
        array = x.numpy()
        array[:] = 50
    assert y.tolist() == [0, 1, 2, 3]


def test_dlpack():
    array = np.arange(3, dtype=np.float32)
    x = mt.from_dlpack(array)
    with recorded():
        y = x + 1
        array[:] = 9
        z = x + 1
        w = z * 2
        out = np.from_dlpack(w)
        w.add_(1)
        assert out.tolist() == [21] * 3
    assert y.tolist() == [1, 2, 3]


def test_transposed_numpy_memory():
    array = np.arange(6, dtype=np.float64).reshape(2, 3)
    x = mt.from_numpy(array.T)
    with recorded():
        x[1].add_(10)
        y = x @ x.T
    assert array.tolist() == [[0, 11, 2], [3, 14, 5]]
    assert y.tolist() == (array.T @ array).tolist()


def test_arrays_that_overlap():
    array = np.arange(6, dtype=np.float32)
    a, b = mt.from_numpy(array[:4]), mt.from_numpy(array[2:])
    with recorded():
        total = a + b
        a.add_(10)
        after = b * 1
    assert total.tolist() == [2, 4, 6, 8]
    assert after.tolist() == [12, 13, 4, 5]


PARTS = {
    "whole": lambda x: x,
    "rows": lambda x: x[5:9],
    "column": lambda x: x[:, 3],
    "columns": lambda x: x[:, 2:4],
    "every second": lambda x: x[::2, 1::3],
    "transposed": lambda x: x.T[1:3],
    "repeated": lambda x: x[4:5].expand(3, -1),
    "repeated column": lambda x: x[:, 4:5].expand(-1, 6),
    "one element": lambda x: x[6, 7],
    "nothing": lambda x: x[3:3],
    "windows": lambda x: x.as_strided((4, 3), (1, 2), 11),
    "far apart": lambda x: x.as_strided((2, 2, 2), (1, 70, 9), 2),
}


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("options", [{}, {"auto_jit": 2, "cpu_global_jit": True}], ids=["recorded", "compiled"])
def test_parts_of_numpy_memory(part, options):
    """What was read keeps its values and its layout; twice the same part is read once, unless it changed meanwhile."""
    array = np.arange(120, dtype=np.float32).reshape(12, 10)
    x = mt.from_numpy(array)
    shown = part(mt.from_numpy(array.copy()))
    expected = [shown.tolist(), (shown * 2 + shown).tolist(), (-shown).tolist()]
    with recorded(**options):
        v = part(x)
        y = v * 2 + v
        array[:] = -array
        z = v * 1
        array[:] = 7
    assert y.tolist() == expected[1]
    assert z.tolist() == expected[2]
    assert y.stride() == (shown * 2 + shown).stride()
    assert v.tolist() == (shown * 0 + 7).tolist()


def test_only_what_is_read_of_numpy_memory_is_copied():
    array = np.zeros((100_000, 100), np.float32)
    x = mt.from_numpy(array)
    mt.reset_peak_memory_stats()
    before = mt.allocator_stats()["allocated_bytes"]
    with recorded():
        rows = [x[k : k + 10] * 2 for k in range(0, 1000, 10)]
        column = x[:, 50] * 2
    assert mt.allocator_stats()["peak_allocated_bytes"] - before < 4 * 800_000
    assert len(rows) == 100
    assert column.shape == (100_000,)


# ---- liveness


def test_only_living_tensors_are_computed():
    with flushes() as seen, recorded():
        x = arange(1000) * 2
        del x
    assert seen == []


def test_a_dropped_intermediate_is_not_kept():
    mt.empty_cache()
    x = mt.ones(1 << 20)
    with recorded():
        y = x * 2
        z = y + 1
        del y
        before = mt.allocator_stats()["allocated_bytes"]
        mt.reset_peak_memory_stats()
        value = z.sum().item()
        del z
    assert value == 3 * (1 << 20)
    assert mt.allocator_stats()["peak_allocated_bytes"] - before < 6 << 20


def test_written_memory_that_nobody_sees():
    with recorded():
        c = mt.tensor([1.0, 2.0])
        y = c * 3
        c.add_(1)
        del c
    assert y.tolist() == [3, 6]


@pytest.mark.parametrize("write", [lambda v: v.fill_(-3.0), lambda v: v.zero_(), lambda v: v.fill_(mt.tensor(2.5))])
@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.expand(3, 4, 5),
        lambda x: x[:, 1:3].expand(3, 2, 5),
        lambda x: x.expand(3, 4, 5).transpose(0, 2)[1:],
        lambda x: x.as_strided((3, 4), (2, 1), 3),
        lambda x: x.as_strided((2, 3, 3), (0, 3, 2), 1),
    ],
)
def test_filling_a_view_that_shows_elements_several_times(view, write):
    def body(x):
        x = x * 2.0
        write(view(x))
        return x + 1.0

    x = mt.arange(20.0).reshape(1, 4, 5)
    with compiler_failures() as failures, mt.jit_scope():
        got = body(x)
    assert failures == []
    assert got.tolist() == body(x).tolist()
