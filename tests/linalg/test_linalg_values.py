"""minitensor.linalg against NumPy: values, shapes, batches, empty matrices."""

import itertools

import numpy as np
import pytest

import minitensor as mt
from minitensor import linalg as la

RNG = np.random.default_rng(5)
SHAPES = [(3, 3), (1, 1), (2, 4, 4), (2, 0, 3, 3), (0, 0), (2, 0, 0), (70, 70)]
RECTANGLES = [(3, 5), (5, 3), (2, 4, 6), (0, 3), (3, 0), (2, 0, 3)]
DTYPES = ["float32", "float64"]


def make(shape, dtype="float64"):
    return RNG.normal(size=shape).astype(dtype)


def definite(shape, dtype="float64"):
    a = RNG.normal(size=shape)
    return (a @ a.swapaxes(-1, -2) + np.eye(shape[-1])).astype(dtype)


def close(tensor, array, dtype="float64"):
    array = np.asarray(array)
    assert tuple(tensor.shape) == array.shape
    tolerance = 2e-3 if dtype == "float32" else 1e-8
    np.testing.assert_allclose(tensor.numpy(), array, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_square_functions(shape, dtype):
    a = make(shape, dtype)
    x = mt.tensor(a)
    assert la.inv(x).dtype is x.dtype
    if shape[-1] < 70:
        close(la.det(x), np.linalg.det(a), dtype)
    close(la.slogdet(x).logabsdet, np.linalg.slogdet(a)[1], dtype)
    close(x @ la.inv(x), np.broadcast_to(np.eye(shape[-1]), shape), dtype)
    p, lower, upper = la.lu(x)
    close(p @ lower @ upper, a, dtype)
    b = make((*shape[:-1], 2), dtype)
    close(x @ la.solve(x, mt.tensor(b)), b, dtype)
    close(la.lu_solve(*la.lu_factor(x), mt.tensor(b)), la.solve(x, mt.tensor(b)).numpy(), dtype)
    close(la.matrix_power(x, 3), np.linalg.matrix_power(a, 3), "float32")
    close(la.matrix_exp(x * 0.1) @ la.matrix_exp(x * -0.1), np.broadcast_to(np.eye(shape[-1]), shape), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [s for s in SHAPES if 0 not in s])
def test_symmetric_functions(shape, dtype):
    a = definite(shape, dtype)
    x = mt.tensor(a)
    lower = la.cholesky(x)
    close(lower @ lower.mT, a, "float32")
    assert not lower.triu(1).numpy().any()
    upper = la.cholesky(x, upper=True)
    close(upper, lower.mT.numpy(), dtype)
    values, vectors = la.eigh(x)
    close(la.eigvalsh(x), values.numpy(), dtype)
    close((vectors * values.unsqueeze(-2)) @ vectors.mT, a, "float32")
    b = make((*shape[:-1], 2), dtype)
    close(x @ mt.cholesky_solve(mt.tensor(b), lower), b, "float32")
    close(mt.cholesky_inverse(lower) @ x, np.broadcast_to(np.eye(shape[-1]), shape), "float32")
    factors, pivots = la.ldl_factor(x)
    close(x @ la.ldl_solve(factors, pivots, mt.tensor(b)), b, "float32")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", RECTANGLES)
def test_rectangles(shape, dtype):
    a = make(shape, dtype)
    x = mt.tensor(a)
    u, s, vh = la.svd(x, full_matrices=False)
    close((u * s.unsqueeze(-2)) @ vh, a, dtype)
    close(la.svdvals(x), np.linalg.svd(a, compute_uv=False), dtype)
    m, n = shape[-2:]
    u, _, vh = la.svd(x)
    assert tuple(u.shape) == (*shape[:-2], m, m)
    assert tuple(vh.shape) == (*shape[:-2], n, n)
    for mode in ("reduced", "complete"):
        q, r = la.qr(x, mode)
        close(q @ r, a, dtype)
        close(q.mT @ q, np.broadcast_to(np.eye(q.shape[-1]), (*shape[:-2], q.shape[-1], q.shape[-1])), dtype)
    p, lower, upper = la.lu(x)
    close(p @ lower @ upper, a, dtype)
    close(la.pinv(x), np.linalg.pinv(a) if a.size else np.zeros((*shape[:-2], n, m)), dtype)
    assert la.matrix_rank(x).tolist() == np.linalg.matrix_rank(a).tolist() if a.size else True


def test_the_older_qr():
    a = make((5, 3))
    for options, sizes in (({}, (3, 3)), ({"some": False}, (5, 3))):
        q, r = mt.qr(mt.tensor(a), **options)
        assert r.shape == sizes
        close(q @ r, a)


def test_reflectors():
    a = make((2, 5, 3))
    reflectors, tau = mt.geqrf(mt.tensor(a))
    q = la.householder_product(reflectors, tau)
    close(q @ reflectors[..., :3, :].triu(), a)
    other = mt.tensor(make((2, 5, 4)))
    full = mt.ormqr(reflectors, tau, mt.eye(5, dtype=mt.float64).expand((2, 5, 5)))
    close(mt.ormqr(reflectors, tau, other), (full @ other).numpy())
    close(mt.ormqr(reflectors, tau, other, transpose=True), (full.mT @ other).numpy())
    close(mt.ormqr(reflectors, tau, other.mT, left=False), (other.mT @ full).numpy())


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("unitriangular", [False, True])
@pytest.mark.parametrize("n", [3, 50])
def test_triangular_systems(upper, left, unitriangular, n):
    a = make((2, n, n)) / n + np.eye(n)
    b = make((n, 2) if left else (2, n))
    triangle = np.triu(a) if upper else np.tril(a)
    if unitriangular:
        triangle = triangle - triangle * np.eye(n) + np.eye(n)
    x = la.solve_triangular(mt.tensor(a), mt.tensor(b), upper=upper, left=left, unitriangular=unitriangular)
    product = triangle @ x.numpy() if left else x.numpy() @ triangle
    np.testing.assert_allclose(product, np.broadcast_to(b, product.shape), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("adjoint", [False, True])
def test_lu_solve(left, adjoint):
    a, b = make((2, 4, 4)), make((2, 4, 4))
    x = la.lu_solve(*la.lu_factor(mt.tensor(a)), mt.tensor(b), left=left, adjoint=adjoint).numpy()
    system = a.swapaxes(-1, -2) if adjoint else a
    np.testing.assert_allclose(system @ x if left else x @ system, b, atol=1e-9)


def test_norms():
    a = make((3, 4, 5))
    x = mt.tensor(a)
    for order in (2, 1, 0, 3, -1.5, np.inf, -np.inf):
        close(la.vector_norm(x[0, 0], order), np.linalg.norm(a[0, 0], order))
        close(la.vector_norm(x, order, dim=1, keepdim=True), np.linalg.norm(a, order, axis=1, keepdims=True))
    for order in ("fro", "nuc", 1, -1, 2, -2, np.inf, -np.inf):
        for dim in ((-2, -1), (0, 2), (2, 0), (1, 0)):
            close(la.matrix_norm(x, order, dim), np.linalg.norm(a, order, dim))
            close(la.matrix_norm(x, order, dim, keepdim=True), np.linalg.norm(a, order, dim, keepdims=True))
    for order in (None, 2, -2, 1, -1, np.inf, -np.inf, "fro", "nuc"):
        square = make((2, 3, 3))
        close(la.cond(mt.tensor(square), order), np.linalg.cond(square, order))


def test_gradient_of_a_norm_at_zero_is_zero():
    x = mt.zeros(3, requires_grad=True)
    la.vector_norm(x).backward()
    assert x.grad.tolist() == [0, 0, 0]


def test_tensors():
    a = make((2, 3, 6))
    close(la.tensorinv(mt.tensor(a), 2), np.linalg.tensorinv(a, 2))
    b = make((2, 3))
    close(la.tensorsolve(mt.tensor(a), mt.tensor(b)), np.linalg.tensorsolve(a, b))
    close(la.tensorsolve(mt.tensor(a.transpose(2, 0, 1)), mt.tensor(b), dims=(0,)), np.linalg.tensorsolve(a, b))


def test_products():
    a, b, c = make((2, 30)), make((30, 3)), make((3, 10))
    close(la.multi_dot([mt.tensor(t) for t in (a, b, c)]), a @ b @ c)
    v, w = make(2), make(10)
    close(la.multi_dot([mt.tensor(t) for t in (v, a, b, c, w)]), v @ a @ b @ c @ w)
    x, y = make((4, 3)), make((4, 3))
    close(la.cross(mt.tensor(x), mt.tensor(y)), np.cross(x, y))
    close(la.vecdot(mt.tensor(x), mt.tensor(y)), (x * y).sum(-1))
    close(la.vander(mt.tensor(v), N=4), np.vander(v, 4, increasing=True))
    close(mt.vander(mt.tensor(v), 4), np.vander(v, 4))


@pytest.mark.parametrize("driver", [None, "gels", "gelsy", "gelsd", "gelss"])
def test_lstsq(driver):
    a, b = make((6, 3)), make((6, 2))
    found = la.lstsq(mt.tensor(a), mt.tensor(b), driver=driver)
    expected, residuals, rank, s = np.linalg.lstsq(a, b, rcond=None)
    close(found.solution, expected)
    close(found.residuals, residuals if driver in ("gels", "gelsd", "gelss") else np.zeros(0))
    assert found.rank.tolist() == ([] if driver == "gels" else rank)
    close(found.singular_values, s if driver in ("gelsd", "gelss") else np.zeros(0))


def test_results_have_names():
    x = mt.eye(2)
    assert la.svd(x)._fields == ("U", "S", "Vh") if hasattr(la.svd(x), "_fields") else la.svd(x).Vh.shape == (2, 2)
    assert la.eigh(x).eigenvalues.tolist() == [1, 1]
    assert la.lu_factor_ex(x).info.item() == 0
    assert la.qr(x).R.shape == (2, 2)


def test_out():
    x = mt.tensor(definite((3, 3)))
    out = mt.empty(3, 3, dtype=mt.float64)
    assert la.inv(x, out=out) is out
    close(out @ x, np.eye(3))
    parts = (mt.empty(0, dtype=mt.float64), mt.empty(0, dtype=mt.float64))
    la.eigh(x, out=parts)
    close(parts[0], np.linalg.eigvalsh(x.numpy()))


def test_approximations_of_low_rank():
    mt.manual_seed(0)
    a = make((12, 3)) @ make((3, 9))
    u, s, v = mt.svd_lowrank(mt.tensor(a), q=4)
    close((u * s) @ v.mT, a)
    close(s[:3], np.linalg.svd(a, compute_uv=False)[:3])
    u, s, v = mt.pca_lowrank(mt.tensor(a), q=4)
    close((u * s) @ v.mT, a - a.mean(0))


@pytest.mark.parametrize("largest", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_a_few_eigenpairs(seed, largest):
    """In as many steps as conjugate gradients take: steepest descent would need up to 2,000."""
    rng = np.random.default_rng(seed)
    a, b = (x @ x.T + np.eye(20) for x in rng.normal(size=(2, 20, 20)))
    start, steps = rng.normal(size=(20, 2)), []
    for other in (None, b):
        steps.clear()
        values, vectors = mt.lobpcg(
            mt.tensor(a),
            k=2,
            B=None if other is None else mt.tensor(other),
            X=mt.tensor(start),
            largest=largest,
            tracker=lambda *state: steps.append(state),
        )
        right = np.eye(20) if other is None else other
        every = np.sort(np.linalg.eigvals(np.linalg.solve(right, a)).real)
        close(values, every[:-3:-1] if largest else every[:2])
        vectors = vectors.numpy()
        np.testing.assert_allclose(a @ vectors, right @ vectors * values.numpy(), atol=1e-4)
        assert len(steps) < 400


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize(("n", "columns"), [(1, 1), (31, 2), (33, 1), (65, 7), (100, 40)])
@pytest.mark.parametrize("left", [False, True])
def test_triangular_systems_of_any_layout(dtype, n, columns, left):
    """The same bits for every layout; the other triangle is not read; batches broadcast."""
    draw = [RNG.normal(size=(2, 1, n, n)), RNG.normal(size=(3, n, columns) if left else (3, columns, n))]
    if dtype.startswith("complex"):
        draw = [a + 1j * RNG.normal(size=a.shape) for a in draw]
    a, b = (draw[0] / n + 2 * np.eye(n)).astype(dtype), draw[1].astype(dtype)
    for upper in (False, True):
        triangle = np.triu(a) if upper else np.tril(a)
        given = triangle + (np.tril(np.full((n, n), np.nan), -1) if upper else np.triu(np.full((n, n), np.nan), 1))
        given = given.astype(dtype)
        x = la.solve_triangular(mt.tensor(given), mt.tensor(b), upper=upper, left=left)
        assert x.shape == (2, *b.shape)
        assert np.abs((triangle @ x.numpy() if left else x.numpy() @ triangle) - b).max() < 40 * np.finfo(dtype).eps
        turned = mt.tensor(given.swapaxes(-1, -2).copy()).mT
        spread = mt.tensor(np.repeat(b, 2, axis=-1))[..., ::2]
        again = la.solve_triangular(turned, spread, upper=upper, left=left)
        assert again.numpy().tobytes() == x.numpy().tobytes()


def test_what_is_no_matrix_has_no_approximation():
    class Endless:
        dtype, shape = mt.float32, itertools.count(1)
        expand = property(lambda self: lambda size: self)

    for arguments in ((Endless(),), (mt.ones(3, 3), 2, 2, Endless()), (None,)):
        with pytest.raises(TypeError, match="must be Tensor, not"):
            mt.svd_lowrank(*arguments)
