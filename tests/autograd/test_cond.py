"""`cond`: branches under vmap, and what a branch may not do."""

import math

import pytest

import minitensor as mt


def _sine_or_cosine(pred, a):
    return mt.cond(pred, lambda a: a.sin(), lambda a: a.cos(), (a,))


def test_each_slice_gets_its_own_branch():
    preds, values = mt.tensor([True, False]), mt.tensor([1.0, 2.0], requires_grad=True)
    found = mt.vmap(_sine_or_cosine)(preds, values)
    assert found.tolist() == pytest.approx([math.sin(1), math.cos(2)])
    found.sum().backward()
    assert values.grad.tolist() == pytest.approx([math.cos(1), -math.sin(2)])
    rows = mt.vmap(_sine_or_cosine, in_dims=(0, None))(preds[:, None], mt.tensor([1.0, 2.0]))
    assert rows[1].tolist() == pytest.approx([math.cos(1), math.cos(2)])


def test_structures_of_slices():
    found = mt.vmap(lambda p, a: mt.cond(p, lambda a: {"x": (a, 1)}, lambda a: {"x": (-a, 1)}, (a,))["x"][0])(
        mt.tensor([True, False]), mt.tensor([1.0, 2.0])
    )
    assert found.tolist() == [1.0, -2.0]
    for other in (lambda a: a[:1], lambda a: (a, a), lambda a: a.double()):
        with pytest.raises(RuntimeError, match="same structure with the same metadata"):
            mt.vmap(lambda p, a, other=other: mt.cond(p, lambda a: a + 0, other, (a,)), in_dims=(0, None))(
                mt.tensor([True, False]), mt.ones(2)
            )
    with pytest.raises(RuntimeError, match="single-element"):
        mt.vmap(_sine_or_cosine, in_dims=(0, None))(mt.ones(2, 3, dtype=mt.bool), mt.ones(2))


def test_a_pred_that_is_not_mapped_chooses_for_all():
    found = mt.vmap(lambda a: _sine_or_cosine(mt.tensor(False), a))(mt.tensor([1.0, 2.0]))
    assert found.tolist() == pytest.approx([math.cos(1), math.cos(2)])


def test_branches_do_not_write_to_operands():
    def writes(a, b):
        b["b"][0] += 1
        return a + b["b"]

    def computes(a, b):
        return a + b["b"]

    a, b = mt.ones(2), {"b": mt.ones(2)}
    with pytest.raises(RuntimeError, match=r"input mutation: a branch of cond.* wrote to operand 1"):
        mt.cond(mt.tensor(True), writes, computes, (a, b))
    assert mt.cond(mt.tensor(False), writes, computes, (a, b)).tolist() == [3.0, 2.0]
    assert mt.cond(True, lambda a, b: a.clone().add_(1), computes, (a, b)).tolist() == [2.0, 2.0]
