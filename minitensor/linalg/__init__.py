"""Linear algebra: `torch.linalg`.

Matrices are the last two dimensions; leading ones are batches. float32, float64, complex64 and complex128 are taken.
"""

from minitensor.linalg.checks import LinAlgError
from minitensor.linalg.decompositions import (
    cholesky,
    cholesky_ex,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    householder_product,
    ldl_factor,
    ldl_factor_ex,
    lu,
    lu_factor,
    lu_factor_ex,
    qr,
    svd,
    svdvals,
)
from minitensor.linalg.norms import matrix_norm, norm, vector_norm
from minitensor.linalg.products import cross, diagonal, matmul, matrix_exp, matrix_power, multi_dot, vander, vecdot
from minitensor.linalg.solvers import (
    cond,
    det,
    inv,
    inv_ex,
    ldl_solve,
    lstsq,
    lu_solve,
    matrix_rank,
    pinv,
    slogdet,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)

__all__ = [
    "LinAlgError", "cholesky", "cholesky_ex", "cond", "cross", "det", "diagonal", "eig", "eigh", "eigvals", "eigvalsh",
    "householder_product", "inv", "inv_ex", "ldl_factor", "ldl_factor_ex", "ldl_solve", "lstsq", "lu", "lu_factor",
    "lu_factor_ex", "lu_solve", "matmul", "matrix_exp", "matrix_norm", "matrix_power", "matrix_rank", "multi_dot",
    "norm", "pinv", "qr", "slogdet", "solve", "solve_ex", "solve_triangular", "svd", "svdvals", "tensorinv",
    "tensorsolve", "vander", "vecdot", "vector_norm",
]  # fmt: skip
