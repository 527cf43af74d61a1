"""Functions that are composed of ops.

They need no kernel, gradient or lowering: all three come from the ops they call. One file for each area; `@composite`
says under which names and in which forms a function is offered, as a row does for an op.
"""

from minitensor.composite import (
    complex,
    contraction,
    copies,
    creation,
    diagonals,
    differences,
    distance,
    einsum,
    indexing,
    joining,
    layout,
    linalg,
    lowrank,
    metadata,
    order,
    padding,
    pointwise,
    random,
    random_in_place,
    reduction,
    shape,
    sparse,
    spectral,
    statistics,
)
from minitensor.composite.registry import COMPOSITES, Composite, composite

# The areas are imported for what they enter in the table.
__all__ = ["COMPOSITES", "Composite", "composite"]
