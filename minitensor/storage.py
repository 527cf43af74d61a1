"""Storages: the memory that a tensor and its views share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from minitensor import _C
from minitensor._warning import warn_of_pytorch

__all__ = ["TypedStorage", "UntypedStorage", "warn_of_removal"]


def warn_of_removal() -> None:
    """Warn of storages with a dtype as PyTorch does."""
    warn_of_pytorch(
        "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage "
        "class. This should only matter to you if you are using storages directly.  To access UntypedStorage "
        "directly, use tensor.untyped_storage() instead of tensor.storage()"
    )


class UntypedStorage:
    """A storage as bytes. `UntypedStorage(n)` makes a new one of n bytes.

    What is written to it is seen by every tensor over it. Indexing gives integers from 0 to 255.
    """

    __slots__ = ("_bytes",)

    def __init__(self, size: int = 0, *, device: Any = None, _bytes: Any = None) -> None:
        self._bytes = _C.empty((int(size),), _C.uint8, device) if _bytes is None else _bytes

    @staticmethod
    def from_file(filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """A storage over a memory-mapped file: its first `nbytes` bytes. With `shared`, writes reach the file."""
        from minitensor.composite.metadata import from_file

        return from_file(filename, shared, nbytes, dtype=_C.uint8).untyped_storage()

    def untyped(self) -> UntypedStorage:
        """The storage itself: it has bytes."""
        return self

    def nbytes(self) -> int:
        """The number of bytes."""
        return int(_C.storage_bytes(self._bytes).numel())

    def size(self) -> int:
        """The number of bytes."""
        return self.nbytes()

    def __len__(self) -> int:
        return self.nbytes()

    def element_size(self) -> int:
        """1: the elements are bytes."""
        return 1

    def data_ptr(self) -> int:
        """The address of the first byte."""
        return int(_C.storage_bytes(self._bytes).data_ptr())

    @property
    def device(self) -> Any:
        """Where the bytes are."""
        return self._bytes.device

    @property
    def is_cuda(self) -> bool:
        """Whether they are in a GPU's memory."""
        return bool(self._bytes.device.type == "cuda")

    def __getitem__(self, at: int | slice) -> Any:
        part = _C.storage_bytes(self._bytes)[at]
        return UntypedStorage(_bytes=part.clone()) if isinstance(at, slice) else part.item()

    def __setitem__(self, at: int | slice, value: Any) -> None:
        _C.storage_bytes(self._bytes)[at] = value._bytes if isinstance(value, UntypedStorage) else value

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        """The bytes as integers."""
        return list(_C.storage_bytes(self._bytes).tolist())

    def fill_(self, value: int) -> UntypedStorage:
        """Sets every byte."""
        _C.storage_bytes(self._bytes).fill_(value)
        return self

    def copy_(self, source: UntypedStorage, non_blocking: bool | None = None) -> UntypedStorage:
        """Copies the bytes of another storage of the same size."""
        _C.storage_bytes(self._bytes).copy_(_C.storage_bytes(source._bytes))
        return self

    def clone(self) -> UntypedStorage:
        """A storage of its own with the same bytes."""
        return UntypedStorage(_bytes=_C.storage_bytes(self._bytes).clone())

    def resize_(self, size: int) -> UntypedStorage:
        """Another number of bytes; the first ones stay. Tensors over the storage keep their shapes."""
        self._bytes = _C.resize_storage(_C.storage_bytes(self._bytes), int(size))
        return self

    def resizable(self) -> bool:
        """Whether `resize_` is possible; it is not for memory that is lent."""
        return True

    def cpu(self) -> UntypedStorage:
        """The storage in host memory: itself."""
        return self

    def is_shared(self) -> bool:
        """Whether the memory is shared with other processes: it never is."""
        return False

    def __repr__(self) -> str:
        lines = "\n".join(f" {b}" for b in self.tolist())
        return f"{lines}\n[{_C.shown_package()}.storage.UntypedStorage(device={self.device}) of size {len(self)}]"


class TypedStorage:
    """A storage as elements of one dtype, as older programs use it."""

    __slots__ = ("_untyped_storage", "dtype")

    def __init__(
        self,
        size: int | Sequence[Any] = 0,
        *,
        wrap_storage: UntypedStorage | None = None,
        dtype: Any = None,
        device: Any = None,
    ) -> None:
        """Make a storage of so many elements, of these elements, or over the bytes of another one."""
        self.dtype = dtype or _C.get_default_dtype()
        if wrap_storage is not None:
            self._untyped_storage = wrap_storage
        elif isinstance(size, Sequence):
            data = _C.tensor_from_data(size, self.dtype, device, True)
            self._untyped_storage = UntypedStorage(_bytes=_C.storage_bytes(data))
        elif hasattr(size, "__index__"):
            self._untyped_storage = UntypedStorage(int(size) * self.dtype.itemsize, device=device)
        else:
            raise TypeError(f"a storage is made of a size or of a sequence of elements, not of a {type(size).__name__}")

    def untyped(self) -> UntypedStorage:
        """The same storage as bytes."""
        return self._untyped_storage

    def _elements(self) -> Any:
        return _C.over_storage(self._untyped_storage._bytes, self.dtype, 0, (len(self),), None)

    def __len__(self) -> int:
        return self._untyped_storage.nbytes() // int(self.dtype.itemsize)

    def size(self) -> int:
        """The number of elements."""
        return len(self)

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        """Bytes of one element."""
        return int(self.dtype.itemsize)

    def data_ptr(self) -> int:
        """The address of the first element."""
        return self._untyped_storage.data_ptr()

    @property
    def device(self) -> Any:
        """Where the elements are."""
        return self._untyped_storage.device

    def type(self) -> str:
        """The name of the class of such storages, as `minitensor.FloatStorage`."""
        place = "cuda." if self.device.type == "cuda" else ""
        return f"{_C.shown_package()}.{place}{_C.type_name(self.dtype)}Storage"

    def __getitem__(self, at: int) -> Any:
        return self._elements()[at].item()

    def __setitem__(self, at: int | slice, value: Any) -> None:
        self._elements()[at] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        return list(self._elements().tolist())

    def fill_(self, value: Any) -> TypedStorage:
        """Sets every element."""
        self._elements().fill_(value)
        return self

    def copy_(self, source: TypedStorage, non_blocking: bool | None = None) -> TypedStorage:
        """Copies the elements of another storage of the same size, converted."""
        self._elements().copy_(source._elements())
        return self

    def clone(self) -> TypedStorage:
        """A storage of its own with the same elements."""
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def resize_(self, size: int) -> TypedStorage:
        """Another number of elements; the first ones stay."""
        self._untyped_storage.resize_(int(size) * int(self.dtype.itemsize))
        return self

    def __repr__(self) -> str:
        lines = "\n".join(f" {x}" for x in self.tolist())
        kind = f"{_C.shown_package()}.storage.TypedStorage"
        return f"{lines}\n[{kind}(dtype={self.dtype}, device={self.device}) of size {len(self)}]"
