"""Ops on complex numbers that have kernels on GPUs, with the bits of the CPU."""

import numpy as np
import pytest
from fuzz.programs import bits
from gpu_agrees import gpu_agrees

import minitensor as mt
from minitensor_jit.runtime.cuda.start import host_ops

pytestmark = pytest.mark.sampled(6)


def numbers(*dims, dtype="complex64"):
    rng = np.random.default_rng(4)
    found = rng.standard_normal((2, *dims)) * 10.0 ** rng.integers(-3, 4, (2, *dims))
    flat = found.reshape(2, -1)
    n = flat.shape[1]
    flat[0, 0] = 0
    flat[:, n // 2] = 0, -0.0
    flat[1, n // 3] = np.inf
    flat[0, n // 4] = np.nan
    flat[:, n // 5] = -np.inf, np.nan
    pairs = np.ascontiguousarray(np.moveaxis(found, 0, -1))
    return mt.from_numpy(pairs.view("complex128")[..., 0].astype(dtype))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(
    ("dims", "dim"), [((7, 300), 1), ((300, 7), 0), ((5, 1, 90), (0, 2)), ((6000,), None)], ids=str
)
def test_sums(dims, dim, dtype):
    x = numbers(*dims, dtype=dtype)
    gpu_agrees(lambda t: t.sum(dim), x)
    gpu_agrees(lambda t: t.mean(dim), x)
    gpu_agrees(lambda t: t.sum(dim, keepdim=True), x)
    if isinstance(dim, int):
        gpu_agrees(lambda t: t.cumsum(dim), x)


@pytest.mark.parametrize("name", ["isnan", "isinf", "isfinite", "logical_not", "abs", "sgn"])
def test_of_each(name):
    gpu_agrees(lambda t: getattr(t, name)(), numbers(9, 41))


@pytest.mark.parametrize("name", ["logical_and", "logical_or", "logical_xor"])
def test_of_two(name):
    x, y = numbers(9, 41), numbers(41, 9).T.contiguous()
    gpu_agrees(lambda s, t: getattr(s, name)(t), x, y)


@pytest.mark.parametrize("name", ["all", "any"])
def test_quantifiers(name):
    x = numbers(9, 41)
    gpu_agrees(lambda t: getattr(t, name)(), x)
    gpu_agrees(lambda t: getattr(t, name)(1), x)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((5, 7), (7, 4)),
        ((7,), (7,)),
        ((1, 40), (40, 1)),
        ((3, 4, 6), (6, 5)),
        ((2, 1, 3, 5), (4, 5, 2)),
        ((70,), (70, 33)),
    ],
    ids=str,
)
def test_products_of_matrices(first, second, dtype):
    rng = np.random.default_rng(3)
    made = [rng.standard_normal((*dims, 2)).view("complex128")[..., 0].astype(dtype) for dims in (first, second)]
    gpu_agrees(lambda x, y: x @ y, *map(mt.from_numpy, made))


def test_magnitudes_of_float64_are_the_hosts():
    x = numbers(5, dtype="complex128")
    host_ops.clear()
    assert bits(x.cuda().abs().cpu().numpy()) == bits(x.abs().numpy())
    assert list(host_ops) == ["abs"]
