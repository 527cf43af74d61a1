"""The transforms of one, two and all dimensions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitensor import _C
from minitensor._C import Tensor
from minitensor.composite.dims import ints_of
from minitensor.composite.registry import autocast, composite
from minitensor.fft.arguments import check_size, dimensions, promoted, resized, scale_of, wrapped
from minitensor.ops import fft as rows

__all__ = [
    "fft", "fft2", "fftn", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ihfft", "ihfft2", "ihfftn", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftn",
]  # fmt: skip


def _fft(made: Callable[..., Any]) -> Callable[..., Any]:
    name = f"fft_{made.__name__}"
    return composite(name=name, function=False, method=False, out="castable", namespaces=("fft",))(made)


# ---- one dimension


def _c2c(input: Any, n: int | None, dim: int, norm: Any, forward: bool, name: str) -> Any:
    scale = scale_of(norm, forward, name)
    x = promoted(input, True)
    d = wrapped(dim, x.ndim)
    size = x.shape[d] if n is None else n
    check_size(size)
    return rows.c2c(resized(x, [d], [size]), (d,), scale, forward)


def _r2c(input: Any, n: int | None, dim: int, norm: Any, forward: bool, name: str) -> Any:
    scale = scale_of(norm, forward, name)
    if input.is_complex():
        raise RuntimeError(f"{name} expects a real input tensor, but got {_C.type_name(input.dtype)}")
    x = promoted(input, False)
    d = wrapped(dim, x.ndim)
    size = x.shape[d] if n is None else n
    check_size(size)
    found = rows.r2c(resized(x, [d], [size]), (d,), scale, True)
    return found if forward else found.conj()


def _c2r(input: Any, n: int | None, dim: int, norm: Any, forward: bool, name: str) -> Any:
    scale = scale_of(norm, forward, name)
    x = promoted(input, True)
    d = wrapped(dim, x.ndim)
    size = 2 * (x.shape[d] - 1) if n is None else n
    check_size(size)
    x = resized(x, [d], [size // 2 + 1])
    return rows.c2r(x.conj() if forward else x, (d,), scale, size)


@_fft
@autocast("float32", "")
def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The discrete Fourier transform along a dimension."""
    return _c2c(input, n, dim, norm, True, "fft")


@_fft
@autocast("float32", "")
def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `fft`."""
    return _c2c(input, n, dim, norm, False, "ifft")


@_fft
@autocast("float32", "")
def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """`fft` of real numbers: the half of the spectrum that tells the rest."""
    return _r2c(input, n, dim, norm, True, "rfft")


@_fft
@autocast("float32", "")
def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `rfft`: n real numbers, by default an even count."""
    return _c2r(input, n, dim, norm, False, "irfft")


@_fft
@autocast("float32", "")
def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """`fft` of half of a Hermitian signal: n real numbers, by default an even count."""
    return _c2r(input, n, dim, norm, True, "hfft")


@_fft
@autocast("float32", "")
def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Tensor:
    """The inverse of `hfft`: half of a Hermitian signal."""
    return _r2c(input, n, dim, norm, False, "ihfft")


# ---- several


def _c2c_n(input: Any, s: Any, dim: Any, norm: Any, forward: bool, name: str) -> Any:
    scale = scale_of(norm, forward, name)
    x = promoted(input, True)
    dims, sizes = dimensions(x, s, dim)
    for n in sizes:
        check_size(n)
    if not dims:
        return x.clone() if x is input else x
    return rows.c2c(resized(x, dims, sizes), tuple(dims), scale, forward)


def _half_sizes(input: Any, s: Any, dim: Any, name: str) -> tuple[list[int], list[int], int]:
    """The dimensions, the sizes of a half spectrum, and the last size of the signal."""
    dims, sizes = dimensions(input, s, dim)
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis")
    given = None if s is None else ints_of(s)
    last = 2 * (input.shape[dims[-1]] - 1) if given is None or given[-1] == -1 else given[-1]
    for n in (*sizes[:-1], last):
        check_size(n)
    return dims, [*sizes[:-1], last // 2 + 1], last


@_fft
@autocast("float32", "")
def fftn(
    input: Any, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """The discrete Fourier transform along several dimensions, by default all."""
    return _c2c_n(input, s, dim, norm, True, "fftn")


@_fft
@autocast("float32", "")
def ifftn(
    input: Any, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """The inverse of `fftn`."""
    return _c2c_n(input, s, dim, norm, False, "ifftn")


@_fft
@autocast("float32", "")
def rfftn(
    input: Any, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """`fftn` of real numbers: of the last dimension only the half that tells the rest."""
    scale = scale_of(norm, True, "rfftn")
    if input.is_complex():
        raise RuntimeError(f"rfftn expects a real-valued input tensor, but got {_C.type_name(input.dtype)}")
    x = promoted(input, False)
    dims, sizes = dimensions(x, s, dim)
    if not dims:
        raise RuntimeError("rfftn must transform at least one axis")
    for n in sizes:
        check_size(n)
    return rows.r2c(resized(x, dims, sizes), tuple(dims), scale, True)


@_fft
@autocast("float32", "")
def irfftn(
    input: Any, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """The inverse of `rfftn`."""
    scale = scale_of(norm, False, "irfftn")
    x = promoted(input, True)
    dims, sizes, last = _half_sizes(x, s, dim, "irfftn")
    return rows.c2r(resized(x, dims, sizes), tuple(dims), scale, last)


@_fft
def hfftn(
    input: Any, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """`fftn` of a signal that is Hermitian in the last dimension, of which half is given."""
    scale = scale_of(norm, True, "hfftn")
    x = promoted(input, True)
    dims, sizes, last = _half_sizes(x, s, dim, "hfftn")
    x = resized(x, dims, sizes)
    if len(dims) > 1:
        x = rows.c2c(x, tuple(dims[:-1]), scale, True)
    return rows.c2r(x.conj(), (dims[-1],), scale, last)


@_fft
def ihfftn(
    input: Any, s: Sequence[int] | None = None, dim: Sequence[int] | None = None, norm: str | None = None
) -> Tensor:
    """The inverse of `hfftn`."""
    scale = scale_of(norm, False, "ihfftn")
    if input.is_complex():
        raise RuntimeError(f"Only supports floating-point dtypes, but found: {_C.type_name(input.dtype)}")
    x = promoted(input, False)
    dims, sizes = dimensions(x, s, dim)
    if not dims:
        raise RuntimeError("ihfftn must transform at least one axis")
    for n in sizes:
        check_size(n)
    half = rows.r2c(resized(x, dims, sizes), (dims[-1],), scale, True).conj()
    return rows.c2c(half, tuple(dims[:-1]), scale, False) if len(dims) > 1 else half


def _two(made: str, doc: str, of: Callable[..., Any]) -> Callable[..., Any]:
    def transform(
        input: Any, s: Sequence[int] | None = None, dim: Sequence[int] = (-2, -1), norm: str | None = None
    ) -> Tensor:
        return of(input, s, dim, norm)

    transform.__name__ = made
    transform.__doc__ = doc
    transform.__module__ = __name__
    return _fft(autocast("" if "hf" in made else "float32", "")(transform))


fft2 = _two("fft2", "`fftn` of the last two dimensions.", fftn)
ifft2 = _two("ifft2", "`ifftn` of the last two dimensions.", ifftn)
rfft2 = _two("rfft2", "`rfftn` of the last two dimensions.", rfftn)
irfft2 = _two("irfft2", "`irfftn` of the last two dimensions.", irfftn)
hfft2 = _two("hfft2", "`hfftn` of the last two dimensions.", hfftn)
ihfft2 = _two("ihfft2", "`ihfftn` of the last two dimensions.", ihfftn)
