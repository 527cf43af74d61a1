"""Calls that all processes of a group make together. Tensors may be on any device; others than the CPU's are copied."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

from minitensor._C import Tensor
from minitensor.distributed.groups.process_group import ProcessGroup, described
from minitensor.distributed.groups.reduce_op import RedOpType, ReduceOp, checked_op
from minitensor.distributed.groups.work import Work
from minitensor.distributed.groups.world import chosen, get_group_rank, not_in_group

__all__ = [
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "broadcast",
    "gather",
    "monitored_barrier",
    "reduce",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "scatter",
]


_ALL_REDUCE: Final = {kind: f"all_reduce({kind.name}, " for kind in RedOpType}
"""How the texts of its calls begin."""


def _tensor(value: Any, name: str) -> Any:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor but got {type(value)} "
            "instead."
        )
    return value


def _tensors(value: Any, name: str) -> list[Any]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, Tensor) for one in value):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor] but got {type(value)}"
            + (f" with elements of type {[type(one) for one in value]}" if isinstance(value, (list, tuple)) else "")
            + "."
        )
    return list(value)


def _same_dtype(*tensors: Any) -> None:
    for one in tensors:
        if one.dtype != tensors[0].dtype:
            raise ValueError(
                f"Invalid usage of tensors with different dtypes. Found {tensors[0].dtype} and {one.dtype}"
            )


def root_of(given: ProcessGroup, global_rank: int | None, group_rank: int | None, default: int | None = None) -> int:
    """The rank in a group that two arguments stand for. ValueError."""
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        if not 0 <= group_rank < given.size():
            raise ValueError(f"Group rank {group_rank} is not part of group {given}")
        return group_rank
    if global_rank is None:
        if default is None:
            raise ValueError("Must specify global_rank or group_rank")
        global_rank = given._ranks[default]
    return get_group_rank(given, global_rank)


def broadcast(
    tensor: Any, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Send the tensor of rank `src` to all others, into theirs: the same dtype and number of elements."""
    if not_in_group(group, "broadcast"):
        return None
    given = chosen(group)
    root = root_of(given, src, group_src)
    _tensor(tensor, "tensor")
    text = f"broadcast({described(tensor)}, from rank {given._ranks[root]})"
    if given.rank() == root:
        sends = [None if rank == root else [tensor] for rank in range(given.size())]
        return given._exchange(text, sends, None, async_op)
    return given._exchange(text, None, [[tensor] if rank == root else None for rank in range(given.size())], async_op)


def all_reduce(tensor: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Combine the tensors of all ranks, in the order of the ranks, into each of them.

    ``tensor`` has the same shape and dtype on every rank, and is written in place. With ``async_op`` the call returns a
    work to wait for, and the tensor is whole after that. Raises RuntimeError where ranks disagree or one has left.
    """
    if group is not None and not_in_group(group, "all_reduce"):
        return None
    if not isinstance(tensor, Tensor):
        _tensor(tensor, "tensor")
    given = chosen(group)
    kind = checked_op(op, tensor.dtype, "all_reduce")
    if not async_op and given._reduced_at_once(_ALL_REDUCE[kind], tensor, kind):
        return None
    return given._reduce(f"{_ALL_REDUCE[kind]}{described(tensor)})", tensor, kind, -1, async_op)


def all_reduce_coalesced(tensors: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Any:
    """Combine lists of tensors of one dtype, as by `all_reduce`; return a future if `async_op`."""
    given_tensors = [tensors] if isinstance(tensors, Tensor) else _tensors(tensors, "tensors")
    if not_in_group(group, "all_reduce_coalesced"):
        return None
    if not given_tensors:
        raise ValueError("all_reduce_coalesced: there are no tensors")
    _same_dtype(*given_tensors)
    works = [work for one in given_tensors if (work := all_reduce(one, op, group, True)) is not None]
    if async_op:
        return works[-1].get_future().then(lambda _: [one for work in works for one in work.get_future().wait()])
    for work in works:
        work.wait()
    return None


def reduce(
    tensor: Any,
    dst: int | None = None,
    op: Any = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Combine the tensors of all ranks, in the order of the ranks, into that of rank `dst`; the others stay."""
    if not_in_group(group, "reduce"):
        return None
    given = chosen(group)
    root = root_of(given, dst, group_dst)
    _tensor(tensor, "tensor")
    kind = checked_op(op, tensor.dtype, "reduce")
    text = f"reduce({kind.name}, {described(tensor)}, to rank {given._ranks[root]})"
    return given._reduce(text, tensor, kind, root, async_op)


def all_gather(tensor_list: Any, tensor: Any, group: Any = None, async_op: bool = False) -> Work | None:
    """Put the tensor of each rank into a list on all of them; lists must have the same sizes everywhere."""
    outputs = _tensors(tensor_list, "tensor_list")
    _tensor(tensor, "tensor")
    if not_in_group(group, "all_gather"):
        return None
    _same_dtype(tensor, *outputs)
    given = chosen(group)
    if len(outputs) != given.size():
        raise ValueError(f"all_gather: expected a tensor for each of {given.size()} ranks, got {len(outputs)}")
    sizes = [one.numel() for one in outputs]
    if sizes[given.rank()] != tensor.numel():
        raise ValueError(
            f"all_gather: rank {given.rank()} has {tensor.numel()} elements, and {sizes[given.rank()]} in the list"
        )
    told = f"{len(sizes)} x {described(tensor)}" if len(set(sizes)) == 1 else f"{tensor.dtype}{sizes}"
    return given._exchange(f"all_gather({told})", [[tensor]] * given.size(), [[one] for one in outputs], async_op)


def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Put the tensors of all ranks, one behind the other, into one tensor on all of them."""
    _tensor(input_tensor, "input_tensor")
    _tensor(output_tensor, "output_tensor")
    if not_in_group(group, "all_gather_into_tensor"):
        return None
    _same_dtype(output_tensor, input_tensor)
    given = chosen(group)
    if output_tensor.numel() != input_tensor.numel() * given.size():
        raise ValueError(
            f"output tensor size must be equal to world_size times input tensor size: {output_tensor.numel()} is not "
            f"{given.size()} times {input_tensor.numel()}"
        )
    parts = output_tensor.detach().reshape(given.size(), -1).unbind(0)
    if not output_tensor.is_contiguous():
        raise ValueError("all_gather_into_tensor: the output tensor must be contiguous")
    text = f"all_gather_into_tensor({given.size()} x {described(input_tensor)})"
    return given._exchange(text, [[input_tensor]] * given.size(), [[part] for part in parts], async_op)


all_gather_single = all_gather_into_tensor


def all_gather_coalesced(
    output_tensor_lists: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Any:
    """Gather a list of tensors: ``output_tensor_lists[r][i]`` is tensor i of rank r. Returns a future if `async_op`."""
    if not_in_group(group, "all_gather_coalesced"):
        return None
    inputs = _tensors(input_tensor_list, "input_tensor_list")
    if not isinstance(output_tensor_lists, (list, tuple)):
        raise TypeError("Invalid function argument: output_tensor_lists should be a list")
    outputs = [_tensors(one, "output_tensor_lists") for one in output_tensor_lists]
    given = chosen(group)
    if len(outputs) != given.size() or any(len(one) != len(inputs) for one in outputs):
        raise ValueError(f"all_gather_coalesced: expected {given.size()} lists of {len(inputs)} tensors")
    text = f"all_gather_coalesced({', '.join(map(described, inputs))})"
    work = given._exchange(text, [inputs] * given.size(), outputs, async_op)
    return None if work is None else work.get_future()


def gather(
    tensor: Any,
    gather_list: Any = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Put the tensor of each rank into a list on rank `dst`, 0 unless given."""
    _tensor(tensor, "tensor")
    if not_in_group(group, "gather"):
        return None
    given = chosen(group)
    root = root_of(given, dst, group_dst, default=0)
    text = f"gather({described(tensor)}, to rank {given._ranks[root]})"
    if given.rank() != root:
        if gather_list:
            raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
        return given._exchange(
            text, [[tensor] if rank == root else None for rank in range(given.size())], None, async_op
        )
    if not gather_list:
        raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
    outputs = _tensors(gather_list, "gather_list")
    _each_as(outputs, tensor, given, "gather_list")
    sends = [[tensor] if rank == root else None for rank in range(given.size())]
    return given._exchange(text, sends, [[one] for one in outputs], async_op)


def _each_as(tensors: Sequence[Any], like: Any, given: ProcessGroup, name: str) -> None:
    if len(tensors) != given.size():
        raise ValueError(f"`{name}`: expected a tensor for each of {given.size()} ranks, got {len(tensors)}")
    _same_dtype(like, *tensors)
    for one in tensors:
        if one.numel() != like.numel():
            raise ValueError(f"`{name}`: expected tensors of {like.numel()} elements, got one of {one.numel()}")


def scatter(
    tensor: Any,
    scatter_list: Any = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give each rank its tensor of a list that rank `src`, 0 unless given, has."""
    _tensor(tensor, "tensor")
    if not_in_group(group, "scatter"):
        return None
    given = chosen(group)
    root = root_of(given, src, group_src, default=0)
    text = f"scatter({described(tensor)}, from rank {given._ranks[root]})"
    recvs = [[tensor] if rank == root else None for rank in range(given.size())]
    if given.rank() != root:
        if scatter_list:
            raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
        return given._exchange(text, None, recvs, async_op)
    if not scatter_list:
        raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
    inputs = _tensors(scatter_list, "scatter_list")
    _each_as(inputs, tensor, given, "scatter_list")
    return given._exchange(text, [[one] for one in inputs], recvs, async_op)


def reduce_scatter(
    output: Any, input_list: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combine tensor r of all ranks' lists, in the order of the ranks, into the output of rank r."""
    _tensor(output, "output")
    inputs = _tensors(input_list, "input_list")
    if not_in_group(group, "reduce_scatter"):
        return None
    given = chosen(group)
    _each_as(inputs, output, given, "input_list")
    kind = checked_op(op, output.dtype, "reduce_scatter")
    text = f"reduce_scatter({kind.name}, {described(output)})"
    return given._reduce_by_rank(text, inputs, output, kind, async_op)


def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """The same, where one tensor has all that the list would have, one behind the other."""
    _tensor(output, "output")
    _tensor(input, "input")
    if not_in_group(group, "reduce_scatter_tensor"):
        return None
    _same_dtype(output, input)
    given = chosen(group)
    if input.numel() != output.numel() * given.size():
        raise ValueError(
            f"input tensor must be the same size as output size times world size: {input.numel()} is not "
            f"{given.size()} times {output.numel()}"
        )
    kind = checked_op(op, output.dtype, "reduce_scatter_tensor")
    text = f"reduce_scatter_tensor({kind.name}, {described(output)})"
    parts = input.detach().reshape(given.size(), -1).unbind(0)
    return given._reduce_by_rank(text, parts, output, kind, async_op)


reduce_scatter_single = reduce_scatter_tensor


def all_to_all(
    output_tensor_list: Any, input_tensor_list: Any, group: Any = None, async_op: bool = False
) -> Work | None:
    """Send tensor r of a list to rank r, and get one from each."""
    if not_in_group(group, "all_to_all"):
        return None
    outputs = _tensors(output_tensor_list, "output_tensor_list")
    inputs = _tensors(input_tensor_list, "input_tensor_list")
    given = chosen(group)
    if len(outputs) != given.size() or len(inputs) != given.size():
        raise ValueError(f"all_to_all: expected {given.size()} tensors, got {len(inputs)} and {len(outputs)}")
    _same_dtype(*inputs, *outputs)
    return _to_all("all_to_all", given, outputs, inputs, async_op)


def _to_all(
    name: str, given: ProcessGroup, outputs: Sequence[Any], inputs: Sequence[Any], async_op: bool
) -> Work | None:
    me = given.rank()
    if outputs[me].numel() != inputs[me].numel():
        raise ValueError(
            f"{name}: rank {me} sends itself {inputs[me].numel()} elements and expects {outputs[me].numel()}"
        )
    dtype = str(inputs[0].dtype).rpartition(".")[2]
    return given._exchange(f"{name}({dtype})", [[one] for one in inputs], [[one] for one in outputs], async_op)


def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Split a tensor along its first dimension, send part r to rank r, and join what comes from each.

    Parts are equal where no sizes are given.
    """
    if not_in_group(group, "all_to_all_single"):
        return None
    _tensor(output, "output")
    _tensor(input, "input")
    _same_dtype(output, input)
    given = chosen(group)
    if not output.is_contiguous():
        raise ValueError("all_to_all_single: the output tensor must be contiguous")

    def parts(tensor: Any, sizes: Sequence[int] | None, name: str) -> Sequence[Any]:
        rows = tensor.shape[0] if tensor.dim() else 1
        if not sizes:
            if rows % given.size():
                raise RuntimeError(f"Tensor's dim 0 does not divide equally across group size: {name} has {rows} rows")
            sizes = [rows // given.size()] * given.size()
        elif len(sizes) != given.size():
            raise RuntimeError(f"Number of tensor splits not equal to group size: {name}_split_sizes are {list(sizes)}")
        elif sum(sizes) != rows:
            raise RuntimeError(f"Split sizes doesn't match total dim 0 size: {list(sizes)} of {name} with {rows} rows")
        flat = tensor.detach() if tensor.dim() else tensor.detach().reshape(1)
        found: Sequence[Any] = flat.split(list(sizes))
        return found

    outputs, inputs = parts(output, output_split_sizes, "output"), parts(input, input_split_sizes, "input")
    return _to_all("all_to_all_single", given, outputs, inputs, async_op)


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: timedelta | None = None
) -> Work | None:
    """Wait until all ranks have called this."""
    if not_in_group(group, "barrier"):
        return None
    given = chosen(group)
    limit = None if timeout is None else timeout.total_seconds()
    return given._exchange("barrier()", None, None, async_op, limit)


def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Wait until all ranks have called this; the error after the timeout names all that have not."""
    if not_in_group(group, "monitored_barrier"):
        return
    given = chosen(group)
    limit = given._limit if timeout is None else getattr(timeout, "total_seconds", lambda: float(timeout))()
    given._exchange("monitored_barrier()", None, None, False, limit)
