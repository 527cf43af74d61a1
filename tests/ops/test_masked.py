"""Masks over tensors, against PyTorch's and by hand."""

import pytest

import minitensor as mt
from minitensor import masked

DATA = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
MASK = [[True, False, True], [False, False, False]]
inf, nan = float("inf"), float("nan")

# Functions of x and a mask k.
FUNCTIONS = {
    "m.sum(x, 1, mask=k)": [4.0, 0.0], "m.sum(x, mask=k)": 4.0, "m.mean(x, 1, mask=k)": [2.0, nan],
    "m.amax(x, 1, mask=k)": [3.0, -inf], "m.amin(x, 1, mask=k)": [1.0, inf], "m.prod(x, 1, mask=k)": [3.0, 1.0],
    "m.argmax(x, 1, mask=k)": [2.0, 0.0], "m.argmin(x, 0, mask=k)": [0.0, 0.0, 0.0],
    "m.median(x, 1, mask=k)": [1.0, nan],
    "m.var(x, 1, unbiased=True, mask=k)": [2.0, nan], "m.var(x, (0, 1), mask=k)": 2.0,
    "m.std(x, 1, False, mask=k)": [1.0, nan], "m.norm(x, inf, 1, mask=k)": [3.0, 0.0],
    "m.norm(x, 2.0, 1, mask=k)": [3.1622776985168457, 0.0],
    "m.cumsum(x, 1, mask=k)": [[1.0, 1.0, 4.0], [0.0, 0.0, 0.0]],
    "m.cumprod(x, 1, mask=k)": [[1.0, 1.0, 3.0], [1.0, 1.0, 1.0]],
    "m.softmax(x, 1, mask=k)": [[0.11920291930437088, 0.0, 0.8807970285415649], [nan, nan, nan]],
    "m.logsumexp(x, 1, mask=k)": [3.1269280910491943, -inf],
    "m.normalize(x, 2.0, 1, mask=k)": [[0.3162277638912201, 0.0, 0.9486832618713379], [0.0, 0.0, 0.0]],
    "m.logaddexp(x, x, input_mask=k, other_mask=~k)": DATA, "m.sum(x, mask=k[0])": 14.0,
    "m.sum(x, 1, keepdim=True, mask=k)": [[4.0], [0.0]], "m.prod(x, (0, 1), mask=k)": 3.0,
    "m.sum(x.int(), 1, mask=k)": [4, 0],
    "m.amax(x.long(), 1, mask=k)": [3, -(2**63)], "m.mean(x.long(), 1, dtype=x.dtype, mask=k)": [2.0, nan],
    "m.var(x, 1, correction=0)": [0.6666666865348816, 0.6666666865348816],
}  # fmt: skip


def near(found, wanted):
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(near, found, wanted))
    return found == pytest.approx(wanted, rel=1e-6, nan_ok=True)


@pytest.mark.parametrize("expression", FUNCTIONS)
def test_functions(expression):
    found = eval(expression, {"m": masked, "x": mt.tensor(DATA), "k": mt.tensor(MASK), "inf": inf})
    assert near(found.tolist(), FUNCTIONS[expression])


@pytest.mark.torch
@pytest.mark.parametrize("expression", FUNCTIONS)
def test_functions_as_torch(expression):
    torch = pytest.importorskip("torch")
    found = eval(expression, {"m": torch.masked, "x": torch.tensor(DATA), "k": torch.tensor(MASK), "inf": inf})
    assert near(found.tolist(), FUNCTIONS[expression])
    ours = eval(expression, {"m": masked, "x": mt.tensor(DATA), "k": mt.tensor(MASK), "inf": inf})
    assert str(ours.dtype).partition(".")[2] == str(found.dtype).partition(".")[2]


def tensor(mask=MASK):
    return masked.masked_tensor(mt.tensor(DATA), mt.tensor(mask))


def test_elementwise():
    t = tensor()
    for made, wanted in (
        (t + t, 2.0),
        (t * 2, 2.0),
        (2 * t, 2.0),
        (t.exp().log(), 1.0),
        (mt.sqrt(t), 1.0),
        (1 / t, 1.0),
    ):
        assert masked.is_masked_tensor(made)
        assert made.get_mask().tolist() == MASK
        assert float(made.get_data()[0, 0]) == pytest.approx(wanted)
    assert (t + mt.ones(2, 3)).get_data()[0, 2].item() == 4.0
    assert t.add_(1) is t
    assert t.to_tensor(-1.0).tolist() == [[2.0, -1.0, 4.0], [-1.0, -1.0, -1.0]]
    assert (t == t).get_data().all()
    assert t.shape == (2, 3)
    assert t.dtype is mt.float32


def test_reductions():
    t = tensor()
    for made, data, mask in (
        (t.sum(1), [4.0, 0.0], [True, False]), (t.amax(0), [1.0, -inf, 3.0], [True, False, True]),
        (mt.mean(t), 2.0, True), (t.var(1), [2.0, nan], [True, False]),
        (t.softmax(1).sum(1), [1.0, 0.0], [True, False]),
        (t.sum(dim=1, keepdim=True), [[4.0], [0.0]], [[True], [False]]), (t.all(), True, True),
    ):  # fmt: skip
        assert near(made.get_data().tolist(), data)
        assert made.get_mask().tolist() == mask


def test_places():
    t = tensor()
    assert t[0].to_tensor(0).tolist() == [1.0, 0.0, 3.0]
    assert t.view(3, 2).get_mask().tolist() == [[True, False], [True, False], [False, False]]
    assert t.T.shape == (3, 2)
    assert t.unsqueeze(0).get_mask().shape == (1, 2, 3)


def test_gradients():
    x = mt.tensor(DATA, requires_grad=True)
    masked.as_masked_tensor(x, mt.tensor(MASK)).square().sum().get_data().backward()
    assert x.grad.tolist() == [[2.0, 0.0, 6.0], [0.0, 0.0, 0.0]]
    leaf = masked.masked_tensor(mt.tensor(DATA), mt.tensor(MASK), requires_grad=True)
    assert leaf.requires_grad
    assert leaf.is_leaf


def test_repr():
    assert repr(tensor()) == (
        "MaskedTensor(\n  [\n    [  1.0000,       --,   3.0000],\n    [      --,       --,       --]\n  ]\n)"
    )
    assert repr(tensor().mean()) == "MaskedTensor(  2.0000, True)"
    assert repr(tensor()[0]) == "MaskedTensor(\n  [  1.0000,       --,   3.0000]\n)"


def test_errors():
    x, k = mt.tensor(DATA), mt.tensor(MASK)
    with pytest.raises(TypeError, match=r"mask must have dtype bool\."):
        masked.masked_tensor(x, k.float())
    with pytest.raises(ValueError, match=r"data\.dim\(\) must equal mask\.dim\(\)"):
        masked.masked_tensor(x, k[0])
    with pytest.raises(TypeError, match="data must be a Tensor"):
        masked.masked_tensor(1, k)
    with pytest.raises(ValueError, match="Input masks must match"):
        tensor() + masked.masked_tensor(x, ~k)
    with pytest.raises(TypeError, match=r"Multiple dispatch failed for 'minitensor\.matmul'"):
        tensor() @ mt.ones(3, 2)
    with pytest.raises(ValueError, match=r"mean\(\): Could not infer output dtype"):
        masked.mean(x.long(), 1, mask=k)
    with pytest.raises(TypeError, match=r"sum\(\) expects a mask of dtype bool"):
        masked.sum(x, mask=k.int())


def test_the_product_of_one_element_takes_a_dimension():
    assert mt.masked.prod(mt.tensor(3.0), 0).item() == 3.0
    assert mt.masked.prod(mt.tensor(3.0), -1, keepdim=True).shape == ()
