"""Reads checkpoints that hold whole objects, such as modules, by Python's unpickler, which runs what they name."""

from __future__ import annotations

import importlib
import io
import pickle
from collections.abc import Callable
from typing import Any

from minitensor.serialization.names import find
from minitensor.serialization.weights_only_unpickler import Allowed

__all__ = ["unpickle_whole"]


class _Unpickler(pickle.Unpickler):
    def __init__(self, data: bytes, load: Callable[[Any], Any]) -> None:
        super().__init__(io.BytesIO(data))
        self.load_persistent = load

    def persistent_load(self, identity: Any) -> Any:
        return self.load_persistent(identity)

    def find_class(self, module: str, name: str) -> Any:
        if module.partition(".")[0] != "numpy":  # whose own functions do
            try:
                known = find(module, name)
            except pickle.UnpicklingError:
                pass
            else:
                return known.call if isinstance(known, Allowed) and known.is_class else known
        # What PyTorch's files name is looked for here, under its name.
        package, dot, rest = module.partition(".")
        place = "minitensor" + dot + rest if package == "torch" else module
        try:
            found: Any = importlib.import_module(place)
            for part in name.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            raise pickle.UnpicklingError(f"the file names {module}.{name}, which is not here: {error}") from error
        return found


def unpickle_whole(data: bytes, persistent_load: Callable[[Any], Any]) -> Any:
    """Return the object in a pickle, whatever it is. The pickle may run any code: its source must be trusted.

    UnpicklingError for names that are not here, and for what is no pickle.
    """
    try:
        return _Unpickler(data, persistent_load).load()
    except (EOFError, IndexError, KeyError) as error:
        raise pickle.UnpicklingError(f"the pickle is broken: {error}") from error
