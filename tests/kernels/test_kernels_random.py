"""Creation and random ops: the numbers that docs/numerics.md defines, computed again in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import minitensor as mt

FLOATS = {"float32": mt.float32, "float64": mt.float64}
ALL = {"bool": mt.bool, "uint8": mt.uint8, "int32": mt.int32, "int64": mt.int64, **FLOATS}


def same(result: Any, expected: np.ndarray) -> None:
    """Equal dtype, shape and values."""
    got = result.numpy()
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected, strict=True)


def test_creation() -> None:
    same(mt.arange(5), np.arange(5))
    same(mt.arange(10, -3, -4), np.arange(10, -3, -4))
    same(mt.arange(0, 1, 0.3), np.array([0, 0.3, 0.6, 0.9]).astype(np.float32))
    same(mt.arange(0, 1, 0.3, dtype=mt.int32), np.zeros(4, np.int32))
    same(mt.arange(70_000, dtype=mt.float32), np.arange(70_000, dtype=np.float32))
    same(mt.arange(-(2**63), 2**63 - 1, 2**62), np.array([-(2**63), -(2**62), 0, 2**62]))
    same(mt.eye(3, 5), np.eye(3, 5, dtype=np.float32))
    same(mt.eye(4, dtype=mt.bool), np.eye(4, dtype=bool))
    same(mt.linspace(0, 10, 5, dtype=mt.int32), np.array([0, 2, 5, 7, 10], np.int32))
    result = mt.linspace(-1, 2, 1000, dtype=mt.float64)
    np.testing.assert_allclose(result.numpy(), np.linspace(-1, 2, 1000), rtol=1e-14, atol=1e-15)
    assert [result[0].item(), result[999].item()] == [-1, 2]
    assert mt.linspace(3, 5, 1).tolist() == [3]
    assert mt.zeros(0, 3).shape == (0, 3)


def philox(seed: int, offset: int, blocks: int, first: int = 0) -> np.ndarray:
    """Philox4x32-10 in NumPy: the words of consecutive blocks."""
    low = np.uint64(0xFFFFFFFF)
    shift = np.uint64(32)
    index = np.arange(blocks, dtype=np.uint64) + np.uint64(first)
    x = [index & low, index >> shift, np.full_like(index, offset & 0xFFFFFFFF), np.full_like(index, offset >> 32)]
    key = [seed & 0xFFFFFFFF, seed >> 32]
    for _ in range(10):
        p, q = x[0] * np.uint64(0xD2511F53), x[2] * np.uint64(0xCD9E8D57)
        x = [(q >> shift) ^ x[1] ^ np.uint64(key[0]), q & low, (p >> shift) ^ x[3] ^ np.uint64(key[1]), p & low]
        key = [(key[0] + 0x9E3779B9) & 0xFFFFFFFF, (key[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return np.stack(x, axis=1).reshape(-1).astype(np.uint32)


# Counter, key and result, from the test vectors that Random123 publishes.
VECTORS = [
    (0, 0, 0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
    (2**64 - 1, 2**64 - 1, 2**64 - 1, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
    (0x85A308D3243F6A88, 0x0370734413198A2E, 0x299F31D0A4093822, [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1]),
]


@pytest.mark.parametrize(("index", "offset", "seed", "words"), VECTORS)
def test_philox_vectors(index: int, offset: int, seed: int, words: list[int]) -> None:
    assert philox(seed, offset, 1, index).tolist() == words


def test_the_words_are_philox() -> None:
    mt.manual_seed(0)
    assert mt.randint(0, 2**32, (4,)).tolist() == VECTORS[0][3]
    for seed in (0, 123456789, 2**64 - 1):
        mt.manual_seed(seed)
        for offset in range(3):
            assert mt.randint(0, 2**32, (4099,)).tolist() == philox(seed, offset, 1025)[:4099].tolist()


def words_64(words: np.ndarray) -> np.ndarray:
    return words[::2].astype(np.uint64) | words[1::2].astype(np.uint64) << np.uint64(32)


@pytest.mark.parametrize("n", [1, 2, 5, 1024, 100_003])
def test_uniform(n: int) -> None:
    mt.manual_seed(42)
    same(mt.rand(n), (philox(42, 0, n)[:n] >> 8).astype(np.float32) * np.float32(2**-24))
    same(mt.rand(n, dtype=mt.float64), (words_64(philox(42, 1, n))[:n] >> np.uint64(11)).astype(np.float64) * 2.0**-53)
    u = (philox(42, 2, n)[:n] >> 8).astype(np.float32) * np.float32(2**-24)
    same(mt.empty(n).uniform_(-3, 5), u * np.float32(8) + np.float32(-3))


@pytest.mark.parametrize("n", [1, 2, 5, 1024, 100_003])
@pytest.mark.parametrize("dtype", FLOATS)
def test_normal(n: int, dtype: str) -> None:
    mt.manual_seed(7)
    got = mt.randn(n, dtype=ALL[dtype]).numpy()
    if dtype == "float32":
        u = (philox(7, 0, n + 1)[: n + n % 2] >> 8) * 2.0**-24
    else:
        u = (words_64(philox(7, 0, n + 1))[: n + n % 2] >> np.uint64(11)) * 2.0**-53
    radius = np.sqrt(-2 * np.log1p(-u[::2]))
    z = np.stack([radius * np.cos(2 * np.pi * u[1::2]), radius * np.sin(2 * np.pi * u[1::2])], axis=1).reshape(-1)[:n]
    np.testing.assert_allclose(
        got, z, rtol=2e-6 if dtype == "float32" else 1e-14, atol=1e-6 if dtype == "float32" else 1e-14
    )
    mt.manual_seed(7)
    scaled = mt.empty(n, dtype=ALL[dtype]).normal_(2, 3)
    same(scaled, got * got.dtype.type(3) + got.dtype.type(2))


def test_randint() -> None:
    n = 5003
    mt.manual_seed(3)
    for offset, (low, high) in enumerate([(0, 10), (-5, 6), (-(2**31), 2**31), (0, 1)]):
        words = philox(3, offset, n)[:n].astype(object)
        assert mt.randint(low, high, (n,)).tolist() == [low + (w * (high - low) >> 32) for w in words]
    for offset, (low, high) in enumerate([(0, 2**40), (-(2**63), 2**63 - 1)], 4):
        words = words_64(philox(3, offset, n))[:n].astype(object)
        assert mt.randint(low, high, (n,)).tolist() == [low + (int(w) * (high - low) >> 64) for w in words]
    for dtype in ALL:
        mt.manual_seed(1)
        same(mt.randint(0, 2, (n,), dtype=ALL[dtype]), (philox(1, 0, n)[:n] >> 31).astype(dtype))


def test_randperm() -> None:
    n = 2500
    mt.manual_seed(5)
    words = philox(5, 0, n)
    expected = np.zeros(n, np.int64)
    for i in range(n):
        j = int(words[i]) * (i + 1) >> 32
        expected[i] = expected[j]
        expected[j] = i
    got = mt.randperm(n)
    same(got, expected)
    assert sorted(got.tolist()) == list(range(n))
    for dtype in ("int32", "float32", "float64"):
        mt.manual_seed(5)
        same(mt.randperm(n, dtype=ALL[dtype]), expected.astype(dtype))
    assert mt.randperm(0).shape == (0,)


def test_random_numbers_follow_the_logical_order() -> None:
    for fill in (lambda t: t.uniform_(), lambda t: t.normal_()):
        mt.manual_seed(9)
        expected = fill(mt.empty(60, 50)).numpy()
        for make in (lambda: mt.empty(50, 60).T, lambda: mt.empty(60, 150)[:, ::3], lambda: mt.empty(2, 60, 50)[1]):
            mt.manual_seed(9)
            same(fill(make()), expected)


def test_moments() -> None:
    mt.manual_seed(0)
    x, z = mt.rand(1_000_000).numpy().astype(float), mt.randn(1_000_000).numpy().astype(float)
    assert abs(x.mean() - 0.5) < 2e-3
    assert abs(x.var() - 1 / 12) < 1e-3
    assert x.min() >= 0
    assert x.max() < 1
    assert abs(z.mean()) < 5e-3
    assert abs(z.var() - 1) < 1e-2
    assert abs((z**4).mean() - 3) < 0.1
