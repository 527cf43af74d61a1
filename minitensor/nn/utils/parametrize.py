"""Tensors of modules computed from others: an attribute becomes the result of modules applied to the original."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

from minitensor import _C
from minitensor.autograd import no_grad
from minitensor.nn.modules.container import ModuleDict, ModuleList
from minitensor.nn.modules.module import Module
from minitensor.nn.parameter import Parameter

__all__ = [
    "ParametrizationList",
    "cached",
    "is_parametrized",
    "register_parametrization",
    "remove_parametrizations",
    "transfer_parametrizations_and_params",
    "type_before_parametrizations",
]

_depth = 0  # how many `with cached()` are open
_known: dict[tuple[int, str], _C.Tensor] = {}


@contextmanager
def cached() -> Iterator[None]:
    """Compute each parametrized tensor once within the block."""
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if not _depth:
            _known.clear()


def _register(module: Module, name: str, tensor: Any) -> None:
    if isinstance(tensor, Parameter):
        module.register_parameter(name, tensor)
    else:
        module.register_buffer(name, tensor)


def _set(tensor: _C.Tensor, value: _C.Tensor) -> None:
    tensor.data = value.detach()


def _same(what: str, before: _C.Tensor, after: Any, names: tuple[str, str]) -> None:
    """ValueError unless `after` is a tensor of the dtype and shape of `before`."""
    if not isinstance(after, _C.Tensor):
        raise ValueError(f"A parametrization must return a tensor. Got {type(after).__name__}.")
    for kind in ("dtype", "shape"):
        one, other = getattr(before, kind), getattr(after, kind)
        if one != other:
            raise ValueError(
                f"{what} may not change the {kind} of the tensor, unless the `unsafe` flag is enabled.\n"
                f"{names[0]} {kind}: {one}\n{names[1]} {kind}: {other}"
            )


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in order to ``original``, or ``original0``, ``original1`` ..."""

    original: Any

    def __init__(self, modules: Sequence[Module], original: _C.Tensor, unsafe: bool = False) -> None:
        if len(modules) == 0:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        before = original.detach()
        new: Any = original
        with no_grad():
            for module in reversed(list(self)):
                if hasattr(module, "right_inverse"):
                    with suppress(NotImplementedError):
                        new = module.right_inverse(new)
        if not isinstance(new, (_C.Tensor, Sequence)):
            raise ValueError(
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                f"Got {type(new).__name__}"
            )
        self.is_tensor = isinstance(new, _C.Tensor)
        parts: Any = new
        self.ntensors = 1 if self.is_tensor else len(parts)
        if self.is_tensor:
            for kind in ("dtype", "device"):
                if getattr(original, kind) != getattr(new, kind):
                    raise ValueError(
                        f"When `right_inverse` outputs one tensor, it may not change the {kind}.\n"
                        f"original.{kind}: {getattr(original, kind)}\n"
                        f"right_inverse(original).{kind}: {getattr(new, kind)}"
                    )
            if new is not original:
                _set(original, parts)
            _register(self, "original", original)
        else:
            for i, part in enumerate(parts):
                if not isinstance(part, _C.Tensor):
                    raise ValueError(
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                        f"Got element {i} of the sequence with type {type(part).__name__}."
                    )
                if isinstance(original, Parameter):
                    part = Parameter(part, original.requires_grad)
                _register(self, f"original{i}", part.requires_grad_(original.requires_grad))
        if not unsafe:
            names = ("unparametrized", "parametrized")
            _same("Registering a parametrization", before, self(), names)

    def _originals(self) -> list[Any]:
        return [self.original] if self.is_tensor else [getattr(self, f"original{i}") for i in range(self.ntensors)]

    def right_inverse(self, value: Any) -> None:
        """Set the originals so that the parametrized tensor is ``value``, by the modules' ``right_inverse``."""
        with no_grad():
            for module in reversed(list(self)):
                if not hasattr(module, "right_inverse"):
                    raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
                value = module.right_inverse(value)
            if self.is_tensor:
                if not isinstance(value, _C.Tensor):
                    raise ValueError(f"`right_inverse` should return a tensor. Got {type(value).__name__}")
                value = [value]
            elif not isinstance(value, Sequence):
                raise ValueError(f"'right_inverse' must return a sequence of tensors. Got {type(value).__name__}.")
            if len(value) != self.ntensors:
                raise ValueError(
                    f"'right_inverse' must return a sequence of tensors of length {self.ntensors}. Got a sequence of "
                    f"length {len(value)}."
                )
            for i, (own, new) in enumerate(zip(self._originals(), value, strict=True)):
                name = "original" if self.is_tensor else f"original{i}"
                if not isinstance(new, _C.Tensor):
                    raise ValueError(
                        f"'right_inverse' must return a sequence of tensors. Got element {i} of type "
                        f"{type(new).__name__}"
                    )
                if own.dtype != new.dtype:
                    raise ValueError(
                        f"The tensor returned by `right_inverse` has dtype {new.dtype} while `{name}` has dtype "
                        f"{own.dtype}"
                    )
                _set(own, new)

    def forward(self) -> _C.Tensor:
        """Return the parametrized tensor."""
        first, *others = self
        x = first(*self._originals())
        for module in others:
            x = module(x)
        return x  # type: ignore[no-any-return]


def _deepcopy(self: Any, memo: dict[int, Any]) -> Any:
    if id(self) not in memo:
        made = memo[id(self)] = self.__new__(type(self))
        made.__dict__ = copy.deepcopy(self.__dict__, memo)
    return memo[id(self)]


def _getstate(self: Any) -> Any:
    raise RuntimeError("Serialization of parametrized modules is only supported through state_dict().")


def _property(name: str) -> property:
    def get(self: Any) -> _C.Tensor:
        parametrization = self.parametrizations[name]
        if not _depth:
            return parametrization()  # type: ignore[no-any-return]
        key = id(self), name
        if key not in _known:
            _known[key] = parametrization()
        return _known[key]

    def put(self: Any, value: _C.Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Make a parameter or buffer the result of ``parametrization``, applied to what it was before.

    The module's class becomes a subclass of its own. Assigning to the tensor calls ``right_inverse``. ValueError if the
    dtype or the shape would change, unless ``unsafe``.
    """
    parametrization.train(module.training)
    holder: Any = module
    if is_parametrized(module, tensor_name):
        if not unsafe:
            before = getattr(module, tensor_name)
            after = parametrization(before)
            names = f"module.{tensor_name}.", f"parametrization(module.{tensor_name})."
            _same("Registering a parametrization", before, after, names)
            if hasattr(parametrization, "right_inverse"):
                with suppress(NotImplementedError):
                    _same("parametrization.right_inverse", before, parametrization.right_inverse(after), names)
        holder.parametrizations[tensor_name].append(parametrization)
        holder.parametrizations[tensor_name].unsafe |= unsafe
    elif tensor_name in module._buffers or tensor_name in module._parameters:
        made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            cls = type(module)
            members: dict[str, Any] = {"__getstate__": _getstate}
            if not hasattr(cls, "__deepcopy__"):
                members["__deepcopy__"] = _deepcopy
            module.__class__ = type(f"Parametrized{cls.__name__}", (cls,), members)
            holder.parametrizations = ModuleDict()
        setattr(type(module), tensor_name, _property(tensor_name))
        holder.parametrizations[tensor_name] = made
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Return whether a module has parametrized tensors, or whether the one of the name is."""
    found = module._modules.get("parametrizations") if isinstance(module, Module) else None
    if not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a tensor what it was: with its parametrized value, or the original one if not ``leave_parametrized``."""
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    holder: Any = module
    parametrizations = holder.parametrizations[tensor_name]
    if parametrizations.is_tensor:
        original = parametrizations.original
        if leave_parametrized:
            with no_grad():
                _set(original, getattr(module, tensor_name))
    elif leave_parametrized:
        value = getattr(module, tensor_name)
        original = Parameter(value) if value.requires_grad else value
    else:
        raise ValueError(
            "Cannot leave unparametrized (`leave_parametrized=False`) a tensor that is parametrized in terms of a "
            "sequence of tensors."
        )
    delattr(type(module), tensor_name)
    del holder.parametrizations[tensor_name]
    _register(module, tensor_name, original)
    if not is_parametrized(module):
        del holder.parametrizations
        module.__class__ = type(module).__bases__[0]
    return module


def type_before_parametrizations(module: Module) -> type:
    """Return the class that the module was of before it had parametrizations."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Give a module the parametrizations of another, or those of one tensor, and the originals."""
    if not is_parametrized(from_module):
        return to_module
    source: Any = from_module
    target: Any = to_module
    for name in source.parametrizations if tensor_name is None else [tensor_name]:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name)))
        given = source.parametrizations[name]
        for parametrization in given:
            register_parametrization(to_module, name, parametrization)
        taken = target.parametrizations[name]
        for key in ["original"] if given.is_tensor else [f"original{i}" for i in range(given.ntensors)]:
            setattr(taken, key, getattr(given, key))
    return to_module
