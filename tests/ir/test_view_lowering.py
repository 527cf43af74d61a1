"""Views of any strides as HLO, beside NumPy's."""

import numpy as np
import pytest

from minitensor_jit.ir.evaluate.evaluator import evaluate
from minitensor_jit.ir.shape import Shape
from minitensor_jit.lowering.context import Lowering


def views(seed):
    """The sizes, strides and offset of a view of 64 elements."""
    r = np.random.default_rng(seed)
    rank = r.integers(0, 5)
    while True:
        size = tuple(int(n) for n in r.integers(1, 5, rank))
        stride = tuple(int(s) for s in r.choice([0, 1, 2, 3, 4, 8, 12, 16, -1, -2, -4, -8], rank))
        low = sum(min(0, (n - 1) * s) for n, s in zip(size, stride, strict=True))
        high = sum(max(0, (n - 1) * s) for n, s in zip(size, stride, strict=True))
        if high - low < 64:
            return size, stride, int(r.integers(-low, 64 - high))


def seen(flat, size, stride, offset):
    return np.lib.stride_tricks.as_strided(flat[offset:], size, [4 * s for s in stride])


@pytest.mark.parametrize("seeds", range(4))
def test_views_of_all_strides_read_and_write_what_numpys_do(seeds):
    flat = np.arange(64, dtype=np.float32)
    for seed in range(60 * seeds, 60 * seeds + 60):
        size, stride, offset = views(seed)
        b = Lowering("read")
        read = b.build(b.view_read(b.parameter(Shape("f32", (64,))), size, stride, offset))
        expected = seen(flat, size, stride, offset)
        assert np.array_equal(evaluate(read, [flat])[0], expected), (size, stride, offset)
        value = np.full(size, -1, dtype=np.float32)
        b = Lowering("write")
        base = b.parameter(Shape("f32", (64,)))
        write = b.build(b.view_write(base, b.parameter(Shape("f32", size)), size, stride, offset))
        written = flat.copy()
        seen(written, size, stride, offset)[...] = value
        assert np.array_equal(evaluate(write, [flat, value])[0], written), (size, stride, offset)
