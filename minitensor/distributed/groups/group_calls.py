"""The calls of a group object, as PyTorch's own code makes them: each returns its work."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from minitensor.distributed.groups.work import Work

__all__ = ["GroupCalls"]


def _op(given: Any) -> Any:
    return getattr(given, "reduceOp", given)


def _inner(lists: Any) -> Any:
    return lists[0] if lists and isinstance(lists[0], (list, tuple)) else lists


class GroupCalls:
    """Methods of `ProcessGroup`. Roots and peers are ranks in the group; options may be an object or what it has."""

    def allreduce(self, tensors: Any, opts: Any = None, timeout: timedelta | None = None) -> Any:
        """`all_reduce` of a tensor, or of each of a list."""
        from minitensor.distributed.communication import collectives
        from minitensor.distributed.groups.reduce_op import ReduceOp

        op = ReduceOp.SUM if opts is None else _op(opts)
        given = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        works = [collectives.all_reduce(one, op, self, True) for one in given]
        return works[-1] if works else Work()

    allreduce_coalesced = allreduce

    def broadcast(self, tensors: Any, opts: Any = 0, timeout: timedelta | None = None) -> Any:
        """`broadcast` of a tensor, or of each of a list."""
        from minitensor.distributed.communication import collectives

        root = getattr(opts, "rootRank", opts)
        given = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        works = [collectives.broadcast(one, group=self, async_op=True, group_src=root) for one in given]
        return works[-1] if works else Work()

    def reduce(self, tensors: Any, opts: Any = 0, op: Any = None, timeout: timedelta | None = None) -> Any:
        """`reduce`."""
        from minitensor.distributed.communication import collectives
        from minitensor.distributed.groups.reduce_op import ReduceOp

        (tensor,) = tensors if isinstance(tensors, (list, tuple)) else [tensors]
        chosen = op if op is not None else getattr(opts, "reduceOp", ReduceOp.SUM)
        return collectives.reduce(tensor, None, chosen, self, True, getattr(opts, "rootRank", opts))

    def allgather(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        """`all_gather`, of one tensor in a list."""
        from minitensor.distributed.communication import collectives

        if isinstance(input_tensors, (list, tuple)):
            (output_tensors,), (input_tensors,) = output_tensors, input_tensors
        return collectives.all_gather(output_tensors, input_tensors, self, True)

    def all_gather_single(self, output: Any, input: Any, opts: Any = None) -> Any:
        """`all_gather_into_tensor`."""
        from minitensor.distributed.communication import collectives

        return collectives.all_gather_into_tensor(output, input, self, True)

    _allgather_base = all_gather_single

    def gather(self, output_tensors: Any, input_tensors: Any, opts: Any = 0) -> Any:
        """`gather`, of one tensor in a list."""
        from minitensor.distributed.communication import collectives

        outputs = (
            output_tensors[0] if output_tensors and isinstance(output_tensors[0], (list, tuple)) else output_tensors
        )
        (tensor,) = input_tensors if isinstance(input_tensors, (list, tuple)) else [input_tensors]
        return collectives.gather(tensor, outputs or None, None, self, True, getattr(opts, "rootRank", opts))

    def scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = 0) -> Any:
        """`scatter`, to one tensor in a list."""
        from minitensor.distributed.communication import collectives

        inputs = _inner(input_tensors)
        (tensor,) = output_tensors if isinstance(output_tensors, (list, tuple)) else [output_tensors]
        return collectives.scatter(tensor, inputs or None, None, self, True, getattr(opts, "rootRank", opts))

    def reduce_scatter(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        """`reduce_scatter`, to one tensor in a list."""
        from minitensor.distributed.communication import collectives
        from minitensor.distributed.groups.reduce_op import ReduceOp

        if isinstance(output_tensors, (list, tuple)):
            (output_tensors,), (input_tensors,) = output_tensors, input_tensors
        op = ReduceOp.SUM if opts is None else _op(opts)
        return collectives.reduce_scatter(output_tensors, input_tensors, op, self, True)

    def reduce_scatter_single(self, output: Any, input: Any, opts: Any = None) -> Any:
        """`reduce_scatter_tensor`."""
        from minitensor.distributed.communication import collectives
        from minitensor.distributed.groups.reduce_op import ReduceOp

        op = ReduceOp.SUM if opts is None else _op(opts)
        return collectives.reduce_scatter_tensor(output, input, op, self, True)

    _reduce_scatter_base = reduce_scatter_single

    def alltoall(self, output_tensors: Any, input_tensors: Any, opts: Any = None) -> Any:
        """`all_to_all`."""
        from minitensor.distributed.communication import collectives

        return collectives.all_to_all(output_tensors, input_tensors, self, True)

    def alltoall_base(
        self, output: Any, input: Any, output_split_sizes: Any = None, input_split_sizes: Any = None, opts: Any = None
    ) -> Any:
        """`all_to_all_single`."""
        from minitensor.distributed.communication import collectives

        return collectives.all_to_all_single(output, input, output_split_sizes, input_split_sizes, self, True)

    all_to_all_single = alltoall_base

    def barrier(self, opts: Any = None, timeout: timedelta | None = None) -> Any:
        """`barrier`."""
        from minitensor.distributed.communication import collectives

        return collectives.barrier(self, True, timeout=timeout or getattr(opts, "timeout", None))

    def monitored_barrier(self, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
        """`monitored_barrier`."""
        from minitensor.distributed.communication import collectives

        collectives.monitored_barrier(self, timeout, wait_all_ranks)

    def send(self, tensors: Any, dstRank: int, tag: int = 0) -> Any:  # noqa: N803
        """`isend`, of one tensor in a list."""
        from minitensor.distributed.communication import messages

        return messages.isend(tensors[0], group=self, tag=tag, group_dst=dstRank)

    def recv(self, tensors: Any, srcRank: int, tag: int = 0) -> Any:  # noqa: N803
        """`irecv`, to one tensor in a list."""
        from minitensor.distributed.communication import messages

        return messages.irecv(tensors[0], group=self, tag=tag, group_src=srcRank)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Any:
        """`irecv` from any rank."""
        from minitensor.distributed.communication import messages

        return messages.irecv(tensors[0], group=self, tag=tag)
