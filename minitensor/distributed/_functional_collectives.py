"""Collective calls whose results are new tensors, by PyTorch's names: recorded, differentiated and compiled as ops.

They can be called in compiled functions. A result is there when the call returns, or when it is read if it is recorded:
`wait_tensor` has nothing left to wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor._C import Tensor
from minitensor._functions.offered import cat
from minitensor.distributed.groups.exchange import number_of
from minitensor.ops.collective import GROUPS
from minitensor.ops.row import ROWS

__all__ = [
    "all_gather_single",
    "all_gather_tensor",
    "all_gather_tensor_autograd",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "all_to_all_single_autograd",
    "broadcast",
    "permute_tensor",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd",
    "wait_tensor",
]

AsyncCollectiveTensor = Tensor

_OPS = {"sum": 0, "avg": 0, "product": 2, "min": 3, "max": 4, "band": 5, "bor": 6, "bxor": 7}


def _call(name: str, *arguments: Any) -> Any:
    return ROWS[name].call(*arguments)


def _reduction(name: Any, x: Any) -> int:
    """The number of an operation. ValueError for one that there isn't, or that takes no such numbers."""
    number = _OPS.get(str(name).lower())
    if number is None:
        raise ValueError(f"no reduction is called {name!r}; there are {', '.join(_OPS)}")
    if number >= 5 and (x.is_floating_point() or x.is_complex()):
        raise ValueError(f"{name} takes integers and bools, not {x.dtype}")
    if str(name).lower() == "avg" and not (x.is_floating_point() or x.is_complex()):
        raise ValueError(f"avg takes floating-point numbers, not {x.dtype}: sum, and divide as is meant")
    return number


def _mean(total: Any, name: Any, number: int) -> Any:
    return total / len(GROUPS[number].ranks) if str(name).lower() == "avg" else total


def _dimension(x: Any, dim: int, what: str) -> int:
    if not -x.dim() <= dim < x.dim():
        raise IndexError(f"{what}: dimension {dim} of a tensor with {x.dim()} dimensions")
    return dim % x.dim()


def all_reduce(self: Any, reduceOp: str, group: Any = None, tag: str = "") -> Any:  # noqa: N803
    """Return the tensors of all ranks combined, in the order of the ranks.

    `reduceOp` is sum, avg, product, min, max, band, bor or bxor; sum and avg have gradients, to which all ranks
    contribute. A group is a ProcessGroup, its name, the ranks of one, or None, all. ValueError for others.
    """
    number = number_of(group)
    return _mean(_call("_all_reduce", self, _reduction(reduceOp, self), number), reduceOp, number)


def all_reduce_coalesced(self: Sequence[Any], reduceOp: str, group: Any = None, tag: str = "") -> list[Any]:  # noqa: N803
    """Return each tensor of a list, combined as by `all_reduce`."""
    return [all_reduce(one, reduceOp, group) for one in self]


def all_gather_tensor(self: Any, gather_dim: int, group: Any = None, tag: str = "") -> Any:
    """Return the tensors of all ranks, joined along a dimension; all have one shape."""
    dim = _dimension(self, gather_dim, "all_gather_tensor")
    number = number_of(group)
    joined = _call("_all_gather", self, number)
    if not dim:
        return joined
    return cat(joined.chunk(len(GROUPS[number].ranks)), dim)


all_gather_single = all_gather_tensor_autograd = all_gather_tensor


def reduce_scatter_tensor(self: Any, reduceOp: str, scatter_dim: int, group: Any = None, tag: str = "") -> Any:  # noqa: N803
    """Return this rank's part, along a dimension, of what `all_reduce` gives.

    ValueError if the dimension is no multiple of the number of ranks.
    """
    dim = _dimension(self, scatter_dim, "reduce_scatter_tensor")
    number = number_of(group)
    size = len(GROUPS[number].ranks)
    if self.shape[dim] % size:
        raise ValueError(f"input dimension {dim} ({self.shape[dim]}) must be a multiple of group_size {size}")
    given = self if not dim else cat(self.chunk(size, dim))
    return _mean(_call("_reduce_scatter", given, _reduction(reduceOp, self), number), reduceOp, number)


reduce_scatter_single = reduce_scatter_tensor_autograd = reduce_scatter_tensor


def all_to_all_single(
    self: Any,
    output_split_sizes: Sequence[int] | None,
    input_split_sizes: Sequence[int] | None,
    group: Any = None,
    tag: str = "",
) -> Any:
    """Return the parts that all ranks have for this one, of tensors that are split along their first dimension.

    Parts are equal where no sizes are given. ValueError for sizes that don't fit.
    """
    number = number_of(group)
    size = len(GROUPS[number].ranks)
    rows = self.shape[0] if self.dim() else 0

    def sizes(given: Sequence[int] | None, what: str) -> list[int]:
        if given is None:
            if rows % size:
                raise ValueError(f"all_to_all_single: {rows} rows are no multiple of {size} ranks")
            return [rows // size] * size
        if len(given) != size or min(given) < 0:
            raise ValueError(f"all_to_all_single: {what}_split_sizes {list(given)} are not sizes for {size} ranks")
        return list(given)

    results, parts = sizes(output_split_sizes, "output"), sizes(input_split_sizes, "input")
    if sum(parts) != rows:
        raise ValueError(f"all_to_all_single: input_split_sizes {parts} don't add up to {rows} rows")
    return _call("_all_to_all", self, results, parts, number)


all_to_all_single_autograd = all_to_all_single


def broadcast(self: Any, src: int, group: Any = None, tag: str = "") -> Any:
    """Return the tensor of rank `src` of the default group. ValueError if that isn't in the group."""
    number = number_of(group)
    ranks = GROUPS[number].ranks
    if src not in ranks:
        raise ValueError(f"rank {src} is not in the group of ranks {list(ranks)}")
    return _call("_collective_broadcast", self, ranks.index(src), number)


def permute_tensor(self: Any, src_dst: Sequence[int], group: Any = None, tag: str = "") -> Any:
    """Return the tensor of the rank r of the group with ``src_dst[r]`` this one; zeros where none has."""
    number = number_of(group)
    if len(src_dst) != len(GROUPS[number].ranks) or len(set(src_dst)) != len(src_dst):
        raise ValueError(f"permute_tensor: {list(src_dst)} has no rank of its own for each of the group")
    return _call("_collective_permute", self, [n for pair in enumerate(src_dst) for n in pair], number)


def wait_tensor(tensor: Any) -> Any:
    """Return the tensor."""
    return tensor
