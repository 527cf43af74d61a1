"""Collective calls that give new tensors, with gradients: what a rank's tensor contributed to all ranks' results.

All ranks must make the calls, and go backward through them, in the same order: a backward pass communicates too. The
arguments that PyTorch's functions write are written here as well. :mod:`minitensor.distributed._functional_collectives`
has those of them that compiled functions take as a part of the program; the others run between two parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor._functions.offered import cat, stack, zeros_like
from minitensor.autograd import Function, no_grad
from minitensor.distributed import _functional_collectives as functional
from minitensor.distributed.communication import collectives
from minitensor.distributed.groups.reduce_op import ReduceOp, checked_op
from minitensor.distributed.groups.world import get_rank, get_world_size

__all__ = [
    "all_gather",
    "all_reduce",
    "all_to_all",
    "all_to_all_single",
    "broadcast",
    "gather",
    "reduce",
    "reduce_scatter",
    "scatter",
]


def _named(op: Any, tensor: Any, name: str) -> str:
    return checked_op(op, tensor.dtype, name).name.lower()


def _put(result: Any, out: Any) -> Any:
    """The result, which `out` gets too."""
    with no_grad():
        out.copy_(result.view(out.shape))
    return result.view(out.shape)


def broadcast(tensor: Any, src: int, group: Any = None) -> Any:
    """Return the tensor of rank `src`; that one's gradient is the sum of all ranks'."""
    return functional.broadcast(tensor, src, group)


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return the tensors of all ranks combined. Of SUM and AVG there are gradients, to which all ranks contribute."""
    return functional.all_reduce(tensor, _named(op, tensor, "all_reduce"), group)


def all_gather(tensor: Any, group: Any = None) -> tuple[Any, ...]:
    """Return the tensors of all ranks, which have one shape."""
    return tuple(functional.all_gather_tensor(tensor.unsqueeze(0), 0, group).unbind(0))


def _all_gather_base(output_tensor: Any, input_tensor: Any, group: Any = None) -> Any:
    """Return the tensors of all ranks joined, as `output_tensor` gets them."""
    return _put(functional.all_gather_tensor(input_tensor, 0, group), output_tensor)


def reduce_scatter(output: Any, input_list: Sequence[Any], op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return this rank's tensor of the lists of all ranks, combined; `output` gets it too."""
    given = stack(list(input_list))
    return _put(functional.reduce_scatter_tensor(given, _named(op, given, "reduce_scatter"), 0, group), output)


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Any:
    """Return the parts that all ranks have for this one; `output` gets them too."""
    return _put(functional.all_to_all_single(input, output_split_sizes, input_split_sizes, group), output)


def all_to_all(
    output_tensor_list: Sequence[Any], input_tensor_list: Sequence[Any], group: Any = None
) -> tuple[Any, ...]:
    """Return the tensor that each rank has for this one; the tensors of `output_tensor_list` get them too."""
    sizes = [t.numel() for t in output_tensor_list]
    given = cat([t.reshape(-1) for t in input_tensor_list])
    got = functional.all_to_all_single(given, sizes, [t.numel() for t in input_tensor_list], group)
    return tuple(_put(part, out) for part, out in zip(got.split(sizes), output_tensor_list, strict=True))


def gather(tensor: Any, dst: int = 0, group: Any = None) -> tuple[Any, ...]:
    """Return the tensors of all ranks, on rank `dst`; zeros on others."""
    return tuple(_Gather.apply(dst, group, tensor))


def scatter(tensors: Sequence[Any], src: int = 0, group: Any = None) -> Any:
    """Return the tensor that rank `src` has for this one. The lists of others have tensors of the same shapes.

    ValueError for tensors of several shapes.
    """
    shapes = {tuple(t.shape) for t in tensors}
    if len(shapes) > 1:
        raise ValueError(f"scatter: the tensors are to have one shape, got {sorted(shapes)}")
    return _Scatter.apply(src, group, *tensors)


def reduce(tensor: Any, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Any:
    """Return the tensors of all ranks combined, on rank `dst`; on others this rank's. Gradients are those of a sum."""
    return _Reduce.apply(dst, op, group, tensor)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, group: Any, tensor: Any) -> tuple[Any, ...]:
        ctx.dst, ctx.group = dst, group
        parts = [zeros_like(tensor) for _ in range(get_world_size(group))]
        collectives.gather(tensor.contiguous(), parts if get_rank() == dst else None, dst, group)
        return tuple(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return None, None, _Scatter.apply(ctx.dst, ctx.group, *gradients)


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Any) -> Any:
        ctx.src, ctx.group = src, group
        result = zeros_like(tensors[0])
        given = [t.contiguous() for t in tensors] if get_rank() == src else None
        collectives.scatter(result, given, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        return None, None, *_Gather.apply(ctx.src, ctx.group, gradient)


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, dst: int, op: Any, group: Any, tensor: Any) -> Any:
        ctx.dst, ctx.group = dst, group
        result = tensor.clone()
        collectives.reduce(result, dst, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
        return None, None, None, functional.broadcast(gradient, ctx.dst, ctx.group)
