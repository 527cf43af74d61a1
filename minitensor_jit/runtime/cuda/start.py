"""Connects the core with the GPUs: called when the first tensor is put on one."""

from __future__ import annotations

from minitensor import _C
from minitensor.random import gpu_generator
from minitensor_jit.runtime.cuda import context
from minitensor_jit.runtime.cuda.driver import device_total, driver
from minitensor_jit.runtime.cuda.memory import Runtime

__all__ = ["HostOp", "host_ops", "runtime", "start"]


class HostOp:
    """How often an op of a GPU ran on the host, for want of code, and the bytes that were copied for it."""

    __slots__ = ("nbytes", "runs")

    def __init__(self) -> None:
        self.runs = 0
        self.nbytes = 0


host_ops: dict[str, HostOp] = {}
_runtime: Runtime | None = None


def _on_host_op(op: str, nbytes: int) -> None:
    entry = host_ops.setdefault(op, HostOp())
    entry.runs += 1
    entry.nbytes += nbytes


def start() -> None:
    """Give the core what drives the GPUs; CudaUnavailableError says what is missing."""
    global _runtime
    driver()
    if _runtime is None:
        _runtime = Runtime()
    _C.set_cuda_runtime(_runtime)
    for index in range(device_total()):
        gpu_generator(index)
    _C.set_host_op_callback(_on_host_op)


def runtime() -> Runtime:
    """What the core calls."""
    if _runtime is None:
        start()
    assert _runtime is not None
    return _runtime


def stop() -> None:
    """Forget all GPUs, so that another driver can be used. No tensor may be on one."""
    global _runtime
    for gpu in context.all_gpus():
        _C.cuda_empty_cache(gpu.index)
    _C.set_cuda_runtime(None)
    _runtime = None
    context.forget_gpus()
