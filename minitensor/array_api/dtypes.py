"""Data types of the array API standard: kinds, promotion, limits, and what the namespace says about itself."""

from __future__ import annotations

import builtins
from functools import reduce
from typing import Any, NamedTuple

from minitensor import _C

__all__ = ["__array_namespace_info__", "astype", "can_cast", "finfo", "iinfo", "isdtype", "result_type"]

_SIGNED = ("int8", "int16", "int32", "int64")
_UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
_REAL = ("float32", "float64")
_COMPLEX = ("complex64", "complex128")
_KINDS = {
    "bool": ("bool",),
    "signed integer": _SIGNED,
    "unsigned integer": _UNSIGNED,
    "integral": _SIGNED + _UNSIGNED,
    "real floating": _REAL,
    "complex floating": _COMPLEX,
    "numeric": _SIGNED + _UNSIGNED + _REAL + _COMPLEX,
}
_HALF = {"real floating": ("float16", "bfloat16"), "numeric": ("float16", "bfloat16")}


class FloatInfo(NamedTuple):
    """The limits of a floating-point type."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: Any


class IntInfo(NamedTuple):
    """The limits of an integer type."""

    bits: int
    max: int
    min: int
    dtype: Any


def _dtype(type: Any) -> Any:
    return type.dtype if isinstance(type, _C.Tensor) else type


def astype(x: Any, dtype: Any, /, *, copy: bool = True, device: Any = None) -> Any:
    """x in another type; a copy unless `copy` is false and nothing changes."""
    if device is not None:
        x = x.to(device)
    if x.dtype == dtype:
        return x.clone() if copy else x
    return x.to(dtype)


def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether a type is of a kind ('integral', 'real floating', ...), one of several kinds, or another type."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if isinstance(kind, str):
        if kind not in _KINDS:
            raise ValueError(f"unrecognized kind of data type: '{kind}'")
        return dtype.name in _KINDS[kind] or dtype.name in _HALF.get(kind, ())
    return builtins.bool(dtype == kind)


def promoted(first: Any, second: Any) -> Any:
    """The type that two types promote to: the standard's table where PyTorch, which has no unsigned one, refuses."""
    wide = ("uint16", "uint32", "uint64")
    a, b = (second, first) if first.name in wide else (first, second)
    if a != b and b.name in wide:
        if a.is_floating_point or a.is_complex:
            return a
        if a == _C.bool:
            return b
        if a.name in _UNSIGNED:
            return a if a.itemsize > b.itemsize else b
        if a.name in _SIGNED:
            if b.name == "uint64":
                raise TypeError(f"{a.name} and {b.name} have no common type")
            return a if a.itemsize > b.itemsize else getattr(_C, f"int{16 * b.itemsize}")
    return _C.promote_types(first, second)


def can_cast(from_: Any, to: Any, /) -> bool:
    """Whether promotion alone makes the one type of the other."""
    source = _dtype(from_)
    try:
        return builtins.bool(promoted(source, to) == to)
    except TypeError:
        return False


def result_type(*arrays_and_dtypes: Any) -> Any:
    """The type that the operands promote to; Python numbers only decide the kind."""
    types = [_dtype(a) for a in arrays_and_dtypes if not isinstance(a, builtins.bool | int | float | complex)]
    if not types:
        raise ValueError("at least one array or dtype is required")
    found = reduce(promoted, types)
    for number in (a for a in arrays_and_dtypes if isinstance(a, builtins.bool | int | float | complex)):
        if isinstance(number, complex) and not found.is_complex:
            found = _C.complex128 if found == _C.float64 else _C.complex64
        elif isinstance(number, float) and not (found.is_complex or found.is_floating_point):
            found = _C.get_default_dtype()
        elif not isinstance(number, builtins.bool | float | complex) and found == _C.bool:
            found = _C.int64
    return found


def finfo(type: Any, /) -> FloatInfo:
    """The limits of a floating-point type; of a complex one those of its parts."""
    from minitensor import dtypes

    dtype = _dtype(type)
    real = {"complex64": _C.float32, "complex128": _C.float64}.get(dtype.name, dtype)
    info = dtypes.finfo(real)
    return FloatInfo(info.bits, info.eps, info.max, info.min, info.tiny, real)


def iinfo(type: Any, /) -> IntInfo:
    """The limits of an integer type."""
    from minitensor import dtypes

    dtype = _dtype(type)
    info = dtypes.iinfo(dtype)
    return IntInfo(info.bits, info.max, info.min, dtype)


class Info:
    """What the namespace can do, which devices and which types it has."""

    def capabilities(self) -> dict[str, Any]:
        """What depends on the library."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Any:
        """The device of new arrays."""
        return _C.device("cpu")

    def devices(self) -> list[Any]:
        """The devices that compute."""
        return [_C.device("cpu")]

    def default_dtypes(self, *, device: Any = None) -> dict[str, Any]:
        """The types of new arrays by kind."""
        real = _C.get_default_dtype()
        return {
            "real floating": real,
            "complex floating": _C.complex128 if real == _C.float64 else _C.complex64,
            "integral": _C.int64,
            "indexing": _C.int64,
        }

    def dtypes(self, *, device: Any = None, kind: Any = None) -> dict[str, Any]:
        """The types by name, of a kind or of all."""
        names = ("bool", *_KINDS["numeric"])
        return {n: getattr(_C, n) for n in names if kind is None or isdtype(getattr(_C, n), kind)}


def __array_namespace_info__() -> Info:  # noqa: N807  (the standard's name)
    """What the namespace can do."""
    return Info()
