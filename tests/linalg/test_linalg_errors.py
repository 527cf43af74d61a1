"""What minitensor.linalg refuses, and in which words; what it says about singular matrices."""

import pytest

import minitensor as mt
from minitensor import linalg as la

ZERO, BATCH = mt.zeros(2, 2), mt.zeros(3, 2, 2)
WIDE, VECTOR, WHOLE = mt.ones(2, 3), mt.ones(3), mt.ones(2, 2, dtype=mt.int64)
EYE = mt.eye(2)

FAILED = [
    (lambda: la.inv(ZERO), "linalg.inv: The diagonal element 1 is zero, the inversion could not be completed"),
    (lambda: la.inv(BATCH), r"linalg.inv: \(Batch element 0\): The diagonal element 1 is zero"),
    (lambda: la.cholesky(ZERO), r"the leading minor of order 1 is not positive-definite\)"),
    (lambda: la.cholesky(mt.stack([EYE, -EYE])), r"linalg.cholesky: \(Batch element 1\): The factorization could not"),
    (lambda: la.solve(ZERO, mt.ones(2)), "torch.linalg.solve: The solver failed because the input matrix is singular"),
    (lambda: la.svd(mt.tensor([[float("nan"), 1.0]])), "because the input matrix contained non-finite values"),
    (lambda: mt.cholesky_inverse(ZERO), "cholesky_inverse: The diagonal element 1 is zero"),
    (lambda: la.matrix_power(ZERO, -1), "linalg.inv: The diagonal element 1 is zero"),
]
REFUSED = [
    (lambda: la.inv(WIDE), "linalg.inv: A must be batches of square matrices, but they are 2 by 3 matrices"),
    (lambda: la.det(VECTOR), "linalg.det: The input tensor A must have at least 2 dimensions."),
    (lambda: la.slogdet(WHOLE), "Expected a floating point or complex tensor as input. Got Long"),
    (lambda: la.qr(EYE, "x"), "qr received unrecognized mode 'x' but expected one of 'reduced'"),
    (lambda: la.eigh(EYE, "X"), "Expected UPLO argument to be 'L' or 'U', but got X"),
    (lambda: la.svd(EYE, driver="gesvd"), "is only supported on CUDA inputs with cuSOLVER backend"),
    (lambda: la.lu(EYE, pivot=False), "LU without pivoting is not implemented on the CPU"),
    (lambda: la.lu_factor(ZERO), r"U\[1,1\] is zero and using it on lu_solve would result in a division by zero"),
    (lambda: la.solve(EYE, VECTOR), r"Incompatible shapes of A and B for the equation AX = B \(2x2 and 3x1\)"),
    (lambda: la.lstsq(WIDE, VECTOR), r"input.size\(-2\) should match other.size\(-1\)"),
    (lambda: la.matrix_norm(WIDE, 3), "linalg.matrix_norm: Order 3 not supported."),
    (lambda: la.vector_norm(mt.zeros(0), float("inf")), "cannot compute the inf norm on an empty tensor"),
    (lambda: la.norm(mt.ones(2, 2, 2), 2), "the input must be 1D or 2D. Got 3D."),
    (lambda: la.multi_dot([WIDE]), r"multi_dot\(\): expected at least 2 tensors but got 1"),
    (lambda: la.cross(WIDE, VECTOR), "inputs must have the same number of dimensions"),
    (lambda: la.vander(VECTOR, N=1), "N must be greater than 1."),
    (lambda: la.tensorinv(mt.ones(4, 3, 2)), r"but got 2 != 12"),
    (lambda: la.householder_product(WIDE, VECTOR), "must be greater than or equal to input.shape"),
    (lambda: mt.lu_unpack(EYE, mt.tensor([1, 2])), "expected to be a contiguous tensor of torch.int32 dtype"),
    (lambda: mt.symeig(EYE), "deprecated since version 1.9 and is now removed"),
    (lambda: la.pinv(WHOLE), "expected a tensor with 2 or more dimensions of float"),
    (lambda: la.cond(WIDE, 1), r"linalg.cond\(ord=1\): A must be batches of square matrices"),
]


@pytest.mark.parametrize("case", range(len(FAILED)))
@pytest.mark.at_once(reason="errors that depend on values come when a recording runs")
def test_failures(case):
    call, says = FAILED[case]
    with pytest.raises(la.LinAlgError, match=says):
        call()


@pytest.mark.parametrize("case", range(len(REFUSED)))
def test_refusals(case):
    call, says = REFUSED[case]
    with pytest.raises(RuntimeError, match=says) as caught:
        call()
    assert not isinstance(caught.value, la.LinAlgError)


def test_dtypes_without_a_kernel():
    for call in (lambda: la.eigh(WHOLE), lambda: la.lu(WHOLE), lambda: la.solve_triangular(WHOLE, WHOLE, upper=True)):
        with pytest.raises(NotImplementedError, match="not implemented for 'Long'"):
            call()


def test_infos_instead_of_errors():
    inverse, info = la.inv_ex(mt.tensor([[1.0, 2.0], [2.0, 4.0]]))
    assert info.item() == 2
    assert not mt.isfinite(inverse).all()
    factor, info = la.cholesky_ex(mt.tensor([[4.0, 2.0], [2.0, -1.0]]))
    assert info.item() == 2
    assert factor.tolist() == [[2, 0], [1, -2]]
    assert la.lu_factor_ex(BATCH).info.tolist() == [1, 1, 1]
    assert la.solve_ex(BATCH, mt.ones(3, 2, 1)).info.tolist() == [1, 1, 1]
    with pytest.raises(la.LinAlgError):
        la.inv_ex(ZERO, check_errors=True)


def test_ldl_without_scipy(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "scipy.linalg", None)
    with pytest.raises(ImportError, match=r"pip install 'minitensor\[linalg\]'"):
        la.ldl_factor(EYE)


def test_lu_without_scipy(monkeypatch):
    """The factors are the same with and without LAPACK, up to rounding."""
    import sys

    import numpy as np

    arrays = [np.random.default_rng(1).normal(size=shape) for shape in ((70, 70), (2, 40, 50), (50, 40), (1, 1))]
    expected = [la.lu_factor_ex(mt.tensor(a)) for a in arrays]
    monkeypatch.setitem(sys.modules, "scipy.linalg", None)
    for a, (factors, pivots, info) in zip(arrays, expected, strict=True):
        found = la.lu_factor_ex(mt.tensor(a))
        np.testing.assert_allclose(found.LU.numpy(), factors.numpy(), rtol=1e-9, atol=1e-11)
        assert found.pivots.tolist() == pivots.tolist()
        assert found.info.tolist() == info.tolist()


def test_least_squares_of_what_is_not_finite_end():
    for odd in (float("nan"), float("inf")):
        a, b = mt.eye(5, dtype=mt.float64), mt.ones(5, 2, dtype=mt.float64)
        a[1, 2] = odd
        assert mt.linalg.lstsq(a, b).solution.isnan().all()
