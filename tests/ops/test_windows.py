"""Windows beside SciPy's and PyTorch's."""

import inspect

import numpy as np
import pytest
from scipy.signal import windows as known

import minitensor as mt
from minitensor.signal import windows

FORMS = [
    ("bartlett", {}, known.bartlett, ()),
    ("blackman", {}, known.blackman, ()),
    ("cosine", {}, known.cosine, ()),
    ("exponential", {"tau": 1.5}, known.exponential, (None, 1.5)),
    ("gaussian", {"std": 2.0}, known.gaussian, (2.0,)),
    ("general_cosine", {"a": [0.4, 0.3, 0.2, 0.1]}, known.general_cosine, ([0.4, 0.3, 0.2, 0.1],)),
    ("general_hamming", {"alpha": 0.6}, known.general_hamming, (0.6,)),
    ("hamming", {}, known.hamming, ()),
    ("hann", {}, known.hann, ()),
    ("kaiser", {"beta": 8.0}, known.kaiser, (8.0,)),
    ("kaiser", {"beta": 900.0}, None, ()),
    ("nuttall", {}, known.nuttall, ()),
]


@pytest.mark.parametrize("form", FORMS, ids=[f"{name}-{options}" for name, options, *_ in FORMS])
@pytest.mark.parametrize("sym", [True, False])
def test_windows_are_scipys(form, sym):
    name, options, theirs, parameters = form
    for count in (0, 1, 2, 5, 8, 33):
        found = getattr(windows, name)(count, sym=sym, dtype=mt.float64, **options)
        assert tuple(found.shape) == (count,)
        if theirs is None:
            assert found.isfinite().all()
            continue
        np.testing.assert_allclose(found.numpy(), theirs(count, *parameters, sym=sym), rtol=1e-12, atol=1e-15)
        short = getattr(windows, name)(count, sym=sym, **options)
        assert short.dtype is mt.float32
        assert mt.equal(short, found.to(mt.float32))


@pytest.mark.parametrize("name", windows.__all__)
def test_windows_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    theirs, ours = getattr(torch.signal.windows, name), getattr(windows, name)
    assert list(inspect.signature(ours).parameters) == list(inspect.signature(theirs).parameters)
    options = {"a": [0.4, 0.6]} if name == "general_cosine" else {}
    for count in (0, 1, 2, 6, 7):
        for sym in (True, False):
            found = ours(count, sym=sym, dtype=mt.float64, **options).numpy()
            expected = theirs(count, sym=sym, dtype=torch.float64, **options).numpy()
            np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-14)
    assert set(windows.__all__) == set(torch.signal.windows.__all__)


def test_where_a_window_of_one_side_has_its_center():
    found = windows.exponential(4, center=1.0, tau=0.5, sym=False, dtype=mt.float64)
    np.testing.assert_allclose(found.numpy(), np.exp(-2 * np.abs(np.arange(4) - 1.0)), rtol=1e-14)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: windows.hann(-1), ValueError, "non-negative window length"),
        (lambda: windows.hann(4, dtype=mt.float16), ValueError, "float32 or float64"),
        (lambda: windows.hann(4, dtype=mt.int64), ValueError, "float32 or float64"),
        (lambda: windows.hann(4, layout=None), ValueError, "strided"),
        (lambda: windows.hann(3.0), TypeError, "must be int"),
        (lambda: windows.exponential(4, center=1.0), ValueError, "Center"),
        (lambda: windows.exponential(4, tau=-1.0), ValueError, "Tau"),
        (lambda: windows.gaussian(4, std=0), ValueError, "Standard deviation"),
        (lambda: windows.kaiser(4, beta=-1.0), ValueError, "beta"),
        (lambda: windows.general_cosine(4, a=3), TypeError, "list/tuple"),
        (lambda: windows.general_cosine(4, a=[]), ValueError, "empty"),
    ],
)
def test_refusals(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_windows_that_want_gradients():
    assert windows.hann(5, requires_grad=True).requires_grad
    assert not windows.hann(5).requires_grad
