"""The reductions' kernels: their order to the last bit, their values against NumPy, their errors."""

import itertools
import math
import os
import subprocess
import sys

import numpy as np
import pytest

import minitensor as mt
from tests.instruction_sets import USABLE

SHAPES = [
    (), (1,), (5,), (16,), (17,), (63,), (64,), (65,), (1000,), (4097,), (9000,), (3, 7), (100, 10), (10, 100),
    (600, 3), (700, 129), (1000, 64), (3, 5000), (5, 300, 17), (4, 5, 6), (2, 3, 4, 5), (1, 7, 1, 3), (1100, 1, 5),
]  # fmt: skip
SOFTMAX_SHAPES = [
    (1,), (10,), (17,), (100, 10), (33, 1), (1, 33), (7, 64), (5, 600), (2, 5000), (3, 4, 5), (5, 300, 7),
    (2, 20_000, 3),
]  # fmt: skip
FLOATS = [np.float32, np.float64]


def dims_of(rank):
    return [d for k in range(1, rank + 1) for d in itertools.combinations(range(rank), k)] or [()]


def row_sum(x):
    """docs/numerics.md's row step, literally."""
    block = 4096 * max(1, math.ceil(len(x) / (4096 * 1024)))
    total = None
    for start in range(0, max(len(x), 1), block):
        part = x[start : start + block]
        lanes = np.zeros(64, x.dtype)
        for chunk in np.concatenate([part, np.zeros(-len(part) % 64, x.dtype)]).reshape(-1, 64):
            lanes = lanes + chunk
        width = 32
        while width:
            lanes[:width] += lanes[width : 2 * width]
            width //= 2
        total = lanes[0] if total is None else total + lanes[0]
    return total


def column_sum(x):
    """docs/numerics.md's column step, literally."""
    block = 256 * max(1, math.ceil(len(x) / (256 * 64)))
    total = None
    for start in range(0, max(len(x), 1), block):
        part = np.zeros(x.shape[1], x.dtype)
        for row in x[start : start + block]:
            part = part + row
        total = part if total is None else total + part
    return total


def ordered_sum(x, dims):
    """The sum over `dims` in the documented order, by the logical shape alone."""
    groups = []
    for d, size in enumerate(x.shape):
        if size == 1:
            continue
        if groups and groups[-1][1] == (d in dims):
            groups[-1][0] *= size
        else:
            groups.append([size, d in dims])
    a = np.ascontiguousarray(x).reshape([size for size, _ in groups])
    flags = [reduced for _, reduced in groups]
    while any(flags):
        at = max(i for i, reduced in enumerate(flags) if reduced)
        before, after = a.shape[:at], a.shape[at + 1 :]
        step = a.reshape(math.prod(before), a.shape[at], math.prod(after))
        reduce = (lambda s: np.array([row_sum(s[:, 0])])) if step.shape[2] == 1 else column_sum
        a = np.array([reduce(s) for s in step], x.dtype).reshape(before + after)
        flags.pop(at)
    return a.reshape([size for d, size in enumerate(x.shape) if d not in dims])


def layouts(x):
    """Tensors with the values of `x` in different places of memory."""
    yield mt.from_numpy(x.copy())
    if x.ndim:
        yield mt.from_numpy(np.asfortranarray(x))
        yield mt.from_numpy(np.repeat(x, 2, axis=-1))[..., ::2]
        yield mt.from_numpy(np.repeat(x, 3, axis=0))[::3]
    if x.ndim > 1:
        order = [*range(1, x.ndim), 0]
        yield mt.from_numpy(np.ascontiguousarray(x.transpose(order))).permute(*np.argsort(order).tolist())


def same_bits(got, want, note=""):
    got = got.numpy()
    assert (got.shape, got.dtype) == (want.shape, want.dtype), note
    assert got.tobytes() == np.ascontiguousarray(want).tobytes(), note


def random(shape, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return np.asarray(rng.standard_normal(shape) * 10).astype(dtype)
    high = {"bool": 2, "uint8": 250}.get(np.dtype(dtype).name, 1000)
    return np.asarray(rng.integers(0 if high < 1000 else -high, high, shape)).astype(dtype)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_sums_have_the_documented_order(shape, dtype):
    x = random(shape, dtype)
    for dims in dims_of(x.ndim):
        want = ordered_sum(x, dims)
        for t in layouts(x):
            same_bits(t.sum(dims) if dims else t.sum(), want, dims)
            same_bits(t.sum(dims, keepdim=True).reshape(want.shape) if dims else t.sum(), want, dims)


@pytest.mark.parametrize("shape", [(5_000_000,), (40_000, 7), (40_000, 150), (2, 20_000, 3)], ids=str)
def test_long_sums_have_the_documented_order_on_any_number_of_threads(shape):
    x = random(shape)
    dim = len(shape) - 1 if len(shape) == 1 else len(shape) - 2
    want = ordered_sum(x, (dim,))
    threads = mt.get_num_threads()
    try:
        for n in (1, 2, 3):
            mt.set_num_threads(n)
            for t in layouts(x):
                same_bits(t.sum(dim), want, n)
    finally:
        mt.set_num_threads(threads)


def test_dtype_converts_before_the_sum():
    x = random((7, 300), np.int32)
    for dtype, name in ((np.float32, mt.float32), (np.float64, mt.float64)):
        for t in layouts(x):
            same_bits(t.sum(1, dtype=name), ordered_sum(x.astype(dtype), (1,)))
            same_bits(t.sum(0, dtype=name), ordered_sum(x.astype(dtype), (0,)))
    halves = mt.tensor([1.5, 1.5, 0.5])
    assert halves.sum(dtype=mt.int64).item() == 2
    assert mt.tensor([200, 100], dtype=mt.uint8).sum(dtype=mt.uint8).item() == 44
    assert mt.tensor([3, -3]).sum(dtype=mt.bool).item() is True


def test_zeros_keep_or_lose_their_sign_as_documented():
    assert math.copysign(1, mt.tensor([-0.0]).sum().item()) == -1  # a dimension of size 1 is dropped
    assert math.copysign(1, mt.tensor([-0.0, -0.0]).sum().item()) == 1  # a sum starts at +0.0
    both = mt.tensor([-0.0, 0.0, -0.0])
    assert math.copysign(1, both.amax().item()) == 1
    assert math.copysign(1, both.amin().item()) == -1
    assert both.argmax().item() == both.argmin().item() == 0


@pytest.mark.parametrize("name", ["bool", "uint8", "int32", "int64", "float32", "float64"])
def test_values_against_numpy(name):
    dtype = np.dtype(name)
    for shape in [*SHAPES, (0, 3), (3, 0), (2, 0, 3)]:
        x = random(shape, dtype)
        small = {"b": x, "f": 1 + x / 1e4}.get(dtype.kind, x % 3)  # products of these are modest
        small = np.asarray(small).astype(dtype)
        for dims in [None, *dims_of(x.ndim)]:
            axis = tuple(range(x.ndim)) if dims is None else dims
            kept = math.prod(s for d, s in enumerate(shape) if d not in axis)
            for t, s in zip(layouts(x), layouts(small), strict=True):
                args = () if dims is None or not dims else (dims,)
                for op in ("any", "all"):
                    want = np.asarray(getattr(np, op)(x != 0, axis=axis))
                    same_bits(getattr(t, op)(*args), want.astype(np.uint8) if name == "uint8" else want)
                if dtype.kind != "f":
                    same_bits(t.sum(*args), np.asarray(x.sum(axis, dtype=np.int64)))
                    if len(args) == 0 or len(dims) == 1:
                        got = s.prod(*(() if not args else (dims[0],)))
                        same_bits(got, np.asarray(np.prod(small.astype(np.int64), axis)))
                elif len(args) == 0:
                    np.testing.assert_allclose(s.prod().numpy(), np.prod(small.astype(np.float64)), rtol=1e-3)
                if x.size or (kept == 0 and dims is not None and all(shape[d] for d in dims)):
                    same_bits(t.amax(*args), np.asarray(x.max(axis)))
                    same_bits(t.amin(*args), np.asarray(x.min(axis)))


@pytest.mark.parametrize("name", ["uint8", "int32", "int64", "float32", "float64"])
def test_argmax_and_max_give_the_first_extreme(name):
    for shape in [*SHAPES, (2, 70_000), (300, 300)]:
        x = random(shape, name) % 7
        x = np.asarray(x).astype(name)
        for t in layouts(x):
            same_bits(t.argmax(), np.asarray(x.argmax()))
            same_bits(t.argmin(), np.asarray(x.argmin()))
            for d in range(x.ndim):
                same_bits(t.argmax(d), np.asarray(x.argmax(d)))
                same_bits(t.argmin(d, keepdim=True), np.asarray(x.argmin(d, keepdims=True)))
                values, indices = t.max(d)
                same_bits(indices, np.asarray(x.argmax(d)))
                same_bits(values, np.asarray(x.max(d)))


@pytest.mark.parametrize("dtype", FLOATS)
def test_nan_is_the_extreme(dtype):
    for n in (3, 17, 100, 5000, 200_000):
        x = random((n,), dtype)
        x[0], x[1] = np.inf, -np.inf
        x[n // 2] = np.nan
        x[n - 1] = -np.nan
        for t in layouts(x):
            assert np.isnan(t.amax().item())
            assert np.isnan(t.amin().item())
            assert t.argmax().item() == t.argmin().item() == n // 2
            columns = t.reshape(n, 1).expand(n, 9)
            assert columns.argmax(0).tolist() == [n // 2] * 9
            assert np.isnan(columns.amin(0).numpy()).all()


def first_extreme(row, largest):
    """The place, and the value in the order NaN, 1, +0, -0, -1 from one end; the place takes both zeros for equal."""
    nan = np.flatnonzero(np.isnan(row))
    if len(nan):
        return nan[0], np.nan
    value = row.max() if largest else row.min()
    place = np.flatnonzero(row == value)[0]
    if value == 0:
        signs = np.signbit(row[row == 0])
        value = -0.0 if (signs.all() if largest else signs.any()) else 0.0
    return place, value


@pytest.mark.parametrize("dtype", FLOATS)
def test_extremes_of_mixed_signs_zeros_and_infinities(dtype):
    rng = np.random.default_rng(0)
    sets = [
        [-0.0, 0.0], [-1.0, -2.0, -0.0], [-1.0, -2.0, 0.0], [1.0, 2.0, -0.0], [0.0, 1.0, 2.0],
        [-1e-45, 1e-45, -0.0],
        [-np.inf, -1.0], [np.inf, 1.0], [-np.inf, np.inf, 0.0], [-np.inf], [np.inf], [1.0, np.nan, -1.0],
        [-np.nan, -1.0], [np.nan, np.inf], [-np.nan, -np.inf], [-1.0, 1.0, 3.0, -3.0],
    ]  # fmt: skip
    for n in [*range(1, 40), 63, 64, 65, 79, 80, 81, 128, 129, 200, 4096, 4097, 9000]:
        x = np.stack([rng.choice(np.array(s, dtype), n) for s in sets])
        t = mt.from_numpy(x)
        for largest in (True, False):
            expected = [first_extreme(row, largest) for row in x]
            places = (t.argmax(1) if largest else t.argmin(1)).tolist()
            assert places == [place for place, _ in expected]
            wanted = np.array([value for _, value in expected], dtype)
            for values in (t.amax(1) if largest else t.amin(1), mt.stack([r.max() if largest else r.min() for r in t])):
                got = values.numpy()
                assert np.array_equal(got, wanted, equal_nan=True)
                numbers = ~np.isnan(wanted)  # docs/numerics.md leaves the sign of a NaN open
                assert np.array_equal(np.signbit(got[numbers]), np.signbit(wanted[numbers]))


def test_mean():
    x = random((50, 60))
    for t in layouts(x):
        for dims in ((0,), (1,), (0, 1)):
            count = np.float32(math.prod(x.shape[d] for d in dims))
            same_bits(t.mean(dims), np.asarray(ordered_sum(x, dims) / count))
    assert np.isnan(mt.zeros(0).mean().item())
    assert mt.tensor([1, 2]).mean(dtype=mt.float64).item() == 1.5


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", SOFTMAX_SHAPES, ids=str)
def test_softmax_has_the_bits_of_its_parts(shape, dtype):
    x = random(shape, dtype)
    for t in layouts(x):
        for d in range(-x.ndim, x.ndim):
            shifted = t - t.amax(d, keepdim=True)
            e = shifted.exp()
            s = e.sum(d, keepdim=True)
            same_bits(t.softmax(d), (e / s).numpy())
            same_bits(t.log_softmax(d), (shifted - s.log()).numpy())


def test_softmax_of_nan_and_infinities():
    x = mt.tensor([[1.0, math.inf, 2.0], [math.nan, 1.0, 2.0], [-math.inf] * 3, [-math.inf, 0.0, 0.0]])
    assert np.isnan(x.softmax(1).numpy()[:3]).all()
    assert x.softmax(1)[3].tolist() == [0.0, 0.5, 0.5]
    assert mt.tensor([1, 2]).softmax(0, dtype=mt.float32).sum().item() == pytest.approx(1)


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_nll_loss():
    x, target = random((6, 5)), np.array([0, 4, 2, 2, 1, 3])
    for t in layouts(x):
        same_bits(mt.nll_loss(t, mt.from_numpy(target)), -x[np.arange(6), target])
    for bad in (12, -1):
        with pytest.raises(IndexError, match=f"Target {bad} is out of bounds."):
            mt.nll_loss(mt.from_numpy(x), mt.tensor([0, 1, bad, 0, 0, 0]))
    with pytest.raises(ValueError, match=r"Expected input batch_size \(6\) to match target batch_size \(2\)"):
        mt.nll_loss(mt.from_numpy(x), mt.tensor([0, 1]))


def test_errors_are_pytorchs():
    x = mt.ones(2, 3)
    with pytest.raises(IndexError, match=r"Dimension out of range \(expected to be in range of \[-2, 1\], but got 4\)"):
        x.sum(4)
    with pytest.raises(RuntimeError, match="dim 0 appears multiple times in the list of dims"):
        x.sum((0, -2))
    with pytest.raises(RuntimeError, match=r"mean\(\): could not infer output dtype. Input dtype .* Got: Long"):
        mt.tensor([1, 2]).mean()
    with pytest.raises(IndexError, match=r"amax\(\): Expected reduction dim 0 to have non-zero size"):
        mt.ones(0, 3).amax(0)
    with pytest.raises(RuntimeError, match=r"amin\(\): Expected reduction dim to be specified for"):
        mt.ones(0, 3).amin()
    with pytest.raises(IndexError, match=r"argmax\(\): Expected reduction dim to be specified"):
        mt.ones(0).argmax()
    with pytest.raises(RuntimeError, match=r"argmax\(\): does not support bool input"):
        mt.tensor([True]).argmax()
    with pytest.raises(NotImplementedError, match="softmax_lastdim_kernel_impl"):
        mt.tensor([1, 2]).softmax(0)


DIGEST = """
import hashlib, numpy as np, minitensor as mt
rng, digest = np.random.default_rng(0), hashlib.sha256()
for shape in [(10,), (5000,), (100, 10), (300, 77), (64, 1000), (20, 300, 5)]:
    for dtype in ("float32", "float64"):
        x = mt.from_numpy(rng.standard_normal(shape).astype(dtype))
        for t in (x, x.transpose(0, -1), -x.abs(), (x * 2).round(), mt.where(x > 1.5, mt.nan, x)):
            for d in range(-len(shape), 0):
                extremes = (t.amax(d), t.amin(d), t.argmax(d), t.argmin(d))
                for y in (t.sum(d), *extremes, t.softmax(d), t.log_softmax(d), t.prod(d)):
                    digest.update(y.numpy().tobytes())
print(digest.hexdigest())
"""


def test_every_instruction_set_gives_the_same_bits():
    digests = {}
    for level in USABLE:
        env = os.environ | {"MT_ISA": level}
        run = subprocess.run([sys.executable, "-c", DIGEST], env=env, capture_output=True, text=True, check=True)
        digests[level] = run.stdout.strip()
        assert len(digests[level]) == 64
    assert len(set(digests.values())) == 1, digests


@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16])
@pytest.mark.parametrize("shape", [(7,), (65,), (5000,), (40, 1000), (1000, 40), (3, 5000, 70), (20000, 3), (513, 17)])
def test_sums_of_narrow_numbers_are_those_of_float32_rounded_once(dtype, shape):
    x = mt.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(np.float32)).to(dtype)
    layouts = [x, x.flip(0), x[..., ::2]] + ([x.t()] if len(shape) == 2 else [])
    for t in layouts:
        wide = t.to(mt.float32)
        assert mt.equal(t.sum(), wide.sum().to(dtype))
        for d in range(len(shape)):
            assert mt.equal(t.sum(d), wide.sum(d).to(dtype))
            assert mt.equal(t.mean(d), wide.mean(d).to(dtype))
