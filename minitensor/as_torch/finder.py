"""Finds `torch` and its modules, for `import` and for `importlib.metadata`.

A module of PyTorch is minitensor's module of that name itself, so that what a program changes in it changes for
minitensor too. A few are modules of this package instead (`_OWN`), and so is `torch`, since names in it mean something
else.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.metadata
import importlib.util
import multiprocessing.forkserver
import multiprocessing.spawn
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

from minitensor import _C, random
from minitensor.as_torch import symbolic
from minitensor.as_torch.module_paths import BESIDE, PATHS
from minitensor.as_torch.torch_version import TorchVersion
from minitensor.as_torch.version import __version__

__all__ = ["install", "is_installed", "uninstall"]

# Modules whose meaning differs, or that only PyTorch has.
_OWN = {
    f"torch.{name}": f"minitensor.as_torch.{name}"
    for name in ("_C", "_dynamo", "_inductor", "_utils", "version", "types", "onnx", "torch_version")
} | {"torch.jit": "minitensor.scripting", "torch.__config__": "minitensor.as_torch.build_settings"}
_EVERY = importlib.metadata.DistributionFinder.Context()
_START = "import minitensor.as_torch; "

# Libraries that don't import torch know classes of these by the names of their modules.
_SHOWN = ("minitensor.utils.data",)

# What a report puts in the place of a module, and what it is told of names that `torch` was asked for (report.py).
watch: Callable[[str, ModuleType], ModuleType] | None = None
told: Callable[[str, bool], None] | None = None


def target(name: str) -> str | None:
    """The name of the module that stands for PyTorch's of that name; None if there is none."""
    if name in _OWN:
        return _OWN[name]
    if name in PATHS:
        return PATHS[name]
    package, _, rest = name.removeprefix("torch.").partition(".")
    own = _OWN.get(f"torch.{package}")
    ours = f"{own}.{rest}" if own is not None else "minitensor" + name.removeprefix("torch")
    try:
        return ours if importlib.util.find_spec(ours) is not None else None
    except (ImportError, ValueError):  # what it would be in is no package, or isn't there
        return None


def _show_classes(module: ModuleType, own: str, shown: str) -> None:
    """Let a module's public classes say that they are of a module of the package `shown`, instead of `own`."""
    for name in vars(module)["__all__"]:
        found = getattr(module, name)
        if isinstance(found, type) and found.__module__.startswith(f"{own}."):
            found.__module__ = shown + found.__module__.removeprefix(own)


class _Shown(importlib.machinery.SourceFileLoader):
    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _show_classes(module, "minitensor", "torch")


class Torch(ModuleType):
    """The package `torch`: minitensor's names, and PyTorch's modules."""

    def __getattr__(self, name: str) -> Any:
        """Return minitensor's value of that name, or a module of PyTorch's."""
        import minitensor

        if name == "__config__" or not (name.startswith("__") and name.endswith("__")):
            if f"torch.{name}" in _OWN:
                return importlib.import_module(f"torch.{name}")
            try:
                found = getattr(minitensor, name)
            except AttributeError:
                if target(f"torch.{name}") is not None:
                    return importlib.import_module(f"torch.{name}")
                if told is not None:
                    told(f"torch.{name}", False)
            else:
                if not isinstance(found, ModuleType):
                    if told is not None:
                        told(f"torch.{name}", True)
                    return found
                if target(f"torch.{name}") is not None:
                    return importlib.import_module(f"torch.{name}")
        raise AttributeError(
            f"module 'torch' has no attribute {name!r} in minitensor (docs/names.md says what is here)"
        )

    def __dir__(self) -> list[str]:
        """Every public name."""
        import minitensor

        return sorted({*vars(self), *dir(minitensor), *(name.removeprefix("torch.") for name in _OWN)})


class Distribution(importlib.metadata.Distribution):
    """The metadata of the package `torch`."""

    def read_text(self, filename: str) -> str | None:
        """Return the text of a file of the metadata."""
        if filename == "METADATA":
            return (
                f"Metadata-Version: 2.1\nName: torch\nVersion: {__version__}\n"
                "Summary: minitensor under PyTorch's name\n"
            )
        return "minitensor\n" if filename == "INSTALLER" else None

    def locate_file(self, path: Any) -> Any:
        """There are no files."""
        raise FileNotFoundError(f"{path}: minitensor stands for torch, which has no files of its own")


class Finder:
    """What `sys.meta_path` has for `torch`."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, module: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a module of PyTorch's name."""
        if name == "torch":
            spec = importlib.machinery.ModuleSpec(name, self, origin=__file__, is_package=True)  # type: ignore[arg-type]
            spec.has_location = True
            return spec
        if name in _SHOWN:
            found = importlib.machinery.PathFinder.find_spec(name, path)
            if found is not None and found.origin is not None:
                found.loader = _Shown(name, found.origin)
            return found
        if not name.startswith("torch.") or target(name) is None:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)  # type: ignore[arg-type]

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        """Return the package's module; others are put in their place when they are executed."""
        return Torch("torch", __doc__) if spec.name == "torch" else None

    def exec_module(self, module: ModuleType) -> None:
        """Put minitensor's module in the place of a new one."""
        name = module.__name__
        if name == "torch":
            names = {name: getattr(symbolic, name) for name in symbolic.__all__}
            vars(module).update(names, __version__=TorchVersion(__version__))
            return
        found = target(name)
        assert found is not None
        ours = parent = importlib.import_module(found)
        sys.modules[name] = ours if watch is None else watch(name, ours)
        for child in BESIDE.get(name, ()):
            path = f"{name}.{child}"
            ours = importlib.import_module(PATHS[path])
            sys.modules[path] = ours if watch is None else watch(path, ours)
            if not hasattr(parent, child):  # what only PyTorch has
                setattr(parent, child, sys.modules[path])

    def find_distributions(
        self, context: importlib.metadata.DistributionFinder.Context = _EVERY
    ) -> Iterator[importlib.metadata.Distribution]:
        """Find the metadata of `torch`."""
        if context.name is None or context.name.lower() == "torch":
            yield Distribution()


_command_line = multiprocessing.spawn.get_command_line
_finder = Finder()


def _aliased_command_line(**named: Any) -> list[str]:
    """How a process is started that has the alias before it imports the program."""
    command = _command_line(**named)
    if "-c" in command:
        place = command.index("-c") + 1
        command[place] = _START + command[place]
    return command


def install() -> None:
    """Make `torch` mean minitensor from here on; ImportError if PyTorch itself was imported before."""
    present = sys.modules.get("torch")
    if present is not None and not isinstance(present, Torch):
        raise ImportError(
            f"minitensor.as_torch: PyTorch was imported before, from {getattr(present, '__file__', 'somewhere')}; "
            "import minitensor.as_torch first, or run the program by `python -m minitensor.as_torch`",
            name="torch",
        )
    if _finder not in sys.meta_path:
        sys.meta_path.insert(0, _finder)  # type: ignore[arg-type]
        _C.set_shown_package("torch")
        random.use("torch")
        for name in _SHOWN:
            if name in sys.modules:
                _show_classes(sys.modules[name], "minitensor", "torch")
        multiprocessing.spawn.get_command_line = _aliased_command_line
        multiprocessing.forkserver.set_forkserver_preload(["minitensor.as_torch", "__main__"])


def is_installed() -> bool:
    """Whether an import of `torch` finds minitensor."""
    return _finder in sys.meta_path


def uninstall() -> None:
    """Undo `install`, and forget the modules: an import of `torch` finds PyTorch again, if it is installed."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)  # type: ignore[arg-type]
        _C.set_shown_package("minitensor")
        random.use("philox")
        for name in _SHOWN:
            if name in sys.modules:
                _show_classes(sys.modules[name], "torch", "minitensor")
        multiprocessing.spawn.get_command_line = _command_line
        multiprocessing.forkserver.set_forkserver_preload(["__main__"])
    if isinstance(sys.modules.get("torch"), Torch):
        for name in [name for name in sys.modules if name == "torch" or name.startswith("torch.")]:
            del sys.modules[name]
