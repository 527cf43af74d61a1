"""The ops, one row each. See `minitensor.ops.row`."""

from minitensor.ops import (
    checks,
    collective,
    complex,
    contraction,
    creation,
    elementwise,
    fft,
    index,
    linalg,
    mask,
    movement,
    nn,
    pointwise,
    random,
    reduction,
    scan,
    scatter,
    sort,
    sparse,
    special,
)
from minitensor.ops.row import ROWS, Row

__all__ = [
    "ROWS",
    "Row",
    "checks",
    "collective",
    "complex",
    "contraction",
    "creation",
    "elementwise",
    "fft",
    "index",
    "linalg",
    "mask",
    "movement",
    "nn",
    "pointwise",
    "random",
    "reduction",
    "scan",
    "scatter",
    "sort",
    "sparse",
    "special",
]


def __getattr__(name: str) -> object:
    """The namespaces of custom ops, and `aten`; see `minitensor.library`."""
    import importlib
    import sys

    if name == "aten":
        globals()["aten"] = found = importlib.import_module("minitensor.library.aten").Aten()
        return found
    library = sys.modules.get("minitensor.library.custom_ops")
    found = library.namespace(name) if library and not name.startswith("_") else None
    if found is None:
        raise AttributeError(f"module 'minitensor.ops' has no attribute '{name}', nor is it a namespace of custom ops")
    return found
