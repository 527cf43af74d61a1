"""The ranks of a job in rows and columns: a group for each line of them, along each dimension."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from minitensor._C import Tensor, int32
from minitensor._functions.offered import arange, tensor
from minitensor.distributed.groups.process_group import ProcessGroup
from minitensor.distributed.groups.world import (
    GroupMember,
    get_rank,
    get_world_size,
    init_process_group,
    is_initialized,
    new_group,
)

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """Ranks as a tensor of integers. All processes of the default group make it, in the same order.

    ``mesh["dp"]`` is the part of the mesh along a dimension that this process is in.
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: Sequence[str] | None = None,
        _groups: Sequence[Any] | None = None,
    ) -> None:
        if _groups is None and not is_initialized():
            init_process_group()
        self.device_type = device_type
        self.mesh = mesh if isinstance(mesh, Tensor) else tensor(mesh, dtype=int32)
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        if self.mesh_dim_names is not None and len(self.mesh_dim_names) != self.mesh.dim():
            raise RuntimeError(f"the mesh has {self.mesh.dim()} dimensions, and names for {len(self.mesh_dim_names)}")
        ranks = self.mesh.flatten().tolist()
        if len(set(ranks)) != len(ranks) or any(not 0 <= rank < get_world_size() for rank in ranks):
            raise RuntimeError(f"a mesh has ranks of the default group, each once, not {ranks}")
        place = [i for i, rank in enumerate(ranks) if rank == get_rank()]
        self._coordinate: list[int] | None = None
        if place:
            left, self._coordinate = place[0], []
            for size in reversed(self.mesh.shape):
                self._coordinate.insert(0, left % size)
                left //= size
        self._groups = list(_groups) if _groups is not None else [self._group(dim) for dim in range(self.mesh.dim())]

    def _group(self, dim: int) -> Any:
        lines = self.mesh.movedim(dim, -1).reshape(-1, self.mesh.shape[dim]).tolist()
        mine: Any = GroupMember.NON_GROUP_MEMBER
        for line in lines:
            made = new_group(line, sort_ranks=False)
            if isinstance(made, ProcessGroup):
                mine = made
        return mine

    def __repr__(self) -> str:
        return f"DeviceMesh({self.device_type}, {self.mesh.tolist()}, mesh_dim_names={self.mesh_dim_names})"

    def _dim(self, given: int | str | None) -> int:
        if given is None:
            if self.mesh.dim() != 1:
                raise RuntimeError(
                    f"the mesh has {self.mesh.dim()} dimensions: say which one is meant, by its number or name"
                )
            return 0
        if isinstance(given, int):
            if not 0 <= given < self.mesh.dim():
                raise IndexError(f"the mesh has {self.mesh.dim()} dimensions, not one of number {given}")
            return given
        if given not in (self.mesh_dim_names or ()):
            raise KeyError(f"Invalid mesh_dim_name {given!r}: the names are {self.mesh_dim_names}")
        assert self.mesh_dim_names is not None
        return self.mesh_dim_names.index(given)

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        if self.mesh_dim_names is None:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        dims = [self._dim(name) for name in ((names,) if isinstance(names, str) else names)]
        if sorted(dims) != dims:
            raise KeyError(f"the dimensions {names} are not in the mesh's order, {self.mesh_dim_names}")
        if self._coordinate is None:
            raise RuntimeError("this process is not in the mesh")
        place = tuple(slice(None) if dim in dims else at for dim, at in enumerate(self._coordinate))
        return DeviceMesh(
            self.device_type,
            self.mesh[place],
            mesh_dim_names=[self.mesh_dim_names[dim] for dim in dims],
            _groups=[self._groups[dim] for dim in dims],
        )

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """Return the group along a dimension that this process is in."""
        group = self._groups[self._dim(mesh_dim)]
        if not isinstance(group, ProcessGroup):
            raise RuntimeError("this process is not in the mesh")
        return group

    def get_all_groups(self) -> list[ProcessGroup]:
        """Return those along all dimensions."""
        return [self.get_group(dim) for dim in range(self.mesh.dim())]

    def get_coordinate(self) -> list[int] | None:
        """Return this process's place, or None if it isn't in the mesh."""
        return self._coordinate

    def get_rank(self) -> int:
        """Return this process's rank in the default group."""
        return get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return this process's place along a dimension."""
        dim = self._dim(mesh_dim)
        if self._coordinate is None:
            raise RuntimeError("this process is not in the mesh")
        return self._coordinate[dim]

    def size(self, mesh_dim: int | None = None) -> int:
        """Return how many ranks there are, in all or along a dimension."""
        return int(self.mesh.numel() if mesh_dim is None else self.mesh.shape[mesh_dim])

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return int(self.mesh.dim())

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths."""
        return tuple(self.mesh.shape)


def init_device_mesh(
    device_type: str,
    mesh_shape: Sequence[int],
    *,
    mesh_dim_names: Sequence[str] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """Make a mesh of all ranks, in order. RuntimeError if they are not as many as the shape has places."""
    if mesh_dim_names is not None and len(set(mesh_dim_names)) != len(mesh_dim_names):
        raise RuntimeError(f"Each mesh_dim_name must be unique: {tuple(mesh_dim_names)}")
    if mesh_dim_names is not None and len(mesh_dim_names) != len(mesh_shape):
        raise RuntimeError(
            f"mesh_shape and mesh_dim_names should have same length: {tuple(mesh_shape)}, {tuple(mesh_dim_names)}"
        )
    if not is_initialized():
        init_process_group()
    if math.prod(mesh_shape) != get_world_size():
        raise RuntimeError(
            f"a mesh of shape {tuple(mesh_shape)} has {math.prod(mesh_shape)} places for {get_world_size()} ranks"
        )
    ranks = arange(math.prod(mesh_shape), dtype=int32).view(tuple(mesh_shape))
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names)
