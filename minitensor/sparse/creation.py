"""Sparse tensors of their components."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor.composite.layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr
from minitensor.creation import tensor as make_tensor
from minitensor.creation import with_requires_grad
from minitensor.sparse.invariants import check_compressed, check_coo, wants_checks
from minitensor.sparse.tensor import BLOCKS, BY_COLUMNS, COMPRESSED, NAMES, Pattern, build, raw

__all__ = [
    "sparse_bsc_tensor", "sparse_bsr_tensor", "sparse_compressed_tensor", "sparse_coo_tensor", "sparse_csc_tensor",
    "sparse_csr_tensor",
]  # fmt: skip

Tensor = _C.Tensor


def _values(given: Any, dtype: Any, device: Any) -> Any:
    if not isinstance(given, Tensor):
        return make_tensor(given, dtype=dtype, device=device)
    _dense(given, "values")
    return given.to(device=device, dtype=dtype)


def _indices(given: Any, dtype: Any, device: Any) -> Any:
    if not isinstance(given, Tensor):
        return make_tensor(given, dtype=dtype, device=device)
    _dense(given, "indices")
    return given.to(device=device, dtype=dtype)


def _dense(tensor: Any, name: str) -> None:
    if hasattr(tensor, "_pattern"):
        raise RuntimeError(f"expected {name} to be a strided tensor, but got one of layout {tensor._pattern.layout}")


def _sizes(size: Any, what: str) -> tuple[int, ...]:
    if isinstance(size, Tensor) or not hasattr(size, "__iter__"):
        raise TypeError(f"{what}(): argument 'size' must be a tuple of ints, not {type(size).__name__}")
    sizes = tuple(n.__index__() for n in size)
    if any(n < 0 for n in sizes):
        raise RuntimeError(f"{what}(): negative size in {list(sizes)}")
    return sizes


def sparse_coo_tensor(
    indices: Any = None, values: Any = None, size: Any = None, *, dtype: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> Any:  # fmt: skip
    """A tensor of layout sparse_coo with `values` `[nnz, *dense]` at `indices` `[sparse dims, nnz]`.

    The first argument may also be the size of an empty one. Values at the same place are added up when they are used.
    Without a size it is the smallest that has room for the indices. Indices are only compared with a size that is
    given by `check_invariants`, or within :class:`minitensor.sparse.check_sparse_tensor_invariants`. RuntimeError for
    components that don't fit each other.
    """
    with _C.DisableTorchFunctionSubclass():
        if values is None:
            if (size is None) == (indices is None):
                raise TypeError("sparse_coo_tensor() takes a size, or indices and values")
            sizes = _sizes(indices if size is None else size, "sparse_coo_tensor")
            none = _C.empty((len(sizes), 0), _C.int64, device)
            made = build(
                Pattern(sparse_coo, sizes, (none,), True),
                _C.empty((0,), dtype if dtype is not None else _C.get_default_dtype(), device),
            )
            return with_requires_grad(made, requires_grad)
        if indices is None:
            raise TypeError("sparse_coo_tensor() takes a size, or indices and values")
        elements = _values(values, dtype, device)
        places = _indices(indices, None, elements.device).to(_C.int64)
        sizes = _coo_size(places, elements, size)
        if wants_checks(check_invariants):
            check_coo(places, sizes)
        pattern = Pattern(sparse_coo, sizes, (places,), bool(is_coalesced))
        if is_coalesced and wants_checks(check_invariants):
            from minitensor.sparse.places import flat_places

            flat = flat_places(pattern)
            if bool((flat[1:] <= flat[:-1]).any()):
                raise RuntimeError("cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor")
        made = build(pattern, elements)
        # What is made of values is a leaf unless these have a history.
        if requires_grad:
            made = raw(made._pattern, made._elements)
        return with_requires_grad(made, requires_grad)


def _coo_size(indices: Any, values: Any, size: Any) -> tuple[int, ...]:
    if indices.ndim == 1 and indices.numel() == 0:
        indices = indices.reshape(1, 0)
    if indices.ndim != 2:
        if size is None or indices.ndim != 1:
            raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}")
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(indices.shape)}, for size {list(size)}")
    if values.ndim == 0 and not (indices.shape[1] == 1):
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {indices.shape[1]}, nnz from values: 1"
        )
    if values.ndim == 0:
        raise RuntimeError("values must have a dimension of nnz, but got a number")
    if values.shape[0] != indices.shape[1]:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {indices.shape[1]}, nnz from values: "
            f"{values.shape[0]}"
        )
    sparse, dense = int(indices.shape[0]), values.ndim - 1
    if size is None:
        if indices.shape[1] == 0:
            return (*[0] * sparse, *values.shape[1:])
        for dim, least in enumerate(indices.amin(1).tolist()):
            if least < 0:
                raise RuntimeError(f"found negative index {least} for dim {dim}")
        return (*(n + 1 for n in indices.amax(1).tolist()), *values.shape[1:])
    sizes = _sizes(size, "sparse_coo_tensor")
    if len(sizes) != sparse + dense:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(sizes)}, sparse_dim = {sparse}, "
            f"dense_dim = {dense}"
        )
    wanted, got = [indices.shape[1], *sizes[sparse:]], list(values.shape)
    if wanted != got:
        raise RuntimeError(f"values has incorrect size, expected {wanted}, got {got}")
    return sizes


def sparse_compressed_tensor(
    compressed_indices: Any, plain_indices: Any, values: Any, size: Any = None, *, dtype: Any = None,
    layout: Any = None, device: Any = None, pin_memory: bool = False, requires_grad: bool = False,
    check_invariants: bool | None = None,
) -> Any:  # fmt: skip
    """A tensor of layout sparse_csr, sparse_csc, sparse_bsr or sparse_bsc of its components.

    The elements of row (or column) i are `values[compressed_indices[i]:compressed_indices[i + 1]]`, in the columns (or
    rows) that `plain_indices` names there; of the last two layouts each is a block `[block rows, block columns]`.
    Batch dimensions come first in all three, dense dimensions last in `values`. The values of the indices are only
    checked if `check_invariants`. RuntimeError for components that don't fit each other.
    """
    if layout not in COMPRESSED:
        raise RuntimeError(
            "sparse_compressed_tensor expected sparse compressed tensor layout but got "
            f"{NAMES.get(layout, 'Strided') if layout is not None else 'none'}"
        )
    return _compressed(
        compressed_indices, plain_indices, values, size, layout, dtype, device, requires_grad, check_invariants
    )


def _compressed(
    compressed: Any, plain: Any, values: Any, size: Any, layout: Any, dtype: Any, device: Any, requires_grad: bool,
    check_invariants: bool | None,
) -> Any:  # fmt: skip
    with _C.DisableTorchFunctionSubclass():
        elements = _values(values, dtype, device)
        first, second = _indices(compressed, None, elements.device), _indices(plain, None, elements.device)
        for one in (first, second):
            if one.ndim < 1:
                raise RuntimeError(f"indices must have dimensionality >= 1 but got {one.ndim}")
            if one.dtype not in (_C.int32, _C.int64):
                raise RuntimeError(f"indices must be an int32 or int64 type, but got {one.dtype}")
        if first.dtype is not second.dtype:
            raise RuntimeError(
                f"compressed and plain indices must have the same dtype, but got {first.dtype} and {second.dtype}"
            )
        sizes = (
            _estimated_size(first, second, elements, layout)
            if size is None
            else _sizes(size, "sparse_compressed_tensor")
        )
        _check_shapes(layout, first, second, elements, sizes)
        if wants_checks(check_invariants):
            check_compressed(layout, first, second, elements, sizes)
        pattern = Pattern(layout, sizes, (first, second), block=block_of(layout, first.ndim - 1, elements))
        made = build(pattern, elements)
        if requires_grad:
            made = raw(made._pattern, made._elements)
        return with_requires_grad(made, requires_grad)


def _check_shapes(layout: Any, compressed: Any, plain: Any, values: Any, size: tuple[int, ...]) -> None:
    """What costs nothing is always checked."""
    from minitensor.sparse import invariants

    batch, blocks = compressed.ndim - 1, 2 if layout in BLOCKS else 0
    if values.ndim <= batch + blocks:
        raise RuntimeError(
            f"values must have dimensionality > sum of batch and block dimensionalities (={batch} + {blocks}) but got "
            f"{values.ndim}"
        )
    if compressed.device.type == "meta":
        return
    # All checks of shapes, on components whose values are not read.
    invariants.check_compressed(layout, compressed.to("meta"), plain.to("meta"), values.to("meta"), size)


def block_of(layout: Any, batch: int, values: Any) -> tuple[int, int]:
    """The shape of the blocks that the values are, (1, 1) in a layout without blocks."""
    return tuple(values.shape[batch + 1 : batch + 3]) if layout in BLOCKS else (1, 1)


def _estimated_size(compressed: Any, plain: Any, values: Any, layout: Any) -> tuple[int, ...]:
    batch = compressed.ndim - 1
    blocks = 2 if layout in BLOCKS else 0
    block = block_of(layout, batch, values)
    count = int(compressed.shape[-1]) - 1
    other = int(plain.max().item()) + 1 if plain.numel() else 0
    rows, cols = (other, count) if layout in BY_COLUMNS else (count, other)
    return (
        *compressed.shape[:-1], rows * block[0], cols * block[1], *values.shape[batch + 1 + blocks :]
    )  # fmt: skip


def sparse_csr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
) -> Any:  # fmt: skip
    """A tensor of layout sparse_csr: compressed rows. See `sparse_compressed_tensor`."""
    return _compressed(
        crow_indices, col_indices, values, size, sparse_csr, dtype, device, requires_grad, check_invariants
    )


def sparse_csc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
) -> Any:  # fmt: skip
    """A tensor of layout sparse_csc: compressed columns. See `sparse_compressed_tensor`."""
    return _compressed(
        ccol_indices, row_indices, values, size, sparse_csc, dtype, device, requires_grad, check_invariants
    )


def sparse_bsr_tensor(
    crow_indices: Any, col_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
) -> Any:  # fmt: skip
    """A tensor of layout sparse_bsr: compressed rows of blocks. See `sparse_compressed_tensor`."""
    return _compressed(
        crow_indices, col_indices, values, size, sparse_bsr, dtype, device, requires_grad, check_invariants
    )


def sparse_bsc_tensor(
    ccol_indices: Any, row_indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None,
    pin_memory: bool = False, requires_grad: bool = False, check_invariants: bool | None = None,
) -> Any:  # fmt: skip
    """A tensor of layout sparse_bsc: compressed columns of blocks. See `sparse_compressed_tensor`."""
    return _compressed(
        ccol_indices, row_indices, values, size, sparse_bsc, dtype, device, requires_grad, check_invariants
    )
