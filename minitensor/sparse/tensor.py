"""Tensors in a sparse layout: a pattern, which says where elements are, and the elements, an ordinary tensor."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._warning import as_shown
from minitensor.autograd.function import Function
from minitensor.composite.layout import sparse_bsc, sparse_bsr, sparse_coo, sparse_csc, sparse_csr

__all__ = [
    "BLOCKS", "BY_COLUMNS", "COMPRESSED", "NAMES", "Pattern", "SparseTensor", "build", "elements_of", "is_sparse",
    "layout_of", "put", "raw",
]  # fmt: skip

Tensor = _C.Tensor

COMPRESSED = (sparse_csr, sparse_csc, sparse_bsr, sparse_bsc)
BY_COLUMNS = (sparse_csc, sparse_bsc)
BLOCKS = (sparse_bsr, sparse_bsc)
NAMES = {
    sparse_coo: "Sparse", sparse_csr: "SparseCsr", sparse_csc: "SparseCsc", sparse_bsr: "SparseBsr",
    sparse_bsc: "SparseBsc",
}  # fmt: skip
"""The layouts as errors name them; the others are "Strided"."""


class Pattern:
    """Where the elements of a sparse tensor are.

    `indices` is `(indices,)`, `[sparse dims, nnz]`, for sparse_coo; `(compressed, plain)` for the others, with batch
    dimensions in front: plain indices of row or column i are those from `compressed[i]` to `compressed[i + 1]`.
    Several tensors may share one, with what was worked out of it.
    """

    __slots__ = ("_known", "_versions", "block", "coalesced", "indices", "layout", "size")

    def __init__(
        self, kind: Any, size: tuple[int, ...], indices: tuple[Any, ...], coalesced: bool = False,
        block: tuple[int, int] = (1, 1),
    ) -> None:  # fmt: skip
        self.layout, self.size, self.coalesced, self.block = kind, tuple(size), coalesced, block
        self.indices = tuple(i.detach() for i in indices)
        self._known: dict[str, Any] = {}
        self._versions: tuple[int, ...] = ()

    @property
    def is_coo(self) -> bool:
        """Whether it is of layout sparse_coo."""
        return self.layout is sparse_coo

    @property
    def device(self) -> Any:
        """Where the indices are."""
        return self.indices[-1].device

    @property
    def nnz(self) -> int:
        """How many elements, or blocks, there are, in each batch."""
        return int(self.indices[-1].shape[-1])

    @property
    def batch_dims(self) -> int:
        """How many dimensions count patterns of matrices."""
        return 0 if self.is_coo else self.indices[0].ndim - 1

    @property
    def sparse_dim(self) -> int:
        """How many dimensions are sparse."""
        return int(self.indices[0].shape[0]) if self.is_coo else 2

    @property
    def dense_dim(self) -> int:
        """How many dimensions each element has."""
        return len(self.size) - self.sparse_dim - self.batch_dims

    def known(self, name: str, work_out: Any) -> Any:
        """What `work_out()` gave, while the indices stay what they were."""
        versions = tuple(0 if i.is_inference() else i._version for i in self.indices)
        if versions != self._versions:
            self._known, self._versions = {}, versions
        if name not in self._known:
            self._known[name] = work_out()
        return self._known[name]

    def resized(self, size: tuple[int, ...]) -> Pattern:
        """The same places in another size."""
        return Pattern(self.layout, size, self.indices, self.coalesced, self.block)

    @property
    def values_shape(self) -> tuple[int, ...]:
        """The shape of the elements."""
        dense = self.size[len(self.size) - self.dense_dim :] if self.dense_dim else ()
        return (*self.indices[-1].shape[:-1][: self.batch_dims], self.nnz, *self.block_dims, *dense)

    @property
    def block_dims(self) -> tuple[int, ...]:
        """The shape of a block, where the layout has such."""
        return self.block if self.layout in BLOCKS else ()


class SparseTensor(Tensor):
    """A tensor in a sparse layout. `Tensor` is what its type is called: programs know it by its layout."""

    _pattern: Pattern
    _elements: Any

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What the call is for sparse tensors; NotImplementedError for those that don't know them."""
        from minitensor.sparse.dispatch import call

        return call(func, types, args, kwargs or {})

    layout = property(lambda self: self._pattern.layout, doc="The sparse layout.")
    is_sparse = property(lambda self: self._pattern.layout is sparse_coo, doc="Whether the layout is sparse_coo.")
    is_sparse_csr = property(lambda self: self._pattern.layout is sparse_csr, doc="Whether the layout is sparse_csr.")
    H = property(lambda self: self.adjoint(), doc="The transpose, of complex numbers the conjugate one.")
    mH = H  # noqa: N815  (PyTorch's name)

    def detach(self) -> Any:
        """The same components without history."""
        return raw(self._pattern, self._elements.detach())

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        from minitensor.sparse.text import text

        with _C.DisableTorchFunctionSubclass():
            return text(self)

    _repr = __repr__

    def __reduce__(self) -> Any:
        from minitensor.sparse.copying import rebuild

        with _C.DisableTorchFunctionSubclass():
            pattern = self._pattern
            parts = (*pattern.indices, self._elements, pattern.size, pattern.coalesced)
            return rebuild, (pattern.layout, parts, self.requires_grad, type(self) is not SparseTensor)

    def __copy__(self) -> Any:
        from minitensor.sparse.copying import copied

        with _C.DisableTorchFunctionSubclass():
            return copied(self)

    def __deepcopy__(self, memo: dict[Any, Any]) -> Any:
        from minitensor.sparse.copying import deeply_copied

        with _C.DisableTorchFunctionSubclass():
            return deeply_copied(self, memo)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError("can't convert Sparse layout tensor to numpy. Use Tensor.to_dense() first.")

    def __dlpack_device__(self) -> Any:
        raise RuntimeError(as_shown("Can't export tensors with layout other than minitensor.strided"))

    def __dlpack__(self, *args: Any, **more: Any) -> Any:
        raise RuntimeError(as_shown("Can't export tensors with layout other than minitensor.strided"))

    def as_subclass(self, cls: type) -> Any:
        """The tensor itself as a Tensor; one in a sparse layout can't be of another class."""
        if issubclass(SparseTensor, cls):
            return self
        raise TypeError("a tensor in a sparse layout can't be one of another class")


# Programs see a Tensor.
SparseTensor.__name__ = SparseTensor.__qualname__ = "Tensor"
SparseTensor.__module__ = "minitensor"


def is_sparse(value: Any) -> bool:
    """Whether it is a tensor in a sparse layout."""
    return isinstance(value, SparseTensor)


def layout_of(tensor: Any) -> str:
    """The layout, as errors name it."""
    return NAMES[tensor._pattern.layout] if is_sparse(tensor) else "Strided"


def raw(pattern: Pattern, values: Any, cls: type = SparseTensor) -> Any:
    """A sparse tensor over these elements, without history."""
    made = _C.make_sparse(cls, pattern.size, values.dtype, values.device)
    # What vmap maps keeps its history itself: that of what is behind has no place at an object that isn't mapped.
    made._pattern, made._elements = pattern, values if _C.vmap_level(values) else values.detach()
    return made


def put(tensor: Any, pattern: Pattern, values: Any) -> None:
    """Give a sparse tensor other contents; its size and dtype may change."""
    if pattern.size != tuple(tensor.shape) or values.dtype is not tensor.dtype:
        Tensor.data.__set__(tensor, raw(pattern, values))  # type: ignore[attr-defined]
    tensor._pattern, tensor._elements = pattern, values.detach()


class SparseElements(Function):
    """A sparse tensor's elements."""

    @staticmethod
    def forward(ctx: Any, tensor: Any) -> Any:
        ctx.pattern = tensor._pattern
        return tensor._elements.detach()

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        from minitensor.sparse.coalesce import each_place_once

        # Several elements at one place are one element of the tensor, and each of them got its gradient.
        return build(*each_place_once(ctx.pattern, gradient))


class SparseBuild(Function):
    """A sparse tensor of elements."""

    @staticmethod
    def forward(ctx: Any, values: Any, pattern: Pattern) -> Any:
        ctx.pattern = pattern
        return raw(pattern, values)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        from minitensor.sparse.masks import at_places

        return at_places(gradient, ctx.pattern), None


def elements_of(tensor: Any) -> Any:
    """The elements of a sparse tensor, with its history."""
    if _C.is_recorded(tensor):
        return SparseElements.apply(tensor)
    return tensor._elements


def build(pattern: Pattern, values: Any) -> Any:
    """A sparse tensor of these elements, with their history."""
    if _C.is_recorded(values) and not _C.vmap_level(values):
        return SparseBuild.apply(values, pattern)
    return raw(pattern, values)
