"""ZeroRedundancyOptimizer: the bits of the optimizer that it shares out, its state dict, and uneven inputs."""

import pytest
from ranks import run

import minitensor as mt
from minitensor import nn
from minitensor.distributed.algorithms.join import Join
from minitensor.distributed.optim import ZeroRedundancyOptimizer
from minitensor.nn.parallel import DistributedDataParallel


def trained(rank, make, between=None):
    mt.manual_seed(0)
    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)))
    optimizer = make([{"params": ddp.module[0].parameters(), "lr": 0.02}, {"params": ddp.module[2].parameters()}])
    schedule = mt.optim.lr_scheduler.StepLR(optimizer, 2, gamma=0.5)
    for number in range(4):
        if number == 2 and between is not None:
            between(optimizer)
        mt.manual_seed(10 * number + rank)
        optimizer.zero_grad()
        ddp(mt.randn(4, 6)).pow(2).sum().backward()
        optimizer.step()
        schedule.step()
    return ddp, optimizer


def bits(module):
    return [p.detach().numpy().tobytes() for p in module.parameters()]


def same_state(rank, size):
    def whole(params):
        return mt.optim.Adam(params, lr=0.01)

    kept = []

    def reload(optimizer):
        optimizer.consolidate_state_dict(0)
        states = [optimizer.state_dict() if rank == 0 else None]
        mt.distributed.broadcast_object_list(states, 0)
        optimizer.load_state_dict(states[0])
        kept.append(len(optimizer.optim.state))

    ddp, adam = trained(rank, whole)
    for options, between in (({}, None), ({"parameters_as_bucket_view": True}, None), ({}, reload)):
        other, zero = trained(
            rank, lambda params, o=options: ZeroRedundancyOptimizer(params, mt.optim.Adam, lr=0.01, **o), between
        )
        assert bits(other) == bits(ddp)
        zero.consolidate_state_dict(size - 1)
        if rank != size - 1:
            with pytest.raises(RuntimeError, match="has not been consolidated on this rank"):
                zero.state_dict()
            continue
        found, want = zero.state_dict(), adam.state_dict()
        assert found["param_groups"] == want["param_groups"]
        assert list(found["state"]) == list(want["state"])
        for number, state in want["state"].items():
            assert all((found["state"][number][name] == value).all() for name, value in state.items())
    return kept[0]


@pytest.mark.parametrize("size", [2, 5])
def test_one_optimizer_shared_out_has_its_bits(size, tmp_path):
    shares = run(size, same_state, tmp_path, size)
    assert sum(shares) == 4
    assert len(set(shares)) <= 3


def uneven(rank):
    mt.manual_seed(0)
    ddp = DistributedDataParallel(nn.Linear(4, 2))
    zero = ZeroRedundancyOptimizer(ddp.parameters(), mt.optim.SGD, lr=0.1)
    with Join([ddp, zero]):
        for _ in range(1 + rank):
            zero.zero_grad()
            ddp(mt.ones(2, 4)).sum().backward()
            zero.step()
    with pytest.raises(NotImplementedError, match="overlap_with_ddp"):
        ZeroRedundancyOptimizer(ddp.parameters(), mt.optim.SGD, overlap_with_ddp=True, lr=0.1)
    return bits(ddp)


def test_join_with_an_optimizer(tmp_path):
    first, second = run(2, uneven, tmp_path)
    assert first == second
