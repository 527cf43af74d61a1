"""Functions that are composed of ops.

They need no kernel, gradient or lowering: all three come from the ops they call. One file for each area; `@composite`
says under which names and in which forms a function is offered, as a row does for an op.
"""

from minitensor.composite import (
    complex,
    copies,
    creation,
    diagonals,
    differences,
    distance,
    gamma,
    gather_scatter,
    indexing,
    joining,
    layout,
    metadata,
    order,
    padding,
    pointwise,
    reduction,
    shape,
    sparse,
    spectral,
    statistics,
)
from minitensor.composite.linalg import contraction, einsum, functions, lowrank
from minitensor.composite.random import in_place, tensors
from minitensor.composite.registry import COMPOSITES, Composite, composite

# The areas are imported for what they enter in the table.
__all__ = ["COMPOSITES", "Composite", "composite"]
