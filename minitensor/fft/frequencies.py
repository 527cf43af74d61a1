"""The frequencies of a transform's results, and their order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor._functions.checked import checked
from minitensor.composite.dims import ints_of
from minitensor.composite.registry import composite, grad_fn
from minitensor.creation import with_requires_grad
from minitensor.ops import ROWS

__all__ = ["fftfreq", "fftshift", "ifftshift", "rfftfreq"]


def _made(values: Any, name: str, n: int, d: float, out: Any, dtype: Any, device: Any, requires_grad: bool) -> Any:
    dtype = _C.get_default_dtype() if dtype is None else dtype
    if not dtype.is_floating_point and not dtype.is_complex:
        raise RuntimeError(f"{name} requires a floating point or complex dtype")
    found = (_C.from_numpy(values) * (1.0 / (n * d) if n else 1.0)).to(dtype)
    if device is not None:
        found = found.to(device)
    if out is not None:
        return _C.store_out(name, found, out)
    return with_requires_grad(found, requires_grad)


def _check(n: int) -> None:
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")


@checked
@composite(name="fft_fftfreq", function=False, method=False, namespaces=("fft",))
def fftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> _C.Tensor:
    """The frequencies of `fft`'s n results for samples at a distance of d: 0 and up, then the negative ones."""
    import numpy as np

    _check(n)
    count = np.arange(n, dtype=np.float64)
    count[(n + 1) // 2 :] -= n
    return _made(count, "fftfreq", n, d, out, dtype, device, requires_grad)


@checked
@composite(name="fft_rfftfreq", function=False, method=False, namespaces=("fft",))
def rfftfreq(
    n: int,
    d: float = 1.0,
    *,
    out: Any = None,
    dtype: Any = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
) -> _C.Tensor:
    """The frequencies of `rfft`'s results for n samples at a distance of d."""
    import numpy as np

    _check(n)
    return _made(np.arange(n // 2 + 1, dtype=np.float64), "rfftfreq", n, d, out, dtype, device, requires_grad)


def _rolled(input: Any, dim: Any, inverse: bool) -> Any:
    dims = list(range(input.ndim)) if dim is None else ints_of(dim)
    for d in dims:
        if not -input.ndim <= d < input.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in range of [{-input.ndim}, {input.ndim - 1}], but got {d})"
            )
    for d in dims:
        size = input.shape[d]
        # What begins at `cut` comes first.
        cut = size // 2 if inverse else (size + 1) // 2
        if size > 1:
            input = ROWS["cat"].call([input.narrow(d, cut, size - cut), input.narrow(d, 0, cut)], d)
    return input


@checked
@composite(name="fft_fftshift", function=False, method=False, namespaces=("fft",))
@grad_fn("RollBackward0")
def fftshift(input: Any, dim: int | Sequence[int] | None = None) -> _C.Tensor:
    """The results of a transform with the negative frequencies first."""
    return _rolled(input, dim, False)


@checked
@composite(name="fft_ifftshift", function=False, method=False, namespaces=("fft",))
@grad_fn("RollBackward0")
def ifftshift(input: Any, dim: int | Sequence[int] | None = None) -> _C.Tensor:
    """The inverse of `fftshift`."""
    return _rolled(input, dim, True)
