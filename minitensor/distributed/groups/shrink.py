"""Groups that go on without some of their ranks."""

from __future__ import annotations

import hashlib
import logging
import sys
from typing import Any

from minitensor.distributed.groups import world
from minitensor.distributed.groups.process_group import ProcessGroup
from minitensor.distributed.stores.store import PrefixStore
from minitensor.distributed.transport.backends import Backend

__all__ = ["SHRINK_ABORT", "SHRINK_DEFAULT", "shrink_group"]

SHRINK_DEFAULT, SHRINK_ABORT = 0, 1


def shrink_group(
    ranks_to_exclude: list[int], group: ProcessGroup | None = None, shrink_flags: int = 0, pg_options: Any = None
) -> ProcessGroup:
    """Return a group of a group's other ranks, in their order; the group itself is left.

    Only the ranks that stay call this, all of them. Where it is the default group (`group` is None), the new one takes
    its place, its ranks are counted anew, and all other groups are left. With `shrink_flags` 1 (``SHRINK_ABORT``) calls
    that are on their way are ended first; a call that has failed, since a rank has died, needs no such flag.

    TypeError for what is no list of integers, and with the backend "mpi", whose ranks are those of MPI's world.
    ValueError for no rank, a rank that is not in the group or is given twice, all ranks, and a group of one.
    RuntimeError where a rank that is excluded calls this.
    """
    given = world.chosen(group)
    excluded = _checked(ranks_to_exclude, shrink_flags, given)
    if given.name() == Backend.MPI:
        raise TypeError(f"Process group backend for '{given.group_name}' does not support shrinking operations.")
    if shrink_flags == SHRINK_ABORT:
        given.abort()
    kept = [rank for rank in range(given.size()) if rank not in excluded]
    if given is world.default_group():
        return _shrunk_default(given, kept)
    made: ProcessGroup = world.new_group(
        [given._ranks[rank] for rank in kept], given._timeout, given.name(), use_local_synchronization=True,
        group_desc=f"{given.group_name}:shrunk", sort_ranks=False,
    )  # fmt: skip
    world.destroy_process_group(given)
    return made


def _shrunk_default(given: ProcessGroup, kept: list[int]) -> ProcessGroup:
    state = world._world
    assert state.store is not None
    if others := [one.group_name for one in state.groups if one is not given]:
        logging.getLogger(__name__).warning(
            "shrinking the default group leaves %d other groups (%s): their ranks are counted anew",
            len(others), ", ".join(others),
        )  # fmt: skip
    store = PrefixStore("shrunk_" + hashlib.sha1(repr(kept).encode()).hexdigest(), state.store)
    made = world._made(
        PrefixStore("0", store), kept.index(given.rank()), len(kept), given.name(), given._timeout, name="0",
        description="default:shrunken",
    )  # fmt: skip
    for one in reversed(state.groups):
        one.shutdown()
    if state.hook is not None:
        sys.excepthook = state.hook
    world._forget()
    state.store, state.default, state.groups, state.made = store, made, [made], 1
    world._show_rank_in_tracebacks(made.rank())
    return made


def _checked(given: Any, flags: Any, group: ProcessGroup) -> set[int]:
    if not isinstance(given, list):
        raise TypeError(f"ranks_to_exclude must be a list, but got {type(given).__name__}.")
    if not given:
        raise ValueError("ranks_to_exclude cannot be empty: give the ranks that the group is to go on without")
    if isinstance(flags, bool) or flags not in (SHRINK_DEFAULT, SHRINK_ABORT):
        raise ValueError(f"Invalid shrink_flags value: {flags}. It is 0 (SHRINK_DEFAULT) or 1 (SHRINK_ABORT).")
    size = group.size()
    if size <= 1:
        raise ValueError(f"Cannot shrink a process group with size {size}.")
    found: set[int] = set()
    for place, rank in enumerate(given):
        if not isinstance(rank, int) or isinstance(rank, bool):
            raise TypeError(
                f"All elements in ranks_to_exclude must be integers. Element at index {place} is "
                f"{type(rank).__name__}: {rank}"
            )
        if not 0 <= rank < size:
            raise ValueError(f"Rank {rank} at index {place} is out of bounds for group size {size}.")
        if rank in found:
            raise ValueError(f"Duplicate rank {rank} found in ranks_to_exclude at index {place}.")
        found.add(rank)
    if len(found) == size:
        raise ValueError(f"Cannot exclude all {size} ranks from process group.")
    if group.rank() in found:
        raise RuntimeError(
            f"Current rank {group.rank()} is in the exclusion list and should not call shrink_group(): only the ranks "
            "that stay call it"
        )
    return found
