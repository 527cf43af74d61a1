"""Functions that make tensors."""

from __future__ import annotations

from array import array
from typing import Any

from minitensor import _C
from minitensor._warning import warn_of_copy

__all__ = ["as_tensor", "asarray", "from_dlpack", "from_numpy", "tensor"]

Tensor = _C.Tensor


def with_requires_grad(made: Tensor, requires_grad: bool | None) -> Tensor:
    """The tensor, which wants a gradient if asked for. Raises TypeError for what is no bool."""
    return made if requires_grad is False or requires_grad is None else made.requires_grad_(requires_grad)


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of `data`: a number, a NumPy array, or nested sequences of them."""
    if isinstance(data, Tensor):
        warn_of_copy("minitensor.tensor")
    return with_requires_grad(_C.tensor_from_data(data, dtype, device, True), requires_grad)


def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing its memory where that's possible."""
    if isinstance(data, Tensor):
        return data.to(dtype=dtype, device=device)
    return _C.tensor_from_data(data, dtype, device, False)


def asarray(
    obj: Any, *, dtype: Any = None, device: Any = None, copy: bool | None = None, requires_grad: bool = False
) -> Tensor:
    """`obj` as a tensor; `copy=True` always copies, None only where needed. What has a buffer says the dtype by it."""
    if isinstance(obj, (bytearray, memoryview, array)) and len(obj):
        import numpy as np

        obj = np.asarray(obj)
    if copy and isinstance(obj, Tensor):
        made = obj.to(dtype=dtype, device=device, copy=True)  # with its history
        return made if made.requires_grad and requires_grad is True else with_requires_grad(made, requires_grad)
    return with_requires_grad(
        tensor(obj, dtype=dtype, device=device) if copy else as_tensor(obj, dtype, device), requires_grad
    )


from_numpy = _C.from_numpy


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor that shares the memory of an object with `__dlpack__`, or of a DLPack capsule.

    With `copy=True` it has its own. On another `device` than the object's it always has, which `copy=False` refuses.
    """
    if not hasattr(ext_tensor, "__dlpack__"):
        if device is not None or copy is not None:
            raise AssertionError("device and copy kwargs not supported when ext_tensor is already a DLPack capsule.")
        return _C.from_dlpack_capsule(ext_tensor)
    wanted: dict[str, Any] = {"max_version": (1, 0)}
    if copy is not None:
        wanted["copy"] = copy
    copied = True
    while True:
        try:
            capsule = ext_tensor.__dlpack__(**wanted)
            break
        except TypeError:  # an older producer
            if not wanted:
                raise
            copied = wanted.popitem()[0] != "copy" and copied
    made = _C.from_dlpack_capsule(capsule)
    if device is not None:
        moved = made.to(device=device)
        if moved is not made:
            if copy is False:
                raise ValueError(
                    f"cannot move DLPack tensor from device {made.device} to {moved.device} without copying"
                )
            return moved
    return made.clone() if copy and not copied else made
