"""The default group, those that programs make besides, and who is in them."""

from __future__ import annotations

import hashlib
import os
import sys
import traceback
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from minitensor._warning import warn
from minitensor.distributed.groups.process_group import ProcessGroup
from minitensor.distributed.launcher.error_file import write_error_file
from minitensor.distributed.rendezvous import rendezvous
from minitensor.distributed.stores import PrefixStore, Store
from minitensor.distributed.transport import backends, connections
from minitensor.distributed.transport.backends import Backend, BackendConfig

__all__ = [
    "GroupMember",
    "default_pg_timeout",
    "destroy_process_group",
    "get_backend",
    "get_backend_config",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_process_group",
    "is_initialized",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "split_group",
]

default_pg_timeout = timedelta(minutes=30)


class _World:
    """What `init_process_group` sets and `destroy_process_group` forgets."""

    def __init__(self) -> None:
        self.default: ProcessGroup | None = None
        self.store: Store | None = None
        self.groups: list[ProcessGroup] = []
        self.made = 0  # groups, on all ranks alike
        self.made_locally: dict[str, int] = {}
        self.hook: Any = None


_world = _World()


class _WorldMeta(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:  # noqa: N802
        return _world.default

    @WORLD.setter
    def WORLD(cls, group: ProcessGroup | None) -> None:  # noqa: N802
        _world.default = group


class group(metaclass=_WorldMeta):  # noqa: N801
    """`group.WORLD` is the default group, or None."""


class GroupMember(metaclass=_WorldMeta):
    """`GroupMember.WORLD` is the default group; `NON_GROUP_MEMBER` stands for a group that this process isn't in."""

    NON_GROUP_MEMBER = -100


def is_initialized() -> bool:
    """Return whether the default group was made."""
    return _world.default is not None


def default_group() -> ProcessGroup:
    """The default group. ValueError if there is none."""
    if _world.default is None:
        raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
    return _world.default


def chosen(given: Any) -> ProcessGroup:
    """The group that an argument stands for."""
    if given is None:
        return default_group()
    if not isinstance(given, ProcessGroup):
        raise TypeError(f"expected a ProcessGroup, not {type(given).__name__}")
    return given


def not_in_group(given: Any, name: str) -> bool:
    """Whether this process isn't in the group, which is worth a warning."""
    if given != GroupMember.NON_GROUP_MEMBER or isinstance(given, ProcessGroup):
        return False
    warn(f"Running {name} on global rank {get_rank()} which does not belong to the given group.")
    return True


def checked_timeout(timeout: Any) -> timedelta:
    """A timeout, or the default one. TypeError."""
    if timeout is None:
        return default_pg_timeout
    if not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    return timeout


def _made(store: Store | None, rank: int, size: int, backend: str, timeout: timedelta, **named: Any) -> ProcessGroup:
    kind = backends.usable(backend)
    if kind == Backend.MPI:
        from minitensor.distributed.transport.mpi import communicator

        made = communicator(named.get("ranks"), named["name"], timeout)
    elif store is None:
        raise ValueError(f'a group of "{kind}" needs a store to meet in, and processes that MPI started have none')
    else:
        made = connections.connect(store, rank, size, timeout)
    if rank < 0:
        from minitensor.distributed.transport.mpi import world

        rank, size = world()
    group = ProcessGroup(store, rank, size, communicator=made, backend=kind, timeout=timeout, **named)
    if "minitensor.distributed.groups.exchange" in sys.modules:
        sys.modules["minitensor.distributed.groups.exchange"].renew(group)
    return group


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Store | None = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Make the default group, of all processes of the job; wait until all have come.

    They meet in a ``store``, or at the URL ``init_method``: ``env://`` (``RANK``, ``WORLD_SIZE``, ``MASTER_ADDR`` and
    ``MASTER_PORT``, which the launcher sets), ``tcp://host:port``, or ``file:///path``. The backend is "gloo" or
    "mpi": shared memory on one machine, and TCP or MPI's messages between several. Calls take ``timeout``, 30 minutes
    unless given, at most. ValueError where the group exists or something is missing.
    """
    if _world.default is not None:
        if _world.default._made_by == os.getpid():
            raise ValueError("trying to initialize the default process group twice!")
        _forget()  # a fork's parent has it
    if store is not None and init_method is not None:
        raise AssertionError("Cannot specify both init_method and store.")
    limit = checked_timeout(timeout)
    name = Backend(backend) if backend is not None else Backend(Backend.UNDEFINED)
    if name == Backend.UNDEFINED:
        name = Backend(Backend.GLOO)
    kind = backends.usable(name)
    if kind == Backend.MPI:
        if world_size != -1 or rank != -1:
            warn(
                f"For MPI backend, world_size ({world_size}) and rank ({rank}) are ignored since they are assigned by "
                "the MPI runtime."
            )
        _world.default = _made(None, -1, -1, kind, limit, name="0", description="default_pg")
    else:
        if store is not None:
            if world_size <= 0:
                raise AssertionError("world_size must be positive if using store")
            if rank < 0:
                raise AssertionError("rank must be non-negative if using store")
            if rank >= world_size:
                raise ValueError(f"rank {rank} is not in 0..{world_size - 1}, with world_size {world_size}")
        else:
            store, rank, world_size = next(rendezvous(init_method or "env://", rank, world_size, timeout=limit))
            store.set_timeout(limit)
        _world.store = store = PrefixStore("default_pg", store)
        part = PrefixStore("0", store)
        _world.default = _made(part, rank, world_size, name, limit, name="0", description="default_pg")
    _world.groups = [_world.default]
    _world.made = 1
    _show_rank_in_tracebacks(_world.default.rank())


def _show_rank_in_tracebacks(rank: int) -> None:
    """Of the exception that ends the program: which rank it is from; and note it for the launcher."""
    old = _world.hook = sys.excepthook

    def hook(kind: Any, value: Any, trace: Any) -> None:
        write_error_file("".join(traceback.format_exception(kind, value, trace)))
        # The others learn why, and need not find out that this process is gone.
        if "minitensor.distributed.transport.mpi" in sys.modules:
            sys.modules["minitensor.distributed.transport.mpi"].failed()
        for one in _world.groups:
            one._tell_of_end(f"it ended with {kind.__name__}: {value}")
        if old is not sys.__excepthook__:
            old(kind, value, trace)
            return
        for line in "".join(traceback.format_exception(kind, value, trace)).splitlines():
            sys.stderr.write(f"[rank{rank}]: {line}\n" if line else "\n")
        sys.stderr.flush()

    sys.excepthook = hook


def _forget() -> None:
    if _world.hook is not None:
        sys.excepthook = _world.hook
    _world.__init__()  # type: ignore[misc]


def destroy_process_group(group: Any = None) -> None:
    """Leave a group, or all of them: none can be used any more. Nobody is waited for."""
    if group == GroupMember.NON_GROUP_MEMBER and not isinstance(group, ProcessGroup):
        return
    given = chosen(group)
    if given not in _world.groups:
        raise ValueError("Invalid process group specified or has been destroyed")
    if given is not _world.default:
        given.shutdown()
        _world.groups.remove(given)
        return
    store = _world.store
    for one in reversed(_world.groups):
        one.shutdown()
    _forget()
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    # A store that this process serves is kept while others may still be on their way here.
    _kept_stores.append(store)


_kept_stores: list[Any] = []


def get_rank(group: Any = None) -> int:
    """Return this process's rank in a group, or -1 if it isn't in it."""
    if group == GroupMember.NON_GROUP_MEMBER and not isinstance(group, ProcessGroup):
        return -1
    return chosen(group).rank()


def get_world_size(group: Any = None) -> int:
    """Return how many processes a group has, or -1 if this one isn't in it."""
    if group == GroupMember.NON_GROUP_MEMBER and not isinstance(group, ProcessGroup):
        return -1
    return chosen(group).size()


def get_backend(group: Any = None) -> Backend:
    """Return the name of a group's backend."""
    if group == GroupMember.NON_GROUP_MEMBER and not isinstance(group, ProcessGroup):
        raise ValueError("Invalid process group specified")
    return Backend(chosen(group).name())


def get_backend_config(group: Any = None) -> str:
    """Return which backend a group has for which type of device, as text."""
    return str(BackendConfig(get_backend(group)))


def get_process_group_ranks(group: Any) -> list[int]:
    """Return the ranks, in the default group, of a group's processes."""
    return list(chosen(group)._ranks)


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Return the rank in a group of a rank in the default group. ValueError if that isn't in it."""
    ranks = chosen(group)._ranks
    if global_rank not in ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return ranks.index(global_rank)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Return the rank in the default group of a rank in a group. ValueError if there is none."""
    ranks = chosen(group)._ranks
    if not 0 <= group_rank < len(ranks):
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return ranks[group_rank]


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return the rank among this machine's processes: ``LOCAL_RANK``, or else ``fallback_rank``. RuntimeError."""
    for name in ("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK"):
        if name in os.environ:
            return int(os.environ[name])
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError(
        "LOCAL_RANK is not in the environment. Consider passing fallback_rank to allow `get_node_local_rank` to work, "
        "assuming you are not running in a multi-device context and want the code to run locally instead."
    )


def get_pg_count() -> int:
    """Return how many groups this process is in."""
    return len(_world.groups)


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """Make a group of some of the default group's processes; all of them if `ranks` is None.

    All processes of the default group must call this, in the same order, also those that won't be in it: they get
    ``GroupMember.NON_GROUP_MEMBER``. With ``use_local_synchronization`` only those that are in it call.
    """
    world = default_group()
    given = list(range(world.size())) if ranks is None else [int(rank) for rank in ranks]
    if len(given) > world.size():
        raise ValueError(
            "the new group's world size should be less or equal to the world size set by init_process_group"
        )
    for rank in given:
        if not 0 <= rank < world.size():
            raise ValueError("The new group's rank should be within the world_size set by init_process_group")
    if len(set(given)) != len(given):
        raise ValueError(f"a rank is in a group once, not as in {given}")
    if sort_ranks:
        given.sort()
    if use_local_synchronization:
        if world.rank() not in given:
            return None
        name = "local_" + hashlib.sha1(repr(given).encode()).hexdigest()
        count = _world.made_locally[name] = _world.made_locally.get(name, 0) + 1
        name += f"_{count}"
    else:
        name = str(_world.made)
        _world.made += 1
    limit = checked_timeout(timeout) if timeout is not None else world._timeout
    kind = backend if backend is not None else world.name()
    if kind == Backend.MPI or world.name() == Backend.MPI:
        made: Any = None
        if world.rank() in given:
            made = _made(
                _world.store, given.index(world.rank()), len(given), kind, limit, ranks=given, name=name,
                description=group_desc or "undefined",
            )  # fmt: skip
    else:
        assert _world.store is not None
        backends.usable(kind)
        made = None
        if world.rank() in given:
            part = PrefixStore(name, _world.store)
            made = _made(
                part, given.index(world.rank()), len(given), kind, limit, ranks=given, name=name,
                description=group_desc or "undefined",
            )  # fmt: skip
    if made is None:
        return GroupMember.NON_GROUP_MEMBER
    _world.groups.append(made)
    return made


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Make several groups that have no process in common; return this process's, or None, and all of them."""
    if not ranks_per_subgroup_list:
        raise ValueError("The arg 'ranks_per_subgroup_list' cannot be empty")
    seen: dict[int, int] = {}
    for i, ranks in enumerate(ranks_per_subgroup_list):
        for rank in ranks:
            if rank in seen:
                raise ValueError(f"Rank {rank} has appeared in both subgroup {seen[rank]} and {i}")
            seen[rank] = i
    groups, mine = [], None
    for ranks in ranks_per_subgroup_list:
        made = new_group(ranks, timeout, backend, pg_options, group_desc=group_desc)
        groups.append(made)
        if get_rank() in ranks:
            mine = made
    return mine, groups


def new_subgroups(
    group_size: int | None = None,
    group: Any = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[Any, list[Any]]:
    """Split a group, the default one unless given, into groups of `group_size` neighbours; as above."""
    if group_size is None:
        group_size = int(os.environ.get("LOCAL_WORLD_SIZE", 1))
    if group_size <= 0:
        raise ValueError(f"The arg 'group_size' ({group_size}) must be positive")
    ranks = chosen(group)._ranks
    if len(ranks) < group_size:
        raise ValueError(f"The arg 'group_size' ({group_size}) must not exceed the world size ({len(ranks)})")
    if len(ranks) % group_size:
        raise ValueError(f"The world size ({len(ranks)}) must be divisible by 'group_size={group_size}'")
    parts = [ranks[at : at + group_size] for at in range(0, len(ranks), group_size)]
    return new_subgroups_by_enumeration(parts, timeout, backend, pg_options, group_desc)


def split_group(
    parent_pg: Any = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: timedelta | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> Any:
    """Make groups of a group's ranks; return this process's, or None. All processes of the parent call this."""
    if not split_ranks:
        raise ValueError("split_ranks cannot be None or empty")
    parent = chosen(parent_pg)
    found = None
    for ranks in split_ranks:
        here = sorted(get_global_rank(parent, rank) for rank in ranks)
        if get_rank() in here:
            if found is not None:
                raise ValueError(f"rank {get_rank()} is in several of the groups")
            found = here
    if found is None:
        return None
    return new_group(found, timeout, backend, pg_options, use_local_synchronization=True, group_desc=group_desc)
