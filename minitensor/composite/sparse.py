"""Between strided and sparse tensors, and what strided tensors say when they are asked as sparse ones."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._warning import as_shown
from minitensor.composite.layout import strided
from minitensor.composite.registry import composite

_C.add_method("is_sparse", property(lambda self: False, doc="Whether the layout is sparse_coo."))
_C.add_method("is_sparse_csr", property(lambda self: False, doc="Whether the layout is sparse_csr."))


@composite(function=False)
def to_dense(input: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
    """The strided tensor with the same elements: this one itself."""
    return input if dtype is None else input.to(dtype)


@composite(function=False)
def to_sparse(
    input: Any, sparse_dim: int | None = None, *, layout: Any = None, blocksize: Any = None, dense_dim: Any = None
) -> Any:
    """The tensor in a sparse layout, sparse_coo unless another is named: with the elements that aren't zero.

    `sparse_dim`, of sparse_coo, is how many dimensions indices have; the others are dense: a part is there if any of
    its elements isn't zero. `dense_dim` says so for the other layouts. `blocksize` is of those with blocks.
    """
    from minitensor.sparse import conversion

    return conversion.to_sparse(input, sparse_dim, layout=layout, blocksize=blocksize, dense_dim=dense_dim)


@composite(function=False)
def to_sparse_coo(input: Any) -> Any:
    """The tensor in layout sparse_coo; see `to_sparse`."""
    from minitensor.sparse import conversion

    return conversion.to_sparse(input)


@composite(function=False)
def to_sparse_csr(input: Any, dense_dim: int | None = None) -> Any:
    """The tensor in layout sparse_csr, compressed rows; see `to_sparse`."""
    from minitensor.sparse import conversion

    return conversion.to_sparse_csr(input, dense_dim)


@composite(function=False)
def to_sparse_csc(input: Any, dense_dim: int | None = None) -> Any:
    """The tensor in layout sparse_csc, compressed columns; see `to_sparse`."""
    from minitensor.sparse import conversion

    return conversion.to_sparse_csc(input, dense_dim)


@composite(function=False)
def to_sparse_bsr(input: Any, blocksize: Any, dense_dim: int | None = None) -> Any:
    """The tensor in layout sparse_bsr, compressed rows of blocks of that size; see `to_sparse`."""
    from minitensor.sparse import conversion

    return conversion.to_sparse_bsr(input, blocksize, dense_dim)


@composite(function=False)
def to_sparse_bsc(input: Any, blocksize: Any, dense_dim: int | None = None) -> Any:
    """The tensor in layout sparse_bsc, compressed columns of blocks of that size; see `to_sparse`."""
    from minitensor.sparse import conversion

    return conversion.to_sparse_bsc(input, blocksize, dense_dim)


@composite(function=False)
def sparse_mask(input: Any, mask: Any) -> Any:
    """The elements at the places of a sparse tensor, in its layout. RuntimeError for a mask of another size."""
    from minitensor.sparse import masks

    return masks.sparse_mask(input, mask)


@composite(function=False)
def sparse_dim(input: Any) -> int:
    """How many dimensions are sparse: 0 of a strided tensor."""
    return 0


@composite(function=False)
def dense_dim(input: Any) -> int:
    """How many dimensions are dense: all of a strided tensor."""
    return int(input.ndim)


def _of_sparse(name: str, expected: str, doc: str) -> None:
    def get(input: Any) -> Any:
        raise RuntimeError(f"{name} expected {expected} tensor layout but got Strided")

    get.__doc__ = f"{doc} RuntimeError of a tensor that has none."
    composite(name=name, function=False)(get)


_of_sparse("coalesce", "sparse coordinate", "A sparse_coo tensor with each place once, in row-major order.")
_of_sparse("is_coalesced", "sparse coordinate", "Whether a sparse_coo tensor has each place once, in row-major order.")
_of_sparse("indices", "sparse coordinate", "The indices `[sparse dims, nnz]` of a coalesced sparse_coo tensor.")
_of_sparse("_indices", "sparse coordinate", "The indices `[sparse dims, nnz]` of a sparse_coo tensor.")
_of_sparse("values", "sparse", "The elements of a sparse tensor, `[nnz, *dense dims]` of a coalesced sparse_coo one.")
_of_sparse("_values", "sparse coordinate", "The elements of a sparse_coo tensor, without history.")
_of_sparse("_nnz", "sparse", "How many elements, or blocks, a sparse tensor has.")
_of_sparse("crow_indices", "sparse row compressed", "Where the rows of a sparse_csr or sparse_bsr tensor begin.")
_of_sparse("col_indices", "sparse row compressed", "The columns of a sparse_csr or sparse_bsr tensor's elements.")
_of_sparse("ccol_indices", "sparse column compressed", "Where the columns of a sparse_csc or sparse_bsc tensor begin.")
_of_sparse("row_indices", "sparse column compressed", "The rows of a sparse_csc or sparse_bsc tensor's elements.")


def _copy_of(name: str) -> None:
    def get(input: Any) -> Any:
        return getattr(input, name)().clone()

    get.__doc__ = f"A copy of `{name}()`."
    composite(name=f"{name}_copy", method=False)(get)


for _name in ("indices", "values", "crow_indices", "col_indices", "ccol_indices", "row_indices"):
    _copy_of(_name)


def _of_sparse_only(name: str, doc: str, function: bool) -> None:
    def call(input: Any, *args: Any, **more: Any) -> Any:
        raise RuntimeError(as_shown(f"{name}() takes a tensor of layout minitensor.sparse_coo, not of {strided}"))

    call.__doc__ = doc
    composite(name=name, function=function)(call)


_of_sparse_only("_coalesced_", "Says of a sparse_coo tensor whether it has each place once.", False)


@composite(function=False)
def sparse_resize_(input: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """Give a sparse_coo tensor another size; its elements stay where they are. RuntimeError for a smaller one."""
    raise RuntimeError(as_shown("sparse_resize_() takes a tensor of layout minitensor.sparse_coo"))


@composite(function=False)
def sparse_resize_and_clear_(input: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    """Give a sparse_coo tensor another size, and no elements."""
    raise RuntimeError(as_shown("sparse_resize_and_clear_() takes a tensor of layout minitensor.sparse_coo"))


@composite()
def resize_as_sparse_(input: Any, the_template: Any) -> Any:
    """Give a sparse_coo tensor the size of another one; its elements stay where they are."""
    raise RuntimeError(as_shown("resize_as_sparse_() takes a tensor of layout minitensor.sparse_coo"))


@composite(method=False)
def native_norm(input: Any, p: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    """The norm of a sparse tensor's elements; `norm` is that of any tensor."""
    raise NotImplementedError(f"native_norm takes sparse tensors, not one of layout {strided}")


# ---- products of sparse matrices; dense ones have `mm` and `addmm`


@composite()
def smm(input: Any, mat: Any) -> Any:
    """The product of a sparse_coo matrix `[M, K]` and a dense one `[K, N]` as a sparse one."""
    raise RuntimeError(f"smm: expected a matrix of layout sparse_coo, but got {strided}")


@composite(method=False, aliases=("hsmm",))
def hspmm(mat1: Any, mat2: Any, *, out: Any = None) -> Any:
    """The product of a sparse_coo matrix and a dense one as a tensor with one sparse dimension: rows."""
    raise RuntimeError(f"hspmm: expected a matrix of layout sparse_coo, but got {strided}")


@composite()
def sspaddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """`beta * input + alpha * (mat1 @ mat2)`, where input and mat1 are sparse_coo and mat2 is dense; it is sparse."""
    raise RuntimeError(f"sspaddmm: expected tensors of layout sparse_coo, but got {strided}")


@composite(method=False)
def saddmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1, out: Any = None) -> Any:
    """Another name of `sspaddmm`."""
    raise RuntimeError(f"saddmm: expected tensors of layout sparse_coo, but got {strided}")


@composite(method=False, aliases=("dsmm",))
def spmm(input: Any, mat2: Any) -> Any:
    """The product of matrices of which one may be sparse: `mm`."""
    return input.mm(mat2)
