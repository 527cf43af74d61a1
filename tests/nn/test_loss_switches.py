"""`size_average` and `reduce` of every loss mean what their documentation has always said, and are warned of."""

import inspect
import itertools
import warnings

import pytest

import minitensor as mt
from minitensor.nn import functional as F

A, B = mt.linspace(-1.5, 2.0, 12).view(4, 3), mt.linspace(2.5, -1.0, 12).view(4, 3).sin()
SHARE, SIGNS = mt.linspace(0.1, 0.9, 12).view(4, 3), mt.tensor([1.0, -1.0, -1.0, 1.0])
CLASSES, ROWS_OF_SIGNS = mt.tensor([2, 0, 1, 1]), mt.tensor([1.0, -1.0]).repeat(6).view(4, 3)
LOSSES = {
    "binary_cross_entropy": (SHARE, SHARE.flip(0)),
    "binary_cross_entropy_with_logits": (A, SHARE),
    "cosine_embedding_loss": (A, B, SIGNS),
    "cross_entropy": (A, CLASSES),
    "hinge_embedding_loss": (A, ROWS_OF_SIGNS),
    "kl_div": (A, SHARE),
    "l1_loss": (A, B),
    "margin_ranking_loss": (A[:, 0], B[:, 0], SIGNS),
    "mse_loss": (A, B),
    "multi_margin_loss": (A, CLASSES),
    "multilabel_margin_loss": (A, mt.tensor([[2, -1, 0], [0, 1, -1], [-1, 0, 1], [1, 2, 0]])),
    "multilabel_soft_margin_loss": (A, SHARE.round()),
    "nll_loss": (A, CLASSES),
    "poisson_nll_loss": (A, SHARE),
    "smooth_l1_loss": (A, B),
    "soft_margin_loss": (A, ROWS_OF_SIGNS),
    "triplet_margin_loss": (A, B, SHARE),
}
SWITCHES = list(itertools.product((None, True, False), repeat=2))


def called(loss, **options):
    """The result and how often the switches were warned of."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        result = getattr(F, loss)(*LOSSES[loss], **options)
    return result.tolist(), sum("size_average and reduce" in str(one.message) for one in warned)


def meant(average, reduce, reduction):
    if average is reduce is None:
        return reduction
    if reduce is False:
        return "none"
    return "sum" if average is False else "mean"


def test_no_loss_is_missing():
    functions = {name: thing for name, thing in vars(F).items() if inspect.isroutine(thing) and name[0] != "_"}
    assert {name for name, f in functions.items() if "size_average" in inspect.signature(f).parameters} == set(LOSSES)


@pytest.mark.parametrize("loss", LOSSES)
def test_switches_stand_for_a_reduction(loss):
    expected = {kind: called(loss, reduction=kind)[0] for kind in ("none", "mean", "sum")}
    assert expected["mean"] != expected["sum"]
    for average, reduce in SWITCHES:
        for reduction in expected:
            got = called(loss, size_average=average, reduce=reduce, reduction=reduction)
            switched = (average, reduce) != (None, None)
            assert got == (expected[meant(average, reduce, reduction)], int(switched)), (average, reduce, reduction)
