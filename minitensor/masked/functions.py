"""Reductions, softmaxes and scans over the elements that a mask leaves: True means that an element counts.

Elements that don't count are given the value that changes nothing; what has none that count gives that value, or NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from minitensor import _C, linalg
from minitensor._C import get_default_dtype, int8, int16, int32, int64, uint8
from minitensor._functions import offered
from minitensor._functions.offered import full, ones_like, where
from minitensor.dtypes import iinfo

__all__ = [
    "amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean", "median",
    "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var",
]  # fmt: skip

Tensor = _C.Tensor
_Dim = int | tuple[int, ...] | None


def _given(name: str, input: Any, mask: Any) -> tuple[Any, Any]:
    """The elements and the mask in their shape; None: all count."""
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}() expects a Tensor, but got {type(input).__name__}")
    own = getattr(input, "_masked_mask", None)
    if own is not None:
        input = input.get_data()  # type: ignore[attr-defined]
        mask = own if mask is None else own & mask
    if mask is None:
        return input, None
    if not isinstance(mask, Tensor) or mask.dtype is not _C.bool:
        raise TypeError(f"{name}() expects a mask of dtype bool, but got {getattr(mask, 'dtype', type(mask).__name__)}")
    if mask.ndim > input.ndim:
        raise IndexError("_input_mask expected broadcastable mask (got mask dimensionality higher than of the input)")
    return input, mask.expand(input.shape)


def _filled(input: Any, mask: Any, value: Any) -> Any:
    return input if mask is None else where(mask, input, full((), value, dtype=input.dtype, device=input.device))


def _least(dtype: Any) -> Any:
    return -math.inf if dtype.is_floating_point else iinfo(dtype).min


def _most(dtype: Any) -> Any:
    return math.inf if dtype.is_floating_point else iinfo(dtype).max


def _dims(input: Any, dim: Any) -> tuple[int, ...]:
    if dim is None or dim == ():
        return tuple(range(input.ndim))
    return tuple(dim) if isinstance(dim, (tuple, list)) else (dim,)


_NARROW = (_C.bool, uint8, int8, int16, int32)


def _wide(input: Any, dtype: Any) -> Any:
    return input.to(dtype if dtype is not None else int64 if input.dtype in _NARROW else input.dtype)


def sum(input: Any, dim: _Dim = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The sum over `dim` of the elements whose mask is True; 0 where there are none."""
    input, mask = _given("sum", input, mask)
    return _filled(_wide(input, dtype), mask, 0).sum(_dims(input, dim), keepdim)


def prod(input: Any, dim: _Dim = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The product over `dim` of the elements whose mask is True; 1 where there are none."""
    input, mask = _given("prod", input, mask)
    result = _filled(_wide(input, dtype), mask, 1)
    for d in sorted((d % max(input.ndim, 1) for d in _dims(input, dim)), reverse=True):
        result = result.prod(d, keepdim)
    return result


def amax(input: Any, dim: _Dim = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The largest over `dim` of the elements whose mask is True; the dtype's least where there are none."""
    input, mask = _given("amax", input, mask)
    input = input if dtype is None else input.to(dtype)
    return _filled(input, mask, _least(input.dtype)).amax(_dims(input, dim), keepdim)


def amin(input: Any, dim: _Dim = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The smallest over `dim` of the elements whose mask is True; the dtype's greatest where there are none."""
    input, mask = _given("amin", input, mask)
    input = input if dtype is None else input.to(dtype)
    return _filled(input, mask, _most(input.dtype)).amin(_dims(input, dim), keepdim)


def argmax(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The place of the largest element whose mask is True, as numbers of the input's dtype as in PyTorch."""
    input, mask = _given("argmax", input, mask)
    dtype = input.dtype if dtype is None else dtype
    return _filled(input, mask, _least(input.dtype)).argmax(dim, bool(keepdim)).to(dtype)


def argmin(input: Any, dim: int | None = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The place of the smallest element whose mask is True, as numbers of the input's dtype as in PyTorch."""
    input, mask = _given("argmin", input, mask)
    dtype = input.dtype if dtype is None else dtype
    return _filled(input, mask, _most(input.dtype)).argmin(dim, bool(keepdim)).to(dtype)


def _count(input: Any, mask: Any, dims: tuple[int, ...], keepdim: bool) -> Any:
    counted = ones_like(input, dtype=int64) if mask is None else mask.to(int64)
    return counted.sum(dims, keepdim)


def _need_floats(name: str, input: Any, dtype: Any) -> Any:
    dtype = input.dtype if dtype is None else dtype
    if not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            f"{name}(): Could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {dtype}"
        )
    return input.to(dtype)


def mean(input: Any, dim: _Dim = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The mean over `dim` of the elements whose mask is True; NaN where there are none. ValueError for integers."""
    input, mask = _given("mean", input, mask)
    input = _need_floats("mean", input, dtype)
    dims = _dims(input, dim)
    return _filled(input, mask, 0).sum(dims, keepdim) / _count(input, mask, dims, keepdim)


def median(input: Any, dim: int = -1, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """The median over `dim` of the elements whose mask is True; NaN where there are none. ValueError for integers."""
    input, mask = _given("median", input, mask)
    input = _need_floats("median", input, dtype)
    if mask is None:
        return input.median(dim, keepdim).values
    if bool(input.isnan().any()):
        raise ValueError(
            "masked median expects no fully masked out rows if dtype is not floating point, and no NaN among the input"
        )
    return _filled(input, mask, math.nan).nanmedian(dim, keepdim).values


def logsumexp(input: Any, dim: _Dim = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None) -> Any:
    """log(sum(exp)) over `dim` of the elements whose mask is True; -inf where there are none."""
    input, mask = _given("logsumexp", input, mask)
    input = input if dtype is None else input.to(dtype)
    return _filled(input, mask, -math.inf).logsumexp(_dims(input, dim), keepdim)


def logaddexp(input: Any, other: Any, *, dtype: Any = None, input_mask: Any = None, other_mask: Any = None) -> Any:
    """log(exp(input) + exp(other)) of the elements whose masks are True."""
    input, input_mask = _given("logaddexp", input, input_mask)
    other, other_mask = _given("logaddexp", other, other_mask)
    if dtype is not None:
        input, other = input.to(dtype), other.to(dtype)
    return offered.logaddexp(_filled(input, input_mask, -math.inf), _filled(other, other_mask, -math.inf))


def norm(
    input: Any, ord: float | None = 2.0, dim: _Dim = None, *, keepdim: bool = False, dtype: Any = None, mask: Any = None
) -> Any:
    """The vector norm over `dim` of the elements whose mask is True.

    Where there are none it is 0, or inf for a negative `ord`.
    """
    input, mask = _given("norm", input, mask)
    input = _need_floats("norm", input, dtype)
    order = 2.0 if ord is None else ord
    filled = _filled(input, mask, math.inf if order < 0 else 0)
    return linalg.vector_norm(filled, order, _dims(input, dim), bool(keepdim))


def _moment(
    name: str, input: Any, dim: Any, unbiased: Any, correction: Any, keepdim: bool, dtype: Any, mask: Any, root: bool
) -> Any:
    if unbiased is not None and correction is not None:
        raise RuntimeError("Only one of unbiased and correction may be given")
    correction = (1 if unbiased in (None, True) else 0) if correction is None else correction
    input, mask = _given(name, input, mask)
    dtype = dtype or (input.dtype if input.is_floating_point() or input.is_complex() else get_default_dtype())
    input = input.to(dtype)
    dims = _dims(input, dim)
    center = _filled(input, mask, 0).sum(dims, True) / _count(input, mask, dims, True)
    apart = input - center
    total = _filled((apart * apart.conj()).real, mask, 0).sum(dims, keepdim)
    result = total / (_count(input, mask, dims, keepdim) - correction).clamp_min(0)
    return result.sqrt() if root else result


def var(
    input: Any, dim: _Dim = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool = False, dtype: Any = None, mask: Any = None,
) -> Any:  # fmt: skip
    """The variance over `dim` of the elements whose mask is True."""
    return _moment("var", input, dim, unbiased, correction, bool(keepdim), dtype, mask, False)


def std(
    input: Any, dim: _Dim = None, unbiased: bool | None = None, *, correction: float | None = None,
    keepdim: bool = False, dtype: Any = None, mask: Any = None,
) -> Any:  # fmt: skip
    """The standard deviation over `dim` of the elements whose mask is True."""
    return _moment("std", input, dim, unbiased, correction, bool(keepdim), dtype, mask, True)


def _elementwise(name: str, value: Callable[[Any], Any], compute: Callable[[Any, int], Any]) -> Callable[..., Any]:
    def call(input: Any, dim: int, *, dtype: Any = None, mask: Any = None) -> Any:
        input, mask = _given(name, input, mask)
        input = _wide(input, dtype) if name.startswith("cum") else input if dtype is None else input.to(dtype)
        return compute(_filled(input, mask, value(input.dtype)), dim)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{name} along `dim` of the elements whose mask is True."
    return call


softmax = _elementwise("softmax", lambda _: -math.inf, lambda x, d: x.softmax(d))
log_softmax = _elementwise("log_softmax", lambda _: -math.inf, lambda x, d: x.log_softmax(d))
softmin = _elementwise("softmin", lambda _: math.inf, lambda x, d: (-x).softmax(d))
cumsum = _elementwise("cumsum", lambda _: 0, lambda x, d: x.cumsum(d))
cumprod = _elementwise("cumprod", lambda _: 1, lambda x, d: x.cumprod(d))


def normalize(input: Any, ord: float, dim: int, *, eps: float = 1e-12, dtype: Any = None, mask: Any = None) -> Any:
    """The elements over their norm along `dim`, of those whose mask is True; 0 elsewhere."""
    input, mask = _given("normalize", input, mask)
    input = _need_floats("normalize", input, dtype)
    length = norm(input, ord, dim, keepdim=True, mask=mask)
    return _filled(input, mask, 0) / length.clamp_min(eps)
