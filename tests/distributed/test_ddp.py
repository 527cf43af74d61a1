"""DistributedDataParallel: every option gives the bits of any other, eagerly and compiled; and gradients are means."""

import pytest
from ranks import run

import minitensor as mt
import minitensor.distributed as dist
from minitensor import nn
from minitensor.distributed.algorithms.ddp_comm_hooks import default_hooks
from minitensor.nn import functional as F
from minitensor.nn.parallel import DistributedDataParallel
from minitensor.nn.parallel.buckets import bucket_assignment


def model(seed):
    mt.manual_seed(seed)
    return nn.Sequential(
        nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 4)
    )


def batch(step, rank, size, rows=8):
    generator = mt.Generator()
    generator.manual_seed(step)
    x, y = mt.randn(rows, 8, generator=generator), mt.randint(0, 4, (rows,), generator=generator)
    return x[rank::size].contiguous(), y[rank::size].contiguous()


def train(rank, size, compiled=False, steps=4, sync_all=False, **options):
    ddp = DistributedDataParallel(model(rank), **options)
    optimizer = mt.optim.SGD(ddp.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(ddp(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    if compiled:
        step = mt.function(step, jit_compile=True)
    losses = []
    for number in range(steps):
        x, y = batch(number, rank, size)
        if number == 2 and not compiled and not sync_all:
            with ddp.no_sync():
                F.cross_entropy(ddp(x), y).backward()
            loss = F.cross_entropy(ddp(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        else:
            loss = step(x, y)
        losses.append(loss.item())
    return losses, [p.detach().numpy().tobytes() for p in ddp.parameters()]


OPTIONS = [
    {"bucket_cap_mb": 0.0001},
    {"gradient_as_bucket_view": True},
    {"find_unused_parameters": True},
    {"static_graph": True},
    {"bucket_cap_mb_list": [0.0001, 0.001], "forward_sync_buffers": False, "batched_grad_copy": True},
    {"bucket_cap_mb": 0.001, "static_graph": True, "gradient_as_bucket_view": True},
]


def all_ways(rank, size):
    found = [train(rank, size)] + [train(rank, size, **options) for options in OPTIONS]
    eager = train(rank, size, sync_all=True)
    with mt.jit.options(auto_jit=2, cpu_global_jit=True):
        recorded = train(rank, size, sync_all=True)
    return found, eager, recorded, train(rank, size, compiled=True)


def test_every_option_and_compiled_steps_give_the_same_bits(tmp_path):
    results = run(2, all_ways, tmp_path, 2)
    for found, eager, recorded, compiled in results:
        assert all(one == found[0] for one in found[1:])
        assert eager == recorded == compiled
        # Parameters are the same in all processes; losses are their own.
        assert found[0][1] == results[0][0][0][1]
    assert results[0][1][0] != results[1][1][0]


def against_one(rank, size):
    mt.manual_seed(3)
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    ddp = DistributedDataParallel(net)
    x, y = batch(0, rank, size)
    F.cross_entropy(ddp(x), y).backward()
    return list(ddp.state_dict()), [p.grad.numpy() for p in ddp.parameters()]


def test_gradients_are_those_of_the_whole_batch(tmp_path):
    mt.manual_seed(3)
    net = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4))
    x, y = batch(0, 0, 1)
    F.cross_entropy(net(x), y).backward()
    for names, gradients in run(2, against_one, tmp_path, 2):
        assert names == [f"module.{name}" for name in net.state_dict()]
        for mine, whole in zip(gradients, net.parameters(), strict=True):
            mt.testing.assert_close(mt.tensor(mine), whole.grad, rtol=1e-5, atol=1e-6)


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.both, self.other, self.nobody = nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x, other):
        return self.other(self.both(x)) if other else self.both(x)


def unused(rank):
    ddp = DistributedDataParallel(Branches(), find_unused_parameters=True)
    for number in range(3):
        ddp.zero_grad()
        ddp(mt.ones(1, 2), (rank + number) % 2).sum().backward()
    found = [None if p.grad is None else p.grad.numpy().tobytes() for p in ddp.parameters()]
    # Without the option it is an error, said when the next pass begins.
    ddp = DistributedDataParallel(Branches())
    ddp(mt.ones(1, 2), rank).sum().backward()
    with pytest.raises(RuntimeError, match=r"did not receive grad for rank \d: .*nobody") as error:
        ddp(mt.ones(1, 2), rank)
    return found, "other.weight" in str(error.value)


def test_parameters_that_play_no_part(tmp_path):
    (mine, named), (theirs, named_there) = run(2, unused, tmp_path)
    assert mine == theirs
    assert None not in mine[:4]
    assert mine[4:] == [None, None]
    assert (named, named_there) == (True, False)


def uneven(rank):
    found = []
    for whole in (True, False):
        ddp = DistributedDataParallel(model(0), bucket_cap_mb=0.001)
        optimizer = mt.optim.SGD(ddp.parameters(), lr=0.1)
        with ddp.join(divide_by_initial_world_size=whole):
            for number in range(2 * rank):
                optimizer.zero_grad()
                x, y = batch(number, 0, 1)
                F.cross_entropy(ddp(x), y).backward()
                optimizer.step()
        found.append([t.numpy().tobytes() for t in ddp.state_dict().values()])
    ddp = DistributedDataParallel(nn.Linear(2, 2))

    def passes():
        with ddp.join(throw_on_early_termination=True):
            for _ in range(1 + rank):
                ddp(mt.ones(1, 2)).sum().backward()

    with pytest.raises(RuntimeError, match="exhausted") as error:
        passes()
    return found, str(error.value)


def alone(steps):
    net = model(0)
    optimizer = mt.optim.SGD(net.parameters(), lr=0.1)
    for number in range(steps):
        optimizer.zero_grad()
        x, y = batch(number, 0, 1)
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    return [t.numpy().tobytes() for t in net.state_dict().values()]


def test_join_with_different_numbers_of_batches(tmp_path):
    results = run(2, uneven, tmp_path)
    assert results[0][0] == results[1][0]
    # Rank 0 had none: of the mean over those that have some, rank 1 sees its own gradients.
    assert results[0][0][1] == alone(2)
    assert results[0][0][0] != alone(2)
    assert results[0][1] == "Rank 0 exhausted all inputs."


def buffers(rank):
    """Those of the first process count before a forward pass, unless that is off."""
    found = []
    for synced in (True, False):
        ddp = DistributedDataParallel(nn.BatchNorm1d(2, momentum=0.25), forward_sync_buffers=synced)
        ddp.module.running_mean.fill_(4.0 * (rank + 1))
        ddp(mt.zeros(3, 2))
        found.append(ddp.module.running_mean.tolist())
    return found


def test_buffers_are_those_of_the_first(tmp_path):
    assert run(2, buffers, tmp_path) == [[[3.0, 3.0], [3.0, 3.0]], [[3.0, 3.0], [6.0, 6.0]]]


def hooks(rank):
    found = []
    for hook in (
        None,
        default_hooks.allreduce_hook,
        default_hooks.bf16_compress_hook,
        default_hooks.fp16_compress_hook,
    ):
        mt.manual_seed(0)
        ddp = DistributedDataParallel(nn.Linear(4, 3))
        if hook is not None:
            ddp.register_comm_hook(None, hook)
        ddp(mt.ones(2, 4) * (rank + 1)).sum().backward()
        found.append([p.grad.numpy() for p in ddp.parameters()])
    seen = []

    def spy(state, bucket):
        seen.append((state, bucket.index(), bucket.is_last(), [tuple(g.shape) for g in bucket.gradients()]))
        return default_hooks.allreduce_hook(None, bucket)

    ddp = DistributedDataParallel(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 2)), bucket_cap_mb=0.00002)
    ddp.register_comm_hook("state", spy)
    ddp(mt.ones(1, 4)).sum().backward()
    with pytest.raises(RuntimeError, match="only be called once"):
        ddp.register_comm_hook(None, spy)
    return found, seen


def test_communication_hooks(tmp_path):
    for found, seen in run(2, hooks, tmp_path):
        for gradients in found:
            assert (gradients[0] == 3.0).all()
            assert (gradients[1] == 2.0).all()
        assert [(state, index, last) for state, index, last, _ in seen] == [
            ("state", k, k == len(seen) - 1) for k in range(len(seen))
        ]
        assert sorted(shape for *_, shapes in seen for shape in shapes) == [(2,), (2, 4), (4,), (4, 4)]


def memory_of_gradients(rank):
    found = []
    for options in ({}, {"gradient_as_bucket_view": True}):
        ddp = DistributedDataParallel(nn.Linear(4, 2), **options)
        ddp(mt.ones(1, 4)).sum().backward()
        places = {p.grad.untyped_storage().data_ptr() for p in ddp.parameters()}
        flags = ddp.gradient_as_bucket_view, ddp.static_graph, ddp.find_unused_parameters, ddp.forward_sync_buffers
        found.append((len(places), flags))
    return found


def test_gradients_have_memory_of_their_own_unless_that_of_buckets_is_asked_for(tmp_path):
    for own, shared in run(2, memory_of_gradients, tmp_path):
        assert own == (2, (False, False, False, True))
        assert shared == (1, (True, False, False, True))


def refusals(rank):
    with pytest.raises(RuntimeError, match=r"rank 1 has weight of .*\[2, 3\], rank 0 weight of .*\[2, 2\]"):
        DistributedDataParallel(nn.Linear(2 + rank, 2))
    with pytest.raises(ValueError, match="only work with single-device"):
        DistributedDataParallel(nn.Linear(2, 2), device_ids=[0])
    with pytest.raises(ValueError, match="contain a single element"):
        DistributedDataParallel(nn.Linear(2, 2), device_ids=[0, 1])
    with pytest.raises(RuntimeError, match="doesn't have any parameter"):
        DistributedDataParallel(nn.ReLU())
    with pytest.raises(ValueError, match="bucket_cap_mb"):
        DistributedDataParallel(nn.Linear(2, 2), bucket_cap_mb=0)
    ddp = DistributedDataParallel(nn.Linear(2, 2))
    loss = ddp(mt.ones(1, 2)).sum()
    loss.backward(retain_graph=True)
    loss.backward()  # nothing is exchanged: no forward pass has said so
    ddp = DistributedDataParallel(nn.Embedding(4, 2, sparse=True))
    with pytest.raises(RuntimeError, match="gradient of weight is sparse"):
        ddp(mt.tensor([1])).sum().backward()
    dist.barrier()
    return True


def test_what_is_refused(tmp_path):
    assert run(2, refusals, tmp_path) == [True, True]
    with pytest.raises(ValueError, match="Default process group has not been initialized"):
        DistributedDataParallel(nn.Linear(2, 2))


def test_assignment_to_buckets():
    parameters = [mt.zeros(n) for n in (10, 20, 30, 40, 5)] + [mt.zeros(3, dtype=mt.float64)]
    assert bucket_assignment(parameters, [5, 4, 3, 2, 1, 0], (100, 200)) == [[5], [4, 3], [2, 1], [0]]
