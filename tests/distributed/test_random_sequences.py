"""Random sequences of collective calls of three ranks, against a model in NumPy that has all of them in one process."""

import numpy as np
import pytest
from ranks import run

import minitensor as mt
import minitensor.distributed as dist

SIZE = 3
DTYPES = ("float32", "float64", "int32", "int64", "uint8", "float16")
CALLS = ("all_reduce", "reduce", "broadcast", "all_gather", "gather", "scatter", "reduce_scatter", "all_to_all",
         "all_to_all_single", "all_gather_into_tensor", "reduce_scatter_tensor", "shift", "barrier")  # fmt: skip
OPS = {"SUM": np.add, "PRODUCT": np.multiply, "MIN": np.minimum, "MAX": np.maximum}


def steps(seed):
    """Calls, the same on all ranks: name, elements, dtype, root, operation, whether it goes on alone."""
    rng = np.random.default_rng(seed)
    for number in range(12):
        count = int(rng.choice([0, 1, 3, 100, 5000, 70_000], p=[0.05, 0.15, 0.2, 0.3, 0.2, 0.1]))
        yield (number, str(rng.choice(CALLS)), count, str(rng.choice(DTYPES)), int(rng.integers(SIZE)),
               str(rng.choice(list(OPS))), bool(rng.integers(2)))  # fmt: skip


def values(seed, number, rank, part, count, dtype):
    rng = np.random.default_rng((seed, number, rank, part))
    return rng.integers(0, 4, count).astype(dtype)


def narrow_last(arrays, op, dtype):
    wide = [array.astype(np.float32) if dtype == "float16" else array for array in arrays]
    total = wide[0]
    with np.errstate(over="ignore"):
        for array in wide[1:]:
            total = OPS[op](total, array)
    return total.astype(dtype)


def model(seed, step, rank):
    number, name, count, dtype, root, op, _ = step
    of = lambda r, part=0: values(seed, number, r, part, count, dtype)  # noqa: E731
    own = [of(r) for r in range(SIZE)]
    if name == "all_reduce":
        return narrow_last(own, op, dtype)
    if name == "reduce":
        return narrow_last(own, op, dtype) if rank == root else own[rank]
    if name == "broadcast":
        return own[root]
    if name in ("all_gather", "all_gather_into_tensor"):
        return np.concatenate(own)
    if name == "gather":
        return np.concatenate(own) if rank == root else own[rank]
    if name == "scatter":
        return of(root, rank)
    if name in ("reduce_scatter", "reduce_scatter_tensor"):
        return narrow_last([of(r, rank) for r in range(SIZE)], op, dtype)
    if name in ("all_to_all", "all_to_all_single"):
        return np.concatenate([of(r, rank) for r in range(SIZE)])
    return own[(rank - 1) % SIZE] if name == "shift" else own[rank]


def call(seed, step, rank):
    """Begin a call; its work or None, and the tensor that has the result."""
    number, name, count, dtype, root, op, alone = step
    own = mt.tensor(values(seed, number, rank, 0, count, dtype))
    parts = [mt.tensor(values(seed, number, rank, part, count, dtype)) for part in range(SIZE)]
    joined, kind = mt.zeros(SIZE * count, dtype=own.dtype), getattr(dist.ReduceOp, op)
    lines = list(joined.view(SIZE, count).unbind(0)) if count else [mt.zeros(0, dtype=own.dtype) for _ in parts]
    if name == "all_reduce":
        return dist.all_reduce(own, kind, async_op=alone), own
    if name == "reduce":
        return dist.reduce(own, root, kind, async_op=alone), own
    if name == "broadcast":
        return dist.broadcast(own, root, async_op=alone), own
    if name == "all_gather":
        return dist.all_gather(lines, own, async_op=alone), joined
    if name == "all_gather_into_tensor":
        return dist.all_gather_into_tensor(joined, own, async_op=alone), joined
    if name == "gather":
        work = dist.gather(own, lines if rank == root else None, root, async_op=alone)
        return work, joined if rank == root else own
    if name == "scatter":
        into = mt.zeros(count, dtype=own.dtype)
        return dist.scatter(into, parts if rank == root else None, root, async_op=alone), into
    if name == "reduce_scatter":
        into = mt.zeros(count, dtype=own.dtype)
        return dist.reduce_scatter(into, parts, kind, async_op=alone), into
    if name == "reduce_scatter_tensor":
        into = mt.zeros(count, dtype=own.dtype)
        return dist.reduce_scatter_tensor(into, mt.cat(parts), kind, async_op=alone), into
    if name == "all_to_all":
        return dist.all_to_all(lines, parts, async_op=alone), joined
    if name == "all_to_all_single":
        return dist.all_to_all_single(joined, mt.cat(parts), async_op=alone), joined
    if name == "shift":
        into = mt.zeros(count, dtype=own.dtype)
        sent = dist.isend(own, (rank + 1) % SIZE, tag=number)
        dist.recv(into, (rank - 1) % SIZE, tag=number)
        return sent, into
    return dist.barrier(async_op=alone), own


def sequences(rank, seeds):
    wrong = []
    for seed in seeds:
        begun = [(step, *call(seed, step, rank)) for step in steps(seed)]
        for step, work, result in begun:
            if work is not None:
                work.wait()
            if not np.array_equal(result.numpy(), model(seed, step, rank)):
                wrong.append((seed, step))
    return wrong


@pytest.mark.parametrize("transport", ["shared_memory", "tcp"])
def test_a_few_sequences(transport, tmp_path):
    assert run(SIZE, sequences, tmp_path, range(8), transport=transport) == [[], [], []]


@pytest.mark.exhaustive
@pytest.mark.parametrize("transport", ["shared_memory", "tcp"])
def test_many_sequences(transport, tmp_path):
    first = 1000 if transport == "tcp" else 100
    assert run(SIZE, sequences, tmp_path, range(first, first + 100), transport=transport) == [[], [], []]
