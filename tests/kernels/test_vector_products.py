"""Products of a vector in the order of docs/numerics.md: sixteen lanes in each block, on every instruction set."""

import ctypes
import os
import subprocess
import sys

import numpy as np
import pytest

import minitensor as mt
from tests.instruction_sets import USABLE

BLOCK, LANES = 512, 16
LIBM = ctypes.CDLL("libm.so.6")
FMA = {np.dtype(np.float32): LIBM.fmaf, np.dtype(np.float64): LIBM.fma}
for _dtype, _fma in FMA.items():
    _fma.restype = ctypes.c_float if _dtype.itemsize == 4 else ctypes.c_double
    _fma.argtypes = [_fma.restype] * 3

CODE = """
import hashlib, sys
import numpy as np
import minitensor as mt
mt.set_num_threads(int(sys.argv[1]))
rng = np.random.default_rng(3)
digest = hashlib.sha256()
for dtype in ("float32", "float64"):
    shapes = [(1, 5), (1, 2000), (1, 300_001), (3, 16), (7, 1030), (130, 515), (400, 700), (1030, 1500), (600, 2048)]
    for m, k in [*shapes, (2, 200_000)]:
        a, v = mt.tensor(rng.normal(size=(m, k)).astype(dtype)), mt.tensor(rng.normal(size=k).astype(dtype))
        columns = a.mT.contiguous().mT
        wide = mt.stack([a, a], 2)[:, :, 0]
        for x in (a, columns, wide):
            digest.update((x @ v).numpy().tobytes())
            digest.update((v @ x.mT).numpy().tobytes())
            digest.update((v.unsqueeze(0).expand(3, 1, k) @ x.mT.expand(3, k, m)).numpy().tobytes())
print(digest.hexdigest())
"""


def reference(a, v):
    """a @ v for a matrix and a vector, as the page defines it."""
    fma = FMA[a.dtype]
    out = np.zeros(len(a), a.dtype)
    for i, row in enumerate(a):
        total = None
        for start in range(0, len(v), BLOCK):
            x, y = row[start : start + BLOCK], v[start : start + BLOCK]
            pad = -len(x) % LANES
            x, y = np.pad(x, (0, pad)), np.pad(y, (0, pad))
            lane = np.zeros(LANES, a.dtype)
            for p in range(len(x)):
                lane[p % LANES] = fma(x[p], y[p], lane[p % LANES])
            w = LANES // 2
            while w:
                lane[:w] += lane[w : 2 * w]
                w //= 2
            total = lane[0] if total is None else total + lane[0]
        out[i] = total
    return out


def same(result, expected):
    assert result.numpy().tobytes() == np.asarray(expected).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shape",
    [
        (1, 1),
        (5, 3),
        (3, 16),
        (2, 31),
        (33, 40),
        (9, 512),
        (5, 513),
        (3, 1100),
        (300, 7),
        (1, 5000),
        (1300, 90),
        (530, 1100),
    ],
)
def test_order(shape, dtype):
    rng = np.random.default_rng(1)
    a, v = rng.normal(size=shape).astype(dtype), rng.normal(size=shape[1]).astype(dtype)
    expected = reference(a, v)
    x, y = mt.tensor(a), mt.tensor(v)
    by_columns = mt.tensor(np.ascontiguousarray(a.T)).mT
    spread = mt.stack([x, -x], 2)[:, :, 0]
    backwards = mt.tensor(v[::-1].copy()).flip(0)
    for matrix in (x, by_columns, spread):
        same(matrix @ y, expected)
        same(y @ matrix.mT, expected)
        same(matrix @ backwards, expected)
        same((matrix @ y.unsqueeze(1)).squeeze(1), expected)
        same(mt.mv(matrix, y, out=mt.empty(len(a), 2, dtype=x.dtype)[:, 0]).contiguous(), expected)
        same((y.unsqueeze(0) @ matrix.mT).squeeze(0), expected)
        same((y.expand(2, 1, -1) @ matrix.mT.expand(2, -1, -1))[1, 0], expected)
    same(mt.dot(x[0], y), expected[0])


def test_sum_of_tiny_products_keeps_the_sign_of_the_padded_order():
    a, v = np.full((2, 3), 1e-30, np.float32), np.full(3, -1e-30, np.float32)
    for matrix in (mt.tensor(a), mt.tensor(np.ascontiguousarray(a.T)).mT):
        same(matrix @ mt.tensor(v), reference(a, v))
    a, v = np.full((2, 16), 1e-30, np.float32), np.full(16, -1e-30, np.float32)
    for matrix in (mt.tensor(a), mt.tensor(np.ascontiguousarray(a.T)).mT):
        same(matrix @ mt.tensor(v), reference(a, v))


@pytest.mark.parametrize("shapes", [((3, 1, 40), (40, 5)), ((2, 3, 40), (40, 1)), ((4, 1, 70), (4, 70, 9)),
                                    ((4, 9, 70), (4, 70, 1)), ((1, 40), (40, 600)), ((40,), (2, 40, 3)),
                                    ((3, 1, 40), (1, 40, 5)), ((2, 3, 40), (40,)), ((700,), (700,)), ((1, 0), (0, 4)),
                                    ((0,), (0,)), ((3, 0), (0,))])  # fmt: skip
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_compiled_products_have_the_bits_of_eager_ones(shapes, dtype):
    rng = np.random.default_rng(2)
    x, y = (mt.tensor(rng.normal(size=s).astype(dtype)) for s in shapes)
    same(mt.function(lambda a, b: a @ b, jit_compile=True)(x, y), (x @ y).numpy())


def test_every_instruction_set_and_thread_count_gives_the_same_bits():
    results = {
        subprocess.run(
            [sys.executable, "-c", CODE, threads], env={**os.environ, "MT_ISA": level}, capture_output=True, check=True
        ).stdout
        for level in USABLE
        for threads in ("1", "2", "3")
    }
    assert len(results) == 1
