"""Dtypes of results, and what is rounded when, where functions made of several ops could get it wrong."""

import numpy as np
import pytest

import minitensor as mt

SMALL = [mt.bool, mt.uint8, mt.int8, mt.int16, mt.int32]
HALVES = [mt.float16, mt.bfloat16]


@pytest.mark.parametrize("dtype", SMALL, ids=str)
def test_sums_of_small_integers_are_int64(dtype):
    x = mt.ones(3, 2, dtype=dtype)
    assert mt.einsum("ij->i", x).dtype == mt.int64
    assert mt.einsum("ij->", x).item() == 6
    assert x.sum_to_size(3, 1).dtype == mt.int64
    assert mt.ones((), dtype=dtype).sum_to_size(()).dtype == mt.int64
    assert x.sum_to_size(3, 2).dtype == dtype


def test_products_of_small_integers_stay_small():
    x, y = mt.ones(3, 2, dtype=mt.uint8), mt.ones(3, dtype=mt.uint8)
    assert mt.einsum("ij,i->j", x, y).dtype == mt.uint8
    assert mt.einsum("ij,k->k", x, y).dtype == mt.int64
    with pytest.raises(RuntimeError, match="expected scalar type Long but found"):
        mt.einsum("ij,jk->k", x, x.mT)


def test_places_and_powers_of_integers_are_int64():
    rows, columns = mt.unravel_index(mt.tensor([7, 250], dtype=mt.uint8), (100, 3))
    assert (rows.dtype, rows.tolist(), columns.tolist()) == (mt.int64, [2, 83], [1, 1])
    powers = mt.linalg.vander(mt.tensor([2, 100], dtype=mt.int8), N=3)
    assert (powers.dtype, powers.tolist()) == (mt.int64, [[1, 2, 4], [1, 100, 10000]])


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_integers_are_spaced_between_ends_that_are_integers(dtype):
    kind = getattr(mt, dtype)
    assert mt.linspace(4.9, 0.9, 5, dtype=kind).tolist() == [4, 3, 2, 1, 0]
    assert mt.logspace(0.9, 2.9, 3, base=2.5, dtype=kind).tolist() == [1, 2, 6]
    assert mt.linspace(0, 1, 3, out=mt.empty(3, dtype=kind)).tolist() == [0, 0, 1]
    if dtype != "uint8":
        assert mt.linspace(-3.7, 4.3, 8, dtype=kind).tolist() == [-3, -2, -1, 0, 1, 2, 3, 4]


@pytest.mark.torch
def test_spaced_integers_are_pytorchs():
    torch = pytest.importorskip("torch")
    for ends in ((4.3, 0.0, 50), (-3.7, 9, 20), (0.5, 7.9, 8), (0, 4.3, 50)):
        ours, theirs = (m.linspace(*ends, dtype=m.int64).tolist() for m in (mt, torch))
        assert ours == theirs
    for ends in ((0, 2.7, 7), (0.5, 3.9, 4), (1.9, 4, 5)):
        ours, theirs = (m.logspace(*ends, base=2.7, dtype=m.int32).tolist() for m in (mt, torch))
        assert ours == theirs


def test_evenly_spaced_complex_numbers():
    line = mt.linspace(1 + 2j, 3, 5)
    assert line.dtype == mt.complex64
    np.testing.assert_allclose(line.numpy(), np.linspace(1 + 2j, 3, 5), rtol=1e-6)
    assert mt.linspace(0, 1, 3, dtype=mt.complex128).tolist() == [0, 0.5, 1]
    np.testing.assert_allclose(mt.logspace(1j, 2, 3).numpy(), 10 ** np.linspace(1j, 2, 3), rtol=1e-5)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
def test_sums_and_products_round_once(dtype):
    rng = np.random.default_rng(0)
    a, b, c = (mt.tensor(rng.normal(size=s)).to(dtype) for s in ((2, 5, 40), (2, 40, 6), (2, 5, 6)))
    wide = mt.baddbmm(c.float(), a.float(), b.float(), beta=0.3, alpha=0.7)
    assert mt.equal(mt.baddbmm(c, a, b, beta=0.3, alpha=0.7), wide.to(dtype))
    wide = mt.addmm(c[0].float(), a[0].float(), b[0].float(), beta=0.3)
    assert mt.allclose(mt.addmm(c[0], a[0], b[0], beta=0.3).float(), wide, rtol=2.0**-8, atol=0)


@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("compiled", [False, True])
def test_the_weight_of_lerp_keeps_its_precision(dtype, compiled):
    x, y = mt.arange(8).to(dtype), mt.arange(8).to(dtype) * -3
    run = (
        mt.function(lambda x, y: mt.lerp(x, y, 0.4), jit_compile=True) if compiled else lambda x, y: mt.lerp(x, y, 0.4)
    )
    wide = mt.lerp(x.float(), y.float(), 0.4)
    assert mt.equal(run(x, y), wide.to(dtype))


@pytest.mark.parametrize("compiled", [False, True])
def test_powers_of_truth(compiled):
    run = mt.function(lambda x: (x**True, x**False), jit_compile=True) if compiled else lambda x: (x**True, x**False)
    first, zeroth = run(mt.tensor([True, False]))
    assert (first.dtype, first.tolist(), zeroth.tolist()) == (mt.bool, [True, False], [True, True])


def test_norms_of_halves_do_not_overflow():
    x = mt.full((4,), 100.0, dtype=mt.float16)
    assert mt.dist(x, mt.zeros(4, dtype=mt.float16), 4).item() == pytest.approx(100 * 4**0.25, rel=1e-3)
    assert mt.linalg.vector_norm(x, 6).dtype == mt.float16


def test_the_gradient_of_complex_logcumsumexp():
    rng = np.random.default_rng(1)
    x = mt.tensor(rng.normal(size=4) + 1j * rng.normal(size=4), requires_grad=True)
    g = rng.normal(size=4) + 1j * rng.normal(size=4)
    g[1] = 0
    (found,) = mt.autograd.grad(mt.logcumsumexp(x, 0), x, mt.tensor(g))
    z = x.detach().numpy()
    sums = np.cumsum(np.exp(z))
    expected = [sum(g[k] * np.conj(np.exp(z[j]) / sums[k]) for k in range(j, 4)) for j in range(4)]
    np.testing.assert_allclose(found.numpy(), expected)


def test_low_rank_of_complex_matrices():
    rng = np.random.default_rng(2)
    a = mt.tensor((rng.normal(size=(6, 2)) + 1j * rng.normal(size=(6, 2))) @ rng.normal(size=(2, 5)))
    for u, s, v in (mt.svd_lowrank(a, 2), mt.pca_lowrank(a, 2, center=False)):
        np.testing.assert_allclose(((u * s) @ v.mH).numpy(), a.numpy(), atol=1e-10)


def test_statistics_of_halves_are_halves():
    x = mt.randn(2, 4, 3).half()
    for results in (
        mt.native_layer_norm(x, (3,), None, None, 1e-5),
        mt.native_group_norm(x, None, None, 2, 4, 3, 2, 1e-5),
        mt.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5),
    ):
        assert [t.dtype for t in results] == [mt.float16] * 3
    mixed = mt.native_batch_norm(x, mt.ones(4), mt.zeros(4), None, None, True, 0.1, 1e-5)
    assert [t.dtype for t in mixed[1:]] == [mt.float32] * 2


def test_cubic_resampling_of_bytes_joins_what_lies_beyond_the_edge():
    # One value everywhere stays, whatever the weights are rounded to, also where the edge is read twice.
    for value in (1, 77, 255):
        x = mt.full((1, 1, 5, 5), value, dtype=mt.uint8)
        assert mt.nn.functional.interpolate(x, (9, 7), mode="bicubic").unique().tolist() == [value]


def test_what_has_no_meaning_for_a_dtype():
    hardtanh = mt.nn.functional.hardtanh
    with pytest.raises(RuntimeError, match="Bool inputs not supported for hardtanh"):
        mt.nn.functional.relu6(mt.ones(2, dtype=mt.bool))
    with pytest.raises(RuntimeError, match="unsigned type with negative limits"):
        hardtanh(mt.ones(2, dtype=mt.uint8))
    assert hardtanh(mt.tensor([1, 9], dtype=mt.uint8), 0, 2).tolist() == [1, 2]
    for function in (mt.deg2rad, mt.rad2deg):
        with pytest.raises(RuntimeError, match="is not supported for complex tensors"):
            function(mt.ones(2, dtype=mt.complex64))
