"""Sparse tensors: products, sums and softmax, whose gradients are sparse as well.

A tensor of layout `sparse_coo` has indices `[sparse dims, nnz]` and values `[nnz, *dense dims]`; those of `sparse_csr`,
`sparse_csc`, `sparse_bsr` and `sparse_bsc` have compressed rows or columns, of numbers or of blocks. They are made by
`minitensor.sparse_coo_tensor` and its like and by `Tensor.to_sparse`, and `Tensor.to_dense` is the way back. What
doesn't know a layout is a NotImplementedError that names both.
"""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor.sparse import products, reductions
from minitensor.sparse.checking import as_sparse_gradcheck
from minitensor.sparse.conversion import to_dense
from minitensor.sparse.diagonals import spdiags
from minitensor.sparse.invariants import check_sparse_tensor_invariants
from minitensor.sparse.reductions import log_softmax, softmax
from minitensor.sparse.semi_structured import (
    SparseSemiStructuredTensor,
    SparseSemiStructuredTensorCUSPARSELT,
    SparseSemiStructuredTensorCUTLASS,
    to_sparse_semi_structured,
)

__all__ = [
    "SparseSemiStructuredTensor", "SparseSemiStructuredTensorCUSPARSELT", "SparseSemiStructuredTensorCUTLASS",
    "addmm", "as_sparse_gradcheck", "check_sparse_tensor_invariants", "log_softmax", "mm", "sampled_addmm", "softmax",
    "solve", "spdiags", "sum", "to_sparse_semi_structured",
]  # fmt: skip


def mm(mat1: Any, mat2: Any, reduce: str | None = None) -> Any:
    """The product of matrices `[M, K]` and `[K, N]`: dense if one of them is, otherwise sparse.

    The gradient of a sparse matrix has elements at its places only. With `reduce`, one of "sum", "mean", "amax" and
    "amin", the products of a row of mat1, of layout sparse_csr, are joined by that instead of added up. RuntimeError
    for shapes or dtypes that don't fit.
    """
    with _C.DisableTorchFunctionSubclass():
        if reduce is not None:
            return products.reduced_product(mat1, mat2, reduce)
        return products.matrix_product(mat1, mat2, "mm")


def addmm(mat: Any, mat1: Any, mat2: Any, *, beta: float = 1.0, alpha: float = 1.0) -> Any:
    """`beta * mat + alpha * (mat1 @ mat2)`, where mat1 is sparse. Its gradient has elements at its places only."""
    with _C.DisableTorchFunctionSubclass():
        return products.masked_addmm(mat, mat1, mat2, beta=beta, alpha=alpha)


def sampled_addmm(input: Any, mat1: Any, mat2: Any, *, beta: float = 1.0, alpha: float = 1.0, out: Any = None) -> Any:
    """`alpha * (mat1 @ mat2) + beta * input` at the places of `input` `[M, N]`, in its layout, which is sparse_csr."""
    with _C.DisableTorchFunctionSubclass():
        return products.sampled_addmm(input, mat1, mat2, beta=beta, alpha=alpha, out=out)


def sum(input: Any, dim: Any = None, dtype: Any = None) -> Any:  # (PyTorch's name)
    """The sum of a sparse_coo tensor's elements, or over dimensions.

    It is sparse as long as a sparse dimension is left. The gradient has elements at the input's places only.
    """
    with _C.DisableTorchFunctionSubclass():
        return reductions.masked_sum(input, dim, dtype)


def solve(input: Any, other: Any, *, left: bool = True) -> Any:
    """The solution X of `input @ X = other`, or of `X @ input = other` unless `left`, for a square sparse matrix.

    It is computed by a dense factorisation, in memory for all of the matrix. LinAlgError for a singular one.
    """
    from minitensor import linalg

    with _C.DisableTorchFunctionSubclass():
        return linalg.solve(to_dense(input), other, left=left)
