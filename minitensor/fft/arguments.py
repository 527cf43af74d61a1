"""The arguments of transforms: dimensions, sizes, norms and dtypes, checked in PyTorch's words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor.composite.dims import ints_of
from minitensor.ops import ROWS

__all__ = ["check_size", "dimensions", "promoted", "resized", "scale_of", "wrapped"]


def wrapped(dim: int, ndim: int) -> int:
    """The dimension, counted from the front."""
    if not ndim:
        raise IndexError(f"Dimension specified as {dim} but tensor has no dimensions")
    if not -ndim <= dim < ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-ndim}, {ndim - 1}], but got {dim})")
    return dim % ndim


def dimensions(input: Any, s: Sequence[int] | None, dim: Any) -> tuple[list[int], list[int]]:
    """The dimensions to transform and their sizes; -1 stands for the size that is there."""
    given = None if dim is None else ints_of(dim)
    sizes = None if s is None else ints_of(s)
    if given is not None:
        found = [wrapped(d, input.ndim) for d in given]
        if len(set(found)) < len(found):
            raise RuntimeError("FFT dims must be unique")
        if sizes is not None and len(sizes) != len(found):
            raise RuntimeError("When given, dim and shape arguments must have the same length")
    elif sizes is not None:
        if len(sizes) > input.ndim:
            raise RuntimeError(f"Got shape with {len(sizes)} values but input tensor only has {input.ndim} dimensions.")
        found = list(range(input.ndim - len(sizes), input.ndim))
    else:
        found = list(range(input.ndim))
    if sizes is None:
        sizes = [-1] * len(found)
    return found, [input.shape[d] if n == -1 else n for d, n in zip(found, sizes, strict=True)]


def check_size(n: int) -> None:
    """Refuse to transform nothing."""
    if n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")


def promoted(input: Any, needs_complex: bool) -> Any:
    """The input as single or double precision numbers, complex if that is needed."""
    if not isinstance(input, _C.Tensor):
        raise TypeError(f"argument 'input' (position 1) must be Tensor, not {type(input).__name__}")
    dtype = input.dtype
    if not dtype.is_floating_point and not dtype.is_complex:
        dtype = _C.get_default_dtype()
    if dtype.name not in ("float32", "float64", "complex64", "complex128"):
        raise RuntimeError(f"Unsupported dtype {_C.type_name(dtype)}")
    if needs_complex and not dtype.is_complex:
        dtype = _C.complex64 if dtype.name == "float32" else _C.complex128
    return input if dtype == input.dtype else input.to(dtype)


def resized(input: Any, dims: Sequence[int], sizes: Sequence[int]) -> Any:
    """The input cut to the sizes, or padded with zeros."""
    for d, n in zip(dims, sizes, strict=True):
        have = input.shape[d]
        if n < have:
            input = input.narrow(d, 0, n)
        elif n > have:
            shape = list(input.shape)
            shape[d] = n - have
            zeros = ROWS["full"].call(tuple(shape), 0, dtype=input.dtype, device=input.device)
            input = ROWS["cat"].call([input, zeros], d)
    return input


def scale_of(norm: Any, forward: bool, name: str) -> int:
    """The rows' code of a norm: 0 none, 1 by the square root, 2 by the size."""
    if norm is not None and not isinstance(norm, str):
        raise TypeError(f"fft_{name}(): argument 'norm' must be str, not {type(norm).__name__}")
    if norm not in (None, "backward", "ortho", "forward"):
        raise RuntimeError(f'Invalid normalization mode: "{norm}"')
    if norm == "ortho":
        return 1
    return 2 if (norm == "forward") == forward else 0
