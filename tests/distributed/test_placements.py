"""The names by which libraries ask for split tensors, and the arithmetic of placements."""

import itertools
from types import SimpleNamespace

import pytest

from minitensor.distributed import checkpoint, fsdp
from minitensor.distributed.checkpoint import hf_storage
from minitensor.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor
from minitensor.distributed.tensor._utils import compute_local_shape_and_global_offset
from minitensor.distributed.tensor.placement_types import _StridedShard


def test_placements_are_values() -> None:
    assert Shard(1) == Shard(dim=1) != Shard(0)
    assert len({Shard(1), Shard(1), Replicate(), Partial()}) == 3
    assert Shard(1).is_shard(1)
    assert not Shard(1).is_shard(0)
    assert not Shard(1).is_replicate()
    assert Replicate().is_replicate()
    assert Partial().is_partial("sum")
    assert not Partial("avg").is_partial("sum")
    assert _StridedShard(0, split_factor=2) == _StridedShard(0, sf=2) != Shard(0)
    assert not _StridedShard(0, sf=2).is_shard()


def test_what_is_not_there_says_so() -> None:
    mesh = SimpleNamespace(shape=(2,), get_coordinate=lambda: [0])
    for call in (DTensor, DTensor.from_local, distribute_tensor, distribute_module, fsdp.fully_shard, fsdp.FSDPModule,
                 checkpoint.save, checkpoint.load, hf_storage.HuggingFaceStorageReader,
                 hf_storage.HuggingFaceStorageWriter):  # fmt: skip
        with pytest.raises(NotImplementedError, match=r"split over ranks|whole on every rank|of all ranks"):
            call(None)
    with pytest.raises(NotImplementedError, match="_StridedShard"):
        compute_local_shape_and_global_offset((4,), mesh, [_StridedShard(0, sf=2)])  # type: ignore[arg-type]


@pytest.mark.torch
def test_parts_are_pytorchs() -> None:
    pytest.importorskip("torch")
    from torch.distributed.tensor import _utils, placement_types

    ours, theirs = ([m.Shard(0), m.Shard(1), m.Replicate(), m.Partial("avg")] for m in (
        SimpleNamespace(Shard=Shard, Replicate=Replicate, Partial=Partial), placement_types))  # fmt: skip
    assert [repr(one) for one in ours] == [repr(one) for one in theirs]
    assert [str(one) for one in ours] == [str(one) for one in theirs]
    assert repr(_StridedShard(0, sf=2)) == repr(placement_types._StridedShard(0, sf=2))
    assert str(_StridedShard(0, sf=2)) == str(placement_types._StridedShard(0, sf=2))
    for shape, coordinate in itertools.product(((5, 7), (1, 12), (0, 3)), itertools.product(range(3), range(2))):
        for pair in itertools.product(range(4), repeat=2):
            mesh = SimpleNamespace(shape=(3, 2), get_coordinate=lambda place=coordinate: list(place))
            assert compute_local_shape_and_global_offset(
                shape, mesh, [ours[n] for n in pair]
            ) == _utils._compute_local_shape_and_global_offset(
                shape, (3, 2), list(coordinate), [theirs[n] for n in pair]
            ), (shape, coordinate, pair)
