"""Maxima of windows, element by element: which of equal elements, infinities, NaN, windows that lack elements."""

import itertools

import numpy as np
import pytest

import minitensor as mt
from minitensor.nn import functional as F


def reference(x, kernel, stride, padding, dilation, out):
    """The values and places of one plane: the first of the largest, or the last NaN."""
    values, places = np.empty(out, x.dtype), np.empty(out, np.int64)
    for at in itertools.product(*map(range, out)):
        best, place = -np.inf, None
        for step in itertools.product(*map(range, kernel)):
            spot = tuple(o * s - p + t * d for o, s, p, t, d in zip(at, stride, padding, step, dilation, strict=True))
            if any(i < 0 or i >= n for i, n in zip(spot, x.shape, strict=True)):
                continue
            here = np.ravel_multi_index(spot, x.shape)
            place = here if place is None else place
            if x[spot] > best or np.isnan(x[spot]):
                best, place = x[spot], here
        values[at], places[at] = best, place
    return values, places


# Rows of windows that are shorter and longer than vectors, and fill them.
@pytest.mark.parametrize("width", [3, 4, 5, 6, 23, 32, 71])
@pytest.mark.parametrize(
    ("kernel", "stride", "padding", "dilation"),
    [
        ((2, 2), (2, 2), (0, 0), (1, 1)),
        ((3, 3), (2, 2), (1, 1), (1, 1)),
        ((3, 2), (1, 1), (1, 1), (1, 2)),
        ((2, 3), (1, 3), (0, 1), (2, 1)),
        ((1, 2), (1, 2), (0, 1), (1, 3)),
    ],
)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_every_window(dtype, kernel, stride, padding, dilation, width):
    rng = np.random.default_rng(width)
    x = rng.integers(-2, 3, (3, 7, width)).astype(dtype)
    x[rng.random(x.shape) < 0.3] = -0.0
    x[1][rng.random(x[1].shape) < 0.7] = -np.inf
    x[2][rng.random(x[2].shape) < 0.1] = np.nan
    whole = mt.tensor(x).unsqueeze(0)
    values, places = F.max_pool2d(whole, kernel, stride, padding, dilation, return_indices=True)
    alone = F.max_pool2d(whole, kernel, stride, padding, dilation)
    for plane, value, place, only in zip(x, values[0], places[0], alone[0], strict=True):
        expected, where = reference(plane, kernel, stride, padding, dilation, tuple(value.shape))
        assert value.numpy().tobytes() == only.numpy().tobytes() == expected.tobytes()
        np.testing.assert_array_equal(place.numpy(), where)
