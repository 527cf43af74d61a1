"""How a tensor lies on one dimension of a mesh: what plans of split tensors are made of.

These are descriptions, with the arithmetic of sizes; no tensor is split by them.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """What the placements have in common."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether a dimension of the tensor is split, or that one."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether all ranks have the whole tensor."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op: str | None = None) -> bool:
        """Whether ranks have what is yet to be combined, or to be combined by that operation."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """The dimension `dim` is split as by `chunk`: equal parts for the first ranks, what is left for the last."""

    dim: int

    def __str__(self) -> str:
        return f"S({self.dim})"

    @staticmethod
    def local_shard_size_and_offset(curr_local_size: int, num_chunks: int, rank: int) -> tuple[int, int]:
        """Return how many elements a rank has of `curr_local_size`, and where they begin."""
        size = -(-curr_local_size // num_chunks)
        start = min(curr_local_size, size * rank)
        return min(curr_local_size, start + size) - start, start


@dataclass(frozen=True)
class Replicate(Placement):
    """All ranks have the whole tensor."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True, repr=False)
class Partial(Placement):
    """Ranks have tensors of the whole shape, which `reduce_op` combines."""

    reduce_op: str = "sum"

    def __repr__(self) -> str:
        return f"Partial({self.reduce_op})"

    def __str__(self) -> str:
        return f"P({self.reduce_op})"


@dataclass(frozen=True, repr=False)
class _StridedShard(Placement):
    """The tensor's dimension is cut into `split_factor` pieces, and a rank has its part of each."""

    dim: int
    split_factor: int

    def __init__(self, dim: int, *, split_factor: int = 1, sf: int | None = None) -> None:
        object.__setattr__(self, "dim", dim)
        object.__setattr__(self, "split_factor", split_factor if sf is None else sf)

    def __repr__(self) -> str:
        return f"_StridedShard(dim={self.dim}, sf={self.split_factor})"

    def __str__(self) -> str:
        return f"_S({self.dim}, {self.split_factor})"
