"""Modules on several devices; here, on one."""

from minitensor.nn.parallel.data_parallel import DataParallel, data_parallel
from minitensor.nn.parallel.distributed import DistributedDataParallel
from minitensor.nn.parallel.parts import gather, parallel_apply, replicate, scatter

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter",
]  # fmt: skip


def __getattr__(name: str) -> object:
    raise AttributeError(
        f"module 'minitensor.nn.parallel' has no attribute {name!r}: a program runs on one device; see docs/names.md"
    )
