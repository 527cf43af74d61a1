"""Neural network modules, their parameters, and the functions behind them."""

import importlib

from minitensor.nn import functional, init, modules, parameter
from minitensor.nn.modules import *  # noqa: F403
from minitensor.nn.modules import __all__ as _modules
from minitensor.nn.parameter import Buffer, Parameter, UninitializedBuffer, UninitializedParameter

__all__ = [
    *_modules,
    "Buffer",
    "DataParallel",  # noqa: F405
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "attention",  # noqa: F405
    "factory_kwargs",
    "functional",
    "grad",  # noqa: F405
    "init",
    "modules",
    "parallel",  # noqa: F405
    "parameter",
    "utils",  # noqa: F405
]

_LATER = ("attention", "grad", "parallel", "utils")  # imported by their first use


def factory_kwargs(kwargs: dict[str, object] | None) -> dict[str, object]:
    """Return what of a module's keyword arguments says how its tensors are made: device, dtype and memory format.

    They may also stand in a dict under ``factory_kwargs``. TypeError for a name that is neither.
    """
    if kwargs is None:
        return {}
    simple = {"device", "dtype", "memory_format"}
    expected = simple | {"factory_kwargs"}
    if not kwargs.keys() <= expected:
        raise TypeError(f"unexpected kwargs {kwargs.keys() - expected}")
    given = kwargs.get("factory_kwargs", {})
    found: dict[str, object] = dict(given) if isinstance(given, dict) else {}
    for name in sorted(simple & kwargs.keys()):
        if name in found:
            raise TypeError(f"{name} specified twice, in **kwargs and in factory_kwargs")
        found[name] = kwargs[name]
    return found


def __getattr__(name: str) -> object:
    """Import a part that is rarely used, or say that there is nothing of the name."""
    if name in _LATER:
        return importlib.import_module(f"minitensor.nn.{name}")
    if name == "DataParallel":
        return importlib.import_module("minitensor.nn.parallel").DataParallel
    raise AttributeError(f"module 'minitensor.nn' has no attribute {name!r}; docs/names.md says what there is")
