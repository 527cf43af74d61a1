"""Arguments at the edge of what PyTorch 2.13 takes: taken here too, with its results, or refused as there."""

from contextlib import nullcontext

import pytest

import minitensor as mt
from minitensor.nn import functional as F

MODES = {"eager": nullcontext, "recorded": mt.jit_scope}


def _compiled(call):
    return mt.function(call, jit_compile=True)()


def _x():
    return mt.arange(24.0).reshape(2, 3, 4)


# A call, and what PyTorch gives.
TAKEN = {
    "two ellipses": (lambda: _x()[..., ...].sum(), 276.0),
    "a number between ellipses": (lambda: mt.arange(6.0).reshape(2, 3)[..., 1, ...], [1.0, 4.0]),
    "numbers around ellipses": (lambda: _x()[1, ..., 0, ..., 2], 14.0),
    "None between ellipses": (lambda: _x()[..., None, ...].reshape(-1)[-1], 23.0),
    "an index between ellipses": (lambda: _x()[..., mt.tensor([1]), ...].reshape(-1), [1.0, 5, 9, 13, 17, 21]),
    "a smoothing below zero": (
        lambda: F.cross_entropy(mt.arange(6.0).reshape(2, 3), mt.tensor([0, 2]), label_smoothing=-0.5),
        1.4076059,
    ),
    "a smoothing that is no number": (
        lambda: F.cross_entropy(
            mt.arange(6.0).reshape(2, 3), mt.arange(6.0).reshape(2, 3), label_smoothing=float("nan")
        ),
        8.5570440,
    ),
    "targets of bytes": (
        lambda: F.cross_entropy(mt.arange(6.0).reshape(2, 3), mt.tensor([0, 2], dtype=mt.uint8)), 1.4076059,
    ),
    "targets of bytes, weighted": (
        lambda: F.nll_loss(
            mt.arange(6.0).reshape(2, 3), mt.tensor([0, 2], dtype=mt.uint8), mt.tensor([1.0, 2.0, 3.0])
        ),
        -3.75,
    ),
    "running statistics and no eps": (
        lambda: F.batch_norm(mt.arange(4.0).reshape(2, 2), mt.zeros(2), mt.ones(2), eps=0.0), [[0.0, 1.0], [2.0, 3.0]],
    ),
    "batch_norm by its op": (
        lambda: mt.batch_norm(mt.arange(4.0).reshape(2, 2), None, None, None, None, True, 0.1, 0.0, False),
        [[-1.0, -1.0], [1.0, 1.0]],
    ),
    "a window of beta": (lambda: mt.kaiser_window(3, True, beta=0.0), [1.0, 1.0, 1.0]),
}  # fmt: skip


@pytest.mark.parametrize("case", TAKEN)
def test_taken(case):
    call, expected = TAKEN[case]
    results = [_compiled(call)]
    for mode in MODES.values():
        with mode():
            results.append(call())
    for result in results:
        mt.testing.assert_close(result, mt.tensor(expected))


def test_more_samples_than_categories_with_weights_are_filled_by_those_without():
    for mode in MODES.values():
        with mode():
            for _ in range(5):
                assert mt.multinomial(mt.tensor([0.0, 1.0]), 2).tolist() == [1, 0]
                first, *rest = mt.multinomial(mt.tensor([[0.0, 0.0, 3.0]]), 3)[0].tolist()
                assert (first, sorted(rest)) == (2, [0, 1])


def _written(key):
    x = mt.zeros(2, 3)
    x[key] = 1
    return x.sum()


def test_writes_by_two_ellipses():
    for call, count in ((lambda: _written((..., ...)), 6), (lambda: _written((..., 0, ...)), 2)):
        assert _compiled(call).item() == call().item() == count


REFUSED = {
    "a window's beta without periodic": (lambda: mt.kaiser_window(3, beta=0.0), TypeError, "kaiser_window"),
    "a window's alpha without periodic": (lambda: mt.hamming_window(3, alpha=0.5), TypeError, "hamming_window"),
    "a smoothing above one": (
        lambda: F.cross_entropy(mt.ones(2, 3), mt.tensor([0, 2]), label_smoothing=2.0), RuntimeError, "Got: 2",
    ),
    "no eps in training": (
        lambda: F.batch_norm(mt.ones(2, 3), None, None, training=True, eps=0.0),
        ValueError, "batch_norm eps must be positive during training, but got 0.0",
    ),
    "eps below zero": (
        lambda: F.batch_norm(mt.ones(2, 3), mt.zeros(3), mt.ones(3), eps=-0.5),
        ValueError, "batch_norm eps must be non-negative, but got -0.5",
    ),
    "a bias of another dtype": (
        lambda: F.linear(mt.ones(2, 3), mt.ones(4, 3), mt.ones(4).double()),
        RuntimeError, "self and mat2 must have the same dtype, but got Double and Float",
    ),
    "an input of another dtype": (
        lambda: F.linear(mt.ones(2, 3).double(), mt.ones(4, 3), mt.ones(4)),
        RuntimeError, "mat1 and mat2 must have the same dtype, but got Double and Float",
    ),
    "an index behind ellipses": (
        lambda: _x()[..., mt.tensor([0]), ..., mt.tensor([1])], IndexError, "too many indices",
    ),
    "a number behind ellipses": (lambda: _x()[..., 0, ..., 1], IndexError, "too many indices"),
    **{
        name: (getattr(mt, name), TypeError, f'{name}() missing 1 required positional arguments: "size"')
        for name in ("zeros", "ones", "empty", "rand", "randn")
    },
    "full": (lambda: mt.full(), TypeError, "full() missing 2 required"),
    "zeros of a dtype": (lambda: mt.zeros(dtype=mt.int64), TypeError, "zeros() missing 1 required"),
    **{
        name: (lambda name=name: getattr(mt.ones(2), name)(), TypeError, f"{name}() missing 1 required")
        for name in ("new_zeros", "new_ones", "new_empty", "reshape", "repeat", "tile", "resize_")
    },
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case):
    call, error, text = REFUSED[case]
    for mode in MODES.values():
        with mode(), pytest.raises(error) as raised:
            call()
        assert text in str(raised.value)
    with pytest.raises(error):
        _compiled(call)


def test_a_scalars_size_is_an_empty_one():
    for made in (mt.zeros(()), mt.ones(()), mt.empty(()), mt.rand(()), mt.randn(size=()), mt.ones(2).new_zeros(())):
        assert made.shape == ()
