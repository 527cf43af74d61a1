"""Convolutions have the sums of docs/numerics.md, whichever of their kernels runs: those of a product with patches."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.nn import functional as F

# batch, channels and filters of a group, height and width, kernel, stride, padding, dilation, groups
CASES = {
    "lenet": (5, 6, 16, 14, 14, (5, 5), 1, 0, 1, 1),
    "padded": (2, 4, 32, 9, 31, (3, 3), 1, 1, 1, 1),
    "tall steps": (2, 16, 15, 12, 17, (3, 2), (2, 1), (2, 1), (1, 2), 2),
    "long sums": (2, 130, 16, 9, 9, (3, 3), 1, 1, 1, 1),
    "many rows": (1, 4, 16, 60, 50, (3, 3), 1, (3, 0), (2, 1), 1),
    "many filters": (3, 8, 64, 10, 10, (3, 3), 1, (0, 2), 1, 1),
    "few filters": (2, 8, 5, 10, 10, (3, 3), 1, 1, 1, 1),
    "wide steps": (2, 8, 16, 20, 20, (3, 3), 2, 1, 1, 1),
    "short rows": (4, 8, 16, 9, 5, (3, 3), 1, 0, 1, 1),
    "one image": (1, 8, 128, 8, 8, (3, 3), 1, 1, 1, 1),
    "one channel": (3, 1, 32, 16, 16, (3, 3), 1, 1, 1, 1),
    "smallest patch": (2, 1, 20, 9, 18, (1, 2), 1, 0, 1, 1),
    "colours": (2, 3, 70, 9, 23, (3, 3), 1, 1, 1, 1),
    "sums in blocks": (2, 130, 22, 6, 31, (3, 3), 1, 1, 1, 1),
    "small images": (5, 16, 36, 4, 4, (3, 3), 1, 1, 1, 1),
    "little room": (1, 8, 256, 4, 6, (3, 3), 1, 0, 1, 1),
}


def pair(value):
    return value if isinstance(value, tuple) else (value, value)


def by_patches(x, w, bias, stride, padding, dilation, groups):
    parts = []
    for part, weights in zip(x.chunk(groups, 1), w.chunk(groups, 0), strict=True):
        patches = F.unfold(part, tuple(w.shape[2:]), dilation, padding, stride)
        parts.append(weights.reshape(weights.shape[0], -1) @ patches)
    sizes = [
        (n + 2 * p - d * (k - 1) - 1) // s + 1
        for n, k, s, p, d in zip(x.shape[2:], w.shape[2:], *map(pair, (stride, padding, dilation)), strict=True)
    ]
    sums = mt.cat(parts, 1)
    sums = sums if bias is None else sums + bias.reshape(-1, 1)
    return sums.reshape(x.shape[0], w.shape[0], *sizes)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums(case, dtype):
    batch, channels, filters, height, width, kernel, stride, padding, dilation, groups = case
    rng = np.random.default_rng(0)
    x = mt.from_numpy(rng.standard_normal((batch, channels * groups, height, width)).astype(dtype))
    w = mt.from_numpy(rng.standard_normal((filters * groups, channels, *kernel)).astype(dtype))
    b = mt.from_numpy(rng.standard_normal(filters * groups).astype(dtype))
    threads = mt.get_num_threads()
    for bias in (None, b):
        expected = by_patches(x, w, bias, stride, padding, dilation, groups).numpy()
        for count in (1, 2):
            mt.set_num_threads(count)
            try:
                found = F.conv2d(x, w, bias, stride, padding, dilation, groups).numpy()
            finally:
                mt.set_num_threads(threads)
            assert found.tobytes() == expected.tobytes()


def test_rows_and_infinities():
    rng = np.random.default_rng(1)
    x = mt.from_numpy(rng.standard_normal((3, 8, 40)).astype(np.float32))
    w = mt.from_numpy(rng.standard_normal((16, 8, 5)).astype(np.float32))
    found, expected = F.conv1d(x, w, None, 1, 2), F.conv2d(x[:, :, None], w[:, :, None], None, 1, (0, 2))
    assert found.numpy().tobytes() == expected.numpy().tobytes()
    x[0, 0, 7] = float("inf")
    row = F.conv1d(x, w, None, 1, 2)[0]
    assert row[:, 5:10].isinf().all()
    assert row[:, :5].isfinite().all()
    assert row[:, 10:].isfinite().all()
