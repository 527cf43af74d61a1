"""Products of matrices and vectors in all their forms, against NumPy; and distances."""

import numpy as np
import pytest

import minitensor as mt
from minitensor.autograd import gradcheck, gradgradcheck
from minitensor.nn import functional as F

RNG = np.random.default_rng(6)
DTYPES = ["float32", "float64", "int8", "uint8", "int16", "int32", "int64", "float16", "complex64", "complex128"]


def make(shape, dtype="float64"):
    x = RNG.normal(size=shape) * 3
    if dtype.startswith("complex"):
        x = x + 1j * RNG.normal(size=shape)
    return np.abs(x).astype(dtype) if dtype == "uint8" else x.astype(dtype)


def close(tensor, array, dtype="float64"):
    array = np.asarray(array)
    assert tuple(tensor.shape) == array.shape
    tolerance = {"float16": 2e-2, "float32": 1e-4, "complex64": 1e-4}.get(dtype, 1e-10)
    np.testing.assert_allclose(tensor.numpy(), array, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", DTYPES)
def test_products(dtype):
    a, b, v, w = make((3, 4), dtype), make((4, 5), dtype), make(4, dtype), make(3, dtype)
    x, y, p, q = (mt.tensor(t) for t in (a, b, v, w))
    close(mt.mm(x, y), a @ b, dtype)
    close(x.mm(y), a @ b, dtype)
    close(mt.mv(x, p), a @ v, dtype)
    close(mt.dot(p, p), np.dot(v, v), dtype)
    close(mt.vdot(p, p), np.vdot(v, v), dtype)
    close(mt.inner(x, p), np.inner(a, v), dtype)
    close(mt.outer(q, p), np.outer(w, v), dtype)
    close(mt.kron(x, p), np.kron(a, v), dtype)
    c = make((3, 5), dtype)
    close(mt.addmm(mt.tensor(c), x, y, beta=2, alpha=3), 2 * c + 3 * (a @ b), dtype)
    close(mt.addmv(q, x, p), w + a @ v, dtype)
    close(mt.addr(x, q, p), a + np.outer(w, v), dtype)
    assert mt.mm(x, y).dtype is x.dtype


@pytest.mark.parametrize("dtype", DTYPES)
def test_batches(dtype):
    a, b, c = make((5, 2, 3), dtype), make((5, 3, 4), dtype), make((2, 4), dtype)
    x, y, z = mt.tensor(a), mt.tensor(b), mt.tensor(c)
    close(mt.bmm(x, y), a @ b, dtype)
    close(mt.bmm(y.mT, x.mT), (a @ b).swapaxes(1, 2), dtype)
    close(mt.baddbmm(z, x, y), c + a @ b, dtype)
    close(mt.matmul(x.unsqueeze(1), y), a[:, None] @ b, dtype)
    close(mt.addbmm(z, x, y), c + (a @ b).sum(0, dtype=dtype), dtype)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("sizes", [(1, 1, 1), (7, 5, 3), (70, 33, 40), (2, 0, 3), (130, 600, 20)])
def test_complex_products_read_operands_where_they_lie(sizes, dtype):
    m, k, n = sizes
    a, b = make((k, m), dtype), make((2 * n + 1, k), dtype)
    close(mt.tensor(a).mT @ mt.tensor(b)[1::2].mT, a.T @ b[1::2].T, dtype)


def test_half_precision_accumulates_in_single():
    x = mt.full((1, 4096), 1.0, dtype=mt.bfloat16)
    assert (x @ x.mT).item() == 4096


def test_beta_of_zero_leaves_out_what_is_not_a_number():
    bad = mt.full((2,), float("nan"))
    assert mt.addmm(bad, mt.ones(2, 3), mt.ones(3, 2), beta=0).tolist() == [[3, 3], [3, 3]]


def test_in_place_and_out():
    x = mt.ones(2, 2)
    assert x.addmm_(mt.eye(2), mt.eye(2), beta=2) is x
    assert x.tolist() == [[3, 2], [2, 3]]
    out = mt.empty(2, 2)
    assert mt.mm(x, mt.eye(2), out=out) is out
    assert out.tolist() == x.tolist()


def test_bilinear():
    a, b, w, bias = make((6, 2)), make((6, 3)), make((4, 2, 3)), make(4)
    found = mt.bilinear(*(mt.tensor(t) for t in (a, b, w, bias)))
    close(found, np.einsum("bi,kij,bj->bk", a, w, b) + bias)


REFUSED = [
    (lambda a, v: mt.mm(v, a), "self must be a matrix"),
    (lambda a, v: mt.mm(a, a), r"mat1 and mat2 shapes cannot be multiplied \(2x3 and 2x3\)"),
    (lambda a, v: mt.bmm(a, a), "batch1 must be a 3D tensor"),
    (lambda a, v: mt.mv(a, a), r"vector \+ matrix @ vector expected, got 1, 2, 2"),
    (lambda a, v: mt.dot(a, v), "1D tensors expected, but got 2D and 1D tensors"),
    (lambda a, v: mt.dot(v, v.double()), "expected both vectors to have same dtype, but found Float and Double"),
    (lambda a, v: mt.outer(a, v), "outer: Expected 1-D argument self, but got 2-D"),
    (lambda a, v: mt.inner(a, v[:2]), "the last dimension must match on both input tensors"),
    (lambda a, v: mt.addmm(v, v, v), "mat1 must be a matrix, got 1-D tensor"),
    (lambda a, v: mt.cdist(v, v), "cdist only supports at least 2D tensors, X1 got: 1D"),
    (lambda a, v: mt.cdist(a, a, p=-1), "cdist only supports non-negative p values"),
    (lambda a, v: mt.pdist(v), "pdist only supports 2D tensors, got: 1D"),
    (lambda a, v: mt.trace(v), "trace: expected a matrix, but got tensor with dim 1"),
    (lambda a, v: mt.cross(a[:, :2], a[:, :2]), "no dimension of size 3 in input"),
]


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refusals(case):
    call, says = REFUSED[case]
    with pytest.raises(RuntimeError, match=says):
        call(mt.ones(2, 3), mt.ones(3))


@pytest.mark.parametrize("p", [0, 1, 1.5, 2, 3, float("inf")])
@pytest.mark.parametrize("sizes", [(4, 5, 3), (3, 2, 40), (0, 2, 3), (2, 3, 0)])
def test_distances(p, sizes):
    n, m, k = sizes
    a, b = make((n, k)), make((m, k))
    expected = np.linalg.norm(a[:, None] - b[None], p, axis=-1) if k else np.zeros((n, m))
    close(mt.cdist(mt.tensor(a), mt.tensor(b), p), expected)
    close(mt.cdist(mt.tensor(a).expand((2, n, k)), mt.tensor(b), p), np.stack([expected] * 2))
    c = make((4, 3))
    every = np.linalg.norm(c[:, None] - c[None], p, axis=-1)
    close(mt.pdist(mt.tensor(c), p), every[np.triu_indices(4, 1)])


def test_distances_by_products():
    a, b = make((40, 3)), make((30, 3))
    expected = np.linalg.norm(a[:, None] - b[None], axis=-1)
    close(mt.cdist(mt.tensor(a), mt.tensor(b)), expected)
    close(mt.cdist(mt.tensor(a), mt.tensor(b), compute_mode="donot_use_mm_for_euclid_dist"), expected)


def test_the_distance_to_itself_has_a_gradient_of_zero():
    for mode in ("use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"):
        x = mt.zeros(2, 3, requires_grad=True)
        mt.cdist(x, x, compute_mode=mode).sum().backward()
        assert x.grad.tolist() == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 40, 70), (150, 600, 130), (40, 3, 1), (130, 70, 140)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_addmm_in_one_pass_has_the_bits_of_its_ops(sizes, dtype):
    m, k, n = sizes
    a, b = mt.tensor(make((m, k), dtype)), mt.tensor(make((n, k), dtype)).mT
    for shape in ((m, n), (n,), (m, 1), (1,), ()):
        c = mt.tensor(make(shape, dtype))
        product = a @ b
        assert (mt.addmm(c, a, b) == c + product).all()
        assert (mt.addmm(c, a, b, beta=0.3, alpha=-1.7) == c * 0.3 + product * -1.7).all()
    out = mt.empty(n, m, dtype=a.dtype).mT
    c = mt.tensor(make((n, m), dtype)).mT
    mt.addmm(c, a, b, out=out)
    assert (out == c + a @ b).all()
    bias = mt.tensor(make(n, dtype))
    for x in (a, a.expand(2, m, k), mt.stack([a, -a], 1)):
        assert (F.linear(x, b.mT, bias) == x @ b + bias).all()


def test_addmm_gradients():
    c, a, b, bias = (mt.tensor(make(s), requires_grad=True) for s in ((3, 5), (3, 4), (4, 5), (5,)))
    assert gradcheck(lambda *t: mt.addmm(*t, beta=0.5, alpha=3), (c, a, b))
    assert gradgradcheck(lambda *t: mt.addmm(*t, beta=0.5, alpha=3), (c, a, b))
    assert gradcheck(lambda x, w, v: F.linear(x, w.mT, v), (a, b, bias))
    batches = mt.tensor(make((2, 3, 4)), requires_grad=True)
    assert gradgradcheck(lambda x, w, v: F.linear(x, w.mT, v), (batches, b, bias))
    only = F.linear(a.detach(), b.detach().mT, bias)
    only.sum().backward()
    close(bias.grad, np.full(5, 3.0))
