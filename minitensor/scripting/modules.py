"""Scripted and traced modules: objects of their own with the parameters and methods of the modules they are made of."""

from __future__ import annotations

import copy
import pickle
from typing import Any
from weakref import WeakValueDictionary

from minitensor.nn import Module
from minitensor.scripting.annotations import Attribute
from minitensor.scripting.functions import WITHOUT, refuse

__all__ = ["RecursiveScriptModule", "ScriptModule", "TopLevelTracedModule", "TracedModule", "original", "scripted"]


class ScriptModule(Module):
    """A module that TorchScript would compile; the base class of what `script` and `trace` return."""

    def __getattr__(self, name: str) -> Any:
        """Refuse what describes TorchScript."""
        if name in WITHOUT:
            raise refuse(type(self).__name__, name)
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        """Set an attribute; of an `Attribute` its value."""
        super().__setattr__(name, value.value if isinstance(value, Attribute) else value)

    @property
    def original_name(self) -> str:
        """The name of the class that it was made of."""
        return original_class(self).__name__

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write it to a file: see :func:`minitensor.scripting.save`."""
        from minitensor.scripting.files import save

        save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """Return the bytes of such a file."""
        from minitensor.scripting.files import to_bytes

        return to_bytes(self, _extra_files)


class RecursiveScriptModule(ScriptModule):
    """What `script` returns: the same tensors and Python attributes, with scripted submodules."""

    def extra_repr(self) -> str:
        """The name of the class that it was made of."""
        return f"original_name={self.original_name}"

    def __copy__(self) -> Any:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        for table in ("_parameters", "_buffers", "_modules"):
            made.__dict__[table] = dict(self.__dict__[table])
        return made

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        made = type(self).__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise pickle.PickleError(
            "ScriptModules cannot be saved using torch.save. Mixed serialization of script and non-script modules is "
            "not supported. For purely script modules use my_script_module.save(<filename>) instead."
        )


class TracedModule(RecursiveScriptModule):
    """A module within one that `trace` returned."""


class TopLevelTracedModule(TracedModule):
    """What `trace` returns of a module."""


_classes: WeakValueDictionary[tuple[type, type], type] = WeakValueDictionary()


def original_class(module: Module) -> Any:
    """The class that a scripted module was made of."""
    return getattr(type(module), "_made_of", type(module))


def scripted(module: Module, kind: type, inner: type, memo: dict[int, Any] | None = None) -> Any:
    """A module as one of a kind, its submodules as ones of another; what is scripted stays."""
    if isinstance(module, RecursiveScriptModule):
        return module
    memo = {} if memo is None else memo
    if id(module) in memo:
        return memo[id(module)]
    base = type(module)
    cls: Any = _classes.get((kind, base))
    if cls is None:
        space = {"_made_of": base, "__module__": kind.__module__, "__doc__": base.__doc__}
        cls = _classes[kind, base] = type(kind.__name__, (kind, base), space)
    made = memo[id(module)] = cls.__new__(cls)
    made.__dict__.update(module.__dict__)
    for table in ("_parameters", "_buffers", "_modules"):
        made.__dict__[table] = dict(module.__dict__[table])
    for name, child in module._modules.items():
        if child is not None:
            made._modules[name] = scripted(child, inner, inner, memo)
    return made


def original(module: Module, memo: dict[int, Any] | None = None) -> Module:
    """A module of the original classes, with the tensors of a scripted one."""
    memo = {} if memo is None else memo
    if id(module) in memo:
        return memo[id(module)]
    if not isinstance(module, RecursiveScriptModule):
        return module
    cls = original_class(module)
    made: Module = cls.__new__(cls)
    memo[id(module)] = made
    made.__dict__.update(module.__dict__)
    for name, child in module._modules.items():
        if child is not None:
            made.__dict__["_modules"] = {**made.__dict__["_modules"], name: original(child, memo)}
    return made
