"""What sparse tensors say of themselves, and copies of them."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor.composite.layout import contiguous_format, preserve_format, strided
from minitensor.creation import with_requires_grad
from minitensor.sparse import coalesce, conversion, masks
from minitensor.sparse.dispatch import HANDLERS, handler, refuse, replace
from minitensor.sparse.tensor import (
    BY_COLUMNS,
    COMPRESSED,
    Pattern,
    build,
    elements_of,
    is_sparse,
    layout_of,
    put,
    raw,
)

Tensor = _C.Tensor


@handler("sparse_dim")
def _sparse_dim(input: Any) -> int:
    return int(input._pattern.sparse_dim)


@handler("dense_dim")
def _dense_dim(input: Any) -> int:
    return int(input._pattern.dense_dim)


@handler("_nnz")
def _nnz(tensor: Any) -> int:
    return int(tensor._pattern.nnz)


def _coo_only(name: str, tensor: Any) -> None:
    if not is_sparse(tensor) or not tensor._pattern.is_coo:
        raise RuntimeError(f"{name} expected sparse coordinate tensor layout but got {layout_of(tensor)}")


@handler("coalesce")
def _coalesce(input: Any) -> Any:
    _coo_only("coalesce", input)
    return coalesce.coalesce(input)


@handler("is_coalesced")
def _is_coalesced(input: Any) -> bool:
    _coo_only("is_coalesced", input)
    return bool(input._pattern.coalesced)


@handler("_coalesced_")
def _coalesced_(tensor: Any, coalesced: bool) -> Any:
    _coo_only("_coalesced_", tensor)
    pattern = tensor._pattern
    tensor._pattern = Pattern(pattern.layout, pattern.size, pattern.indices, bool(coalesced))
    return tensor


@handler("indices")
def _indices(input: Any) -> Any:
    _coo_only("indices", input)
    if not input._pattern.coalesced:
        raise RuntimeError("Cannot get indices on an uncoalesced tensor, please call .coalesce() first")
    return input._pattern.indices[0].detach()


@handler("_indices")
def _raw_indices(input: Any) -> Any:
    if not input._pattern.is_coo:
        raise refuse("_indices", input)
    return input._pattern.indices[0].detach()


@handler("values")
def _values(input: Any) -> Any:
    if input._pattern.is_coo and not input._pattern.coalesced:
        raise RuntimeError("Cannot get values on an uncoalesced tensor, please call .coalesce() first")
    return elements_of(input)


@handler("_values")
def _raw_values(input: Any) -> Any:
    if not input._pattern.is_coo:
        raise refuse("_values", input)
    return input._elements.detach()


def _component(name: str, rows: bool, place: int) -> None:
    what = "row" if rows else "column"

    def get(input: Any) -> Any:
        kind = input._pattern.layout
        if kind not in COMPRESSED or (kind in BY_COLUMNS) == rows:
            raise RuntimeError(f"{name} expected sparse {what} compressed tensor layout but got {layout_of(input)}")
        return input._pattern.indices[place].detach()

    handler(name)(get)


_component("crow_indices", True, 0)
_component("col_indices", True, 1)
_component("ccol_indices", False, 0)
_component("row_indices", False, 1)


def _copy_of(name: str) -> None:
    def get(input: Any) -> Any:
        return HANDLERS[name](input).clone()

    handler(f"{name}_copy")(get)


for _name in ("indices", "values", "crow_indices", "col_indices", "ccol_indices", "row_indices"):
    _copy_of(_name)


@handler("to_dense")
def _to_dense(input: Any, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
    return conversion.to_dense(input, dtype, masked_grad=masked_grad)


handler("to_sparse")(conversion.to_sparse)
handler("to_sparse_csr")(conversion.to_sparse_csr)
handler("to_sparse_csc")(conversion.to_sparse_csc)
handler("to_sparse_bsr")(conversion.to_sparse_bsr)
handler("to_sparse_bsc")(conversion.to_sparse_bsc)
handler("sparse_mask")(masks.sparse_mask)


@handler("to_sparse_coo")
def _to_sparse_coo(input: Any) -> Any:
    return conversion.to_sparse(input)


# ---- the tensor itself


@handler("detach", "get data")
def _detach(input: Any) -> Any:
    return raw(input._pattern, input._elements.detach())


@handler("set data")
def _set_data(tensor: Any, value: Any) -> None:
    if not is_sparse(tensor) or not is_sparse(value) or tensor._pattern.layout is not value._pattern.layout:
        raise RuntimeError(
            "Attempted to call `variable.set_data(tensor)`, but `variable` and `tensor` have incompatible tensor type."
        )
    put(tensor, value._pattern, value._elements)


def _copied(pattern: Pattern) -> Pattern:
    indices = tuple(i.clone() for i in pattern.indices)
    return Pattern(pattern.layout, pattern.size, indices, pattern.coalesced, pattern.block)


@handler("clone")
def _clone(input: Any, *, memory_format: Any = preserve_format) -> Any:
    if memory_format is not preserve_format:
        raise RuntimeError(f"unsupported memory format option {memory_format._name}")
    return build(_copied(input._pattern), elements_of(input).clone())


@handler("contiguous")
def _contiguous(input: Any, *, memory_format: Any = contiguous_format) -> Any:
    raise RuntimeError("tensors in a sparse layout are not contiguous: there is no such memory format of them")


@handler("is_contiguous")
def _is_contiguous(input: Any, memory_format: Any = contiguous_format) -> bool:
    return False


@handler("stride")
def _stride(input: Any, dim: Any = None) -> Any:
    if not input._pattern.is_coo:
        raise RuntimeError(f"{layout_of(input)} tensors do not have strides")
    return (0,) * input.ndim if dim is None else 0


def _without_storage(name: str) -> None:
    def get(*args: Any, **more: Any) -> Any:
        raise NotImplementedError(f"Cannot access storage of a tensor in a sparse layout ({name})")

    handler(name)(get)


for _name in ("storage", "untyped_storage", "storage_type", "set_", "share_memory_", "__dlpack__", "pin_memory"):
    _without_storage(_name)


@handler("data_ptr")
def _data_ptr(tensor: Any) -> int:
    raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")


@handler("tolist")
def _tolist(tensor: Any) -> Any:
    raise RuntimeError("a tensor in a sparse layout has no list of elements: tolist() takes what to_dense() gives")


@handler("numpy", "__array__")
def _numpy(tensor: Any, *args: Any, **more: Any) -> Any:
    raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")


@handler("nbytes")
def _nbytes(tensor: Any) -> int:
    raise RuntimeError(
        "nbytes is not defined for sparse tensors.  If you want the size of the constituent tensors, add the nbytes of "
        "the indices and values.  If you want the size of the  equivalent dense tensor, multiply numel() by "
        "element_size()"
    )


@handler("is_shared", "is_pinned")
def _is_shared(tensor: Any, *args: Any) -> bool:
    return False


@handler("item", "__float__", "__int__", "__bool__", "__complex__", "__index__")
def _item(tensor: Any) -> Any:
    if tensor.numel() != 1:
        raise RuntimeError(f"a Tensor with {tensor.numel()} elements cannot be converted to Scalar")
    return conversion.to_dense(raw(tensor._pattern, tensor._elements)).item()


@handler("zero_")
def _zero_(tensor: Any) -> Any:
    pattern, values = tensor._pattern, tensor._elements
    if not pattern.is_coo:
        values.zero_()
        return tensor
    none = pattern.indices[0].new_zeros((pattern.sparse_dim, 0))
    put(tensor, Pattern(pattern.layout, pattern.size, (none,), True), values.new_zeros((0, *values.shape[1:])))
    return tensor


@handler("copy_")
def _copy_(input: Any, src: Any, non_blocking: bool = False) -> Any:
    if not is_sparse(input) or not is_sparse(src):
        raise RuntimeError("copy_() between dense and sparse Tensors is not implemented! Found self type = "
                           f"{layout_of(input)} and src type = {layout_of(src)}")  # fmt: skip
    if input._pattern.layout is not src._pattern.layout:
        raise RuntimeError(
            f"torch.copy_: copy of sparse compressed tensors having different layouts is not supported. self layout is "
            f"{layout_of(input)} and src layout is {layout_of(src)}"
        )
    if tuple(input.shape) != tuple(src.shape):
        raise RuntimeError(f"copy_(): {list(src.shape)} doesn't fit a sparse tensor of size {list(input.shape)}")
    values = elements_of(src).to(dtype=input.dtype, device=input.device)
    replace(input, build(_copied(src._pattern), values.clone()))
    return input


@handler("to")
def _to(
    self: Any, *args: Any, dtype: Any = None, device: Any = None, copy: bool = False, non_blocking: bool = False,
    memory_format: Any = None,
) -> Any:  # fmt: skip
    args = tuple(a._elements if is_sparse(a) else a for a in args)
    values = elements_of(self) if is_sparse(self) else self
    moved = values.to(*args, dtype=dtype, device=device, non_blocking=non_blocking)
    if not is_sparse(self):
        return moved
    pattern = self._pattern
    if moved is values and not copy:
        return self
    if moved.device != values.device:
        indices = tuple(i.to(moved.device) for i in pattern.indices)
        pattern = Pattern(pattern.layout, pattern.size, indices, pattern.coalesced, pattern.block)
    elif copy:
        pattern = _copied(pattern)
        moved = moved.clone() if moved is values else moved
    return build(pattern, moved)


@handler("__format__", "_format")
def _format(self: Any, spec: str) -> str:
    return object.__format__(self, spec)


@handler("type")
def _type(self: Any, dtype: Any = None, non_blocking: bool = False) -> Any:
    if dtype is not None:
        return _to(self, dtype=dtype) if isinstance(dtype, _C.dtype) else _to(self, dtype=getattr(dtype, "dtype", None))
    package, _, kind = self._elements.type().partition(".")
    return f"{package}.{'sparse' if self._pattern.is_coo else self._pattern.layout._name}.{kind}"


@handler("as_tensor", "asarray")
def _as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Any:
    if not is_sparse(data):
        raise refuse("as_tensor of sparse tensors", data)
    return _to(data, dtype=dtype, device=device)


@handler("type_as")
def _type_as(self: Any, other: Any) -> Any:
    return _to(self, dtype=other.dtype)


def _converter(name: str, dtype: Any) -> None:
    def convert(self: Any, memory_format: Any = preserve_format) -> Any:
        return _to(self, dtype=dtype)

    handler(name)(convert)


for _name, _dtype in {
    "bool": _C.bool, "byte": _C.uint8, "char": _C.int8, "short": _C.int16, "int": _C.int32, "long": _C.int64,
    "half": _C.float16, "bfloat16": _C.bfloat16, "float": _C.float32, "double": _C.float64, "cfloat": _C.complex64,
    "cdouble": _C.complex128,
}.items():  # fmt: skip
    _converter(_name, _dtype)


@handler("cpu")
def _cpu(self: Any, memory_format: Any = preserve_format) -> Any:
    return _to(self, device="cpu")


@handler("cuda")
def _cuda(self: Any, device: Any = None, non_blocking: bool = False) -> Any:
    return _to(self, device="cuda" if device is None else device)


def _empty(input: Any, dtype: Any, device: Any, requires_grad: bool, layout: Any = None, keeps: bool = False) -> Any:
    pattern, values = input._pattern, input._elements
    dtype, device = values.dtype if dtype is None else dtype, values.device if device is None else _C.device(device)
    if layout is strided:
        made = _C.empty(pattern.size, dtype, device).zero_()
    elif pattern.is_coo:
        none = _C.empty((pattern.sparse_dim, 0), _C.int64, device)
        made = raw(
            Pattern(pattern.layout, pattern.size, (none,), True), _C.empty((0, *values.shape[1:]), dtype, device)
        )
    else:
        first, second = pattern.indices
        if not keeps:
            first = _C.empty(tuple(first.shape), first.dtype, device).zero_()
            second = _C.empty((*second.shape[:-1], 0), second.dtype, device)
        shape = list(values.shape)
        shape[pattern.batch_dims] = second.shape[-1]
        kept = Pattern(pattern.layout, pattern.size, (first.to(device), second.to(device)), block=pattern.block)
        made = raw(kept, _C.empty(tuple(shape), dtype, device).zero_())
    return with_requires_grad(made, requires_grad)


@handler("zeros_like")
def _zeros_like(
    input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, memory_format: Any = None,
) -> Any:  # fmt: skip
    return _empty(input, dtype, device, requires_grad, layout)


@handler("empty_like")
def _empty_like(
    input: Any, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: bool = False,
    requires_grad: bool = False, memory_format: Any = None,
) -> Any:  # fmt: skip
    return _empty(input, dtype, device, requires_grad, layout, keeps=True)


@handler("new_zeros", "new_empty")
def _new_zeros(
    self: Any, *size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None,
    pin_memory: bool = False,
) -> Any:  # fmt: skip
    from minitensor.sparse.creation import sparse_coo_tensor

    sizes = tuple(size[0]) if len(size) == 1 and hasattr(size[0], "__iter__") else size
    if not self._pattern.is_coo:
        raise refuse("new_zeros", self)
    return sparse_coo_tensor(
        sizes, dtype=dtype or self.dtype, device=device or self.device, requires_grad=requires_grad
    )  # fmt: skip


@handler("new_tensor", "new_full", "new_ones", "new")
def _new(self: Any, *args: Any, **more: Any) -> Any:
    raise refuse("new_tensor", self)


@handler("resize_as_sparse_")
def _resize_as_sparse_(input: Any, the_template: Any) -> Any:
    if not is_sparse(the_template):
        raise RuntimeError("resize_as_sparse_: the template must be a sparse tensor")
    return _sparse_resize(input, the_template.shape, the_template._pattern.sparse_dim, the_template._pattern.dense_dim)


@handler("sparse_resize_")
def _sparse_resize(tensor: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    pattern, size = tensor._pattern, tuple(size)
    _coo_only("sparse_resize_", tensor)
    if sparse_dim + dense_dim != len(size):
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, sparse_dim = "
            f"{sparse_dim}, dense_dim = {dense_dim}"
        )
    if pattern.nnz:
        if sparse_dim != pattern.sparse_dim or dense_dim != pattern.dense_dim:
            raise RuntimeError(
                "changing the number of sparse or dense dimensions on a non-empty sparse tensor is not supported."
            )
        if any(new < old for new, old in zip(size, pattern.size, strict=True)):
            raise RuntimeError("shrinking the size of sparse dimensions on a non-empty sparse tensor is not supported.")
    values = tensor._elements
    dense = size[sparse_dim:]
    grown = values.new_zeros((pattern.nnz, *dense))
    if pattern.nnz:
        grown[tuple(slice(0, n) for n in values.shape)] = values
    indices = pattern.indices[0]
    if not pattern.nnz:
        indices = indices.new_zeros((sparse_dim, 0))
    put(tensor, Pattern(pattern.layout, size, (indices,), pattern.coalesced), grown)
    return tensor


@handler("sparse_resize_and_clear_")
def _sparse_resize_and_clear_(tensor: Any, size: Any, sparse_dim: int, dense_dim: int) -> Any:
    _zero_(tensor)
    return _sparse_resize(tensor, size, sparse_dim, dense_dim)
