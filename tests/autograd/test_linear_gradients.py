"""Gradients are linear in the vector that they are called with, also where it is zero: what goes forward needs that."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import func

MATRIX = [[2.0, 1.0, 0.3], [-0.5, 3.0, 0.2], [0.1, 0.7, 1.0]]
ALONG = [[0.2, 0.1, 0.3], [-0.5, 0.3, 0.2], [0.1, 0.7, 0.6]]


def symmetric(a):
    return a + a.T


# Absolute values, since the signs of vectors are free.
FUNCTIONS = {
    "svd's U": lambda a: mt.linalg.svd(a)[0].abs(),
    "svd's V": lambda a: mt.linalg.svd(a)[2].abs(),
    "svd's S": lambda a: mt.linalg.svd(a)[1],
    "eigh's vectors": lambda a: mt.linalg.eigh(symmetric(a))[1].abs(),
    "eig's vectors": lambda a: mt.linalg.eig(a)[1].abs(),
    "qr's Q": lambda a: mt.linalg.qr(a)[0].abs(),
    "logcumsumexp": lambda a: a.logcumsumexp(1),
    "logcumsumexp of complex numbers": lambda a: mt.view_as_real(mt.complex(a, a * a).logcumsumexp(0)),
    "logcumsumexp from minus infinity": lambda a: mt.nn.functional.pad(a, (1, 0), value=-mt.inf).logcumsumexp(1)[:, 1:],
    "scatter_reduce's product": lambda a: a.scatter_reduce(0, mt.tensor([[0, 1, 2], [0, 1, 1]]), a * 2, "prod"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_go_forward(name):
    function = FUNCTIONS[name]
    a, v = (mt.tensor(m, dtype=mt.float64) for m in (MATRIX, ALONG))
    found = func.jvp(function, (a,), (v,))[1]
    expected = (function(a + 1e-6 * v) - function(a - 1e-6 * v)) / 2e-6
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-7)


def test_derivatives_by_all_elements_at_once():
    a = mt.tensor([1.0, -2.0, 3.0, 0.5], dtype=mt.float64)
    forward, back = func.jacfwd(lambda a: a.logcumsumexp(0))(a), func.jacrev(lambda a: a.logcumsumexp(0))(a)
    np.testing.assert_allclose(forward.numpy(), back.numpy())
    second = func.jacfwd(func.jacrev(lambda a: a.logcumsumexp(0).sum()))(a)
    np.testing.assert_allclose(second.numpy(), func.hessian(lambda a: a.logcumsumexp(0).sum())(a).numpy())
    assert second.isfinite().all()


def test_gradients_of_a_table_by_frequency():
    table = mt.ones(4, 2, dtype=mt.float64, requires_grad=True)
    places = mt.tensor([0, 1, 0, 3])

    def gradient(vector):
        rows = mt.nn.functional.embedding(places, table, padding_idx=3, scale_grad_by_freq=True)
        return mt.autograd.grad(rows, table, vector, create_graph=True)[0]

    vector, along = mt.ones(4, 2, dtype=mt.float64), mt.arange(8, dtype=mt.float64).view(4, 2)
    assert gradient(along).tolist() == [[2, 3], [2, 3], [0, 0], [0, 0]]
    assert func.jvp(gradient, (vector,), (along,))[1].tolist() == gradient(along).tolist()


def test_equal_eigenvalues_keep_the_derivatives_of_values():
    a = mt.eye(3, dtype=mt.float64)
    _, found = func.jvp(lambda a: mt.linalg.eigh(a)[0].sum(), (a,), (mt.tensor(ALONG, dtype=mt.float64),))
    assert found.item() == pytest.approx(1.1)


@pytest.mark.parametrize("how", ["scatter_reduce", "index_reduce"])
@pytest.mark.parametrize("include_self", [True, False])
def test_products_of_complex_numbers(how, include_self):
    a = mt.tensor([1 + 2j, 2 - 1j, 0.5j], dtype=mt.complex128, requires_grad=True)
    source = mt.tensor([1 + 1j, 2 - 1j, 3j], dtype=mt.complex128, requires_grad=True)
    index = mt.tensor([0, 0, 2])
    result = getattr(a, how)(0, index, source, "prod", include_self=include_self)
    weights = mt.tensor([1 - 1j, 2.0, 3j], dtype=mt.complex128)
    found = mt.autograd.grad((result * weights).real.sum(), [a, source])
    own = (lambda x: x) if include_self else mt.ones_like
    parts = mt.stack([own(a[0]) * source[0] * source[1], a[1], own(a[2]) * source[2]])
    expected = mt.autograd.grad((parts * weights).real.sum(), [a, source])
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy())


@pytest.mark.parametrize("how", ["scatter_reduce", "scatter_reduce_", "index_reduce", "index_reduce_"])
@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_complex_numbers_have_no_greatest(how, reduce):
    a = mt.ones(2, dtype=mt.complex64)
    with pytest.raises(NotImplementedError, match="greatest or least"):
        getattr(a, how)(0, mt.tensor([0, 0]), a.clone(), reduce)


def test_margins_that_are_just_kept_have_no_gradient():
    """As PyTorch's kernels, which sum what is above zero."""
    x = mt.tensor([[1.0, 2.0], [2.5, 2.0]], requires_grad=True)
    mt.nn.functional.multi_margin_loss(x, mt.tensor([1, 0])).backward()
    assert x.grad.tolist() == [[0.0, 0.0], [-0.25, 0.25]]
    x.grad = None
    mt.nn.functional.multilabel_margin_loss(x, mt.tensor([[1, -1], [0, -1]])).backward()
    assert x.grad.tolist() == [[0.0, 0.0], [-0.25, 0.25]]


class Counting(mt.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", mt.zeros(1))

    def forward(self, x):
        self.count = self.count + 1
        return x + self.count + getattr(self, "more", 0)


def test_functional_calls_give_back_what_a_module_puts_in_place():
    module, given = Counting(), {"count": mt.tensor([5.0])}
    assert func.functional_call(module, given, (mt.zeros(1),)).tolist() == [6]
    assert given["count"].tolist() == [6]
    assert module.count.tolist() == [0]


def test_names_that_a_module_lacks_are_its_attributes_meanwhile():
    module = Counting()
    assert func.functional_call(module, {"more": mt.tensor([10.0])}, (mt.zeros(1),)).tolist() == [11]
    assert not hasattr(module, "more")
    with pytest.raises(TypeError, match="expected a tensor for 'more', but got int"):
        func.functional_call(module, {"count": mt.zeros(1), "more": 3}, (mt.zeros(1),))
    with pytest.raises(KeyError, match="can't be empty"):
        func.functional_call(module, {"": mt.zeros(1)}, (mt.zeros(1),))
    assert not hasattr(module, "more")


def test_two_tensors_for_one_parameter():
    module = mt.nn.Sequential(mt.nn.Linear(2, 2), mt.nn.Linear(2, 2))
    module[1].weight = module[0].weight
    one, other = mt.ones(2, 2), mt.zeros(2, 2)
    with pytest.raises(ValueError, match=r"multiple values for keys \['0.weight', '1.weight'\]"):
        func.functional_call(module, {"0.weight": one, "1.weight": other}, (mt.ones(2),))
    func.functional_call(module, {"0.weight": one, "1.weight": one}, (mt.ones(2),))
    func.functional_call(module, {"0.weight": one, "1.weight": other}, (mt.ones(2),), tie_weights=False)
