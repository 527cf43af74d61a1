"""PyTorch's old storages by dtype: FloatStorage(3) and LongStorage([1, 2]) make ordinary typed storages."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor.storage import TypedStorage, UntypedStorage, warn_of_removal

__all__ = [
    "BFloat16Storage", "BoolStorage", "ByteStorage", "CharStorage", "ComplexDoubleStorage", "ComplexFloatStorage",
    "DoubleStorage", "FloatStorage", "HalfStorage", "IntStorage", "LongStorage", "ShortStorage",
]  # fmt: skip


class _StorageOfDtype(type):
    """A class that makes typed storages of one dtype on the CPU, and knows them again."""

    dtype: Any

    def __instancecheck__(cls, instance: Any) -> bool:
        return type(instance) is TypedStorage and instance.dtype is cls.dtype and instance.device.type == "cpu"


def _make(
    cls: Any, *args: Any, wrap_storage: UntypedStorage | None = None, dtype: Any = None, device: Any = None
) -> TypedStorage:
    warn_of_removal()
    expected = (
        f"{cls}.__new__ received an invalid combination of arguments. Expected one of:\n * no arguments\n"
        " * (int size)\n * (Sequence data)\n * (*, UntypedStorage wrap_storage)\n"
    )
    for name, value in (("device", device), ("dtype", dtype)):
        if value is not None:
            raise RuntimeError(f"{expected}Keyword argument '{name}' cannot be specified")
    if wrap_storage is None:
        if len(args) > 1:
            raise RuntimeError(f"{expected}Too many positional arguments")
        return TypedStorage(*args, dtype=cls.dtype)
    if args:
        raise RuntimeError(f"{expected}No positional arguments should be given when using 'wrap_storage'")
    if not isinstance(wrap_storage, UntypedStorage):
        raise TypeError(f"{expected}Argument 'wrap_storage' must be UntypedStorage, but got {type(wrap_storage)}")
    if wrap_storage.device.type != "cpu":
        raise RuntimeError(f"{expected}Device of 'wrap_storage' must be cpu, but got {wrap_storage.device.type}")
    return TypedStorage(wrap_storage=wrap_storage, dtype=cls.dtype)


def _from_file(cls: Any, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
    """A storage over a memory-mapped file: its first `size` elements. With `shared`, writes reach the file."""
    warn_of_removal()
    untyped = UntypedStorage.from_file(filename, shared, size * cls.dtype.itemsize)
    return TypedStorage(wrap_storage=untyped, dtype=cls.dtype)


def _of(name: str, dtype: Any) -> Any:
    doc = f"{name}(size) or {name}(data): a storage of {dtype.name}; isinstance(x, {name}) asks for its dtype."
    return _StorageOfDtype(
        name,
        (TypedStorage,),
        {
            "__doc__": doc, "__module__": "minitensor", "__slots__": (), "__new__": _make, "dtype": dtype,
            "from_file": classmethod(_from_file),
        },
    )  # fmt: skip


BFloat16Storage = _of("BFloat16Storage", _C.bfloat16)
BoolStorage = _of("BoolStorage", _C.bool)
ByteStorage = _of("ByteStorage", _C.uint8)
CharStorage = _of("CharStorage", _C.int8)
ComplexDoubleStorage = _of("ComplexDoubleStorage", _C.complex128)
ComplexFloatStorage = _of("ComplexFloatStorage", _C.complex64)
DoubleStorage = _of("DoubleStorage", _C.float64)
FloatStorage = _of("FloatStorage", _C.float32)
HalfStorage = _of("HalfStorage", _C.float16)
IntStorage = _of("IntStorage", _C.int32)
LongStorage = _of("LongStorage", _C.int64)
ShortStorage = _of("ShortStorage", _C.int16)
