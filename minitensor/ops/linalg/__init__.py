"""Linear algebra: kernels through LAPACK, gradients through ops.

The formulas: Giles, "Collected matrix derivative results for forward and reverse mode algorithmic differentiation"
(2008); Murray, "Differentiation of the Cholesky decomposition" (2016); Townsend, "Differentiating the singular value
decomposition" (2016); Seeger et al., "Auto-differentiating linear algebra" (2017); Golub and Pereyra, "The
differentiation of pseudo-inverses" (1973). A complex gradient is the conjugate one: dL = Re tr(g^H dA).

The rows are private: `minitensor.linalg` checks arguments, reports failures and names results.
"""

from minitensor.ops.linalg.decompositions import (
    cholesky,
    eig,
    eigh,
    geqrf,
    ldl_factor,
    lu_factor,
    permutation_matrix,
    qr,
    svd,
)
from minitensor.ops.linalg.matrix_functions import det, matrix_exp, slogdet
from minitensor.ops.linalg.matrix_row import LinAlgError, adjoint
from minitensor.ops.linalg.solvers import (
    cholesky_inverse,
    cholesky_solve,
    inv,
    ldl_solve,
    lstsq,
    pinv,
    solve,
    solve_triangular,
)

__all__ = [
    "LinAlgError",
    "adjoint",
    "cholesky",
    "cholesky_inverse",
    "cholesky_solve",
    "det",
    "eig",
    "eigh",
    "geqrf",
    "inv",
    "ldl_factor",
    "ldl_solve",
    "lstsq",
    "lu_factor",
    "matrix_exp",
    "permutation_matrix",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
]
