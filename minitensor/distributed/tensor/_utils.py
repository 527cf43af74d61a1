"""Where the parts of a split tensor would be."""

from __future__ import annotations

from collections.abc import Sequence

from minitensor.distributed.device_mesh import DeviceMesh
from minitensor.distributed.tensor.placement_types import Placement, Shard, _StridedShard


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement], skip_offset: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the shape of this process's part of a tensor and where it begins: (0,) and () if it isn't in the mesh.

    There is a placement for each dimension of the mesh; a dimension that is split twice is split from left to right.
    A part without elements begins at the end. NotImplementedError for strided placements.
    """
    coordinate = mesh.get_coordinate()
    if coordinate is None:
        return (0,), ()
    shape, offset = list(global_shape), [0] * len(global_shape)
    for place, chunks, placement in zip(coordinate, mesh.shape, placements, strict=False):
        if isinstance(placement, _StridedShard):
            raise NotImplementedError(f"compute_local_shape_and_global_offset: {placement!r}: no tensor is split so")
        if isinstance(placement, Shard):
            dim = placement.dim
            shape[dim], start = Shard.local_shard_size_and_offset(shape[dim], chunks, place)
            offset[dim] = offset[dim] + start if shape[dim] else global_shape[dim]
    return tuple(shape), () if skip_offset else tuple(offset)
