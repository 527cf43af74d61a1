"""minitensor.fft and the short-time transforms against NumPy's, and their gradients against finite differences."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.ops import ROWS

RNG = np.random.default_rng(2)
NORMS = [None, "backward", "ortho", "forward"]
TO_REAL = {"irfft", "hfft", "irfft2", "irfftn"}
FROM_REAL = {"rfft", "ihfft", "rfft2", "rfftn"}
ONE = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
MANY = ["fft2", "ifft2", "rfft2", "irfft2", "fftn", "ifftn", "rfftn", "irfftn"]


def make(name, shape, double=True):
    x = RNG.normal(size=shape)
    if name not in FROM_REAL:
        x = x + 1j * RNG.normal(size=shape)
    return x if double else x.astype("float32" if name in FROM_REAL else "complex64")


def close(tensor, array, tolerance=1e-10):
    array = np.asarray(array)
    assert tuple(tensor.shape) == array.shape
    np.testing.assert_allclose(tensor.numpy(), array, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", ONE)
def test_one_dimension(name, norm):
    x = make(name, (3, 6))
    ours, theirs = getattr(mt.fft, name), getattr(np.fft, name)
    close(ours(mt.tensor(x), norm=norm), theirs(x, norm=norm))
    for n in (4, 6, 9):
        close(ours(mt.tensor(x), n, 0, norm), theirs(x, n, 0, norm))


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("name", MANY)
def test_several_dimensions(name, norm):
    x = make(name, (3, 4, 6))
    ours, theirs = getattr(mt.fft, name), getattr(np.fft, name)
    close(ours(mt.tensor(x), norm=norm), theirs(x, norm=norm))
    close(ours(mt.tensor(x), (5, 4), (0, 2), norm), theirs(x, (5, 4), (0, 2), norm))
    close(ours(mt.tensor(x), dim=(2, 0), norm=norm), theirs(x, axes=(2, 0), norm=norm))


def test_hermitian_signals():
    x = make("hfft", (3, 5))
    close(mt.fft.hfft2(mt.tensor(x)), np.fft.hfft(np.fft.fft(x, axis=0), axis=1))
    y = make("ihfft", (3, 6))
    close(mt.fft.ihfft2(mt.tensor(y)), np.fft.ifft(np.fft.ihfft(y, axis=1), axis=0))
    close(mt.fft.hfftn(mt.fft.ihfftn(mt.tensor(y))), y)


@pytest.mark.parametrize("name", ["fft", "irfft", "rfft", "ifftn"])
def test_single_precision_stays(name):
    x = make(name, (4, 6), double=False)
    found = getattr(mt.fft, name)(mt.tensor(x))
    assert found.dtype is (mt.float32 if name in TO_REAL else mt.complex64)
    close(found, getattr(np.fft, name)(x), 1e-4)


def test_whole_numbers_become_floating_point():
    assert mt.fft.fft(mt.tensor([1, 2, 3])).dtype is mt.complex64
    assert mt.fft.fft(mt.tensor([True, False])).tolist() == [1, 1]


def test_batches_of_nothing():
    assert mt.fft.fft(mt.zeros(0, 4)).shape == (0, 4)
    assert mt.fft.fftn(mt.zeros(2, 3), dim=()).shape == (2, 3)


def test_frequencies_and_their_order():
    for n in (1, 4, 7):
        close(mt.fft.fftfreq(n, 0.2, dtype=mt.float64), np.fft.fftfreq(n, 0.2))
        close(mt.fft.rfftfreq(n, 0.2, dtype=mt.float64), np.fft.rfftfreq(n, 0.2))
    assert mt.fft.fftfreq(0).shape == (0,)
    x = np.arange(30.0).reshape(5, 6)
    for axes in (None, 0, (0, 1), (1,)):
        close(mt.fft.fftshift(mt.tensor(x), axes), np.fft.fftshift(x, axes))
        close(mt.fft.ifftshift(mt.tensor(x), axes), np.fft.ifftshift(x, axes))


def test_refusals():
    x, c = mt.ones(4, 6), mt.ones(4, 6, dtype=mt.complex64)
    for call, error, says in (
        (lambda: mt.fft.fft(x, 0), RuntimeError, r"Invalid number of data points \(0\) specified"),
        (lambda: mt.fft.irfft(mt.ones(1)), RuntimeError, r"Invalid number of data points \(0\) specified"),
        (lambda: mt.fft.fft(x, dim=3), IndexError, "Dimension out of range"),
        (lambda: mt.fft.fft(mt.tensor(1.0)), IndexError, "tensor has no dimensions"),
        (lambda: mt.fft.fft(x, norm="x"), RuntimeError, 'Invalid normalization mode: "x"'),
        (lambda: mt.fft.fft(x, norm=1), TypeError, "argument 'norm' must be str, not int"),
        (lambda: mt.fft.rfft(c), RuntimeError, "rfft expects a real input tensor, but got ComplexFloat"),
        (lambda: mt.fft.fft(x.to(mt.float16)), RuntimeError, "Unsupported dtype Half"),
        (lambda: mt.fft.fftn(x, (2,), (0, 1)), RuntimeError, "dim and shape arguments must have the same length"),
        (lambda: mt.fft.fftn(x, dim=(0, 0)), RuntimeError, "FFT dims must be unique"),
        (lambda: mt.fft.fftn(x, (2, 3, 4)), RuntimeError, "input tensor only has 2 dimensions"),
        (lambda: mt.fft.rfftn(x, dim=()), RuntimeError, "rfftn must transform at least one axis"),
        (lambda: mt.fft.fftfreq(3, dtype=mt.int64), RuntimeError, "requires a floating point or complex dtype"),
        (lambda: mt.stft(x[0], 4), RuntimeError, "requires the return_complex parameter"),
        (lambda: mt.stft(x[0], 4, 0, return_complex=True), RuntimeError, "expected hop_length > 0"),
        (lambda: mt.istft(x, 4), RuntimeError, "istft requires a complex-valued input tensor"),
        (lambda: mt.istft(c, 4, window=mt.zeros(4)), RuntimeError, "window overlap add min"),
    ):
        with pytest.raises(error, match=says):
            call()
    with pytest.raises(RuntimeError, match="Expected complex numbers, but got float32"):
        ROWS["_fft_c2c"].call(x, (1,), 0, True)
    with pytest.raises(RuntimeError, match="Expected real numbers, but got complex64"):
        ROWS["_fft_r2c"].call(c, (1,), 0, True)


# ---- gradients


def slope(loss, x, direction):
    step = 1e-6
    return (loss(x + direction * step).item() - loss(x - direction * step).item()) / (2 * step)


@pytest.mark.parametrize("name", [*ONE, *MANY, "hfftn", "ihfftn"])
def test_gradients(name):
    function = getattr(mt.fft, name)
    real = name in FROM_REAL or name == "ihfftn"
    values, direction = RNG.normal(size=(2, 3, 5) if real else (2, 3, 5, 2)), None
    direction = mt.tensor(RNG.normal(size=values.shape))
    x = mt.tensor(values)
    sizes = {"n": 7} if name in ONE else {"norm": "ortho"}

    def loss(x):
        y = function(x if real else mt.view_as_complex(x), **sizes)
        parts = mt.view_as_real(y) if y.is_complex() else y
        weights = mt.tensor(np.random.default_rng(1).normal(size=tuple(parts.shape)))
        return (parts * weights).square().sum()

    leaf = x.clone().requires_grad_()
    (g,) = mt.autograd.grad(loss(leaf), leaf, create_graph=True)
    assert (g * direction).sum().item() == pytest.approx(slope(loss, x, direction), rel=1e-5)

    def of_gradient(x):
        x = x.detach().requires_grad_()
        (g,) = mt.autograd.grad(loss(x), x, create_graph=True)
        return (g * g * g).sum()

    (second,) = mt.autograd.grad((g * g * g).sum(), leaf)
    assert (second * direction).sum().item() == pytest.approx(slope(of_gradient, x, direction), rel=1e-4)


# ---- frames


def frames(x, size, hop):
    return np.stack([x[..., i : i + size] for i in range(0, x.shape[-1] - size + 1, hop)], -2)


@pytest.mark.parametrize("normalized", [False, True])
def test_stft(normalized):
    x, window = RNG.normal(size=(2, 60)), np.hanning(14)[1:-1]
    padded = np.pad(x, ((0, 0), (8, 8)), "reflect")
    full = np.pad(window, 2)
    expected = np.fft.rfft(frames(padded, 16, 4) * full, norm="ortho" if normalized else None).swapaxes(-1, -2)
    arguments = {"win_length": 12, "window": mt.tensor(window), "normalized": normalized}
    found = mt.stft(mt.tensor(x), 16, 4, **arguments, return_complex=True)
    close(found, expected)
    close(mt.stft(mt.tensor(x), 16, 4, **arguments, return_complex=False)[..., 1], expected.imag)
    close(mt.istft(found, 16, 4, **arguments, length=60), x)
    whole = mt.stft(mt.tensor(x[0]), 16, center=False, onesided=False, return_complex=True)
    close(whole, np.fft.fft(frames(x[0], 16, 4)).T)
    close(mt.istft(whole, 16, center=False, onesided=False), x[0])


def test_istft_of_complex_signals():
    x = RNG.normal(size=40) + 1j * RNG.normal(size=40)
    spectra = mt.stft(mt.tensor(x), 8)
    close(mt.istft(spectra, 8, return_complex=True), x)
    close(mt.istft(spectra, 8, return_complex=True, length=60)[44:], np.zeros(16))


def test_gradient_through_frames():
    x, direction = mt.tensor(RNG.normal(size=30)), mt.tensor(RNG.normal(size=30))
    window = mt.tensor(np.hanning(10)[1:-1])

    def loss(x):
        spectra = mt.stft(x, 8, 2, window=window, return_complex=True)
        return (mt.istft(spectra * spectra.abs(), 8, 2, window=window) ** 2).sum()

    leaf = x.clone().requires_grad_()
    (g,) = mt.autograd.grad(loss(leaf), leaf)
    assert (g * direction).sum().item() == pytest.approx(slope(loss, x, direction), rel=1e-5)
