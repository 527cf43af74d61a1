"""Which of PyTorch's names a program used, from where, and which were missing: for the option `--report`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from minitensor.as_torch import finder

__all__ = ["Report"]


class Watched(ModuleType):
    """Stands for one of minitensor's modules and tells which of its names are asked for."""

    def __init__(self, name: str, module: ModuleType, told: Callable[[str, bool], None]) -> None:
        super().__init__(name, module.__doc__)
        vars(self).update(_module=module, _told=told, __path__=[], __file__=getattr(module, "__file__", None))

    def __getattr__(self, name: str) -> Any:
        """Return the module's value of that name."""
        state = vars(self)
        plain = not (name.startswith("__") and name.endswith("__"))
        try:
            found = getattr(state["_module"], name)
        except AttributeError:
            if plain:
                state["_told"](f"{self.__name__}.{name}", False)
            raise
        if plain and not isinstance(found, ModuleType):
            state["_told"](f"{self.__name__}.{name}", True)
        return found

    def __setattr__(self, name: str, value: Any) -> None:
        """Set it in the module, whose own functions then see it; submodules are this one's."""
        if isinstance(value, ModuleType) or (name.startswith("__") and name.endswith("__")):
            super().__setattr__(name, value)
        else:
            setattr(vars(self)["_module"], name, value)

    def __dir__(self) -> list[str]:
        """The module's names."""
        return dir(vars(self)["_module"])


class Report:
    """As long as it lasts, modules of `torch` that are imported for the first time tell of what is used of them."""

    def __init__(self) -> None:
        """Nothing is watched yet."""
        self.used: dict[str, dict[str, int]] = {}
        """By name: the files that asked for it, with the first line that did."""
        self.missing: dict[str, dict[str, int]] = {}
        """The same of names that are not there."""

    def __enter__(self) -> Report:
        """Begin."""
        finder.watch = self._watched
        finder.told = self._told
        return self

    def __exit__(self, *error: object) -> None:
        """End."""
        finder.watch = finder.told = None

    def _watched(self, name: str, module: ModuleType) -> ModuleType:
        return Watched(name, module, self._told)

    def _told(self, name: str, there: bool) -> None:
        frame = sys._getframe(2)
        while frame.f_back is not None and frame.f_code.co_filename.startswith("<frozen importlib"):
            frame = frame.f_back
        places = (self.used if there else self.missing).setdefault(name, {})
        places.setdefault(frame.f_code.co_filename, frame.f_lineno)

    def text(self) -> str:
        """Return the report, for a terminal."""
        files = {file for places in (*self.used.values(), *self.missing.values()) for file in places}
        lines = ["", f"Names of torch that were used: {len(self.used)}, from {_files(len(files))}"]
        for title, names in (("", self.used), (f"Missing: {len(self.missing)}", self.missing)):
            if title:
                lines += ["", title]
            width = max(map(len, names), default=0)
            for name, places in sorted(names.items()):
                (file, line), *others = places.items()
                more = f" and {_files(len(others))} more" if others else ""
                lines.append(f"  {name:<{width}}  {_shown(file)}:{line}{more}")
        return "\n".join(lines) + "\n"


def _shown(file: str) -> str:
    below = os.path.relpath(file)
    return file if below.startswith("..") else below


def _files(count: int) -> str:
    return f"{count} file" + ("" if count == 1 else "s")
