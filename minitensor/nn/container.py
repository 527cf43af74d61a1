"""Modules made of modules."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar, overload

from minitensor.nn.module import Module

C = TypeVar("C", bound="_Indexed")


class _Indexed(Module):
    """Submodules in order, reachable by position."""

    def _position(self, index: Any) -> str:
        """Return the name of the submodule at ``index``."""
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"index {position} is out of range for {type(self).__name__} of {len(self)} modules")
        return list(self._modules)[position]

    @overload
    def __getitem__(self, index: int) -> Module: ...
    @overload
    def __getitem__(self: C, index: slice) -> C: ...
    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._of(dict(list(self._modules.items())[index]))
        return self._modules[self._position(index)]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, self._position(index), module)

    def __delitem__(self, index: int | slice) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._position(index)]
        for name in names:
            delattr(self, name)
        # Positions are names: those after a gap move up. Names that the user gave stay.
        if all(name.isdecimal() for name in self._modules):
            rest = list(self._modules.values())
            for name in list(self._modules):
                delattr(self, name)
            for i, module in enumerate(rest):
                self.add_module(str(i), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter([module for module in self._modules.values() if module is not None])

    def append(self: C, module: Module) -> C:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self: C, modules: Iterable[Module]) -> C:
        """Add modules at the end."""
        for module in list(modules):
            self.append(module)
        return self

    def _of(self: C, modules: dict[str, Any]) -> C:
        raise NotImplementedError


class Sequential(_Indexed):
    """Calls its modules one after the other, each with the result of the one before.

    It takes modules, or one mapping of names to modules.
    """

    def __init__(self, *modules: Any) -> None:
        super().__init__()
        single = modules[0] if len(modules) == 1 and isinstance(modules[0], Mapping) else None
        for name, module in single.items() if single is not None else enumerate(modules):
            self.add_module(str(name), module)

    def _of(self, modules: dict[str, Any]) -> Sequential:
        return Sequential(modules)

    def forward(self, input: Any) -> Any:
        """Pass ``input`` through all modules."""
        for module in self:
            input = module(input)
        return input


class ModuleList(_Indexed):
    """A list of modules, all of them registered."""

    def __init__(self, modules: Iterable[Module] = ()) -> None:
        super().__init__()
        self.extend(modules)

    def _of(self, modules: dict[str, Any]) -> ModuleList:
        return ModuleList(modules.values())
