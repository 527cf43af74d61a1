"""First and second gradients of linear algebra against finite differences, where the rows' own test can't have them."""

import numpy as np
import pytest

import minitensor as mt
from minitensor import linalg as la

STEP = 1e-6
RNG = np.random.default_rng(3)


def make(*shape):
    return mt.tensor(RNG.normal(size=shape))


def symmetric(x):
    return (x + x.mT) * 0.5


def definite(x):
    return x @ x.mT + mt.eye(x.shape[-1], dtype=x.dtype)


def weighted(results):
    rng = np.random.default_rng(1)
    total = mt.zeros((), dtype=mt.float64)
    for r in results if isinstance(results, tuple) else (results,):
        total = total + (r * mt.tensor(rng.normal(size=tuple(r.shape)))).sum()
    return total


def slope(function, x, direction):
    there, back = (function(x + direction * (sign * STEP)).item() for sign in (1, -1))
    return (there - back) / (2 * STEP)


CASES = {
    "cholesky": (lambda x: la.cholesky(definite(x)), (2, 4, 4)),
    "cholesky upper": (lambda x: la.cholesky(definite(x), upper=True), (3, 3)),
    "eigenvalues": (lambda x: la.eigvalsh(symmetric(x)), (2, 3, 3)),
    "eigenvectors": (lambda x: la.eigh(symmetric(x)).eigenvectors.square(), (2, 3, 3)),
    "pinv of few": (lambda x: la.pinv(x @ x.mT), (4, 4)),
    "pinv hermitian": (lambda x: la.pinv(definite(x), hermitian=True), (3, 3)),
    "lu": (lambda x: la.lu(x)[1:], (4, 4)),
    "lu_solve": (lambda x: la.lu_solve(*la.lu_factor(x), x), (3, 3)),
    "ormqr": (lambda x: mt.ormqr(x[:, :2], x[0, :2], x), (4, 3)),
    "householder": (lambda x: la.householder_product(x[:, :2], x[0, :2]), (4, 3)),
    "nuclear norm": (lambda x: la.matrix_norm(x, "nuc"), (2, 3, 4)),
    "2-norm": (lambda x: la.matrix_norm(x, 2), (3, 4)),
    "cond": (lambda x: la.cond(x), (3, 3)),
    "logdet": (lambda x: mt.logdet(definite(x)), (2, 3, 3)),
    "tensorsolve": (lambda x: la.tensorsolve(x.reshape((2, 2, 4)), x[:2, :2]), (4, 4)),
    "matrix_power": (lambda x: la.matrix_power(x, -2), (3, 3)),
    "multi_dot": (lambda x: la.multi_dot([x, x.mT, x]), (2, 3)),
    "cholesky_solve": (lambda x: mt.cholesky_solve(x, la.cholesky(definite(x))), (3, 3)),
    "cholesky_solve upper": (lambda x: mt.cholesky_solve(x, la.cholesky(definite(x), upper=True), True), (3, 3)),
    "cholesky_inverse": (lambda x: mt.cholesky_inverse(la.cholesky(definite(x))), (2, 3, 3)),
    "residuals": (lambda x: la.lstsq(x[:, :2], x[:, 2:], driver="gels").residuals, (5, 3)),
    "cdist": (lambda x: mt.cdist(x, x + 1, p=3), (4, 3)),
    "cdist by product": (lambda x: mt.cdist(x, x + 1, compute_mode="use_mm_for_euclid_dist"), (4, 3)),
    "pdist": (lambda x: mt.pdist(x, p=1.5), (4, 3)),
    "lobpcg": (lambda x: mt.lobpcg(definite(x), k=1)[0], (6, 6)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients(name):
    function, shape = CASES[name]
    x, direction = make(*shape), make(*shape)

    def loss(x):
        return weighted(function(x))

    def gradient_size(x):
        x = x.detach().requires_grad_()
        (g,) = mt.autograd.grad((loss(x) + 1).square(), x, create_graph=True)
        return weighted(g), x

    leaf = x.clone().requires_grad_()
    (g,) = mt.autograd.grad(loss(leaf), leaf)
    assert (g * direction).sum().item() == pytest.approx(slope(loss, x, direction), rel=1e-4, abs=1e-6)
    second, leaf = gradient_size(x)
    (g,) = mt.autograd.grad(second, leaf)
    numeric = slope(lambda y: gradient_size(y)[0], x, direction)
    assert (g * direction).sum().item() == pytest.approx(numeric, rel=1e-3, abs=1e-4)


def test_determinant_of_a_singular_matrix_has_a_gradient():
    a = mt.tensor([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [1.0, 1.0, 1.0]], dtype=mt.float64, requires_grad=True)
    x = mt.zeros(2, 2, dtype=mt.float64, requires_grad=True)
    (mt.det(a) + mt.det(x)).backward()
    cofactors = np.array([[-2.0, 4.0, -2.0], [1.0, -2.0, 1.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(a.grad.numpy(), cofactors, atol=1e-12)
    assert x.grad.tolist() == [[0, 0], [0, 0]]


def test_equal_singular_values():
    x = mt.eye(3, dtype=mt.float64).requires_grad_()
    la.svdvals(x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.eye(3))
    y = mt.eye(3, dtype=mt.float64).requires_grad_()
    la.svd(y).S.sum().backward()
    np.testing.assert_allclose(y.grad.numpy(), np.eye(3))


def test_complete_qr_of_a_tall_matrix_has_no_gradient():
    x = make(4, 2).requires_grad_()
    with pytest.raises(RuntimeError, match="not differentiable when mode='complete' and nrows > ncols"):
        la.qr(x, "complete").R.sum().backward()


@pytest.mark.parametrize("p", [0.5, 1.5, 2.0])
def test_a_norm_has_no_second_derivative_at_zero(p):
    x = mt.zeros(3, dtype=mt.float64, requires_grad=True)
    (first,) = mt.autograd.grad(la.vector_norm(x, p), x, create_graph=True)
    assert first.tolist() == [0, 0, 0]
    (second,) = mt.autograd.grad(first.sum(), x)
    assert second.isnan().all()
    (plain,) = mt.autograd.grad(la.vector_norm(x, p), x)
    assert plain.tolist() == [0, 0, 0]
