"""PyTorch's old constructors by type: FloatTensor(2, 3), LongTensor([1, 2]) and the like."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._warning import warn_of_pytorch

__all__ = ["BFloat16Tensor", "BoolTensor", "ByteTensor", "CharTensor", "DoubleTensor", "FloatTensor", "HalfTensor"]
__all__ += ["IntTensor", "LongTensor", "ShortTensor", "set_default_tensor_type", "tensor_of_default_type"]


def _of_sizes_or_data(dtype: Any, args: tuple[Any, ...], device: Any = None) -> Any:
    """A tensor whose memory is as it was if the arguments are sizes, or of the data, which is one argument."""
    if len(args) == 1 and not isinstance(args[0], _C.Size):
        data = args[0]
        if hasattr(data, "__len__") and hasattr(data, "__getitem__") and not isinstance(data, (str, bytes)):
            return _C.tensor_from_data(data, dtype, device, True)
        if not hasattr(data, "__index__") or isinstance(data, bool):
            raise TypeError(f"new(): data must be a sequence (got {type(data).__name__})")
    size = tuple(args[0]) if len(args) == 1 and isinstance(args[0], _C.Size) else args or (0,)
    return _C.empty(size, dtype, device)


def tensor_of_default_type(*args: Any, device: Any = None) -> Any:
    """What ``Tensor(...)`` makes: Tensor(2, 3) has these sizes, Tensor([1, 2]) these elements, in the default dtype.

    TypeError for data that is no sequence.
    """
    if len(args) == 1 and isinstance(args[0], _C.Tensor):
        raise RuntimeError("a tensor of another one takes no device: call to() of that")
    return _of_sizes_or_data(_C.get_default_dtype(), args, device)


class _TensorType(type):
    """A class that makes ordinary tensors of one dtype, and knows them again."""

    dtype: Any

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        if device is not None and _C.device(device).type != "cpu":
            raise RuntimeError(f"legacy constructor expects device type: cpu but device type: {device} was passed")
        if len(args) == 1 and isinstance(args[0], _C.Tensor):
            if args[0].dtype is not cls.dtype:
                raise TypeError(f"expected {cls.__name__} (got {args[0].type()})")
            return args[0].alias()
        return _of_sizes_or_data(cls.dtype, args)

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _C.Tensor) and instance.dtype is cls.dtype and instance.device.type == "cpu"


def _made(name: str, dtype: Any) -> Any:
    doc = f"{name}(*sizes) or {name}(data): a tensor of {dtype.name}; isinstance(x, {name}) asks for its dtype."
    return _TensorType(name, (), {"__doc__": doc, "__module__": "minitensor", "dtype": dtype, "is_cuda": False})


FloatTensor = _made("FloatTensor", _C.float32)
DoubleTensor = _made("DoubleTensor", _C.float64)
HalfTensor = _made("HalfTensor", _C.float16)
BFloat16Tensor = _made("BFloat16Tensor", _C.bfloat16)
ByteTensor = _made("ByteTensor", _C.uint8)
CharTensor = _made("CharTensor", _C.int8)
ShortTensor = _made("ShortTensor", _C.int16)
IntTensor = _made("IntTensor", _C.int32)
LongTensor = _made("LongTensor", _C.int64)
BoolTensor = _made("BoolTensor", _C.bool)


def set_default_tensor_type(t: Any, /) -> None:
    """Set the default dtype by a typed tensor class or its name, such as FloatTensor or "torch.DoubleTensor"."""
    warn_of_pytorch(
        "minitensor.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use "
        "minitensor.set_default_dtype() and minitensor.set_default_device() as alternatives."
    )
    if isinstance(t, str):
        name = t.rpartition(".")[2]
        found = globals().get(name)
        if name not in __all__ or found is None:
            raise TypeError(f"invalid type object: {t}")
        t = found
    if not isinstance(t, _TensorType):
        raise TypeError("invalid type object")
    _C.set_default_dtype(t.dtype)
