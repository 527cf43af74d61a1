"""Collective calls and messages, against what NumPy makes of the ranks' arrays."""

import numpy as np
import pytest
from ranks import run

import minitensor as mt
import minitensor.distributed as dist

TRANSPORTS = ("shared_memory", "tcp")
DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int16", "int32", "int64", "uint16", "uint32",
          "uint64", "bool", "complex64", "complex128")  # fmt: skip


def data(rank, count, dtype="float32", seed=0):
    rng = np.random.default_rng(1000 * seed + rank)
    values = rng.integers(0, 5, count) if "int" in dtype else rng.normal(size=count)
    return mt.tensor(values).to(getattr(mt, dtype))


def every_call(rank, size):
    found = {}
    for count in (0, 1, 5, 70_000):
        x = data(rank, count)
        dist.all_reduce(x)
        found["all_reduce", count] = x.numpy()
        x = data(rank, count)
        dist.reduce(x, size - 1, dist.ReduceOp.MAX)
        found["reduce", count] = x.numpy()
        x = data(rank, count)
        dist.broadcast(x, 1)
        found["broadcast", count] = x.numpy()
        parts = [mt.empty(count) for _ in range(size)]
        dist.all_gather(parts, data(rank, count))
        found["all_gather", count] = np.stack([part.numpy() for part in parts])
        joined = mt.empty(size, count)
        dist.all_gather_into_tensor(joined, data(rank, count))
        found["all_gather_into_tensor", count] = joined.numpy()
        parts = [mt.empty(count) for _ in range(size)] if rank == 1 else None
        dist.gather(data(rank, count), parts, 1)
        found["gather", count] = parts and np.stack([part.numpy() for part in parts])
        x = mt.empty(count)
        dist.scatter(x, [data(r, count, seed=3) for r in range(size)] if rank == 0 else None)
        found["scatter", count] = x.numpy()
        x = mt.empty(count)
        dist.reduce_scatter(x, [data(rank, count, seed=r) for r in range(size)])
        found["reduce_scatter", count] = x.numpy()
        x = mt.empty(count)
        dist.reduce_scatter_tensor(x, mt.cat([data(rank, count, seed=r) for r in range(size)]))
        found["reduce_scatter_tensor", count] = x.numpy()
        x = [mt.empty(count) for _ in range(size)]
        dist.all_to_all(x, [data(rank, count, seed=r) for r in range(size)])
        found["all_to_all", count] = np.stack([part.numpy() for part in x])
        x = mt.empty(count)
        work = dist.isend(data(rank, count), (rank + 1) % size, tag=count)
        assert dist.recv(x, (rank - 1) % size, tag=count) == (rank - 1) % size
        work.wait()
        found["message", count] = x.numpy()
    return found


def in_rank_order(arrays):
    total = arrays[0].copy()
    for array in arrays[1:]:
        total += array
    return total


@pytest.mark.parametrize(("transport", "size"), [("shared_memory", 2), ("shared_memory", 3), ("tcp", 3)])
def test_every_call(transport, size, tmp_path):
    ranks = run(size, every_call, tmp_path, size, transport=transport)
    for rank, found in enumerate(ranks):
        assert isinstance(found, dict), getattr(found, "shown", found)
        for (name, count), got in found.items():
            own = [data(r, count).numpy() for r in range(size)]
            seeds = [[data(r, count, seed=s).numpy() for s in range(size)] for r in range(size)]
            wanted = {
                "all_reduce": lambda own=own: in_rank_order(own),
                "reduce": lambda own=own, rank=rank: np.max(own, 0) if rank == size - 1 else own[rank],
                "broadcast": lambda own=own: own[1],
                "all_gather": lambda own=own: np.stack(own),
                "all_gather_into_tensor": lambda own=own: np.stack(own),
                "gather": lambda own=own, rank=rank: np.stack(own) if rank == 1 else None,
                "scatter": lambda rank=rank, count=count: data(rank, count, seed=3).numpy(),
                "reduce_scatter": lambda seeds=seeds, rank=rank: in_rank_order([one[rank] for one in seeds]),
                "reduce_scatter_tensor": lambda seeds=seeds, rank=rank: in_rank_order([one[rank] for one in seeds]),
                "all_to_all": lambda seeds=seeds, rank=rank: np.stack([one[rank] for one in seeds]),
                "message": lambda own=own, rank=rank: own[rank - 1],
            }[name]()
            np.testing.assert_array_equal(got, wanted, err_msg=f"{name} of {count} on rank {rank}")


OPS = ("SUM", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "AVG")


def reductions(rank, size):
    found = {}
    for dtype in DTYPES:
        for op in OPS:
            x = data(rank, 37, dtype)
            try:
                dist.all_reduce(x, getattr(dist.ReduceOp, op))
            except ValueError as error:
                found[dtype, op] = str(error)
            else:
                found[dtype, op] = x.tolist()
    return found


def model(dtype, op, size):
    ranks = [data(rank, 37, dtype) for rank in range(size)]
    narrow = dtype in ("float16", "bfloat16")
    total = ranks[0].float() if narrow else ranks[0]
    for other in ranks[1:]:
        other = other.float() if narrow else other
        total = {
            "SUM": lambda a=total, b=other: a | b if dtype == "bool" else a + b,
            "AVG": lambda a=total, b=other: a + b,
            "PRODUCT": lambda a=total, b=other: a & b if dtype == "bool" else a * b,
            "MIN": lambda a=total, b=other: a & b if dtype == "bool" else mt.minimum(a, b),
            "MAX": lambda a=total, b=other: a | b if dtype == "bool" else mt.maximum(a, b),
            "BAND": lambda a=total, b=other: a & b,
            "BOR": lambda a=total, b=other: a | b,
            "BXOR": lambda a=total, b=other: a ^ b,
        }[op]()
    if op == "AVG":
        total = mt.view_as_complex(mt.view_as_real(total) / size) if total.is_complex() else total / size
    return total.to(getattr(mt, dtype)).tolist()


def test_every_reduction_of_every_dtype(tmp_path):
    size = 3
    ranks = run(size, reductions, tmp_path, size)
    assert ranks[0] == ranks[1] == ranks[2], ranks
    for (dtype, op), got in ranks[0].items():
        whole = "int" in dtype or dtype == "bool"
        if (
            (op.startswith("B") and not whole)
            or (op == "AVG" and whole)
            or (op in ("MIN", "MAX") and "complex" in dtype)
        ):
            assert isinstance(got, str), (dtype, op)
        else:
            assert got == model(dtype, op, size), (dtype, op)


def objects(rank, size):
    gathered = [None] * size
    dist.all_gather_object(gathered, {"rank": rank, "tensor": mt.arange(rank)})
    shared = [None, None] if rank else ["a", mt.ones(2)]
    dist.broadcast_object_list(shared)
    scattered = [None]
    dist.scatter_object_list(scattered, ["x" * r for r in range(size)] if rank == 1 else None, src=1)
    at_last = [None] * size if rank == size - 1 else None
    dist.gather_object((rank, "y"), at_last, dst=size - 1)
    sent = [None, None]
    if rank == 0:
        dist.send_object_list(["s", [1, 2]], 1)
    elif rank == 1:
        assert dist.recv_object_list(sent, 0) == 0
    return [one["rank"] for one in gathered], shared[0], scattered[0], at_last, sent


def test_objects(tmp_path):
    size = 3
    found = run(size, objects, tmp_path, size)
    for rank, (gathered, shared, scattered, at_last, sent) in enumerate(found):
        assert gathered == [0, 1, 2]
        assert shared == "a"
        assert scattered == "x" * rank
        assert at_last == ([(r, "y") for r in range(size)] if rank == size - 1 else None)
        assert sent == (["s", [1, 2]] if rank == 1 else [None, None])


def groups(rank):
    pair = dist.new_group([2, 0])
    mine, _ = dist.new_subgroups_by_enumeration([[0], [1, 2]])
    x = mt.ones(3) * (rank + 1)
    if rank != 1:
        dist.all_reduce(x, group=pair)
        assert dist.get_process_group_ranks(pair) == [0, 2]
        assert dist.get_group_rank(pair, 2) == 1
        dist.broadcast(y := mt.full((2,), float(rank)), 2, group=pair)
        assert y.tolist() == [2, 2]
    else:
        assert pair == dist.GroupMember.NON_GROUP_MEMBER
        assert dist.get_rank(pair) == -1
    inner = mt.ones(1)
    dist.all_reduce(inner, group=mine)
    alone = dist.new_group([rank], use_local_synchronization=True)
    dist.barrier(alone)
    dist.destroy_process_group(alone)
    return x.tolist(), inner.item(), dist.get_pg_count()


def test_groups_of_some_ranks(tmp_path):
    assert run(3, groups, tmp_path) == [([4] * 3, 1, 3), ([2] * 3, 2, 2), ([4] * 3, 2, 3)]


def left_alone(rank):
    xs = [mt.full((50_000,), float(rank + i)) for i in range(5)]
    works = [dist.all_reduce(x, async_op=True) for x in xs]
    doubled = works[4].get_future().then(lambda future: future.value()[0] * 2)
    for work in works:
        assert work.wait()
        assert work.is_completed()
        assert work.is_success()
    dist.all_reduce(mt.ones(400_000), async_op=True)  # nobody waits, and nobody has its tensor
    # Both send first, more than fits on the way, and the tags come the other way round.
    big = [mt.full((300_000,), float(10 * rank + tag)) for tag in range(2)]
    sends = [dist.isend(one, 1 - rank, tag=tag) for tag, one in enumerate(big)]
    into = [mt.empty(300_000) for _ in range(2)]
    dist.recv(into[1], 1 - rank, tag=1)
    assert dist.recv(into[0]) == 1 - rank
    for work in sends:
        work.wait()
    views = mt.zeros(4, 6)
    dist.all_reduce(views.t()[1:3].add_(rank + 1))
    ring = dist.batch_isend_irecv([dist.P2POp(dist.isend, big[0], 1 - rank), dist.P2POp(dist.irecv, into[0], 1 - rank)])
    for work in ring:
        work.wait()
    gathered = [mt.empty(2), mt.empty(3)]
    dist.all_gather(gathered, mt.full((2 + rank,), float(rank)))
    out = mt.empty(3)
    sizes = [1, 2] if rank == 0 else [2, 1]
    dist.all_to_all_single(out, mt.arange(3.0) + 10 * rank, sizes, sizes)
    return {
        "reduced": [x[7].item() for x in xs],
        "then": doubled.wait()[0].item(),
        "messages": [one[5].item() for one in into],
        "view": views.tolist(),
        "gathered": [one.tolist() for one in gathered],
        "to all": out.tolist(),
    }


def test_calls_that_go_on_alone(tmp_path):
    for transport in TRANSPORTS:
        folder = tmp_path / transport
        folder.mkdir()
        found = run(2, left_alone, folder, transport=transport)
        for rank, got in enumerate(found):
            other = 1 - rank
            assert got == {
                "reduced": [1, 3, 5, 7, 9],
                "then": 18,
                "messages": [10 * other, 10 * other + 1],
                "view": [[0, 3, 3, 0, 0, 0]] * 4,
                "gathered": [[0, 0], [1, 1, 1]],
                "to all": [0, 10, 11] if rank == 0 else [1, 2, 12],
            }, got


def test_a_group_without_a_store_says_what_lacks():
    """As one of "gloo" in a job of MPI's."""
    from minitensor.distributed.groups import world

    with pytest.raises(ValueError, match='a group of "gloo" needs a store to meet in'):
        world._made(None, 0, 2, "gloo", world.default_pg_timeout, name="x")
