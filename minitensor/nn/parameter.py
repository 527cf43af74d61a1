"""Tensors that a module owns: parameters, which an optimizer updates, and buffers; also before they have a shape."""

from __future__ import annotations

from typing import Any, ClassVar

from minitensor import _C
from minitensor._C import Tensor
from minitensor._functions.offered import empty
from minitensor._tensor.copying import deepcopy_parameter

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


class _MarkedType(type(Tensor)):  # type: ignore[misc]
    """Takes tensors of other classes that ``Parameter(...)`` and ``Buffer(...)`` marked for instances of these."""

    def __instancecheck__(cls, instance: object) -> bool:
        mark = cls.__dict__.get("_mark")  # not a subclass's
        if mark and isinstance(instance, Tensor) and getattr(instance, mark, False):
            return True
        return type.__instancecheck__(cls, instance)


class Parameter(Tensor, metaclass=_MarkedType):
    """A tensor that becomes a parameter of the module that it is assigned to.

    It shares ``data``'s storage, and is a leaf: it has no history of how ``data`` was computed. The results of
    operations on it are ordinary tensors. Of a subclass of Tensor it is a tensor of that class, marked as a parameter.
    """

    _mark = "_is_param"
    __torch_function__: ClassVar[Any] = _C._disabled_torch_function_impl

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Any:
        """Make a parameter of ``data``, by default an empty one."""
        if data is None:
            data = empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter(): data must be a Tensor, not {type(data).__name__}")
        if _C.is_sparse_storage(data):
            from minitensor.sparse.parameter import sparse_parameter

            return sparse_parameter(data, requires_grad)
        if type(data) is not Tensor and not issubclass(type(data), (Parameter, UninitializedTensorMixin)):
            return _marked(data, requires_grad)
        return Tensor._as_subclass(cls, data, requires_grad)

    __deepcopy__ = deepcopy_parameter

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


def _marked(data: Any, requires_grad: bool) -> Any:
    """A parameter of a class of its own, which has a say in what is done with it."""
    made = data.detach().requires_grad_(requires_grad)
    if type(made) is not type(data):
        raise RuntimeError(
            f"Creating a Parameter from an instance of type {type(data).__name__} requires that detach() returns an "
            f"instance of the same type, but return type {type(made).__name__} was found instead. To use the type as a "
            "Parameter, please correct the detach() semantics defined by its __torch_function__() implementation."
        )
    made._is_param = True
    return made


class Buffer(Tensor, metaclass=_MarkedType):
    """A tensor that becomes a buffer of the module that it is assigned to; ``persistent``: part of its state dict.

    What is made is an ordinary tensor, marked as a buffer, that shares ``data``'s storage.
    """

    _mark = "_is_buffer"

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Any:
        """Make a buffer of ``data``, by default an empty one."""
        if data is None:
            data = empty(0)
        made: Any = data.detach().requires_grad_(data.requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made


class UninitializedTensorMixin:
    """What parameters and buffers without a shape share: :meth:`materialize` gives them one."""

    __torch_function__: ClassVar[Any] = _C._disabled_torch_function_impl
    cls_to_become: Any
    _factory: dict[str, Any]

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Become an ordinary parameter or buffer of the shape, with undefined values.

        Device and dtype are those that were given when it was made, unless others are given now.
        """
        tensor: Any = self
        device = tensor.device if device is None else device
        dtype = tensor.dtype if dtype is None else dtype
        grad = tensor.requires_grad
        tensor.data = empty(tuple(shape), device=device, dtype=dtype)
        tensor.__class__ = self.cls_to_become
        tensor.requires_grad_(grad)

    @property
    def shape(self) -> Any:
        """There is none yet: RuntimeError."""
        raise RuntimeError(
            "Can't access the shape of an uninitialized parameter or buffer. This error usually happens in "
            "`load_state_dict` when trying to load an uninitialized parameter into an initialized one. Call `forward` "
            "to initialize the parameters before accessing their attributes."
        )

    def share_memory_(self) -> Any:
        """There is no memory yet: RuntimeError."""
        raise RuntimeError(
            "Can't share memory on an uninitialized parameter or buffer. Call `forward` to initialize the parameters "
            "before calling `module.share_memory()`."
        )

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad,)  # type: ignore[attr-defined]


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape the first input of its module says."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        """Make one; it has a device and a dtype already."""
        return Tensor._as_subclass(cls, empty(0, device=device, dtype=dtype), requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> UninitializedParameter:
        if id(self) not in memo:
            memo[id(self)] = type(self)(self.requires_grad, self.device, self.dtype)
        return memo[id(self)]  # type: ignore[no-any-return]


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape the first input of its module says."""

    cls_to_become = Tensor

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        """Make one; it has a device and a dtype already."""
        made: Any = Tensor._as_subclass(cls, empty(0, device=device, dtype=dtype), requires_grad)
        made.persistent = persistent
        made._is_buffer = True
        return made  # type: ignore[no-any-return]


def is_lazy(param: Any) -> bool:
    """Return whether a parameter or buffer has no shape yet."""
    return isinstance(param, UninitializedTensorMixin)
