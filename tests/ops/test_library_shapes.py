"""What runs in a library (LAPACK, pocketfft) says its results' shapes first: it is recorded, and has device "meta"."""

import numpy as np
import pytest
from recording import flushes

import minitensor as mt

la = mt.linalg


def numbers(*shape, dtype=mt.float64):
    rng = np.random.default_rng(len(shape))
    made = rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype.is_complex else 0)
    return mt.tensor(made).to(dtype)


SQUARE, WIDE, TALL = numbers(2, 4, 4), numbers(2, 3, 5), numbers(5, 3, dtype=mt.float32)
COMPLEX, RIGHT = numbers(3, 3, dtype=mt.complex128), numbers(2, 4, 2)
DEFINITE = SQUARE @ SQUARE.mT + 4 * mt.eye(4, dtype=mt.float64)
SIGNAL, SPECTRUM = numbers(3, 4, 6), numbers(3, 4, 6, dtype=mt.complex64)

# Those that read no value: nothing has to run before somebody looks.
LAZY = {
    "cholesky_ex": (la.cholesky_ex, DEFINITE),
    "cholesky_solve": (mt.cholesky_solve, RIGHT, DEFINITE),
    "solve_triangular": (lambda a, b: la.solve_triangular(a, b, upper=True), DEFINITE, RIGHT),
    "lu_factor_ex": (la.lu_factor_ex, SQUARE),
    "lu_factor_ex wide": (la.lu_factor_ex, WIDE),
    "inv_ex": (la.inv_ex, SQUARE),
    "inv_ex complex": (la.inv_ex, COMPLEX),
    "solve_ex": (la.solve_ex, SQUARE, RIGHT),
    "pinv": (la.pinv, WIDE),
    "lstsq": (la.lstsq, TALL, TALL),
    "det": (la.det, SQUARE),
    "slogdet": (la.slogdet, COMPLEX),
    "eigh": (la.eigh, DEFINITE),
    "eigvalsh": (la.eigvalsh, DEFINITE),
    "eig": (la.eig, SQUARE),
    "eigvals": (la.eigvals, COMPLEX),
    "svd": (la.svd, WIDE),
    "svd reduced": (lambda a: la.svd(a, full_matrices=False), WIDE),
    "svdvals": (la.svdvals, TALL),
    "qr": (la.qr, WIDE),
    "qr complete": (lambda a: la.qr(a, mode="complete"), TALL),
    "geqrf": (mt.geqrf, WIDE),
    "matrix_exp": (la.matrix_exp, SQUARE),
    **{f"fft.{name}": (getattr(mt.fft, name), SPECTRUM) for name in ("fft", "ifft", "hfft", "irfft", "fft2", "irfftn")},
    **{f"fft.{name}": (getattr(mt.fft, name), SIGNAL) for name in ("rfft", "ihfft", "rfft2", "ihfftn")},
    "fft of another length": (lambda x: mt.fft.fft(x, 5, 1, "ortho"), SPECTRUM),
}
# Those that look whether it worked.
CHECKED = {
    "cholesky": (la.cholesky, DEFINITE),
    "cholesky upper": (lambda a: la.cholesky(a, upper=True), DEFINITE),
    "cholesky_inverse": (mt.cholesky_inverse, DEFINITE),
    "lu": (la.lu, WIDE),
    "lu_factor": (la.lu_factor, SQUARE),
    "inv": (la.inv, SQUARE),
    "solve": (la.solve, SQUARE, RIGHT),
    "ldl_factor": (la.ldl_factor, DEFINITE),
    "matrix_power": (lambda a: la.matrix_power(a, -2), SQUARE),
    "matrix_rank": (la.matrix_rank, WIDE),
    "matrix_norm": (lambda a: la.matrix_norm(a, "nuc"), WIDE),
    "cond": (la.cond, SQUARE),
}


def results(case):
    found = case[0](*case[1:])
    return list(found) if isinstance(found, tuple) else [found]


@pytest.mark.parametrize("name", LAZY)
def test_recording_goes_on(name):
    call, *operands = LAZY[name]
    expected = results(LAZY[name])
    with mt.jit_scope(), flushes() as seen:
        found = results((call, *[x * 1 for x in operands]))
        shapes = [(t.shape, t.dtype) for t in found]
        assert not seen
    assert shapes == [(t.shape, t.dtype) for t in expected]
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


@pytest.mark.parametrize("name", [*LAZY, *CHECKED])
def test_device_meta(name):
    case = LAZY.get(name) or CHECKED[name]
    found = results((case[0], *[x.to("meta") for x in case[1:]]))
    for a, b in zip(found, results(case), strict=True):
        assert (a.shape, a.dtype, a.device.type) == (b.shape, b.dtype, "meta")


@pytest.mark.parametrize("name", CHECKED)
def test_what_looks_at_values_is_recorded_too(name):
    call, *operands = CHECKED[name]
    with mt.jit_scope():
        found = results((call, *[x * 1 for x in operands]))
    for a, b in zip(found, results(CHECKED[name]), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_a_program_around_a_decomposition():
    def program(x, y):
        u, s, vh = la.svd(x.exp() * 0.1 + y, full_matrices=False)
        low = (u * (s * mt.tensor([1.0, 1.0, 0.0], dtype=mt.float64))) @ vh
        return (low - x).square().sum() + mt.fft.rfft(low, norm="ortho").abs().sum()

    gradients = []
    for scope in (False, True, True):
        x = numbers(3, 5).requires_grad_()
        if scope:
            with mt.jit_scope():
                loss = program(x, WIDE[0])
                loss.backward()
        else:
            loss = program(x, WIDE[0])
            loss.backward()
        gradients.append((loss.item(), x.grad.tolist()))
    assert gradients[0] == gradients[1] == gradients[2]


def test_errors_come_at_the_call():
    half = mt.ones(2, 2, dtype=mt.float16)
    with mt.jit_scope():
        with pytest.raises((RuntimeError, NotImplementedError)):
            la.svd(half)
        with pytest.raises(la.LinAlgError):
            la.inv(mt.zeros(2, 2))
        with pytest.raises(RuntimeError, match="expects a real input"):
            mt.fft.rfft(SPECTRUM)
