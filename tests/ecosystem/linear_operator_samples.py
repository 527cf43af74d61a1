"""linear_operator: its classes in functions of torch, with PyTorch's values."""

# ruff: noqa: C408

import pytest
import torch
from linear_operator.operators import (
    DenseLinearOperator,
    DiagLinearOperator,
    KroneckerProductLinearOperator,
    RootLinearOperator,
    ToeplitzLinearOperator,
)

A = torch.linspace(0, 1, 12).reshape(4, 3).sin()
d = DiagLinearOperator(torch.tensor([1.0, 2.0, 3.0, 4.0]))
CASES = dict(
    matmul=lambda: d @ A,
    torch_matmul=lambda: torch.matmul(d, A),
    add=lambda: (d + DenseLinearOperator(torch.eye(4))).to_dense(),
    solve=lambda: d.solve(A),
    torch_solve=lambda: torch.linalg.solve(d, A),
    logdet=lambda: d.logdet(),
    torch_logdet=lambda: torch.logdet(d),
    low=lambda: (RootLinearOperator(A) + d).solve(A),
    chol=lambda: torch.linalg.cholesky(RootLinearOperator(A).add_diagonal(torch.ones(4))).to_dense(),
    kron=lambda: KroneckerProductLinearOperator(
        DenseLinearOperator(torch.eye(2)), DenseLinearOperator(torch.ones(2, 2))
    ).to_dense(),
    toep=lambda: ToeplitzLinearOperator(torch.tensor([4.0, 1.0, 0.5, 0.1])).matmul(A),
    diag=lambda: torch.diagonal(d),
    eigh=lambda: torch.linalg.eigh(DenseLinearOperator(A @ A.T + torch.eye(4)))[0],
    t=lambda: d.mT.to_dense(),
    invq=lambda: (RootLinearOperator(A) + d).inv_quad_logdet(A, logdet=True),
    sum=lambda: d.sum(-1),
    exp=lambda: d.exp().to_dense(),
    cg=lambda: (DenseLinearOperator(A @ A.T) + d).solve(A[:, 0]),
    add2=lambda: torch.add(d, d).to_dense(),
    mul=lambda: (d * 2).to_dense(),
)
VALUES = {
    "matmul": [[0.0, 0.09078, 0.1808, 0.5387, 0.7114, 0.8781, 1.556, 1.783, 1.995, 2.92, 3.156, 3.366]],
    "torch_matmul": [[0.0, 0.09078, 0.1808, 0.5387, 0.7114, 0.8781, 1.556, 1.783, 1.995, 2.92, 3.156, 3.366]],
    "add": [[2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 5.0]],
    "solve": [[0.0, 0.09078, 0.1808, 0.1347, 0.1778, 0.2195, 0.1729, 0.1981, 0.2216, 0.1825, 0.1972, 0.2104]],
    "torch_solve": [[0.0, 0.09078, 0.1808, 0.1347, 0.1778, 0.2195, 0.1729, 0.1981, 0.2216, 0.1825, 0.1972, 0.2104]],
    "logdet": [[3.178]],
    "torch_logdet": [[3.178]],
    "low": [[-0.04149, 0.0408, 0.1228, 0.05686, 0.08626, 0.1149, 0.08684, 0.09716, 0.1067, 0.09702, 0.09723, 0.09663]],
    "chol": [[1.02, 0.0, 0.0, 0.0, 0.1095, 1.175, 0.0, 0.0, 0.1707, 0.5315, 1.324, 0.0, 0.2193, 0.7003, 0.7533, 1.326]],
    "kron": [[1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0]],
    "toep": [[0.6018, 1.095, 1.579, 1.961, 2.502, 3.023, 3.074, 3.567, 4.03, 3.573, 3.937, 4.268]],
    "diag": [[1.0, 2.0, 3.0, 4.0]],
    "eigh": [[1.0, 1.0, 1.019, 4.341]],
    "t": [[1.0, 0.0, 0.0, 0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 0.0, 3.0, 0.0, 0.0, 0.0, 0.0, 4.0]],
    "invq": [[0.5249], [3.907]],
    "rep": [2, 4, 4],
    "sum": [[1.0, 2.0, 3.0, 4.0]],
    "exp": [[2.718, 0.0, 0.0, 0.0, 0.0, 7.389, 0.0, 0.0, 0.0, 0.0, 20.09, 0.0, 0.0, 0.0, 0.0, 54.6]],
    "cg": [[-0.04149, 0.05686, 0.08684, 0.09702]],
    "add2": [[2.0, 0.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 6.0, 0.0, 0.0, 0.0, 0.0, 8.0]],
    "mul": [[2.0, 0.0, 0.0, 0.0, 0.0, 4.0, 0.0, 0.0, 0.0, 0.0, 6.0, 0.0, 0.0, 0.0, 0.0, 8.0]],
}


@pytest.mark.parametrize("name", CASES)
def test_values(name):
    found = CASES[name]()
    for ours, theirs in zip(found if isinstance(found, tuple) else [found], VALUES[name], strict=True):
        assert ours.flatten().tolist() == pytest.approx(theirs, rel=2e-3, abs=1e-5)
