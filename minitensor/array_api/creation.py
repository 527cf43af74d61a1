"""Making arrays, by the array API standard."""

from __future__ import annotations

import builtins
from typing import Any

from minitensor import _C
from minitensor._functions import offered
from minitensor._functions.offered import as_tensor, tensor

__all__ = [
    "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack", "full", "full_like", "linspace", "meshgrid",
    "ones", "ones_like", "tril", "triu", "zeros", "zeros_like",
]  # fmt: skip


def _shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: bool | None = None) -> Any:
    """An array of numbers, nested sequences or another array, with its memory where possible unless `copy`."""
    if isinstance(obj, _C.Tensor):
        made = obj if device is None else obj.to(device)
        if dtype is not None and made.dtype != dtype:
            if copy is False:
                raise ValueError("another data type needs a copy")
            return made.to(dtype)
        return made.clone() if copy and made is obj else made
    if copy is False:
        if not (hasattr(obj, "__dlpack__") or hasattr(obj, "__array_interface__") or hasattr(obj, "__buffer__")):
            raise ValueError("such an object needs a copy")
        made = as_tensor(obj)
        if dtype is not None and made.dtype != dtype:
            raise ValueError("another data type needs a copy")
        return made
    if isinstance(obj, int) and not isinstance(obj, builtins.bool) and obj > 2**63 - 1 and dtype is None:
        return tensor(obj, dtype=_C.uint64, device=device)
    if copy:
        return tensor(obj, dtype=dtype, device=device)
    return as_tensor(obj, dtype=dtype, device=device)


def arange(
    start: float, /, stop: float | None = None, step: float = 1, *, dtype: Any = None, device: Any = None
) -> Any:
    """Evenly spaced numbers in [start, stop); [0, start) if only that is given."""
    if stop is None:
        start, stop = 0, start
    if (step > 0 and start >= stop) or (step < 0 and start <= stop):
        whole = all(isinstance(v, int) for v in (start, stop, step))
        return empty(0, dtype=dtype or (_C.int64 if whole else None), device=device)
    return offered.arange(start, stop, step, dtype=dtype, device=device)


def linspace(
    start: Any, stop: Any, /, num: int, *, dtype: Any = None, device: Any = None, endpoint: bool = True
) -> Any:
    """num evenly spaced numbers from start to stop, with or without the last one."""
    if isinstance(start, complex) or isinstance(stop, complex):
        parts = [
            linspace(a, b, num, endpoint=endpoint, device=device)
            for a, b in ((complex(start).real, complex(stop).real), (complex(start).imag, complex(stop).imag))
        ]
        made = offered.complex(*parts)
        return made if dtype is None else made.to(dtype)
    count = num if endpoint else num + 1
    target = _C.get_default_dtype() if dtype is None else dtype
    # In double precision, so that the ends are exact whatever the type.
    wide = offered.linspace(start, stop, count, dtype=_C.float64, device=device)
    return (wide if endpoint else wide[:num]).to(target)


def empty(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array whose elements are not set."""
    return offered.empty(_shape(shape), dtype=dtype, device=device)


def empty_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of x's shape and type whose elements are not set."""
    return offered.empty_like(x, dtype=dtype, device=device)


def zeros(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of zeros."""
    return offered.zeros(_shape(shape), dtype=dtype, device=device)


def zeros_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of zeros of x's shape and type."""
    return offered.zeros_like(x, dtype=dtype, device=device)


def ones(shape: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of ones."""
    return offered.ones(_shape(shape), dtype=dtype, device=device)


def ones_like(x: Any, /, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of ones of x's shape and type."""
    return offered.ones_like(x, dtype=dtype, device=device)


def full(shape: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of one value."""
    return offered.full(_shape(shape), fill_value, dtype=dtype, device=device)


def full_like(x: Any, /, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
    """An array of one value of x's shape and type."""
    return offered.full_like(x, fill_value, dtype=dtype, device=device)


def eye(n_rows: int, n_cols: int | None = None, /, *, k: int = 0, dtype: Any = None, device: Any = None) -> Any:
    """Ones on the k-th diagonal, zeros elsewhere."""
    columns = n_rows if n_cols is None else n_cols
    made = offered.zeros((n_rows, columns), dtype=dtype, device=device)
    if -n_rows < k < columns:
        made.diagonal(k).fill_(1)
    return made


def from_dlpack(x: Any, /, *, device: Any = None, copy: bool | None = None) -> Any:
    """An array on the memory of another library's."""
    made = offered.from_dlpack(x)
    if device is not None:
        made = made.to(device)
    return made.clone() if copy else made


def meshgrid(*arrays: Any, indexing: str = "xy") -> list[Any]:
    """The coordinates of a grid."""
    if len(arrays) < 2:
        return [a.clone() for a in arrays]
    return list(offered.meshgrid(*arrays, indexing=indexing))


def tril(x: Any, /, *, k: int = 0) -> Any:
    """The matrices with zeros above the k-th diagonal."""
    return offered.tril(x, k)


def triu(x: Any, /, *, k: int = 0) -> Any:
    """The matrices with zeros below the k-th diagonal."""
    return offered.triu(x, k)
