"""`distributed.nn.functional`: results and gradients, which are those of PyTorch's functions with gloo."""

import pytest
from ranks import run

import minitensor as mt
import minitensor.distributed as dist
from minitensor.distributed.nn import functional

X = [[0.0, 1.0], [10.0, 11.0]]  # what the ranks have
W = [[1.0, 2.0], [101.0, 102.0]]  # what their results are multiplied with


def plus(*lists):
    return [sum(numbers) for numbers in zip(*lists, strict=True)]


def each_of(rank):
    def gave(outs, leaves):
        outs = outs if isinstance(outs, tuple) else (outs,)
        sum((out * mt.tensor(W[rank]) * (i + 1)).sum() for i, out in enumerate(outs)).backward()
        return [out.tolist() for out in outs], [leaf.grad.tolist() for leaf in leaves]

    def leaf(more=0.0):
        return (mt.tensor(X[rank]) + more).requires_grad_()

    found = {}
    for name, call in {
        "all_reduce": functional.all_reduce,
        "mean": lambda x: functional.all_reduce(x, dist.ReduceOp.AVG),
        "broadcast": lambda x: functional.broadcast(x, 1),
        "all_gather": functional.all_gather,
        "gather": lambda x: functional.gather(x, 1),
        "all_to_all_single": lambda x: functional.all_to_all_single(mt.zeros(2), x),
    }.items():
        x = leaf()
        found[name] = gave(call(x), [x])
    x = leaf()
    summed = functional.reduce(x, 0)
    found["reduce"] = gave(summed if rank == 0 else summed * 0, [x])
    out, outs = mt.zeros(2), [mt.zeros(2), mt.zeros(2)]
    for name, call in {
        "scatter": lambda xs: functional.scatter(xs, 1),
        "reduce_scatter": lambda xs: functional.reduce_scatter(out, xs),
        "all_to_all": lambda xs: functional.all_to_all(outs, xs),
    }.items():
        xs = [leaf(), leaf(100.0)]
        found[name] = gave(call(xs), xs)
    assert [out.tolist()] == found["reduce_scatter"][0]
    assert [one.tolist() for one in outs] == found["all_to_all"][0]
    x = mt.arange(3.0).requires_grad_()  # one row for rank 0, two for rank 1
    rows = 2 * (rank + 1)
    uneven = functional.all_to_all_single(mt.zeros(rows), x, [rows // 2] * 2, [1, 2])
    (uneven * (rank + 1)).sum().backward()
    found["uneven"] = uneven.tolist(), x.grad.tolist()
    return found


def test_results_and_gradients_of_two_ranks(tmp_path):
    for rank, found in enumerate(run(2, each_of, tmp_path)):
        nothing = [0.0, 0.0]
        assert found["all_reduce"] == ([plus(*X)], [plus(*W)])
        assert found["mean"] == ([[n / 2 for n in plus(*X)]], [[n / 2 for n in plus(*W)]])
        assert found["broadcast"] == ([X[1]], [plus(*W) if rank == 1 else nothing])
        assert found["all_gather"] == (X, [[n * (rank + 1) for n in plus(*W)]])
        assert found["gather"] == (X if rank == 1 else [nothing] * 2, [[n * (rank + 1) for n in W[1]]])
        assert found["reduce"] == ([plus(*X) if rank == 0 else nothing], [W[0]])
        assert found["all_to_all_single"] == ([[X[0][rank], X[1][rank]]], [[W[0][rank], W[1][rank]]])
        assert found["scatter"] == ([plus(X[1], [100 * rank] * 2)], W if rank == 1 else [nothing] * 2)
        assert found["reduce_scatter"] == ([plus(*X, [200 * rank] * 2)], W)
        assert found["all_to_all"] == (
            [plus(x, [100 * rank] * 2) for x in X], [[n * (rank + 1) for n in w] for w in W],
        )  # fmt: skip
        assert found["uneven"] == ([0.0, 0.0] if rank == 0 else [1.0, 2.0, 1.0, 2.0], [1.0, 2.0, 2.0])


def wrong(rank):
    with pytest.raises(ValueError, match=r"one shape, got \[\(1,\), \(2,\)\]"):
        functional.scatter([mt.ones(1), mt.ones(2)])
    with pytest.raises(ValueError, match="BAND with non-integral"):
        functional.all_reduce(mt.ones(1), dist.ReduceOp.BAND)
    return True


def test_wrong_arguments(tmp_path):
    assert run(1, wrong, tmp_path) == [True]
