"""Tensors by Python's pickle: the elements as a NumPy array, and the functions that make a tensor of it again."""

from __future__ import annotations

import functools
from typing import Any

from minitensor import _C
from minitensor.ops.complex import view_dtype

Tensor = _C.Tensor

NOT_IN_NUMPY = {_C.bfloat16: _C.int16} | dict.fromkeys(
    (_C.float8_e4m3fn, _C.float8_e4m3fnuz, _C.float8_e5m2, _C.float8_e5m2fnuz, _C.float8_e8m0fnu), _C.uint8
)
"""Dtypes that NumPy lacks, with the integers that have the same bits: as these they are pickled."""


def _class_of(self: Any) -> Any:
    """The class as it is pickled: None for a plain tensor, whose class has another name under PyTorch's."""
    return None if type(self) is Tensor else type(self)


def _of_class(cls: Any, data: Any, requires_grad: bool) -> Any:
    return Tensor._as_subclass(Tensor if cls is None else cls, data, requires_grad)


# The names of these functions stand in pickles: who renames or moves one leaves its name where it was.


def _rebuild(cls: Any, array: Any, requires_grad: bool) -> Any:
    return _of_class(cls, _C.tensor_from_data(array, None, None, True), requires_grad)


def _rebuild_bfloat16(cls: Any, array: Any, requires_grad: bool) -> Any:
    bits = _C.tensor_from_data(array, None, None, True)
    return _of_class(cls, view_dtype(bits, _C.bfloat16), requires_grad)


def _rebuild_bits(dtype: Any, cls: Any, array: Any, requires_grad: bool) -> Any:
    bits = _C.tensor_from_data(array, None, None, True)
    return _of_class(cls, view_dtype(bits, dtype), requires_grad)


def _rebuild_on(device: str, rebuild: Any, cls: Any, array: Any, requires_grad: bool) -> Any:
    """What was on a GPU goes back there, if it is there."""
    made = rebuild(cls, array, False).to(_C.device(device))
    return made.requires_grad_(requires_grad)


def _rebuild_strided(rebuild: Any, cls: Any, array: Any, size: Any, stride: Any, requires_grad: bool) -> Any:
    """What did not lie in row-major order: the array has all the memory between its first and last element."""
    flat = rebuild(Tensor, array, False)
    return _of_class(cls, _C.over_storage(flat, flat.dtype, 0, size, stride), requires_grad)


def _rebuild_meta(cls: Any, size: Any, stride: Any, dtype: Any, requires_grad: bool) -> Any:
    from minitensor.composite.creation import empty_strided

    return _of_class(cls, empty_strided(size, stride, dtype=dtype, device="meta"), requires_grad)


def reduce_tensor(self: Any) -> Any:
    """What pickle asks for: a function that makes the tensor, its arguments, and the attributes of Python's."""
    rebuild, parts = _reduce_contents(self)
    attributes = self.__getstate__()
    return (rebuild, parts) if attributes is None else (rebuild, parts, attributes)


def _reduce_contents(self: Any) -> Any:
    if self.device.type == "meta":
        return _rebuild_meta, (_class_of(self), tuple(self.shape), self.stride(), self.dtype, self.requires_grad)
    if self.device.type in ("cuda", "jit_gpu"):
        rebuild, parts = _reduce_contents(self.detach().cpu().as_subclass(type(self)))
        return _rebuild_on, (str(self.device), rebuild, *parts[:-1], self.requires_grad)
    data = self.detach()
    if not self.is_contiguous() and self.numel() and self.device.type == "cpu":
        count = 1 + sum((n - 1) * s for n, s in zip(self.shape, self.stride(), strict=True))
        rebuild, (_, array, _) = _reduce_contents(data.as_strided((count,), (1,)).as_subclass(Tensor))
        return _rebuild_strided, (rebuild, _class_of(self), array, tuple(self.shape), self.stride(), self.requires_grad)
    if self.dtype in NOT_IN_NUMPY:
        bits = view_dtype(data, NOT_IN_NUMPY[self.dtype]).numpy()
        rebuild = _rebuild_bfloat16 if self.dtype is _C.bfloat16 else functools.partial(_rebuild_bits, self.dtype)
        return rebuild, (_class_of(self), bits, self.requires_grad)
    return _rebuild, (_class_of(self), data.numpy(), self.requires_grad)
