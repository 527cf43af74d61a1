"""Groups that go on without some of their ranks."""

import os

import pytest
from ranks import Died, run

import minitensor as mt
import minitensor.distributed as dist
from minitensor.distributed.distributed_c10d import SHRINK_ABORT


def _default(rank):
    dist.new_group([0, 1, 2, 3])
    if rank in (1, 3):
        return None
    made = dist.shrink_group([3, 1])
    assert made is dist.group.WORLD
    x = mt.full((5,), float(rank + 1))
    dist.all_reduce(x)
    parts = dist.new_group([1])  # ranks are counted anew
    return (
        dist.get_rank(),
        dist.get_world_size(),
        x.tolist(),
        dist.get_pg_count(),
        dist.get_rank(parts),
        made.group_desc,
    )


def test_the_default_group(tmp_path):
    found = run(4, _default, tmp_path)
    assert found[1] is None
    assert found[3] is None
    assert found[0] == (0, 2, [4.0] * 5, 1, -1, "default:shrunken")
    assert found[2] == (1, 2, [4.0] * 5, 2, 0, "default:shrunken")


def _of_a_group(rank):
    group = dist.new_group([3, 1, 0], sort_ranks=False)
    if rank == 2:
        return "outside"
    if dist.get_rank(group) == 1:  # global rank 1
        return "excluded"
    made = dist.shrink_group([1], group)
    x = mt.tensor([float(rank)])
    dist.all_reduce(x, group=made)
    with pytest.raises(ValueError, match="destroyed"):
        dist.all_reduce(x, group=group)
    return dist.get_process_group_ranks(made), dist.get_rank(made), x.item(), dist.get_world_size()


def test_another_group(tmp_path):
    assert run(4, _of_a_group, tmp_path) == [([3, 0], 1, 3.0, 4), "excluded", "outside", ([3, 0], 0, 3.0, 4)]


def _after_a_death(rank):
    if rank == 1:
        os._exit(7)
    with pytest.raises(dist.DistBackendError):
        dist.all_reduce(mt.ones(1 << 16))
    dist.shrink_group([1], shrink_flags=SHRINK_ABORT)
    x = mt.ones(1)
    dist.all_reduce(x)
    return x.item()


def test_after_a_rank_has_died(tmp_path):
    found = run(3, _after_a_death, tmp_path)
    assert isinstance(found[1], Died)
    assert (found[0], found[2]) == (2.0, 2.0)


def _refused(rank):
    def text(kind, *given):
        with pytest.raises(kind) as error:
            dist.shrink_group(*given)
        return str(error.value)

    return [
        text(TypeError, (1,)), text(TypeError, [1.0]), text(ValueError, []), text(ValueError, [2]),
        text(ValueError, [1 - rank, 1 - rank]), text(ValueError, [0, 1]), text(RuntimeError, [rank]),
        text(ValueError, [1 - rank], None, 2),
    ]  # fmt: skip


def test_what_is_refused(tmp_path):
    assert run(2, _refused, tmp_path)[1] == [
        "ranks_to_exclude must be a list, but got tuple.",
        "All elements in ranks_to_exclude must be integers. Element at index 0 is float: 1.0",
        "ranks_to_exclude cannot be empty: give the ranks that the group is to go on without",
        "Rank 2 at index 0 is out of bounds for group size 2.",
        "Duplicate rank 0 found in ranks_to_exclude at index 1.",
        "Cannot exclude all 2 ranks from process group.",
        "Current rank 1 is in the exclusion list and should not call shrink_group(): only the ranks that stay call it",
        "Invalid shrink_flags value: 2. It is 0 (SHRINK_DEFAULT) or 1 (SHRINK_ABORT).",
    ]
