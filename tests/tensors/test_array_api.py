"""The array API: the namespace's functions against NumPy's, and scikit-learn and SciPy computing with tensors.

The standard's own test suite (data-apis/array-api-tests) is run apart from these.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

import minitensor as mt
from minitensor import array_api as xp

RNG = np.random.default_rng(8)


def same(tensor, array, tolerance=1e-10):
    array = np.asarray(array)
    assert tuple(tensor.shape) == array.shape
    np.testing.assert_allclose(tensor.numpy(), array, rtol=tolerance, atol=tolerance)


def test_namespace():
    x = mt.ones(2)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2024.12") is xp
    with pytest.raises(ValueError, match="unsupported version of the array API"):
        x.__array_namespace__(api_version="1999.01")
    assert xp.__array_api_version__ == "2024.12"
    missing = [name for name in xp.__all__ if not hasattr(xp, name)]
    assert missing == []
    assert x.to_device("cpu").tolist() == [1, 1]
    assert complex(mt.tensor(2.0)) == 2 + 0j


def test_information():
    info = xp.__array_namespace_info__()
    assert info.capabilities()["data-dependent shapes"] is True
    assert info.default_dtypes()["integral"] is xp.int64
    assert set(info.dtypes(kind="real floating")) == {"float32", "float64"}
    assert set(info.dtypes(kind=("bool", "unsigned integer"))) == {"bool", "uint8", "uint16", "uint32", "uint64"}
    assert info.default_device() in info.devices()


def test_types():
    assert xp.isdtype(xp.float32, "real floating")
    assert not xp.isdtype(xp.float32, ("integral", "complex floating"))
    with pytest.raises(ValueError, match="unrecognized kind"):
        xp.isdtype(xp.float32, "number")
    assert xp.result_type(xp.uint8, xp.uint16) is xp.uint16
    assert xp.result_type(xp.int8, xp.uint16) is xp.int32
    assert xp.result_type(mt.ones(2, dtype=mt.int8), 1) is xp.int8
    assert xp.result_type(xp.float64, 1j) is xp.complex128
    assert xp.can_cast(xp.int8, xp.int16)
    assert not xp.can_cast(xp.int64, xp.uint64)
    assert xp.finfo(xp.complex64).eps == np.finfo("float32").eps
    assert xp.iinfo(mt.ones(1, dtype=mt.int16)).max == 32767
    x = mt.ones(2)
    assert xp.astype(x, xp.float32, copy=False) is x
    assert xp.astype(x, xp.int64).dtype is xp.int64


def test_creation():
    same(xp.linspace(0, 1, 5, endpoint=False), np.linspace(0, 1, 5, endpoint=False), 1e-6)
    same(xp.eye(3, 4, k=1), np.eye(3, 4, k=1))
    same(xp.arange(5), np.arange(5))
    assert xp.arange(5, 0).shape == (0,)
    assert [tuple(t.shape) for t in xp.meshgrid(xp.arange(2), xp.arange(3))] == [(3, 2), (3, 2)]
    x = xp.asarray([1.0, 2.0])
    assert xp.asarray(x) is x
    assert xp.asarray(x, copy=True) is not x
    with pytest.raises(ValueError, match="needs a copy"):
        xp.asarray(x, dtype=xp.float64, copy=False)


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "max", "min", "std", "var", "all", "any"])
@pytest.mark.parametrize("axis", [None, 0, (0, 2), -1])
def test_reductions(name, axis):
    a = RNG.normal(size=(2, 3, 4))
    for keepdims in (False, True):
        found = getattr(xp, name)(mt.tensor(a), axis=axis, keepdims=keepdims)
        same(found, getattr(np, name)(a, axis=axis, keepdims=keepdims))


def test_reductions_over_no_axis():
    a = RNG.normal(size=(2, 3))
    same(xp.sum(mt.tensor(a), axis=()), a)
    same(xp.max(mt.tensor(a), axis=()), a)
    assert xp.sum(mt.ones(2, dtype=mt.uint8)).dtype is xp.uint64


def test_sums_up_to_each_element():
    a = RNG.normal(size=(2, 3))
    same(xp.cumulative_sum(mt.tensor(a), axis=1), a.cumsum(1))
    same(xp.cumulative_sum(mt.tensor(a), axis=0, include_initial=True), np.vstack([np.zeros(3), a.cumsum(0)]))
    same(xp.diff(mt.tensor(a), n=2), np.diff(a, n=2))
    same(xp.diff(mt.tensor(a), axis=0, prepend=mt.zeros(1, 3, dtype=mt.float64)), np.diff(a, axis=0, prepend=0))


def test_manipulation():
    a = RNG.normal(size=(2, 3, 4))
    x = mt.tensor(a)
    same(xp.concat([x, x], axis=None), np.concatenate([a, a], axis=None))
    same(xp.stack([x, x], axis=-1), np.stack([a, a], axis=-1))
    same(xp.expand_dims(x, axis=(0, -1)), np.expand_dims(a, (0, -1)))
    same(xp.squeeze(xp.expand_dims(x, axis=1), axis=1), a)
    with pytest.raises(ValueError, match="cannot squeeze"):
        xp.squeeze(x, axis=0)
    same(xp.flip(x), np.flip(a))
    same(xp.roll(x, (1, 2), axis=(0, 2)), np.roll(a, (1, 2), (0, 2)))
    same(xp.moveaxis(x, 0, -1), np.moveaxis(a, 0, -1))
    same(xp.take(x, mt.tensor([2, -1]), axis=1), np.take(a, [2, -1], 1))
    order = np.argsort(a, axis=1)
    same(xp.take_along_axis(x, mt.tensor(order), axis=1), np.take_along_axis(a, order, 1))
    same(xp.tile(x, (2, 1)), np.tile(a, (2, 1)))
    assert len(xp.unstack(x, axis=2)) == 4


def test_searching():
    a = RNG.integers(0, 4, (3, 4))
    x = mt.tensor(a)
    found = xp.unique_all(x)
    values, first, inverse, counts = np.unique(a, return_index=True, return_inverse=True, return_counts=True)
    same(found.values, values)
    same(found.indices, first)
    same(found.inverse_indices, inverse.reshape(a.shape))
    same(found.counts, counts)
    same(xp.argmax(x, keepdims=True), np.argmax(a, keepdims=True))
    same(xp.count_nonzero(x, axis=1), np.count_nonzero(a, axis=1))
    same(xp.sort(x, axis=0, descending=True), -np.sort(-a, axis=0))
    same(xp.where(x > 1, x, 0), np.where(a > 1, a, 0))
    for ours, theirs in zip(xp.nonzero(x), np.nonzero(a), strict=True):
        same(ours, theirs)


def test_elementwise():
    a = RNG.normal(size=(2, 3))
    x = mt.tensor(a)
    same(xp.clip(x, -0.5, mt.tensor([0.1, 0.2, 0.3], dtype=mt.float64)), np.clip(a, -0.5, [0.1, 0.2, 0.3]))
    same(xp.add(1, x), 1 + a)
    same(xp.pow(2.0, x), 2.0**a)
    same(xp.sign(mt.tensor([float("nan"), -2.0])), [np.nan, -1])
    assert xp.add(mt.ones(1, dtype=mt.uint16), mt.ones(1, dtype=mt.uint8)).dtype is xp.uint16
    assert xp.imag(x).tolist() == np.zeros((2, 3)).tolist()


def test_extensions():
    a, b = RNG.normal(size=(2, 3, 3)), RNG.normal(size=(2, 3))
    x = mt.tensor(a)
    same(xp.linalg.solve(x, mt.tensor(b[0])), np.linalg.solve(a, b[0]))
    same(xp.linalg.vector_norm(x, axis=(0, 2), keepdims=True), np.sqrt((a * a).sum((0, 2), keepdims=True)))
    same(xp.linalg.trace(x, offset=1), np.trace(a, 1, 1, 2))
    same(xp.vecdot(mt.tensor(b), mt.tensor(b)), (b * b).sum(-1))
    same(xp.linalg.matrix_norm(x, ord=1), np.linalg.norm(a, 1, (1, 2)))
    same(xp.fft.rfft(mt.tensor(b), n=4), np.fft.rfft(b, 4))
    same(xp.fft.fftn(x, axes=(0, 1)), np.fft.fftn(a, axes=(0, 1)))


INF, NAN = float("inf"), float("nan")


def test_special_cases_that_the_standard_has_otherwise_than_pytorch():
    def same(result, expected):
        # The text shows the sign of zeros and of NaN's parts.
        assert str(np.asarray(expected, result.numpy().dtype).tolist()) == str(result.tolist())

    x1 = xp.asarray([INF, INF, -INF, -INF, 3.0, -3.0, 3.0, 7.0, -7.0])
    x2 = xp.asarray([2.0, -2.0, 2.0, -2.0, -INF, INF, INF, 2.0, 2.0])
    same(xp.floor_divide(x1, x2), [INF, -INF, -INF, INF, -0.0, -0.0, 0.0, 3.0, -4.0])
    same(xp.floor_divide(xp.asarray([7, -7]), 2), [3, -4])
    same(xp.remainder(xp.asarray([-0.0, 0.0, 4.0, -4.0]), xp.asarray([2.0, -2.0, -2.0, 2.0])), [0.0, -0.0, -0.0, 0.0])
    same(xp.remainder(xp.asarray([7, -7]), 4), [3, 1])
    z = xp.asarray(
        [complex(-0.0, 0.0), complex(INF, 0.0), complex(-INF, INF), complex(NAN, 0.0), 1e-9 + 0j], dtype=xp.complex128
    )
    result = xp.expm1(z).numpy()
    np.testing.assert_array_equal(result.real, [0.0, INF, -1.0, NAN, np.expm1(1e-9)])
    np.testing.assert_array_equal(result.imag[[0, 1, 3, 4]], 0.0)
    same(xp.sign(xp.asarray([complex(-0.0, 0.0), 3j])), [0j, 1j])
    same(xp.tanh(xp.asarray([complex(INF, 2.0), complex(-INF, -2.0)])), [1 + 0j, complex(-1.0, -0.0)])
    for fn in (xp.var, xp.std):
        np.testing.assert_array_equal(fn(xp.asarray([1.0, NAN, INF]), axis=()).numpy(), [0.0, NAN, NAN])
    assert xp.can_cast(xp.uint16, xp.float32)
    assert not xp.can_cast(xp.uint16, xp.int16)


ESTIMATORS = """
import numpy as np
import sklearn
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import accuracy_score, mean_absolute_error, mean_squared_error, r2_score
import minitensor as mt

data, labels = load_iris(return_X_y=True)
x, y = mt.tensor(data), mt.tensor(labels)
expected = LinearDiscriminantAnalysis().fit(data, labels)
components = PCA(n_components=2, svd_solver="full").fit(data)
with sklearn.config_context(array_api_dispatch=True):
    model = LinearDiscriminantAnalysis().fit(x, y)
    predicted = model.predict(x)
    assert isinstance(predicted, mt.Tensor) and isinstance(model.coef_, mt.Tensor)
    np.testing.assert_allclose(model.coef_.numpy(), expected.coef_, rtol=1e-8)
    assert (predicted.numpy() == expected.predict(data)).all()
    np.testing.assert_allclose(float(accuracy_score(y, predicted)), expected.score(data, labels), rtol=1e-6)
    pca = PCA(n_components=2, svd_solver="full").fit(x)
    assert isinstance(pca.components_, mt.Tensor)
    np.testing.assert_allclose(pca.explained_variance_.numpy(), components.explained_variance_, rtol=1e-10)
    np.testing.assert_allclose(np.abs(pca.transform(x).numpy()), np.abs(components.transform(data)), atol=1e-10)
    a, b = x[:, 0], x[:, 1]
    for metric in (mean_squared_error, mean_absolute_error, r2_score):
        np.testing.assert_allclose(float(metric(a, b)), metric(data[:, 0], data[:, 1]), rtol=1e-12)
print("done")
"""


def test_scikit_learn():
    pytest.importorskip("sklearn")
    # SciPy reads the variable when it is imported.
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    run = subprocess.run([sys.executable, "-c", ESTIMATORS], env=environment, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stdout.endswith("done\n")
