"""Communication hooks for `DistributedDataParallel.register_comm_hook`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor._C import bfloat16, float16
from minitensor.distributed.communication.collectives import all_reduce
from minitensor.distributed.groups.reduce_op import ReduceOp
from minitensor.distributed.groups.world import group

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]


def _mean(tensor: Any, process_group: Any) -> Any:
    chosen = group.WORLD if process_group is None else process_group
    work = all_reduce(tensor, ReduceOp.AVG, chosen, async_op=True)
    assert work is not None
    return work.get_future()


def allreduce_hook(process_group: Any, bucket: Any) -> Any:
    """The mean of each bucket, as without a hook."""
    return _mean(bucket.buffer(), process_group).then(lambda done: done.value()[0])


def _compressed(dtype: Any, process_group: Any, bucket: Any) -> Any:
    buffer = bucket.buffer()
    return _mean(buffer.to(dtype), process_group).then(lambda done: buffer.copy_(done.value()[0]))


def fp16_compress_hook(process_group: Any, bucket: Any) -> Any:
    """The mean of gradients rounded to float16, half the bytes; sums are in float32."""
    return _compressed(float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: Any) -> Any:
    """The mean of gradients rounded to bfloat16, half the bytes; sums are in float32."""
    return _compressed(bfloat16, process_group, bucket)


def _wrapper(dtype: Any, hook: Callable[..., Any]) -> Callable[..., Any]:
    def run(state: Any, bucket: Any) -> Any:
        buffer = bucket.buffer()
        bucket.set_buffer(buffer.to(dtype))
        return hook(state, bucket).then(lambda done: buffer.copy_(done.value()))

    return run


def fp16_compress_wrapper(hook: Callable[..., Any]) -> Callable[..., Any]:
    """The hook on buffers rounded to float16."""
    return _wrapper(float16, hook)


def bf16_compress_wrapper(hook: Callable[..., Any]) -> Callable[..., Any]:
    """The hook on buffers rounded to bfloat16."""
    return _wrapper(bfloat16, hook)
