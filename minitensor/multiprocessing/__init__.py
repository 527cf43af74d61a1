"""Python's ``multiprocessing`` for programs with tensors: these go through queues and pipes by their memory.

A tensor that is sent moves to shared memory, as by ``share_memory_()``; what one process writes the others see.
"""

from multiprocessing import *  # noqa: F403

from minitensor.multiprocessing.reductions import init_reductions
from minitensor.multiprocessing.spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

_STRATEGIES = {"file_descriptor", "file_system"}
_strategy = ["file_descriptor"]


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose among PyTorch's ways of sharing memory, "file_descriptor" and "file_system"; here there is the first."""
    if new_strategy not in _STRATEGIES:
        raise AssertionError(f"strategy should be one of {sorted(_STRATEGIES)}, not {new_strategy!r}")
    _strategy[0] = new_strategy


def get_sharing_strategy() -> str:
    """What was chosen."""
    return _strategy[0]


def get_all_sharing_strategies() -> set[str]:
    """The names that can be chosen."""
    return set(_STRATEGIES)


init_reductions()
