"""Losses whose input and target differ in size or dtype, the package's own forms of losses, and norms by dimension."""

import math
import warnings

import numpy as np
import pytest

import minitensor as mt
import minitensor.nn.functional as F

DTYPES = ["float32", "float64", "bfloat16"]


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*target size.*")
        yield


@pytest.mark.torch
@pytest.mark.parametrize("loss", ["l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss"])
@pytest.mark.parametrize("sizes", [((), (2, 3)), ((2, 3), ()), ((3,), (2, 3)), ((2, 3), (2, 3))])
@pytest.mark.parametrize("target", DTYPES)
@pytest.mark.parametrize("input", DTYPES)
def test_dtypes_are_pytorch_s(input, target, sizes, loss):
    import torch

    def made(lib):
        f = getattr(lib.nn.functional, loss)
        a, b = lib.ones(sizes[0], dtype=getattr(lib, input)), lib.ones(sizes[1], dtype=getattr(lib, target))
        results = [f(a, b), f(a, b, reduction="none")]
        return [(str(r.dtype).partition(".")[2], tuple(r.shape)) for r in results]

    assert made(mt) == made(torch)


def test_multilabel_soft_margin_divides_by_the_input_s_classes():
    loss = F.multilabel_soft_margin_loss(mt.zeros(3, 1), mt.ones(3))
    assert loss.item() == pytest.approx(3 * math.log(2))


def test_soft_margin_refuses_to_broadcast_its_input():
    with pytest.raises(RuntimeError, match=r"output with shape \[3\] doesn't match the broadcast shape \[2, 3\]"):
        F.soft_margin_loss(mt.ones(3), mt.ones(2, 3))


@pytest.mark.torch
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("hinge_embedding_loss", 2),
        ("margin_ranking_loss", 3),
        ("kl_div", 2),
        ("triplet_margin_loss", 3),
        ("binary_cross_entropy_with_logits", 2),
    ],
)
def test_the_package_s_own_losses_are_not_reduced(name, count):
    import torch

    values = np.linspace(0.1, 0.9, 6, dtype=np.float32).reshape(2, 3)

    def made(lib):
        return getattr(lib, name)(*[lib.tensor(values + i) for i in range(count)]).numpy()

    np.testing.assert_allclose(made(mt), made(torch), rtol=1e-5)


def test_the_package_s_own_ctc_loss_is_not_reduced():
    odds = mt.zeros(4, 2, 3).log_softmax(2)
    loss = mt.ctc_loss(odds, mt.ones(2, 1, dtype=mt.int64), mt.tensor([4, 4]), mt.tensor([1, 1]))
    assert loss.shape == (2,)


@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 3, 4)])
def test_norm_except_dim_beside_numpy(shape):
    values = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for dim in range(-len(shape), len(shape)):
        rest = tuple(d for d in range(len(shape)) if d != dim % len(shape))
        expected = np.sqrt((values**2).sum(None if dim == -1 else rest, keepdims=dim != -1))
        result = mt.norm_except_dim(mt.tensor(values), 2, dim)
        assert result.shape == expected.shape
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)


def test_norm_except_dim_refuses_what_is_no_dimension():
    with pytest.raises(IndexError, match="Dimension out of range"):
        mt.norm_except_dim(mt.ones(4), 2, 1)
    with pytest.raises(IndexError, match="tensor has no dimensions"):
        mt.norm_except_dim(mt.ones(()), 2, 0)


def test_module_load_writes_to_the_tensor_or_hands_the_other_one_on():
    parameter, other = mt.zeros(3, dtype=mt.int32), mt.tensor([1.0, 2.0, 3.0])
    loaded = parameter.module_load(other)
    assert loaded.dtype is mt.int32
    assert loaded.data_ptr() == parameter.data_ptr()
    assert parameter.tolist() == [1, 2, 3]
    assert parameter.module_load(other, assign=True).data_ptr() == other.data_ptr()


def test_reversed_is_a_tensor():
    t = mt.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert reversed(t).tolist() == [[3.0, 4.0], [1.0, 2.0]]
    scalar = mt.tensor(1.0)
    assert reversed(scalar) is scalar
