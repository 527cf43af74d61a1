"""Arguments that number rows, pivots, offsets or classes: those out of range are refused, not wrapped around."""

import importlib
from typing import Any

import pytest

import minitensor as mt
from minitensor.nn import functional as F

BAD_OFFSETS = [[-5, 1], [0, -5], [1, 2], [0, 5], [0, 2, 1], [0, -5, 2]]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("last", [False, True])
def test_bags_begin_at_offsets_that_do_not_decrease(mode: str, last: bool) -> None:
    weight = mt.arange(8.0).reshape(4, 2)
    for offsets in BAD_OFFSETS:
        with pytest.raises(RuntimeError, match="offsets"):
            F.embedding_bag(mt.tensor([0, 1, 2]), weight, mt.tensor(offsets), mode=mode, include_last_offset=last)
    empty = mt.zeros(0, dtype=mt.int64)
    if last:
        with pytest.raises(RuntimeError, match="at least 1"):
            F.embedding_bag(mt.tensor([0, 1, 2]), weight, empty, mode=mode, include_last_offset=True)
    twice = F.embedding_bag(mt.tensor([0, 1, 2]), weight, mt.tensor([0, 1, 1]), mode=mode)
    assert twice[0].tolist() == [0.0, 1.0]
    assert twice[1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("name", ["minitensor", "torch"])
def test_what_is_behind_the_last_bag_is_in_none(name: str) -> None:
    lib = mt if name == "minitensor" else pytest.importorskip("torch")
    functional = importlib.import_module(lib.__name__ + ".nn.functional")
    weight = lib.arange(8.0).reshape(4, 2)
    for mode, expected in [("sum", [[2.0, 4.0]]), ("mean", [[1.0, 2.0]]), ("max", [[2.0, 3.0]])]:
        if name == "torch" and mode != "sum":
            continue  # PyTorch takes the rest for a part of the last bag there, or counts it
        bags = functional.embedding_bag(
            lib.tensor([0, 1, 2]), weight, lib.tensor([0, 2]), mode=mode, include_last_offset=True
        )
        assert bags.tolist() == expected
    scaled = functional.embedding_bag(
        lib.tensor([0, 1, 2]), weight, lib.tensor([0, 1, 2]), mode="sum", include_last_offset=True,
        per_sample_weights=lib.tensor([2.0, 3.0, 4.0]),
    )  # fmt: skip
    assert scaled.tolist() == [[0.0, 2.0], [6.0, 9.0]]


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "min", "prod"])
def test_segments_lie_between_offsets_that_do_not_decrease(reduce: str) -> None:
    data = mt.arange(4.0)
    for offsets in [[0, 3, 1, 4], [4, 0], [-1, 4], [0, 9]]:
        with pytest.raises(RuntimeError, match="offsets"):
            mt.segment_reduce(data, reduce, offsets=mt.tensor(offsets))
    with pytest.raises(RuntimeError, match="offsets"):
        mt.segment_reduce(data, reduce, lengths=mt.tensor([3, -1, 2]), unsafe=True)
    assert mt.segment_reduce(data, "sum", offsets=mt.tensor([0, 1, 1, 4])).tolist() == [0.0, 0.0, 6.0]
    # Each row has offsets of its own: the next row begins at 0 again.
    rows = mt.segment_reduce(data.reshape(2, 2), "sum", offsets=mt.tensor([[0, 2], [0, 1]]), axis=1)
    assert rows.tolist() == [[1.0], [2.0]]


Library = Any


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
@pytest.mark.parametrize("name", ["minitensor", "torch"])
def test_pivots_count_rows_from_one(name: str) -> None:
    lib: Library = mt if name == "minitensor" else pytest.importorskip("torch")
    factors, pivots = lib.linalg.lu_factor(lib.eye(3) + 0.5)
    right = lib.ones(3, 1)
    for wrong in [[0, 2, 3], [1, 2, 4], [-1, 2, 3], [1, 2, 1000000]]:
        given = lib.tensor(wrong, dtype=lib.int32)
        for solve in [
            lambda given=given: lib.linalg.lu_solve(factors, given, right),
            lambda given=given: lib.lu_unpack(factors, given),
        ]:
            with pytest.raises(RuntimeError, match=r"[Pp]ivots"):
                solve()
    assert lib.linalg.lu_solve(factors, pivots, right).reshape(-1).tolist() == pytest.approx([0.4] * 3)
    ldl, marks = lib.linalg.ldl_factor(lib.eye(3, dtype=lib.float64) + 0.5)
    for wrong in [[0, 2, 3], [1, 2, 4], [-9, 2, 3], [1, 2, -(2**31)]]:
        with pytest.raises(RuntimeError, match=r"[Pp]ivots"):
            lib.linalg.ldl_solve(ldl, lib.tensor(wrong, dtype=lib.int32), right.double())
    assert lib.linalg.ldl_solve(ldl, marks, right.double()).reshape(-1).tolist() == pytest.approx([0.4] * 3)


@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
@pytest.mark.parametrize("name", ["minitensor", "torch"])
def test_labels_are_classes_and_then_minus_one(name: str) -> None:
    lib: Library = mt if name == "minitensor" else pytest.importorskip("torch")
    loss = importlib.import_module(lib.__name__ + ".nn.functional").multilabel_margin_loss
    x = lib.arange(6.0).reshape(2, 3)
    assert loss(x, lib.tensor([[2, 0, -1], [0, -1, 1]])).item() == pytest.approx(1.1666667)
    for wrong in [[-4, 0, 1], [0, -2, -1], [0, -1, -7], [3, -1, -1]]:
        with pytest.raises((RuntimeError, IndexError)):
            loss(x, lib.tensor([wrong, [0, -1, -1]]))


@pytest.mark.parametrize("name", ["minitensor", "torch"])
def test_gradients_set_to_zero_have_no_history(name: str) -> None:
    lib: Library = mt if name == "minitensor" else pytest.importorskip("torch")
    optim = importlib.import_module(lib.__name__ + ".optim")
    layer = lib.nn.Linear(2, 1)
    for zero in [layer.zero_grad, optim.SGD(layer.parameters(), 0.1).zero_grad]:
        layer(lib.ones(1, 2)).pow(2).sum().backward(create_graph=True)
        assert layer.weight.grad.requires_grad
        kept = layer.weight.grad
        zero(set_to_none=False)
        assert layer.weight.grad is kept
        assert kept.grad_fn is None
        assert not kept.requires_grad
        assert kept.tolist() == [[0.0, 0.0]]
        layer.weight.grad = layer.bias.grad = None


@pytest.mark.parametrize("name", ["minitensor", "torch"])
def test_gradients_with_a_graph_are_copies_too(name: str) -> None:
    lib: Library = mt if name == "minitensor" else pytest.importorskip("torch")
    x = lib.ones(3, requires_grad=True)
    seed = lib.ones(3)
    (x + 0).backward(seed, create_graph=True)
    assert x.grad.data_ptr() != seed.data_ptr()
