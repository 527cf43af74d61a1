"""Writes objects with tensors in them as PyTorch's checkpoints have them: metadata as a pickle, storages beside it."""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from typing import Any, ClassVar

from minitensor import _C
from minitensor._C import Size, Tensor, device
from minitensor._functions.offered import add, tanh
from minitensor._functions.public_names import PLACES, public_name
from minitensor.composite.layout import layout
from minitensor.serialization.names import STORAGE_NAMES
from minitensor.serialization.safe_globals import lookup
from minitensor.storage import TypedStorage, UntypedStorage

__all__ = ["pickle_object"]


class _Global:
    """A name of PyTorch's that is written without PyTorch being there."""

    def __init__(self, module: str, name: str) -> None:
        self.module, self.name = module, name

    def __call__(self) -> None:
        """Never called: the pickler only asks whether it could be."""


class _StorageId:
    """What stands for a storage in the pickle."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts


_REBUILD = _Global("torch._utils", "_rebuild_tensor_v2")
_REBUILD_BYTES = _Global("torch._utils", "_rebuild_tensor_v3")
_REBUILD_META = _Global("torch._utils", "_rebuild_meta_tensor_no_storage")
_REBUILD_PARAMETER = _Global("torch._utils", "_rebuild_parameter")
_REBUILD_PARAMETER_WITH_STATE = _Global("torch._utils", "_rebuild_parameter_with_state")
_REBUILD_FROM_TYPE = _Global("torch._tensor", "_rebuild_from_type_v2")
_REBUILD_SPARSE = _Global("torch._utils", "_rebuild_sparse_tensor")
_LAYOUT = _Global("torch.serialization", "_get_layout")
_TENSOR = _Global("torch", "Tensor")
_SIZE, _DEVICE = _Global("torch", "Size"), _Global("torch", "device")
_UNTYPED = _Global("torch.storage", "UntypedStorage")
_GLOBALS: dict[str, _Global] = {}


def _torch(name: str) -> _Global:
    return _GLOBALS.setdefault(name, _Global("torch", name))


# The Python version of the pickler: the C one offers no way to write the name of what is not importable.
class _Pickler(pickle._Pickler):
    dispatch: ClassVar[dict[Any, Any]] = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

    def __init__(self, file: io.BytesIO, protocol: int) -> None:
        super().__init__(file, protocol)
        self.keys: dict[int, tuple[str, _Global]] = {}
        self.storages: list[Tensor] = []
        """Every storage once, as its bytes."""

    def persistent_id(self, thing: Any) -> Any:
        if isinstance(thing, _StorageId):
            return thing.parts
        if isinstance(thing, UntypedStorage):
            return self.storage(thing._bytes, _UNTYPED, 1).parts
        if isinstance(thing, TypedStorage):
            dtype = thing.dtype
            name = STORAGE_NAMES.get(dtype.name)
            if name is None or not self.fits(thing.untyped()._bytes, _torch(name), dtype.itemsize):
                raise pickle.PicklingError(f"can't save a storage of {dtype} whose bytes are something else, too")
            return self.storage(thing.untyped()._bytes, _torch(name), dtype.itemsize).parts
        return None

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, Tensor):
            return self.reduce_sparse(thing) if _C.is_sparse_storage(thing) else self.reduce_tensor(thing)
        if isinstance(thing, layout):
            return _LAYOUT, (f"torch.{thing._name}",)
        if isinstance(thing, Size):
            return _SIZE, (tuple(thing),)
        if isinstance(thing, device):
            return _DEVICE, (thing.type,) if thing.index is None else (thing.type, thing.index)
        # Anything else as Python pickles it. Reading it back runs its class's code, so load() wants to hear that it is
        # trusted.
        return NotImplemented

    def reduce_tensor(self, tensor: Tensor) -> Any:
        from minitensor.nn.parameter import Parameter

        cls = type(tensor)
        hooks: OrderedDict[str, Any] = OrderedDict()
        state = tensor.__getstate__() or None
        if cls is Parameter:
            made_of = (tensor.detach(), tensor.requires_grad, hooks)
            return (
                (_REBUILD_PARAMETER, made_of) if state is None else (_REBUILD_PARAMETER_WITH_STATE, (*made_of, state))
            )
        rebuild, arguments = self.reduce_plain(tensor, hooks)
        named = cls is not Tensor and (
            cls.__module__.partition(".")[0] != "minitensor" or lookup(f"{cls.__module__}.{cls.__qualname__}") is cls
        )
        if state is None and not named:
            return rebuild, arguments
        return _REBUILD_FROM_TYPE, (rebuild, cls if named else _TENSOR, arguments, state)

    def reduce_sparse(self, tensor: Any) -> Any:
        """As PyTorch writes them: whether a gradient is wanted is not kept, but of parameters."""
        from minitensor.nn.parameter import Parameter
        from minitensor.sparse.tensor import SparseTensor

        if not isinstance(tensor, SparseTensor):  # a class that says itself how it is pickled
            return NotImplemented
        if isinstance(tensor, Parameter):
            return _REBUILD_PARAMETER, (tensor.detach(), tensor.requires_grad, OrderedDict())
        pattern = tensor._pattern
        parts = (*pattern.indices, tensor._elements, Size(pattern.size))
        return _REBUILD_SPARSE, (pattern.layout, (*parts, pattern.coalesced) if pattern.is_coo else parts)

    def reduce_plain(self, tensor: Tensor, hooks: Any) -> Any:
        if tensor.device.type == "meta":
            return _REBUILD_META, (tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.requires_grad)
        name = STORAGE_NAMES.get(tensor.dtype.name)
        data = _C.storage_bytes(tensor.detach())
        place = (tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.requires_grad, hooks)
        if name is not None and self.fits(data, _torch(name), tensor.itemsize):
            return _REBUILD, (self.storage(data, _torch(name), tensor.itemsize), *place)
        return _REBUILD_BYTES, (self.storage(data, _UNTYPED, 1), *place, tensor.dtype)

    def fits(self, data: Tensor, kind: _Global, itemsize: int) -> bool:
        """Whether a storage can have this type: readers take it to be of the one that it has first."""
        _, first = self.keys.get(data._storage_id(), ("", kind))
        return first is kind and data.numel() % itemsize == 0

    def storage(self, data: Tensor, kind: _Global, itemsize: int) -> _StorageId:
        identity = data._storage_id()
        if identity not in self.keys:
            self.keys[identity] = str(len(self.storages)), kind
            self.storages.append(data)
        location = str(data.device) if data.device.type == "cuda" else "cpu"
        return _StorageId("storage", kind, self.keys[identity][0], location, data.numel() // itemsize)

    def save_name(self, name: _Global, thing: Any = None) -> None:
        """Write a name; `thing` is what it stands for, which is written once."""
        thing = name if thing is None else thing
        self.write(pickle.GLOBAL + f"{name.module}\n{name.name}\n".encode("ascii"))  # type: ignore[attr-defined]
        self.memoize(thing)  # type: ignore[attr-defined]

    def save_dtype(self, dtype: _C.dtype) -> None:
        self.save_name(_torch(dtype.name), dtype)

    def save_function(self, function: Any) -> None:
        self.save_name(_public(function), function)

    dispatch[_Global] = save_name
    dispatch[_C.dtype] = save_dtype
    dispatch[type(add)] = dispatch[type(tanh)] = save_function  # functions that are composed, and ops


def _public(function: Any) -> _Global:
    """PyTorch's name of a function that users call. PicklingError for one that has none."""
    module, name = public_name(function)
    _, dot, place = module.partition(".")
    if place not in PLACES or "." in name:
        raise pickle.PicklingError(f"can't save the function {name}: PyTorch has none of its name")
    full = f"torch{dot}{place}"
    return _GLOBALS.setdefault(f"{full}.{name}", _Global(full, name))


def pickle_object(thing: Any, protocol: int) -> tuple[bytes, list[Tensor]]:
    """The pickle of an object, and the bytes of each of its storages in the order of their keys.

    PicklingError for what Python can't pickle.
    """
    file = io.BytesIO()
    pickler = _Pickler(file, protocol)
    try:
        pickler.dump(thing)
    except RecursionError:
        raise pickle.PicklingError("can't save the object: it is nested too deeply, or contains itself") from None
    return file.getvalue(), pickler.storages
