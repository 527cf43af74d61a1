"""Calls with factors before the tensors, which PyTorch deprecated, beside today's form."""

import warnings

import numpy as np
import pytest

import minitensor as mt

A = [[1.0, 2.0], [3.0, 4.0]]


@pytest.fixture
def always():
    before = mt.is_warn_always_enabled()
    mt.set_warn_always(True)
    yield
    mt.set_warn_always(before)


def a():
    return mt.tensor(A)


SUMS = {
    "add": (lambda: a().add(2, a()), lambda: a().add(a(), alpha=2)),
    "add_": (lambda: a().add_(2, a()), lambda: a().add_(a(), alpha=2)),
    "add of numbers": (lambda: a().add_(3, 0.5), lambda: a().add_(0.5, alpha=3)),
    "sub": (lambda: mt.sub(a(), 2, a()), lambda: mt.sub(a(), a(), alpha=2)),
    "sub_": (lambda: a().sub_(np.float64(2), a()), lambda: a().sub_(a(), alpha=2)),
    "out": (lambda: mt.add(a(), 2, a(), out=mt.zeros(2, 2)), lambda: mt.add(a(), a(), alpha=2)),
    "tensor": (lambda: a().add(mt.tensor(2.0), a()), lambda: a().add(a(), alpha=2)),
    "addcmul": (lambda: a().addcmul(3, a(), a()), lambda: a().addcmul(a(), a(), value=3)),
    "addcmul_": (lambda: a().addcmul_(3, a(), a()), lambda: a().addcmul(a(), a(), value=3)),
    "addcdiv": (lambda: mt.addcdiv(a(), 3, a(), a() + 1), lambda: a().addcdiv(a(), a() + 1, value=3)),
    "addcdiv_": (lambda: a().addcdiv_(3, a(), a() + 1), lambda: a().addcdiv(a(), a() + 1, value=3)),
}
PRODUCTS = {
    "addmm": (a, a, a), "addmv": (lambda: a()[0], a, lambda: a()[0]),
    "addr": (a, lambda: a()[0], lambda: a()[1]), "addbmm": (a, lambda: a()[None], lambda: a()[None]),
    "baddbmm": (lambda: a()[None], lambda: a()[None], lambda: a()[None]),
}  # fmt: skip


@pytest.mark.parametrize("name", SUMS)
def test_sums(always, name):
    older, today = SUMS[name]
    with pytest.warns(UserWarning, match="overload of .* is deprecated"):
        found = older()
    assert found.tolist() == today().tolist()


@pytest.mark.parametrize("name", PRODUCTS)
def test_products(always, name):
    x, *factors = PRODUCTS[name]
    factors = [f() for f in factors]
    today = getattr(x(), name)
    both, beta = today(*factors, beta=2, alpha=3).tolist(), today(*factors, beta=2).tolist()
    function = getattr(mt, name)
    calls = (
        (lambda: getattr(x(), name)(2, 3, *factors), both),
        (lambda: getattr(x(), name)(2, *factors), beta),
        (lambda: getattr(x(), f"{name}_")(2, 3, *factors), both),
        (lambda: function(2, x(), 3, *factors), both),
        (lambda: function(2, x(), *factors), beta),
        (lambda: function(2, x(), 3, *factors, out=x()), both),
    )
    for call, expected in calls:
        with pytest.warns(UserWarning, match=f"overload of {name}_? is deprecated"):
            found = call()
        assert found.tolist() == expected


def test_the_warning_comes_once_and_says_the_form(monkeypatch):
    monkeypatch.setattr("minitensor._functions.older_forms._warned", [False])
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        a().add(2, a())
        a().addmm_(2, 3, a(), a())
    assert [str(w.message) for w in caught] == [
        "This overload of add is deprecated:\n\tadd(Number alpha, Tensor other)\n"
        "Consider using one of the following signatures instead:\n\tadd(Tensor other, *, Number alpha = 1)"
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        a().sub(2, a())


def test_gradients_go_through_them(always):
    x, y = a().requires_grad_(), a().requires_grad_()
    with pytest.warns(UserWarning, match="is deprecated"):
        z = x.add(2, y)
    z.sum().backward()
    assert x.grad.tolist() == [[1, 1], [1, 1]]
    assert y.grad.tolist() == [[2, 2], [2, 2]]


@pytest.mark.parametrize(
    "call",
    [
        lambda: a().add(a(), 2), lambda: a().add(1, 2, 3), lambda: a().add(2, "a"), lambda: a().add(2, a(), alpha=3),
        lambda: a().add("a", a()), lambda: a().addmm(2, 3, 4, a(), a()), lambda: a().addmm(a(), a(), a(), a()),
        lambda: a().add(mt.tensor(2.0, requires_grad=True), a()), lambda: mt.rsub(a(), 2, a()),
        lambda: a().addcmul(2, a()), lambda: a().mul(2, a()),
    ],
)  # fmt: skip
def test_other_calls_are_refused(call):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(TypeError):
            call()


def test_factors_of_another_kind_than_the_result():
    whole = mt.ones(2, dtype=mt.int64)
    for call in (lambda: a().add(a(), alpha=True), lambda: a().sub_(a(), alpha=True)):
        with pytest.raises(RuntimeError, match="Boolean alpha only supported for Boolean results"):
            call()
    with pytest.raises(RuntimeError, match="For non-complex input tensors"):
        a().add(a(), alpha=1j)
    with pytest.raises(RuntimeError, match="For integral input tensors"):
        whole.add(whole, alpha=0.5)
    flags = mt.ones(2, dtype=mt.bool)
    assert flags.add(flags, alpha=True).tolist() == [True, True]
    assert whole.add(0.5, alpha=0.5).tolist() == [1.25, 1.25]


def test_squeeze_of_several_dimensions():
    x = mt.ones(1, 1, 2)
    assert x.squeeze(0, 1).shape == (2,)
    assert x.clone().squeeze_(0, 1).shape == (2,)
    assert x.squeeze(0, 2).shape == (1, 2)
    assert x.squeeze((0, 1)).shape == (2,)
    assert x.squeeze(0).shape == (1, 2)
    assert x.squeeze().shape == (2,)
    assert x.squeeze(None).shape == (2,)
    assert x.squeeze(dim=(0, -2)).shape == (2,)
    with pytest.raises(RuntimeError, match="appears multiple times"):
        x.squeeze(0, 0)
    y = x.clone().requires_grad_()
    y.squeeze(0, 1).sum().backward()
    assert y.grad.shape == (1, 1, 2)
