"""What `__torch_function__` does where a class of tensors says nothing else, and the methods that it isn't asked of."""

from __future__ import annotations

from typing import Any

from minitensor import _C

__all__ = ["NOT_OVERRIDDEN", "convert", "torch_function"]

Tensor = _C.Tensor

NOT_OVERRIDDEN = frozenset({"as_subclass", "__reduce__", "__copy__", "__array_wrap__", "__dlpack_device__", "_repr"})
"""Methods in Python that are always the tensor's own."""

_BARE: set[Any] = set()
"""The calls whose results stay what they are: see `get_default_nowrap_functions` of `minitensor.overrides`."""


def bare_functions() -> set[Any]:
    """The calls whose results are not made objects of the subclass."""
    if not _BARE:
        attributes = vars(Tensor)
        _BARE.update((attributes["_base"].__get__, attributes["grad"].__get__))
    return _BARE


def convert(result: Any, cls: type) -> Any:
    """Tensors as objects of the class, also those in a tuple or list."""
    if cls is Tensor:
        return result
    if isinstance(result, Tensor) and not isinstance(result, cls):
        return Tensor._as_subclass(cls, result, False, True)
    if isinstance(result, (tuple, list)):
        items = [convert(item, cls) for item in result]
        if type(result) in (tuple, list):
            return type(result)(items)
        if isinstance(result, _C.Size):
            return result
        return (
            type(result)(*items)
            if type(result).__base__ is tuple and hasattr(result, "_fields")
            else type(result)(items)
        )
    return result


def torch_function(cls: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
    """Run a call on this class of tensors: as on ordinary ones, and tensors that result become objects of the class.

    A subclass that overrides it is given what was called (a function, a method, `Tensor.shape.__get__` for an
    attribute), the classes of those arguments that override, and the arguments. NotImplemented leaves the call to
    the next class. See :mod:`minitensor.overrides`.
    """
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    with _C.DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
    if isinstance(result, (bool, int, float, str)) or result is None or func in bare_functions():
        return result
    return convert(result, cls)
