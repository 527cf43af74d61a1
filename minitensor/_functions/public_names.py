"""The names under which users find functions that are written in C++, or wrapped there: what they are pickled by.

A function knows the name of what it is made of, which several public functions may share, and which may be in another
module. Where it can be found is looked up in the modules themselves when one is pickled.
"""

from __future__ import annotations

import importlib
import pickle
import sys
from typing import Any

from minitensor import _C

__all__ = ["PLACES", "name_of_op", "named", "public_name", "reduce_by_name"]

# Those of PyTorch's modules that come first, as several may show the same function.
PLACES = ("nn.functional", "", "linalg", "special", "fft", "nn.init", "signal.windows", "masked")
_KINDS = (_C.Op, type(_C.out_form(len, len)))
_names: dict[Any, tuple[str, str]] = {}  # functions that were looked up; only places that are still true are used


def named(module: str, name: str) -> Any:
    """Return what `name`, which may have dots, is in a module."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def public_name(function: Any) -> tuple[str, str]:
    """Return the module and the name under which a function is found. PicklingError if there is none."""
    known = _names.get(function)
    if known is None or not _is_there(function, *known):
        _look()
        known = _names.get(function)
    if known is None:
        raise pickle.PicklingError(f"can't pickle the function {function.__name__}: it has no public name")
    return known


def name_of_op(op: str) -> str:
    """Return what users call a private op, such as `linalg.svd` of `_linalg_svd`; empty if that is nothing."""
    for place in PLACES:
        module = sys.modules.get(f"minitensor.{place}".rstrip("."))
        name = op.removeprefix("_").removeprefix(f"{place}_")
        if callable(getattr(module, name, None)):
            return f"{place}.{name}".lstrip(".")
    return ""


def reduce_by_name(function: Any) -> tuple[Any, tuple[str, str]]:
    """Return how a function is pickled."""
    return named, public_name(function)


def _is_there(function: Any, module: str, name: str) -> bool:
    try:
        return named(module, name) is function
    except (ImportError, AttributeError):
        return False


def _look() -> None:
    """Note where each function is found: all modules that were imported are read, which is done for many at once."""
    _names.clear()
    first = [f"minitensor.{place}".rstrip(".") for place in PLACES]
    others = [name for name in sys.modules if name.startswith("minitensor.") and name not in first]
    others.sort(key=lambda name: (name.count("."), name))
    for module in [*first, *others]:
        _note(module, "", vars(sys.modules[module]) if module in sys.modules else {})
    _note("minitensor", "Tensor.", vars(_C.Tensor))


def _note(module: str, prefix: str, names: dict[str, Any] | Any) -> None:
    for name, value in list(names.items()):
        if type(value) in _KINDS:
            known = _names.setdefault(value, (module, prefix + name))
            # What has several names in a module goes by its own.
            if known[0] == module and name == value.__name__:
                _names[value] = (module, prefix + name)
