"""PyTorch's module of the same names, which some programs import from."""

from __future__ import annotations

from minitensor.distributed import *  # noqa: F403
from minitensor.distributed.groups.process_group import ProcessGroup
from minitensor.distributed.groups.shrink import SHRINK_ABORT as SHRINK_ABORT
from minitensor.distributed.groups.shrink import SHRINK_DEFAULT as SHRINK_DEFAULT
from minitensor.distributed.groups.world import GroupMember, default_group

_get_default_group = default_group


def _rank_not_in_group(group: object) -> bool:
    return group == GroupMember.NON_GROUP_MEMBER and not isinstance(group, ProcessGroup)
