"""What is asked of values: at once in eager calls, with the values in recorded ones, within the loops when compiled."""

import pytest

import minitensor as mt
import minitensor.nn.functional as F

X = mt.tensor([0.25, 0.5, 0.75])
CALLS = {
    "binary_cross_entropy": (
        lambda x: F.binary_cross_entropy(x, mt.tensor([0.0, 1.0, 0.5])),
        [2.0, 0.5, 0.5], RuntimeError, "all elements of input should be between 0 and 1",
    ),
    "its target": (
        lambda x: F.binary_cross_entropy(mt.tensor([0.5, 0.25, 0.75]).sqrt(), x),
        [0.5, -0.5, 0.5], RuntimeError, "all elements of target should be between 0 and 1",
    ),
    "gaussian_nll_loss": (
        lambda x: F.gaussian_nll_loss(mt.ones(3), mt.zeros(3), x),
        [1.0, 1.0, -1.0], ValueError, "var has negative entry/entries",
    ),
    "quantile": (
        lambda x: mt.tensor([3.0, 1.0, 2.0]).quantile(x),
        [0.0, 1.0, 1.5], RuntimeError, r"quantile\(\) q values must be in the range \[0, 1\]",
    ),
    "one_hot": (
        lambda x: F.one_hot((x * 4).long(), 4),
        [0.0, 1.0, 0.5], RuntimeError, "Class values must be smaller than num_classes.",
    ),
    "multi_margin_loss": (
        lambda x: F.multi_margin_loss(mt.ones(3, 4).cumsum(1), (x * 4).long()),
        [0.0, 1.0, 0.5], RuntimeError, "target out of range",
    ),
    "index_reduce": (
        lambda x: mt.ones(4).index_reduce(0, (x * 4).long(), mt.ones(3) * 2, "prod"),
        [0.0, 1.0, 0.5], IndexError, "index out of range in self",
    ),
    "segment_reduce": (
        lambda x: mt.segment_reduce(mt.ones(6), "sum", lengths=(x * 4).long()),
        [0.0, 1.0, 0.0], RuntimeError, "Expected all rows of lengths along axis to sum to",
    ),
}  # fmt: skip
named = pytest.mark.parametrize("name", CALLS)


@named
def test_in_a_compiled_function(name):
    call, beyond, error, message = CALLS[name]
    step = mt.function(call, jit_compile=True)
    for _ in range(3):
        assert step(X).equal(call(X))
    with pytest.raises(error, match=message):
        step(mt.tensor(beyond))
    assert step(X).equal(call(X))


@named
def test_while_recording(name):
    call, beyond, error, message = CALLS[name]
    with mt.jit_scope():
        got = call(X.clone())
        assert got._is_pending  # no value was needed
        assert got.equal(call(X))
    with pytest.raises(error, match=message), mt.jit_scope():
        call(mt.tensor(beyond))  # which nobody reads


def test_without_data():
    nothing = X.to("meta")
    assert F.binary_cross_entropy(nothing, nothing).device.type == "meta"
    assert mt.bernoulli(nothing).device.type == "meta"


def test_inside_vmap_of_all_slices():
    rows = mt.tensor([[0.5, 0.5], [0.5, 1.5]])
    loss = mt.func.vmap(lambda p: F.binary_cross_entropy(p, mt.ones(2)))
    assert loss(rows[:1]).shape == (1,)
    with pytest.raises(RuntimeError, match="all elements of input should be between 0 and 1"):
        loss(rows)


@pytest.mark.parametrize("dtype", [mt.float16, mt.bfloat16, mt.float32])
def test_certain_probabilities(dtype):
    p = mt.tensor([0.0, 1.0, 0.0, 1.0], dtype=dtype, requires_grad=True)
    target = mt.tensor([0.0, 1.0, 1.0, 0.0], dtype=dtype)
    losses = F.binary_cross_entropy(p, target, reduction="none")
    assert losses.tolist() == [0.0, 0.0, 100.0, 100.0]
    losses.sum().backward()
    assert p.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [mt.float32, mt.float64, mt.complex64])
def test_a_factorization_stops_at_a_nan(dtype):
    nan = float("nan")
    given = mt.tensor([[[1.0, nan], [nan, 1.0]], [[1.0, 0.0], [0.0, nan]], [[4.0, 2.0], [2.0, 5.0]]], dtype=dtype)
    factors, info = mt.linalg.cholesky_ex(given)
    assert info.tolist() == [2, 2, 0]
    assert factors[2].tolist() == [[2, 0], [1, 2]]
    with pytest.raises(mt.linalg.LinAlgError, match=r"\(Batch element 0\).*leading minor of order 2"):
        mt.linalg.cholesky(given)
