"""Functions that make tensors."""

from __future__ import annotations

from typing import Any

from minitensor import _C

__all__ = ["as_tensor", "asarray", "from_dlpack", "from_numpy", "tensor"]

Tensor = _C.Tensor


def _made(result: Tensor, requires_grad: bool) -> Tensor:
    return result.requires_grad_() if requires_grad else result


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of `data`: numbers, nested sequences of them, or anything with a buffer."""
    return _made(_C.tensor_from_data(data, dtype, device, True), requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing its memory where that's possible."""
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    return _C.tensor_from_data(data, dtype, device, False)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """`obj` as a tensor; `copy=True` always copies, None only where needed."""
    return _made(tensor(obj, dtype=dtype, device=device) if copy else as_tensor(obj, dtype, device), requires_grad)


from_numpy = _C.from_numpy


def from_dlpack(ext_tensor: Any) -> Tensor:
    """A tensor that shares the memory of an object with `__dlpack__`, or of a DLPack capsule."""
    if hasattr(ext_tensor, "__dlpack__"):
        try:
            ext_tensor = ext_tensor.__dlpack__(max_version=(1, 0))
        except TypeError:
            ext_tensor = ext_tensor.__dlpack__()
    return _C.from_dlpack_capsule(ext_tensor)
