"""Corners of composed functions, with PyTorch too where it is installed: the expected values are its own."""

import pytest


@pytest.fixture(params=["minitensor", "torch"])
def lib(request):
    return pytest.importorskip(request.param)


@pytest.mark.parametrize(
    ("n", "before", "after", "rows"),
    [
        (0, 3, None, 3),
        (0, 0, 2, 3),
        (1, 0, None, 2),
        (1, 0, 0, 2),
        (1, 1, 2, 5),
        (2, 0, 2, 3),
        (5, 0, 0, 0),
        (3, 1, 0, 1),
    ],
)
def test_diff_of_what_is_put_around(lib, n, before, after, rows):
    x = lib.tensor([[1.0, 2.0], [4.0, 8.0], [9.0, 1.0]])
    around = [None if k is None else lib.zeros(k, 2) for k in (before, after)]
    assert tuple(lib.diff(x, n=n, dim=0, prepend=around[0], append=around[1]).shape) == (rows, 2)
    assert lib.diff(x, n=0, dim=0, prepend=around[0]).tolist() == x.tolist()


def test_random_draws_pass_a_gradient_of_zero_to_their_probabilities(lib):
    p = lib.tensor([0.0, 1.0, 0.5], requires_grad=True)
    drawn = lib.bernoulli(p)
    assert drawn.tolist()[:2] == [0.0, 1.0]
    assert drawn.grad_fn is not None
    drawn.sum().backward()
    assert p.grad.tolist() == [0.0, 0.0, 0.0]
    x = lib.ones(3, requires_grad=True)
    y = x * 1
    y.bernoulli_(p)
    y.sum().backward()
    assert (x.grad.tolist(), p.grad.tolist()) == ([0.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    assert lib.bernoulli(p, 0.5).requires_grad
    with lib.no_grad():
        assert not lib.bernoulli(p).requires_grad


def test_fractional_pooling_of_nothing(lib):
    functional = lib.nn.functional
    for rank, function in ((2, functional.fractional_max_pool2d), (3, functional.fractional_max_pool3d)):
        result, indices = function(lib.ones(0, 2, *[6] * rank), 2, output_size=3, return_indices=True)
        assert tuple(result.shape) == tuple(indices.shape) == (0, 2, *[3] * rank)
        with pytest.raises(RuntimeError, match="non-zero size for non-batch dimensions"):
            function(lib.ones(2, 0, *[6] * rank), 2, output_size=3)


def test_division_by_its_old_names(lib):
    x = lib.tensor([2.0, 4.0])
    assert (x.__rdiv__(8).tolist(), x.__div__(2).tolist()) == ([4.0, 2.0], [1.0, 2.0])
    assert x.__idiv__(2) is x
    assert x.tolist() == [1.0, 2.0]
    with pytest.raises(RuntimeError, match="can't be cast"):
        lib.tensor([1]).__idiv__(2)


def test_dropout_below_vmap(lib):
    vmap, dropout = lib.func.vmap if hasattr(lib.func, "vmap") else lib.vmap, lib.nn.functional.dropout
    x = lib.ones(20, 50)
    different = vmap(lambda row: dropout(row, 0.5), randomness="different")(x)
    same = vmap(lambda row: dropout(row, 0.5), randomness="same")(x)
    drawn = vmap(lambda row: lib.bernoulli(row * 0.5), randomness="different")(x)
    for result, of in ((different, {0.0, 2.0}), (same, {0.0, 2.0}), (drawn, {0.0, 1.0})):
        assert {value for row in result.tolist() for value in row} == of
    assert len({tuple(row) for row in different.tolist()}) == len({tuple(row) for row in drawn.tolist()}) == 20
    assert len({tuple(row) for row in same.tolist()}) == 1
    for function in (lambda row: dropout(row, 0.5), lambda row: lib.bernoulli(row * 0.5)):
        with pytest.raises(RuntimeError, match="called random operation while in randomness error mode"):
            vmap(function)(x)
