"""`all_reduce` of small tensors, which the engine does at once where the other ranks are not late."""

import hashlib
import random
import threading

import numpy as np
import pytest
from ranks import run
from recording import flushes, recorded

import minitensor as mt
import minitensor.distributed as dist
from minitensor.distributed.groups.process_group import described
from minitensor.distributed.groups.reduce_op import RedOpType

DTYPES = ("float32", "float64", "float16", "bfloat16", "int8", "uint8", "int32", "int64", "bool", "complex64")
OPS = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BOR")


def data(rank, count, dtype):
    rng = np.random.default_rng((rank, count))
    return mt.tensor(rng.normal(size=count) * 3).to(getattr(mt, dtype))


def takes(op, dtype):
    real = not dtype.startswith(("bool", "complex"))
    whole = dtype == "bool" or "int" in dtype
    return {"AVG": not whole, "MIN": real, "MAX": real, "BOR": whole}.get(op, True)


def bits(tensor):
    return tensor.numpy().tobytes() if tensor.dtype != mt.bfloat16 else tensor.view(mt.int16).numpy().tobytes()


def both_ways(rank, swapped):
    """The same calls, at once and by the general way; with `swapped` the odd ranks do it the other way round."""
    found = []
    for count in (1, 3, 1000, 1365, 4096, 4097):
        for dtype in DTYPES:
            for op in OPS:
                if not takes(op, dtype):
                    continue
                kind = getattr(dist.ReduceOp, op)
                first, second = data(rank, count, dtype), data(rank, count, dtype)
                alone = swapped and rank % 2 == 1
                for x in (first, second):
                    work = dist.all_reduce(x, kind, async_op=alone)
                    if work is not None:
                        work.wait()
                    alone = not alone
                assert bits(first) == bits(second), (count, dtype, op)
                found.append(bits(first))
    return hashlib.sha256(b"".join(found)).hexdigest()


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("swapped", [False, True])
def test_both_ways_have_the_same_bits(size, swapped, tmp_path):
    found = run(size, both_ways, tmp_path, swapped)
    assert isinstance(found[0], str), getattr(found[0], "shown", found[0])
    assert len(set(found)) == 1, found


def many(rank, size, seed):
    """Calls of random sizes, through the end of the ring many times, some without waiting for those before."""
    choose = random.Random(seed)
    works, total = [], 0
    for step in range(1500):
        count = choose.choice((1, 17, 500, 1024, 1365))
        x = mt.full((count,), float(rank + step))
        if choose.random() < 0.3:
            works.append((dist.all_reduce(x, async_op=True), x, step))
            continue
        dist.all_reduce(x)
        wanted = sum(range(size)) + size * step
        assert (x == wanted).all(), (step, x[0], wanted)
        total += 1
    for work, x, step in works:
        work.wait()
        assert (x == sum(range(size)) + size * step).all(), step
    return total, dist.group.WORLD._get_sequence_number_for_group()


@pytest.mark.parametrize("size", [2, 3])
def test_many_calls(size, tmp_path):
    for found in run(size, many, tmp_path, size, 5):
        assert isinstance(found, tuple), getattr(found, "shown", found)
        assert found[1] == 1500


def far_ahead(rank):
    """Rank 0 fills the ring with calls that it doesn't wait for before the other one makes any."""
    tensors = [mt.full((1000,), float(rank + 1)) for _ in range(600)]
    if rank == 0:
        works = [dist.all_reduce(x, async_op=True) for x in tensors]
        dist.send(mt.ones(1), 1)
        for work in works:
            work.wait()
    else:
        dist.recv(mt.empty(1), 0)
        for x in tensors:
            dist.all_reduce(x)
    return all(bool((x == 3).all()) for x in tensors)


def test_a_rank_that_is_far_ahead(tmp_path):
    assert run(2, far_ahead, tmp_path) == [True, True]


def late(rank):
    """One rank comes when the other has long given up looking, again and again."""
    found = []
    for step in range(20):
        x = mt.full((100,), float(step))
        if rank == step % 2:
            dist.recv(mt.empty(1), 1 - rank)
        else:
            # What the other one waits for goes when this one is in its call, or before.
            dist.isend(mt.ones(1), 1 - rank)
        dist.all_reduce(x)
        found.append(x[-1].item())
    return found


def test_a_rank_that_is_late(tmp_path):
    assert run(2, late, tmp_path) == [[2.0 * step for step in range(20)]] * 2


def of_threads(rank):
    """Each thread has a group of its own; the engine of one doesn't hold up the other."""
    groups = [dist.new_group([0, 1]) for _ in range(2)]
    sums = [[], []]

    def calls(number):
        for step in range(200):
            x = mt.full((50,), float(step + number))
            dist.all_reduce(x, group=groups[number])
            sums[number].append(x[0].item())

    threads = [threading.Thread(target=calls, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sums


def test_calls_of_two_threads(tmp_path):
    wanted = [[2.0 * (step + number) for step in range(200)] for number in range(2)]
    assert run(2, of_threads, tmp_path) == [wanted, wanted]


def is_at_once(rank):
    """What the engine says: done, begun, or left to the general way."""
    engine = dist.group.WORLD._communicator
    call = lambda x: engine.reduce_at_once("all_reduce(SUM, ", x, 0, 20.0)  # noqa: E731
    found = {}
    x = mt.ones(4)
    before = x._version
    assert call(x) is True  # alone, nobody is late
    found["writes"] = x._version - before
    found["columns"] = call(mt.ones(4, 4).t()[1:])
    found["large"] = call(mt.ones(20_000))
    found["meta"] = call(mt.ones(4, device="meta"))
    found["empty"] = call(mt.ones(0))
    array = np.ones(4, np.float32)
    array.flags.writeable = False
    found["read-only"] = call(mt.from_numpy(array))
    with pytest.raises(TypeError, match=r"ReduceOp\.BOR does not take float32"):
        engine.reduce_at_once("all_reduce(BOR, ", x, int(RedOpType.BOR), 20.0)
    work = x.clone().requires_grad_()
    squares = (work * work).sum()
    with mt.no_grad():
        dist.all_reduce(work)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squares.backward()
    return found


def test_what_is_left_to_the_general_way(tmp_path):
    (found,) = run(1, is_at_once, tmp_path)
    assert isinstance(found, dict), getattr(found, "shown", found)
    assert found.pop("writes") == 1
    assert set(found.values()) == {None}, found


def of_recorded(rank):
    """What is recorded runs before it is sent, and what was sent is read by what is recorded."""
    x = mt.full((8,), float(rank))
    with recorded(), flushes() as reasons:
        y = x * 3 + 1
        dist.all_reduce(y)
        z = y * 2
    return z.tolist(), [reason for reason, _ in reasons]


def test_recorded_values(tmp_path):
    assert run(2, of_recorded, tmp_path) == [([10.0] * 8, ["a call to other processes"])] * 2


@pytest.mark.parametrize("dtype", [*DTYPES, "complex128", "uint16", "float8_e4m3fn"])
def test_texts_name_dtypes_as_python_does(dtype):
    tensor = mt.zeros(2, 3, dtype=getattr(mt, dtype))
    assert described(tensor) == f"{str(tensor.dtype).rpartition('.')[2]}[6]" == f"{dtype}[6]"
