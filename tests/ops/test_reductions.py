"""Reductions, scans, orders and statistics: forms, dtypes and corner cases, against NumPy and known results."""

import math

import numpy as np
import pytest

import minitensor as mt

NAN, INF = math.nan, math.inf


def x(*shape, seed=0, dtype="float64"):
    return np.random.default_rng(seed).normal(size=shape).astype(dtype)


def close(t, expected, **more):
    np.testing.assert_allclose(t.numpy(), expected, **{"rtol": 1e-10, "atol": 1e-12, **more})


# ---- extremes


def test_max_has_three_forms():
    a = x(3, 4)
    t = mt.tensor(a)
    close(t.max(), a.max())
    close(mt.max(t, t * -1), np.maximum(a, -a))
    values, indices = t.max(1, keepdim=True)
    close(values, a.max(1, keepdims=True))
    assert indices.tolist() == a.argmax(1)[:, None].tolist()
    result = t.min(dim=0)
    assert type(result).__name__ == "min"
    assert repr(mt.tensor([1.0]).max(0)).startswith("minitensor.return_types.max(\nvalues=")


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: mt.max(mt.ones(0)), RuntimeError, r"max\(\): Expected reduction dim to be specified"),
        (lambda: mt.max(mt.ones(0, 3), 0), IndexError, r"max\(\): Expected reduction dim 0 to have non-zero size"),
        (lambda: mt.amax(mt.ones(2, 2), (0, 0)), RuntimeError, "dim 0 appears multiple times in the list of dims"),
        (lambda: mt.argmax(mt.tensor([True])), RuntimeError, r"argmax\(\): does not support bool input"),
        (lambda: mt.max(mt.tensor([1j])), NotImplementedError, "max_all.* not implemented for 'ComplexFloat'"),
        (lambda: mt.kthvalue(mt.ones(3), 4), RuntimeError, "selected number k out of range for dimension 0"),
        (lambda: mt.topk(mt.ones(3), 4), RuntimeError, "selected index k out of range"),
        (lambda: mt.sort(mt.tensor([1j])), RuntimeError, "Sort does not support complex dtypes"),
        (lambda: mt.median(mt.ones(0, 3), 0), IndexError, r"median\(\): Expected reduction dim 0"),
        (lambda: mt.mode(mt.ones(0)), IndexError, r"mode\(\): Expected reduction dim 0"),
        (lambda: mt.quantile(mt.ones(3), 1.5), RuntimeError, r"q must be in the range \[0, 1\] but got 1.5"),
        (lambda: mt.bincount(mt.tensor([-1])), RuntimeError, "only supports 1-d non-negative integral inputs"),
        (lambda: mt.histc(mt.ones(3), 0), RuntimeError, "bins must be > 0"),
        (lambda: mt.var(mt.tensor([1, 2])), RuntimeError, "std and var only support floating point and complex"),
        (lambda: mt.norm(mt.ones(0), INF), RuntimeError, "cannot compute the inf norm on an empty tensor"),
        (lambda: mt.logcumsumexp(mt.tensor([1]), 0), NotImplementedError, "not implemented for 'Long'"),
        (lambda: mt.diff(mt.tensor(1.0)), RuntimeError, "expects input to be at least one-dimensional"),
    ],
)
def test_errors_are_pytorchs(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_any_and_all_over_no_dimensions_keep_them_all():
    t = mt.tensor([[0.0, 2.0]])
    assert t.any(()).tolist() == [[False, True]]
    assert t.all().item() is False
    assert t.to(mt.uint8).any().dtype is mt.uint8


# ---- sums and moments


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "uint32", "uint64"])
def test_small_integers_are_summed_in_64_bits(dtype):
    a = np.full((3, 5000), np.iinfo(dtype).max // 2, dtype)
    assert mt.tensor(a).sum(1).tolist() == a.astype(np.int64).sum(1).tolist()
    assert mt.tensor(a).amax().item() == a.max()


@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16])
def test_halves_are_added_in_float32(dtype):
    t = mt.ones(5000).to(dtype)
    assert t.sum().item() == pytest.approx(5000, rel=4e-3)
    assert t.mean().item() == 1
    assert (t * 30000).mean().item() == pytest.approx(30000, rel=4e-3)  # the sum is above the largest float16
    assert t.softmax(0).dtype is dtype


def test_complex_numbers():
    a = x(3, 4) + 1j * x(3, 4, seed=1)
    t = mt.tensor(a)
    close(t.sum(0), a.sum(0))
    close(t.mean(), a.mean())
    close(t.prod(1), a.prod(1))
    close(t.cumsum(1), a.cumsum(1))
    close(t.cumprod(0), a.cumprod(0))
    close(t.var(0), a.var(0, ddof=1))
    close(t.norm(), np.linalg.norm(a))
    close(mt.logsumexp(t, 0), np.log(np.exp(a).sum(0)))


@pytest.mark.parametrize("shape", [(7,), (3, 40), (300, 9), (2, 3, 4)])
@pytest.mark.parametrize("correction", [0, 1, 2.5])
def test_var_and_std(shape, correction):
    a = x(*shape) + 1e4
    t = mt.tensor(a)
    for dim in [None, 0, -1, tuple(range(len(shape)))]:
        count = a.size if dim is None else np.prod([shape[d] for d in np.atleast_1d(dim)])
        expected = a.var(dim) * count / (count - correction) if count > correction else None
        if expected is not None:
            close(t.var(dim, correction=correction), expected, rtol=1e-8)
            close(t.std(dim=dim, correction=correction, keepdim=False), np.sqrt(expected), rtol=1e-8)
    close(t.var(unbiased=False), a.var(), rtol=1e-8)
    close(t.var(0, False, True), a.var(0, keepdims=True), rtol=1e-8)
    variance, mean = mt.var_mean(t, 0, correction=0)
    close(variance, a.var(0), rtol=1e-8)
    close(mean, a.mean(0))


def test_var_warns_without_degrees_of_freedom():
    with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
        assert math.isnan(mt.tensor(1.0).var().item())
    with pytest.raises(TypeError):
        mt.ones(2).var(0, unbiased=True, correction=1)


def test_nan_is_left_out():
    t = mt.tensor([[1.0, NAN, 3.0], [NAN, NAN, NAN]])
    assert t.nansum(1).tolist() == [4, 0]
    assert t.nanmean(1)[0].item() == 2
    assert t.nanmedian(1)[0][0].item() == 1
    assert math.isnan(t.median().item())
    close(mt.nanquantile(t, 0.5, 1), [2, NAN])
    assert mt.tensor([[NAN]]).nansum(0).tolist() == [0]


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, INF, -INF, -1])
def test_norms(p):
    a = x(4, 5)
    t = mt.tensor(a)
    close(t.norm(p), np.linalg.norm(a.ravel(), p))
    close(t.norm(p, dim=1), [np.linalg.norm(r, p) for r in a])
    close(mt.norm(mt.tensor(a[:, :1]), p, dim=1), [np.linalg.norm(r, p) for r in a[:, :1]])


def test_other_norms():
    a = x(4, 5)
    t = mt.tensor(a)
    close(t.norm(), np.linalg.norm(a))
    close(t.norm("nuc"), np.linalg.norm(a, "nuc"))
    close(mt.renorm(t, 2, 0, 1.0).norm(dim=1), np.minimum(np.linalg.norm(a, axis=1), 1), rtol=1e-6)
    close(mt.dist(t, t + 1, 3), np.linalg.norm(np.ones(20), 3))
    assert mt.norm(mt.tensor([3.0, 4.0]), dtype=mt.float64).dtype is mt.float64


def test_logsumexp_of_infinities():
    t = mt.tensor([[-INF, -INF], [INF, 1.0], [1000.0, 1000.0]])
    assert t.logsumexp(1).tolist()[:2] == [-INF, INF]
    assert t.logsumexp(1)[2].item() == pytest.approx(1000 + math.log(2))
    close(mt.logsumexp(mt.tensor(x(2, 3, 4)), (0, 2)), np.log(np.exp(x(2, 3, 4)).sum((0, 2))))
    assert mt.logsumexp(mt.ones(0, 2), 0).tolist() == [-INF, -INF]


# ---- scans


LEAST = {
    "amax": lambda x, zero, at: x.amax(1, keepdim=True),
    "amin": lambda x, zero, at: -(-x).amin(1, keepdim=True),
    "cummax": lambda x, zero, at: x.cummax(1).values[:, -1:],
    "cummin": lambda x, zero, at: -(-x).cummin(1).values[:, -1:],
    "max_pool": lambda x, zero, at: mt.nn.functional.max_pool1d(x[None], 4, padding=1)[0],
    "adaptive_max_pool": lambda x, zero, at: mt.nn.functional.adaptive_max_pool1d(x[None], 1)[0],
    "topk": lambda x, zero, at: x.topk(1, 1).values,
    "scatter_reduce amax": lambda x, zero, at: zero.scatter_reduce(1, at, x, "amax", include_self=False),
    "scatter_reduce amin": lambda x, zero, at: -zero.scatter_reduce(1, at, -x, "amin", include_self=False),
    "index_reduce amax": lambda x, zero, at: zero.index_reduce(1, at[0], x, "amax", include_self=False),
    "index_reduce amin": lambda x, zero, at: -zero.index_reduce(1, at[0], -x, "amin", include_self=False),
}


@pytest.mark.parametrize("name", LEAST)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int8"])
def test_what_is_larger_than_nothing_else(name, dtype):
    """Infinities, and the least of integers but one, whose negative there is."""
    kind = getattr(mt, dtype)
    least = -math.inf if kind.is_floating_point else -mt.iinfo(kind).max
    if not kind.is_floating_point and "pool" in name:
        pytest.skip("pooling takes floats")
    x = mt.tensor([[least] * 4, [least, 0, least, least], [-least, least, 1, least]], dtype=kind)
    arguments = x, mt.zeros(3, 1, dtype=kind), mt.zeros(3, 4, dtype=mt.int64)
    found = LEAST[name](*arguments)
    with mt.jit_scope():
        compiled = LEAST[name](*arguments)
    assert found.tolist() == [[least], [0], [-least]]
    assert compiled.tolist() == found.tolist()


def test_scans_accumulate_in_a_wider_type():
    a = x(100000, dtype="float32")
    np.testing.assert_array_equal(mt.tensor(a).cumsum(0).numpy(), a.cumsum(dtype="float64").astype("float32"))
    assert mt.ones(3000).to(mt.float16).cumsum(0)[-1].item() == 3000
    assert mt.tensor([100, 100], dtype=mt.int8).cumsum(0).tolist() == [100, 200]
    assert mt.tensor([100, 100]).cumsum(0, dtype=mt.int8).tolist() == [100, -56]
    assert mt.tensor([True, True]).cumprod(0).dtype is mt.int64


def test_cummax_gives_the_last_place_of_an_extreme():
    values, indices = mt.tensor([1.0, 3.0, 3.0, 2.0, NAN, 5.0]).cummax(0)
    close(values, [1, 3, 3, 3, NAN, NAN])
    assert indices.tolist() == [0, 1, 2, 2, 4, 4]
    values, indices = mt.tensor([[2], [1], [1], [4]], dtype=mt.uint8).cummin(0)
    assert (values.flatten().tolist(), indices.flatten().tolist()) == ([2, 1, 1, 1], [0, 1, 2, 2])


def test_logcumsumexp():
    close(mt.tensor([-INF, -INF, 0.0, 0.0], dtype=mt.float64).logcumsumexp(0), [-INF, -INF, 0, math.log(2)])
    close(mt.tensor(x(3, 5)).logcumsumexp(1), np.logaddexp.accumulate(x(3, 5), 1))


# ---- orders


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "int64", "uint64", "float16", "float32", "float64"])
@pytest.mark.parametrize("n", [5, 200, 5000, 300000])
def test_sort_is_stable_and_puts_nan_last(dtype, n):
    a = np.abs(x(n) * 2.0**60) if dtype == "uint64" else x(n) * 50
    # From integers: what an unsigned one is of a negative number is the processor's choice.
    a = (a.astype(np.int64) if np.dtype(dtype).kind in "iu" else a).astype(dtype)
    if a.dtype.kind == "f":
        a[::7], a[1::11] = NAN, -0.0
    order = np.argsort(a, kind="stable")
    values, indices = mt.tensor(a).sort()
    np.testing.assert_array_equal(indices.numpy(), order)
    np.testing.assert_array_equal(values.numpy(), a[order])
    if a.dtype.kind in "iu":
        descending = mt.tensor(a).sort(descending=True, stable=True)[1].numpy()
        np.testing.assert_array_equal(descending, np.lexsort((np.arange(n), -a.astype(object) if n < 9 else ~a)))


def test_sort_along_other_dimensions():
    a = x(4, 150, 3)
    for dim in range(-3, 3):
        close(mt.tensor(a).sort(dim)[0], np.sort(a, dim))
        close(mt.tensor(a).permute(2, 1, 0).sort(dim)[0], np.sort(a.transpose(2, 1, 0), dim))
    close(mt.msort(mt.tensor(a)), np.sort(a, 0))
    assert mt.argsort(mt.tensor([3, 1, 2]), descending=True).tolist() == [0, 2, 1]


@pytest.mark.parametrize("n", [10, 1000, 200000])
@pytest.mark.parametrize("k", [1, 7])
def test_topk_and_kthvalue(n, k):
    a = x(2, n, dtype="float32")
    a[0, 3] = NAN
    values, indices = mt.tensor(a).topk(k)
    expected = np.argsort(-a, 1, kind="stable")
    expected[0] = np.roll(expected[0], 1)  # NaN is the largest
    np.testing.assert_array_equal(indices.numpy(), expected[:, :k])
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(a, expected, 1)[:, :k])
    smallest = mt.tensor(a).topk(k, largest=False)[0].numpy()
    np.testing.assert_array_equal(smallest, np.sort(a, 1)[:, :k])
    np.testing.assert_array_equal(mt.tensor(a).kthvalue(k, 1)[0].numpy(), np.sort(a, 1)[:, k - 1])


@pytest.mark.parametrize("n", [1, 8, 9, 3000])
def test_median_and_mode(n):
    a = np.random.default_rng(0).integers(0, 5, n)
    assert mt.tensor(a).median().item() == np.sort(a)[(n - 1) // 2]
    values, counts = np.unique(a, return_counts=True)
    value, index = mt.tensor(a).mode()
    assert value.item() == values[counts.argmax()]
    assert index.item() == np.flatnonzero(a == value.item())[-1]
    assert math.isnan(mt.median(mt.ones(0)).item())


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles(interpolation):
    a = x(3, 4, 5)
    q = np.array([0.0, 0.3, 1.0])
    for dim in (None, 0, 1, -1):
        for keepdim in (False, True):
            got = mt.quantile(mt.tensor(a), mt.tensor(q), dim, keepdim, interpolation=interpolation)
            close(got, np.quantile(a, q, axis=dim, keepdims=keepdim, method=interpolation))
    close(mt.quantile(mt.tensor(a), 0.3, interpolation=interpolation), np.quantile(a, 0.3, method=interpolation))
    close(mt.quantile(mt.tensor([1.0, NAN]), 0.5), NAN)


def test_unique():
    a = np.array([3, 1, 2, 1, 3, 3])
    for flags in (
        {},
        {"return_inverse": True},
        {"return_counts": True},
        {"return_inverse": True, "return_counts": True},
    ):
        expected = np.unique(a, **flags)
        got = mt.unique(mt.tensor(a), **flags)
        pairs = zip(got, expected, strict=True) if flags else [(got, expected)]
        for t, e in pairs:
            assert t.tolist() == e.tolist()
    rows = np.array([[1, 2], [0, 1], [1, 2]])
    values, inverse, counts = mt.unique(mt.tensor(rows), return_inverse=True, return_counts=True, dim=0)
    assert (values.tolist(), inverse.tolist(), counts.tolist()) == ([[0, 1], [1, 2]], [1, 0, 1], [1, 2])
    got = mt.unique_consecutive(mt.tensor([1, 1, 2, 1]), return_inverse=True, return_counts=True)
    assert [t.tolist() for t in got] == [[1, 2, 1], [0, 0, 1, 2], [2, 1, 1]]
    assert mt.unique(mt.ones(0)).tolist() == []


def test_searchsorted():
    edges, values = np.array([1.0, 2.0, 2.0, 5.0]), np.array([[0.0, 2.0], [5.0, 9.0]])
    for right in (False, True):
        got = mt.searchsorted(mt.tensor(edges), mt.tensor(values), right=right)
        np.testing.assert_array_equal(got.numpy(), np.searchsorted(edges, values, "right" if right else "left"))
        np.testing.assert_array_equal(
            mt.bucketize(mt.tensor(values), mt.tensor(edges), right=right).numpy(), got.numpy()
        )
    assert mt.searchsorted(mt.tensor([3, 1, 2]), 2, sorter=mt.tensor([1, 2, 0]), out_int32=True).dtype is mt.int32
    with pytest.raises(RuntimeError, match="side and right can't be set to opposites"):
        mt.searchsorted(mt.tensor(edges), mt.tensor(values), side="left", right=True)


# ---- counts and statistics


def test_histograms():
    a = x(500)
    np.testing.assert_array_equal(mt.histc(mt.tensor(a), 7, -1, 2).numpy(), np.histogram(a, 7, (-1, 2))[0])
    hist, edges = mt.histogram(mt.tensor(a), 5, density=True)
    expected, at = np.histogram(a, 5, density=True)
    close(hist, expected)
    close(edges, at)
    points = x(200, 2)
    weight = np.abs(x(200, seed=3))
    hist, _ = mt.histogramdd(mt.tensor(points), [3, 4], range=[-1.0, 1.0, -2.0, 2.0], weight=mt.tensor(weight))
    close(hist, np.histogramdd(points, [3, 4], [(-1, 1), (-2, 2)], weights=weight)[0])
    assert mt.bincount(mt.tensor([1, 3, 1]), minlength=6).tolist() == [0, 2, 0, 1, 0, 0]
    assert mt.bincount(mt.tensor([1, 3, 1]), mt.tensor([0.5, 1.0, 2.0])).tolist() == [0, 2.5, 0, 1]


def test_covariances():
    a, f, w = x(3, 8), np.arange(1, 9), np.linspace(0.1, 1, 8)
    close(mt.cov(mt.tensor(a)), np.cov(a))
    close(mt.cov(mt.tensor(a), correction=0, fweights=mt.tensor(f)), np.cov(a, ddof=0, fweights=f))
    got = mt.cov(mt.tensor(a), fweights=mt.tensor(f), aweights=mt.tensor(w))
    close(got, np.cov(a, fweights=f, aweights=w))
    close(mt.corrcoef(mt.tensor(a)), np.corrcoef(a))


def test_differences_and_integrals():
    a = x(4, 6)
    close(mt.diff(mt.tensor(a), 2, 0), np.diff(a, 2, 0))
    close(mt.diff(mt.tensor(a), prepend=mt.tensor(a[:, :1])), np.diff(a, prepend=a[:, :1]))
    close(
        mt.trapezoid(mt.tensor(a), dx=0.5, dim=0),
        np.trapezoid(a, dx=0.5, axis=0) if hasattr(np, "trapezoid") else np.trapz(a, dx=0.5, axis=0),
    )
    close(mt.cumulative_trapezoid(mt.tensor(a))[:, -1], mt.trapezoid(mt.tensor(a)).numpy())
    assert mt.diff(mt.tensor([True, False])).tolist() == [True]


def test_segments():
    data = mt.tensor(x(6, 2), requires_grad=True)
    parts = np.split(x(6, 2), [2, 2, 5])
    lengths = mt.tensor([2, 0, 3, 1])
    for kind, function in (("sum", np.sum), ("prod", np.prod)):
        close(mt.segment_reduce(data, kind, lengths=lengths).detach(), [function(p, 0) for p in parts])
    got = mt.segment_reduce(data, "max", lengths=lengths, initial=0.5).detach()
    close(got, [np.max(p, 0, initial=0.5) for p in parts])
    mean = mt.segment_reduce(data, "mean", offsets=mt.tensor([0, 2, 6]))
    close(mean.detach(), [x(6, 2)[:2].mean(0), x(6, 2)[2:].mean(0)])
    mean.sum().backward()
    assert data.grad.tolist() == [[0.5, 0.5]] * 2 + [[0.25, 0.25]] * 4


def test_comparisons_of_whole_tensors():
    t = mt.tensor([1.0, 2.0])
    assert mt.equal(t, t.to(mt.float64)) is True
    assert mt.equal(t, t[:1]) is False
    assert mt.allclose(t, t + 1e-9) is True
    assert mt.count_nonzero(mt.tensor([[0, 2], [NAN, 0.0]]), 1).tolist() == [1, 1]


def test_results_do_not_depend_on_the_number_of_threads():
    a = mt.tensor(x(200000, dtype="float32"))
    m = a.reshape(200, 1000)
    before = mt.get_num_threads()
    results = []
    try:
        for threads in (1, 3):
            mt.set_num_threads(threads)
            results.append(
                [
                    t.numpy().tobytes()
                    for t in (a.var(), m.var(0), a.norm(), *a.sort(), *a.topk(50), m.cumsum(0), a.histc(9))
                ]
            )
    finally:
        mt.set_num_threads(before)
    assert results[0] == results[1]
