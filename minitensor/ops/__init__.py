"""The ops, one row each. See `minitensor.ops.row`."""

from minitensor.ops import (
    complex,
    contraction,
    creation,
    elementwise,
    index,
    linalg,
    mask,
    movement,
    pointwise,
    random,
    reduction,
    scatter,
    special,
)
from minitensor.ops.row import ROWS, Row

__all__ = [
    "ROWS",
    "Row",
    "complex",
    "contraction",
    "creation",
    "elementwise",
    "index",
    "linalg",
    "mask",
    "movement",
    "pointwise",
    "random",
    "reduction",
    "scatter",
    "special",
]
