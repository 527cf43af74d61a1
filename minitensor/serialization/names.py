"""The names that stand in PyTorch's checkpoints, and what they mean here."""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from pickle import UnpicklingError
from typing import Any

from minitensor import _C
from minitensor._C import Size, Tensor
from minitensor.composite import layout as layouts
from minitensor.composite.creation import empty_strided
from minitensor.serialization.safe_globals import get_safe_globals, lookup
from minitensor.serialization.weights_only_unpickler import Allowed, Unfinished
from minitensor.storage import TypedStorage, UntypedStorage

__all__ = ["DTYPES", "STORAGE_NAMES", "find", "storage_of"]

STORAGE_NAMES = {
    "bool": "BoolStorage",
    "uint8": "ByteStorage",
    "int8": "CharStorage",
    "int16": "ShortStorage",
    "int32": "IntStorage",
    "int64": "LongStorage",
    "float16": "HalfStorage",
    "bfloat16": "BFloat16Storage",
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "complex64": "ComplexFloatStorage",
    "complex128": "ComplexDoubleStorage",
}
"""The typed storages; other dtypes are stored as bytes."""

DTYPES = (
    *STORAGE_NAMES, "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu",
)  # fmt: skip
_STORAGES = {name: dtype for dtype, name in STORAGE_NAMES.items()}


def storage_of(data: Tensor, dtype: str | None) -> TypedStorage | UntypedStorage:
    """The storage with these bytes, of the dtype that the checkpoint gives it (None: bytes)."""
    untyped = UntypedStorage(_bytes=data)
    return untyped if dtype is None else TypedStorage(wrap_storage=untyped, dtype=getattr(_C, dtype))


def _view(storage: UntypedStorage, dtype: _C.dtype, size: Any, stride: Any, offset: int) -> Tensor:
    """A tensor over a storage. UnpicklingError if it would reach beyond it."""
    data = storage._bytes
    size, stride = _numbers("size", size), _numbers("stride", stride)
    (offset,) = _numbers("storage_offset", (offset,))
    if len(size) != len(stride):
        raise UnpicklingError(f"a tensor has {len(size)} sizes and {len(stride)} strides")
    itemsize = dtype.itemsize
    reach = offset + 1 + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if 0 not in size else 0
    if reach * itemsize > data.numel():
        raise UnpicklingError(
            f"a tensor of shape {list(size)}, strides {list(stride)} and offset {offset} reaches beyond its "
            f"storage of {data.numel()} bytes"
        )
    return _C.over_storage(data, dtype, offset if 0 not in size else 0, size, stride)


def _numbers(what: str, values: Any) -> tuple[int, ...]:
    if not isinstance(values, (tuple, list)) or not all(type(v) is int and 0 <= v < 2**62 for v in values):
        raise UnpicklingError(f"the {what} of a tensor must be non-negative integers, got {values!r}")
    return tuple(values)


def _rebuild_tensor(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any = False,
    hooks: Any = None,
    metadata: Any = None,
) -> Tensor:
    if not isinstance(storage, TypedStorage):
        raise UnpicklingError("a tensor is made of what is not a typed storage")
    return _finish(_view(storage.untyped(), storage.dtype, size, stride, offset), requires_grad, metadata)


def _rebuild_tensor_of_bytes(
    storage: Any, offset: Any, size: Any, stride: Any, requires_grad: Any, hooks: Any, dtype: Any, metadata: Any = None
) -> Tensor:
    if not isinstance(storage, TypedStorage | UntypedStorage) or not isinstance(dtype, _C.dtype):
        raise UnpicklingError("a tensor is made of what is not a storage and a dtype")
    return _finish(_view(storage.untyped(), dtype, size, stride, offset), requires_grad, metadata)


def _rebuild_meta_tensor(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    if not isinstance(dtype, _C.dtype):
        raise UnpicklingError("a meta tensor is made of what is not a dtype")
    size, stride = _numbers("size", size), _numbers("stride", stride)
    return _finish(empty_strided(size, stride, dtype=dtype, device="meta"), requires_grad, None)


def _rebuild_parameter(data: Any, requires_grad: Any, hooks: Any) -> Tensor:
    if not isinstance(data, Tensor):
        raise UnpicklingError("a parameter is made of what is not a tensor")
    from minitensor.nn.parameter import Parameter

    return Parameter(data, bool(requires_grad))


def _rebuild_parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Tensor:
    return _with_attributes(_rebuild_parameter(data, requires_grad, hooks), state)


def _rebuild_from_type(rebuild: Any, cls: Any, arguments: Any, state: Any) -> Tensor:
    if not (isinstance(rebuild, Allowed) and rebuild.rebuilds and isinstance(arguments, tuple)):
        raise UnpicklingError("a tensor is rebuilt by what doesn't rebuild tensors")
    if not isinstance(cls, type) or not issubclass(cls, Tensor):
        raise UnpicklingError(f"a tensor is to be of the type {cls!r}")
    tensor: Tensor = rebuild.call(*arguments)
    if type(tensor) is not cls:
        tensor = tensor.as_subclass(cls)
    if hasattr(cls, "__setstate__"):  # a class that the user has allowed
        cls.__setstate__(tensor, state)
        return tensor
    return _with_attributes(tensor, state)


def _with_attributes(tensor: Tensor, state: Any) -> Tensor:
    """The tensor with what a program has set on it. UnpicklingError if that is a tensor's own attribute."""
    from minitensor.nn.parameter import Parameter

    for part in state if isinstance(state, tuple) else (state,):  # the second: of __slots__
        if part is None:
            continue
        if not isinstance(part, dict) or not all(isinstance(name, str) for name in part):
            raise UnpicklingError("the attributes of a tensor must be a dict")
        for name, value in part.items():
            if hasattr(Parameter, name):
                raise UnpicklingError(f"the attribute {name} of a tensor is set")
            setattr(tensor, name, value)
    return tensor


def _finish(tensor: Tensor, requires_grad: Any, metadata: Any) -> Tensor:
    # Views that show what they share conjugated or negated have memory of their own here.
    if metadata is not None and not (isinstance(metadata, dict) and metadata.keys() <= {"conj", "neg"}):
        raise UnpicklingError(f"a tensor has properties that are not known here: {metadata!r}")
    if metadata and metadata.get("conj"):
        tensor = tensor.conj()
    if metadata and metadata.get("neg"):
        tensor = -tensor
    return tensor.requires_grad_() if requires_grad else tensor


def _layout(name: Any) -> Any:
    wanted = name.removeprefix("torch.").removeprefix("minitensor.") if isinstance(name, str) else ""
    found = getattr(layouts, wanted, None)
    if not isinstance(found, layouts.layout):
        raise UnpicklingError(f"there is no layout {name!r}")
    return found


def _rebuild_sparse(layout: Any, parts: Any) -> Tensor:
    """A sparse tensor of its components, whose indices are checked: a file may say anything."""
    from minitensor.sparse.creation import sparse_compressed_tensor, sparse_coo_tensor

    known = isinstance(layout, layouts.layout) and layout is not layouts.strided
    if not known or not isinstance(parts, tuple) or len(parts) < 3:
        raise UnpicklingError("a sparse tensor is made of what is not a layout and components")
    coo = layout is layouts.sparse_coo
    *tensors, size = parts[: 3 if coo else 4]
    if not all(type(t) is Tensor for t in tensors):
        raise UnpicklingError("a sparse tensor is made of what are not strided tensors")
    size = _numbers("size", tuple(size))
    try:
        if coo:
            coalesced = bool(parts[3]) if len(parts) > 3 else False
            indices, values = tensors
            made = sparse_coo_tensor(indices, values, size, check_invariants=True, is_coalesced=coalesced)
        else:
            first, second, values = tensors
            made = sparse_compressed_tensor(first, second, values, size, layout=layout, check_invariants=True)
    except (RuntimeError, TypeError) as error:
        raise UnpicklingError(f"the components of a sparse tensor don't fit: {error}") from None
    return made  # type: ignore[no-any-return]


def _size(sizes: Any = ()) -> Size:
    return Size(_numbers("size", tuple(sizes)))


def _device(kind: Any, index: Any = None) -> _C.device:
    if not isinstance(kind, str) or not isinstance(index, int | None):
        raise UnpicklingError("a device is a name and a number")
    return _C.device(kind) if index is None else _C.device(kind, index)


def _encode(text: Any, encoding: Any = "latin1") -> bytes:
    # How pickle protocol 2 writes bytes.
    if not isinstance(text, str) or encoding not in ("latin1", "latin-1"):
        raise UnpicklingError("bytes must be written in Latin-1")
    return text.encode("latin-1")


def _numpy_dtype(name: Any, align: Any = False, copy: Any = True) -> Any:
    import numpy as np

    dtype = np.dtype(name) if isinstance(name, str) else None
    if dtype is None or dtype.hasobject or dtype.kind not in "biufcSUM":
        raise UnpicklingError(f"the NumPy dtype {name!r} is refused")
    return _NumpyDType(dtype)


class _NumpyDType(Unfinished):
    """A NumPy dtype: its state says the byte order."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def set_state(self, state: Any) -> None:
        if isinstance(state, tuple) and len(state) > 1 and state[1] in ("<", ">", "|"):
            self.dtype = self.dtype.newbyteorder(state[1])

    def finished(self) -> Any:
        return self.dtype


def _numpy_scalar(dtype: Any, data: Any) -> Any:
    import numpy as np

    if not isinstance(dtype, np.dtype) or not isinstance(data, bytes):
        raise UnpicklingError("a NumPy scalar is made of a dtype and bytes")
    return np.frombuffer(data, dtype, 1)[0]


class _NumpyArray(Unfinished):
    """A NumPy array: its state is all there is of it."""

    array: Any = None

    def set_state(self, state: Any) -> None:
        if not isinstance(state, tuple) or len(state) != 5:
            raise UnpicklingError("the state of a NumPy array is malformed")
        _, shape, dtype, fortran, data = state
        self.array = _numpy_frombuffer(data, dtype, shape, "F" if fortran else "C")

    def finished(self) -> Any:
        if self.array is None:
            raise UnpicklingError("a NumPy array without its state")
        return self.array


def _numpy_frombuffer(data: Any, dtype: Any, shape: Any, order: Any) -> Any:
    import numpy as np

    if not isinstance(dtype, np.dtype) or dtype.hasobject or not isinstance(data, (bytes, bytearray)):
        raise UnpicklingError("a NumPy array is made of a dtype and bytes")
    if order not in ("C", "F"):
        raise UnpicklingError("the order of a NumPy array must be C or F")
    return np.frombuffer(data, dtype).reshape(_numbers("shape", shape), order=order).copy(order)


def _numpy_reconstruct(*_: Any) -> _NumpyArray:
    return _NumpyArray()


def _function(name: str, call: Callable[..., Any]) -> Allowed:
    return Allowed(name, call)


def _rebuilds(name: str, call: Callable[..., Any]) -> Allowed:
    return Allowed(name, call, rebuilds=True)


_VALUES: dict[str, Any] = {
    "torch._utils._rebuild_tensor_v2": _rebuilds("_rebuild_tensor_v2", _rebuild_tensor),
    "torch._utils._rebuild_tensor": _rebuilds("_rebuild_tensor", _rebuild_tensor),
    "torch._utils._rebuild_tensor_v3": _rebuilds("_rebuild_tensor_v3", _rebuild_tensor_of_bytes),
    "torch._utils._rebuild_parameter": _rebuilds("_rebuild_parameter", _rebuild_parameter),
    "torch._utils._rebuild_meta_tensor_no_storage": _rebuilds("_rebuild_meta_tensor_no_storage", _rebuild_meta_tensor),
    "torch._utils._rebuild_parameter_with_state": _function(
        "_rebuild_parameter_with_state", _rebuild_parameter_with_state
    ),
    "torch._tensor._rebuild_from_type_v2": _function("_rebuild_from_type_v2", _rebuild_from_type),
    "torch.Tensor": Tensor,
    "torch.Size": _function("Size", _size),
    "torch.device": _function("device", _device),
    "torch.serialization._get_layout": _function("_get_layout", _layout),
    "torch._utils._rebuild_sparse_tensor": _function("_rebuild_sparse_tensor", _rebuild_sparse),
    "collections.OrderedDict": Allowed("OrderedDict", OrderedDict, is_class=True),
    "collections.Counter": Allowed("Counter", Counter, is_class=True),
    "collections.defaultdict": Allowed("defaultdict", lambda factory=None, *a: defaultdict(_factory(factory), *a)),
    "builtins.set": Allowed("set", set, is_class=True),
    "builtins.frozenset": Allowed("frozenset", frozenset, is_class=True),
    "builtins.complex": _function("complex", lambda real, imag: complex(float(real), float(imag))),
    "builtins.bytes": _function("bytes", lambda: b""),  # how empty ones are pickled
    "builtins.bytearray": _function("bytearray", lambda data=b"", *encoding: _bytearray(data, *encoding)),
    "_codecs.encode": _function("encode", _encode),
    "numpy.dtype": _function("numpy.dtype", _numpy_dtype),
    "numpy._core.multiarray.scalar": _function("numpy scalar", _numpy_scalar),
    "numpy._core.multiarray._reconstruct": _function("_reconstruct", _numpy_reconstruct),
    "numpy._core.numeric._frombuffer": _function("_frombuffer", _numpy_frombuffer),
    "numpy.ndarray": "numpy.ndarray",  # only ever an argument of _reconstruct
    "torch.storage.UntypedStorage": ("storage", None),
    "torch.UntypedStorage": ("storage", None),
    **{f"torch.{name}": ("storage", dtype) for name, dtype in _STORAGES.items()},
}
_FACTORIES = {"int": int, "list": list, "dict": dict, "set": set, "float": float, "str": str}


def _bytearray(data: Any, *encoding: Any) -> bytearray:
    if isinstance(data, str):
        return bytearray(_encode(data, *encoding))
    if not isinstance(data, (bytes, bytearray)):
        raise UnpicklingError("a bytearray is made of bytes")
    return bytearray(data)


def _factory(factory: Any) -> Any:
    if factory is None or factory in _FACTORIES.values():
        return factory
    raise UnpicklingError("a defaultdict makes its values by a function that is not allowed")


def _allowed_here(module: str, name: str) -> Any:
    """What a name of PyTorch's, or one of several names, stands for here, if that was allowed. Nothing is imported."""
    package, dot, rest = module.partition(".")
    found: Any = sys.modules.get("minitensor" + dot + rest) if package in ("torch", "minitensor") else None
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if found is not None and any(found is allowed for allowed in get_safe_globals()) else None


def find(module: str, name: str) -> Any:
    """What a name in a checkpoint stands for. UnpicklingError for any that is neither the format's nor allowed."""
    # What Python 2 and older NumPys wrote, and Python 3 writes by protocol 2.
    if module == "__builtin__":
        name = {"long": "int", "unicode": "str"}.get(name, name)
    module = {
        "__builtin__": "builtins",
        "numpy.core.multiarray": "numpy._core.multiarray",
        "numpy.core.numeric": "numpy._core.numeric",
    }.get(module, module)
    full = f"{module}.{name}"
    if full in _VALUES:
        return _VALUES[full]
    if module == "torch" and name in DTYPES:
        return getattr(_C, name)
    if module == "builtins" and name in _FACTORIES:
        return _FACTORIES[name]
    allowed = lookup(full)
    if allowed is None:
        allowed = _allowed_here(module, name)
    if allowed is not None:
        return Allowed(full, allowed, is_class=isinstance(allowed, type), is_value=True)
    raise UnpicklingError(
        f"the file names {full}, which is not data: nothing was run. If you trust the file and know that calling "
        f"{name} is harmless, allow it with minitensor.serialization.add_safe_globals([{name}])"
    )


if sys.byteorder != "little":  # pragma: no cover
    raise ImportError("checkpoints are read and written on little-endian machines only")
