"""Products of matrices of which one is sparse."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._functions.offered import arange, broadcast_shapes, mm, stack, unique, zeros_like
from minitensor.autograd import no_grad
from minitensor.autograd.function import Function
from minitensor.composite.layout import sparse_coo, sparse_csr
from minitensor.composite.numbers import number
from minitensor.ops.sparse import csr_matmul, csr_sampled
from minitensor.sparse.coalesce import coalesce
from minitensor.sparse.conversion import as_coo, to_compressed
from minitensor.sparse.dispatch import handler, refuse
from minitensor.sparse.elementwise import add, multiply
from minitensor.sparse.places import Rows, _all_rows, rows_of
from minitensor.sparse.shapes import transpose
from minitensor.sparse.tensor import COMPRESSED, Pattern, build, elements_of, is_sparse, layout_of

__all__ = ["matrix_product", "sampled_addmm"]

_KERNEL_TYPES = (_C.float16, _C.bfloat16, _C.float32, _C.float64)


class SparseProduct(Function):
    """Compressed rows times a dense matrix. Its gradients are such products, too."""

    @staticmethod
    def forward(ctx: Any, values: Any, dense: Any, rows: Rows) -> Any:
        ctx.rows = rows
        ctx.save_for_backward(values, dense)
        return csr_matmul(rows.crow, rows.col, values, dense)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        values, dense = ctx.saved_tensors
        wants_values, wants_dense, _ = ctx.needs_input_grad
        of_values = _sampled(gradient, dense, ctx.rows) if wants_values else None
        of_dense = None
        if wants_dense:
            transposed = ctx.rows.transposed
            of_dense = _times(transposed.values(values), gradient, transposed)
        return of_values, of_dense, None


class SparseSampled(Function):
    """The elements of `a @ b.T` at the places of compressed rows."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any, rows: Rows) -> Any:
        ctx.rows = rows
        ctx.save_for_backward(a, b)
        return csr_sampled(rows.crow, rows.col, a, b)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        a, b = ctx.saved_tensors
        wants_a, wants_b, _ = ctx.needs_input_grad
        transposed = ctx.rows.transposed
        of_a = _times(gradient, b, ctx.rows) if wants_a else None
        of_b = _times(transposed.values(gradient), a, transposed) if wants_b else None
        return of_a, of_b, None


def _row_numbers(rows: Rows) -> Any:
    return _all_rows(rows.crow, rows.col.shape[0])


def _times(values: Any, dense: Any, rows: Rows) -> Any:
    if values.dtype in _KERNEL_TYPES:
        return SparseProduct.apply(values, dense, rows)
    parts = values.unsqueeze(1) * dense.index_select(0, rows.col)
    return dense.new_zeros((rows.size[0], dense.shape[1])).index_add(0, _row_numbers(rows), parts)


def _sampled(a: Any, b: Any, rows: Rows) -> Any:
    if a.dtype in _KERNEL_TYPES:
        return SparseSampled.apply(a, b, rows)
    return (a.index_select(0, _row_numbers(rows)) * b.index_select(0, rows.col).conj()).sum(1)


def _same_dtype(name: str, a: Any, b: Any) -> None:
    if a.dtype is not b.dtype:
        raise RuntimeError(f"{name}: expected m1 and m2 to have the same dtype, but got: {a.dtype} != {b.dtype}")


def _check(name: str, a: Any, b: Any) -> None:
    if a.ndim != 2 or b.ndim != 2:
        raise RuntimeError(f"{name}: expected 2-D matrices, but got {a.ndim}-D and {b.ndim}-D tensors")
    if a.shape[1] != b.shape[0]:
        raise RuntimeError(
            f"{name}: mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        )
    _same_dtype(name, a, b)
    for one in (a, b):
        if is_sparse(one) and one._pattern.dense_dim:
            raise RuntimeError(
                f"{name}: expected a sparse matrix without dense dimensions, but it has {one._pattern.dense_dim}"
            )


def _sparse_dense(sparse: Any, dense: Any) -> Any:
    pattern = sparse._pattern
    if pattern.block_dims:
        sparse = to_compressed(sparse, sparse_csr)
        pattern = sparse._pattern
    rows = rows_of(pattern)
    return _times(rows.values(elements_of(sparse)), dense, rows)


def _sparse_sparse(a: Any, b: Any) -> Any:
    """The product of sparse matrices: each pair of elements that meet, added up by place."""
    first, second = coalesce(as_coo(a)), coalesce(as_coo(b))
    left, right = first._pattern.indices[0], rows_of(second._pattern)
    counts = (right.crow[1:] - right.crow[:-1]).index_select(0, left[1])
    which = arange(left.shape[1], device=left.device).repeat_interleave(counts)
    begin = counts.cumsum(0) - counts
    other = right.crow.index_select(0, left[1].index_select(0, which)) + arange(
        which.shape[0], device=left.device
    ) - begin.index_select(0, which)  # fmt: skip
    values = elements_of(first).index_select(0, which) * right.values(elements_of(second)).index_select(0, other)
    indices = stack([left[0].index_select(0, which), right.col.index_select(0, other)])
    made = coalesce(build(Pattern(sparse_coo, (a.shape[0], b.shape[1]), (indices,)), values))
    kind = a._pattern.layout
    return to_compressed(made, sparse_csr) if kind in COMPRESSED or b._pattern.layout in COMPRESSED else made


def matrix_product(a: Any, b: Any, name: str = "mm") -> Any:
    """The product of two matrices: dense if one of them is, else sparse. Gradients of a sparse one have its places."""
    _check(name, a, b)
    if is_sparse(a) and is_sparse(b):
        return _sparse_sparse(a, b)
    if is_sparse(a):
        return _sparse_dense(a, b)
    if is_sparse(b):
        return _sparse_dense(transpose(b, 0, 1), a.t()).t()
    return mm(a, b)


class SparseMm(Function):
    """A product whose gradient for the sparse matrix is a dense one, of all places, as PyTorch's of `mm` is."""

    @staticmethod
    def forward(ctx: Any, a: Any, b: Any, name: str) -> Any:
        ctx.save_for_backward(a, b)
        return matrix_product(a, b, name)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        a, b = ctx.saved_tensors
        wants_a, wants_b, _ = ctx.needs_input_grad
        of_a = _unmasked(gradient, _adjoint(b)) if wants_a else None
        of_b = _unmasked(_adjoint(a), gradient) if wants_b else None
        return of_a, of_b, None


def _adjoint(matrix: Any) -> Any:
    if not is_sparse(matrix):
        return matrix.t().conj()
    turned = transpose(matrix, 0, 1)
    return turned if not matrix.is_complex() else build(turned._pattern, elements_of(turned).conj())


def _unmasked(a: Any, b: Any, name: str = "mm") -> Any:
    """`mm` as PyTorch differentiates it: unmasked where the other matrix is dense."""
    sparse = [m for m in (a, b) if is_sparse(m)]
    if len(sparse) == 1 and _C.is_recorded(sparse[0]):
        _check(name, a, b)
        return SparseMm.apply(a, b, name)
    return matrix_product(a, b, name)


def _no_out(out: Any, name: str) -> None:
    if out is not None:
        raise NotImplementedError(f"{name}: out= is not implemented for tensors in a sparse layout")


@handler("mm", "spmm", "dsmm")
def _mm(input: Any, mat2: Any, *, out: Any = None) -> Any:
    _no_out(out, "mm")
    return _unmasked(input, mat2)


@handler("mv")
def _mv(input: Any, vec: Any, *, out: Any = None) -> Any:
    _no_out(out, "mv")
    if is_sparse(vec):
        raise refuse("mv by a sparse vector", vec)
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(
            f"mv: two tensor dim should be 2 and 1, but got SparseTensor Dim: {input.ndim}, Tensor Dim: {vec.ndim}"
        )
    if input.shape[1] != vec.shape[0]:
        raise RuntimeError("mv: expected self.size(-1) == vec.size(-1)")
    return _unmasked(input, vec.unsqueeze(1), "mv").squeeze(1)


@handler("matmul", "__matmul__")
def _matmul(input: Any, other: Any, *, out: Any = None) -> Any:
    _no_out(out, "matmul")
    if not isinstance(other, _C.Tensor) or not isinstance(input, _C.Tensor):
        raise TypeError(f"matmul(): argument 'other' must be Tensor, not {type(other).__name__}")
    if input.ndim == 2 and other.ndim == 2:
        return _unmasked(input, other, "matmul")
    if input.ndim == 2 and other.ndim == 1:
        return _mv(input, other)
    if input.ndim == 1 and other.ndim == 2 and not is_sparse(input):
        return _unmasked(input.unsqueeze(0), other, "matmul").squeeze(0)
    if input.ndim == 3 and other.ndim == 3:
        return _bmm(input, other)
    raise refuse(f"matmul of {input.ndim}-D and {other.ndim}-D tensors", input if is_sparse(input) else other)


@handler("__rmatmul__")
def _rmatmul(self: Any, other: Any) -> Any:
    return _matmul(other, self)


@handler("bmm")
def _bmm(input: Any, mat2: Any, *, out: Any = None) -> Any:
    """Batches: the sparse matrices as the blocks of one."""
    _no_out(out, "bmm")
    if not is_sparse(input) or is_sparse(mat2) or input._pattern.dense_dim:
        raise refuse("bmm of these layouts", mat2 if is_sparse(mat2) else input)
    if input.ndim != 3 or mat2.ndim != 3:
        raise RuntimeError(f"bmm: expected 3-D tensors, but got {input.ndim}-D and {mat2.ndim}-D")
    batch, m, k = input.shape
    if mat2.shape[0] != batch or mat2.shape[1] != k:
        raise RuntimeError(f"bmm_sparse: Argument #1 and #2 don't fit: {list(input.shape)} and {list(mat2.shape)}")
    _same_dtype("bmm", input, mat2)
    coo = as_coo(input)
    places = coo._pattern.indices[0]

    def work_out() -> Pattern:
        from minitensor.sparse.invariants import check_coo

        check_coo(places, (batch, m, k))
        return Pattern(
            sparse_coo, (batch * m, batch * k), (stack([places[0] * m + places[1], places[0] * k + places[2]]),)
        )

    blocks = build(coo._pattern.known("blocks", work_out), elements_of(coo))
    return _sparse_dense(blocks, mat2.reshape(batch * k, -1)).reshape(batch, m, -1)


@handler("addmm")
def _addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    _no_out(out, "addmm")
    return _plus(input, _unmasked(mat1, mat2, "addmm"), beta, alpha)


def _plus(input: Any, product: Any, beta: Any, alpha: Any) -> Any:
    if is_sparse(product) != is_sparse(input) and is_sparse(input):
        raise RuntimeError("addmm: expected a dense input for a dense product, but it is sparse")
    beta, alpha = number(beta, "addmm", "beta"), number(alpha, "addmm", "alpha")
    product = product if alpha == 1 else multiply(product, alpha) if is_sparse(product) else product * alpha
    if beta == 0:
        return product if is_sparse(product) else product + zeros_like(input).expand(product.shape)
    input = input if beta == 1 else multiply(input, beta) if is_sparse(input) else input * beta
    if not is_sparse(product) and tuple(broadcast_shapes(tuple(input.shape), tuple(product.shape))) != tuple(
        product.shape
    ):
        raise RuntimeError(f"addmm: input of size {list(input.shape)} is not broadcast to {list(product.shape)}")
    return add(input, product) if is_sparse(input) or is_sparse(product) else input + product


def masked_addmm(mat: Any, mat1: Any, mat2: Any, *, beta: Any = 1.0, alpha: Any = 1.0) -> Any:
    """`sparse.addmm`: the gradient of a sparse mat1 has its places only."""
    return _plus(mat, matrix_product(mat1, mat2, "addmm"), beta, alpha)


@handler("linear")
def _linear(input: Any, weight: Any, bias: Any = None) -> Any:
    if is_sparse(input) or (bias is not None and is_sparse(bias)) or weight.ndim != 2:
        raise refuse("linear", input if is_sparse(input) else weight)
    made = _unmasked(weight, input.reshape(-1, input.shape[-1]).t(), "linear").t()
    made = made.reshape(*input.shape[:-1], weight.shape[0])
    return made if bias is None else made + bias


@handler("addmv")
def _addmv(input: Any, mat: Any, vec: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    _no_out(out, "addmv")
    return _plus(input, _mv(mat, vec), beta, alpha)


def _product_at_rows(input: Any, mat2: Any, name: str) -> tuple[Any, Any]:
    """The rows of a sparse matrix that have elements, and those of its product with a dense one."""
    if not is_sparse(input) or not input._pattern.is_coo or is_sparse(mat2):
        raise RuntimeError(f"{name}: expected a matrix of layout sparse_coo and a dense one")
    product = matrix_product(input, mat2, name)
    with no_grad():
        there = unique(input._pattern.indices[0][0])
    return there, product


@handler("hspmm", "hsmm")
def _hspmm(mat1: Any, mat2: Any, *, out: Any = None) -> Any:
    _no_out(out, "hspmm")
    there, product = _product_at_rows(mat1, mat2, "hspmm")
    pattern = Pattern(sparse_coo, (mat1.shape[0], mat2.shape[1]), (there.unsqueeze(0),), True)
    return build(pattern, product.index_select(0, there))


@handler("smm")
def _smm_sparse(input: Any, mat: Any) -> Any:
    there, product = _product_at_rows(input, mat, "smm")
    n = int(mat.shape[1])
    indices = stack([there.repeat_interleave(n), arange(n, device=there.device).repeat(int(there.shape[0]))])
    pattern = Pattern(sparse_coo, (input.shape[0], n), (indices,), True)
    return build(pattern, product.index_select(0, there).reshape(-1))


@handler("sspaddmm")
def _sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    _no_out(out, "sspaddmm")
    if not is_sparse(input) or not input._pattern.is_coo:
        raise RuntimeError("sspaddmm: expected an input of layout sparse_coo")
    product = _smm_sparse(mat1, mat2)
    if tuple(input.shape) != tuple(product.shape):
        raise RuntimeError(f"sspaddmm: Argument #1: Expected size {list(product.shape)}, got {list(input.shape)}")
    return add(multiply(input, beta), multiply(product, alpha))


@handler("saddmm")
def _saddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    return _sspaddmm(input, mat1, mat2, beta=beta, alpha=alpha, out=out)


def sampled_addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1.0, alpha: Any = 1.0, out: Any = None) -> Any:
    """`alpha * (mat1 @ mat2) + beta * input` at the places of a CSR tensor, in its layout."""
    _no_out(out, "sampled_addmm")
    if not is_sparse(input) or input._pattern.layout is not sparse_csr:
        raise RuntimeError(f"sampled_addmm: Expected input to have layout sparse_csr, but got {layout_of(input)}")
    for name, one in (("mat1", mat1), ("mat2", mat2)):
        if is_sparse(one):
            raise RuntimeError(f"sampled_addmm: Expected {name} to have strided layout, but got {layout_of(one)}")
        if one.dtype is not input.dtype:
            raise RuntimeError(f"sampled_addmm: Expected {name} to have dtype {input.dtype}, but got {one.dtype}")
        if one.ndim != input.ndim:
            raise RuntimeError(f"sampled_addmm: Expected {name} to have {input.ndim} dimensions, but got {one.ndim}")
    if mat1.shape[-1] != mat2.shape[-2]:
        raise RuntimeError(
            f"sampled_addmm: mat1 and mat2 shapes cannot be multiplied ({mat1.shape[-2]}x{mat1.shape[-1]} and "
            f"{mat2.shape[-2]}x{mat2.shape[-1]})"
        )
    if tuple(input.shape[-2:]) != (mat1.shape[-2], mat2.shape[-1]):
        raise RuntimeError(
            f"sampled_addmm: input of size {list(input.shape)} doesn't fit a product of "
            f"{mat1.shape[-2]}x{mat2.shape[-1]}"
        )
    if input._pattern.batch_dims:
        raise refuse("sampled_addmm of batches", input)
    rows = rows_of(input._pattern)
    product = _sampled(mat1, mat2.t().conj() if mat1.is_complex() else mat2.t(), rows)
    product = product if alpha == 1 else product * alpha
    return build(input._pattern, product if beta == 0 else product + elements_of(input) * beta)


handler("sparse_sampled_addmm")(sampled_addmm)


def reduced_product(a: Any, b: Any, reduce: str) -> Any:
    """`sparse.mm(a, b, reduce)`: the products of a row's elements are not added up but joined by `reduce`."""
    if reduce not in ("sum", "prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    if not is_sparse(a) or a._pattern.layout is not sparse_csr or is_sparse(b):
        raise refuse(f"sparse.mm with reduce={reduce!r}", a if is_sparse(a) else b)
    _check("sparse.mm", a, b)
    rows = rows_of(a._pattern)
    if reduce == "sum":
        return _sparse_dense(a, b)
    if reduce == "mean":
        counts = (rows.crow[1:] - rows.crow[:-1]).clamp(min=1).to(b.dtype)
        return _sparse_dense(a, b) / counts.unsqueeze(1)
    if reduce == "prod":
        raise refuse("sparse.mm with reduce='prod'", a)
    parts = rows.values(elements_of(a)).unsqueeze(1) * b.index_select(0, rows.col)
    index = _row_numbers(rows).unsqueeze(1).expand(parts.shape)
    zeros = parts.new_zeros((a.shape[0], b.shape[1]))
    return zeros.scatter_reduce(0, index, parts, reduce, include_self=False)
