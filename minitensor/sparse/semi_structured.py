"""Semi-structured matrices: of four neighbours in a row two are zero, so that half of the numbers are kept.

`to_sparse_semi_structured` makes one of a dense matrix. It is the second operand of `linear`, or an operand of `mm`,
`matmul` and `addmm`; a product unpacks it, so what is saved is memory, not time. It is on any device; PyTorch has it on
CUDA only.
"""

from __future__ import annotations

import copy
from collections import namedtuple
from typing import Any, ClassVar

from minitensor import _C
from minitensor._C import bfloat16, float8_e4m3fn, float16, float32, int8, int16, int32
from minitensor._warning import warn
from minitensor.autograd.function import Function
from minitensor.creation import with_requires_grad
from minitensor.nn.parameter import Parameter
from minitensor.sparse.semi_structured_codes import decoded, encoded, pattern_bits, pruned, reordered, restored

__all__ = [
    "SparseSemiStructuredTensor", "SparseSemiStructuredTensorCUSPARSELT", "SparseSemiStructuredTensorCUTLASS",
    "as_parameter", "plain_class", "to_sparse_semi_structured",
]  # fmt: skip

Tensor = _C.Tensor
_Config = namedtuple("_Config", "sparse_min_rows sparse_min_cols dense_min_rows dense_min_cols")
_PARTS = ("packed", "meta", "packed_t", "meta_t", "compressed_swizzled_bitmask")


class SparseSemiStructuredTensor(Tensor):
    """A matrix `[M, K]` with two zeros among each four neighbours of a row (float32: one of two), packed.

    `packed` has the other numbers and `meta` where they are; `packed_t` and `meta_t` are those of the transpose, if it
    was packed, too. Of the two classes `SparseSemiStructuredTensorCUTLASS` keeps `packed` `[M, K / 2]` and `meta`
    apart, and `SparseSemiStructuredTensorCUSPARSELT` has both in `packed`. ValueError if there is neither `packed` nor
    `packed_t`.
    """

    BACKEND: ClassVar[str]
    _DEFAULT_ALG_ID = 0
    _DTYPE_SHAPE_CONSTRAINTS: ClassVar[dict[Any, Any]]
    _FORCE_CUTLASS = False
    _FUSE_TRANSPOSE = False
    _PROTOTYPE_WARNING_SHOWN = False
    packed: Any
    meta: Any
    packed_t: Any
    meta_t: Any
    compressed_swizzled_bitmask: Any
    fuse_transpose_cusparselt: bool
    alg_id_cusparselt: int

    @staticmethod
    def __new__(
        cls, shape: Any, packed: Any, meta: Any, packed_t: Any, meta_t: Any, compressed_swizzled_bitmask: Any,
        fuse_transpose_cusparselt: bool = False, alg_id_cusparselt: int = 0, requires_grad: bool = False,
    ) -> Any:  # fmt: skip
        """Make one of its parts, which it keeps as they are."""
        if not SparseSemiStructuredTensor._PROTOTYPE_WARNING_SHOWN:
            SparseSemiStructuredTensor._PROTOTYPE_WARNING_SHOWN = True
            warn("SparseSemiStructuredTensor is a prototype, and may change")
        known = packed_t if packed is None else packed
        if known is None:
            raise ValueError("At least one of packed or packed_t must be provided")
        made = _C.make_sparse(cls, tuple(shape), known.dtype, known.device)
        parts = (packed, meta, packed_t, meta_t, compressed_swizzled_bitmask)
        for name, part in zip(_PARTS, parts, strict=True):
            setattr(made, name, None if part is None else part.detach())
        made.fuse_transpose_cusparselt, made.alg_id_cusparselt = fuse_transpose_cusparselt, alg_id_cusparselt
        return with_requires_grad(made, requires_grad)

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """The calls that know such matrices; NotImplementedError for the others."""
        from minitensor.sparse.semi_structured_calls import call

        return call(cls, func, args, kwargs or {})

    @classmethod
    def from_dense(cls, original_tensor: Any, alg_id: int = _DEFAULT_ALG_ID) -> Any:
        """Pack a dense matrix; RuntimeError for a shape or dtype that the class doesn't have."""
        raise NotImplementedError

    @classmethod
    def prune_dense_static_sort(cls, original_tensor: Any, algorithm: str = "") -> Any:
        """Pack a dense matrix, and its transpose, of which only the largest numbers are kept.

        Of each tile of four by four numbers those are taken one by one, the largest first, whose row and column have
        less than two yet. `algorithm` chooses among a GPU's kernels, and changes nothing here. RuntimeError for dtypes
        but float16 and bfloat16.
        """
        if original_tensor.dtype not in (float16, bfloat16):
            raise RuntimeError(f"prune_dense_static_sort takes float16 and bfloat16, not {original_tensor.dtype}")
        cls._validate_device_dim_dtype_shape(original_tensor)
        kept = pruned(original_tensor.detach())
        (packed, meta), (packed_t, meta_t) = cls._pack(kept), cls._pack(kept.t().contiguous())
        return cls(original_tensor.shape, packed, meta, packed_t, meta_t, pattern_bits(kept))

    @classmethod
    def _pack(cls, dense: Any) -> tuple[Any, Any]:
        raise NotImplementedError

    @staticmethod
    def _unpack(packed: Any, meta: Any, rows: int) -> Any:
        raise NotImplementedError

    @classmethod
    def _validate_device_dim_dtype_shape(cls, original_tensor: Any) -> None:
        if original_tensor.dim() != 2:
            raise RuntimeError(f"Error original_tensor.dim = {original_tensor.dim()} is not supported! "
                               "Only 2d tensors are currently supported.")  # fmt: skip
        if not original_tensor.is_contiguous():
            raise RuntimeError("Error original_tensor is not contiguous! Only contiguous tensors are supported.")
        if original_tensor.dtype not in cls._DTYPE_SHAPE_CONSTRAINTS:
            raise RuntimeError(
                f"Error original_tensor.dtype {original_tensor.dtype} is not a supported dtype for {cls}!"
            )
        rows, columns = original_tensor.shape
        least = cls._DTYPE_SHAPE_CONSTRAINTS[original_tensor.dtype]
        if not rows or rows % least.sparse_min_rows or not columns or columns % least.sparse_min_cols:
            raise RuntimeError(
                f"Error original_tensor.shape {original_tensor.shape} is not supported! Both dimensions must be a "
                f"positive multiple of ({least.sparse_min_rows}, {least.sparse_min_cols})"
            )

    def _mm(self, B: Any, *, bias: Any = None, should_transpose_dense: bool = False, **kwargs: Any) -> Any:  # noqa: N803
        """`self @ B`, or `B @ self.t()` if `should_transpose_dense`, and `bias` added to each row of that."""
        name = type(self).__name__
        if isinstance(B, SparseSemiStructuredTensor):
            raise ValueError("`SparseSemiStructuredTensor @ SparseSemiStructuredTensor` is not supported")
        if B.ndim != 2:
            raise NotImplementedError(f"`{name}` matmul: Broadcasting is not implemented")
        if B.dtype is not self.dtype or (bias is not None and bias.dtype is not self.dtype):
            raise NotImplementedError(f"`{name}` matmul: the operands are to have one dtype; they have {self.dtype} "
                                      f"and {B.dtype if bias is None else (B.dtype, bias.dtype)}")  # fmt: skip
        if self.dtype is float8_e4m3fn:
            raise NotImplementedError(f"`{name}` matmul: mm is not supported for float8_e4m3fn")
        if self.packed is None:
            raise NotImplementedError(f"`{name}` matmul: operation is not supported")
        dense = _unpacked(self)
        with _C.DisableTorchFunctionSubclass():
            made = B.mm(dense.t()) if should_transpose_dense else dense.mm(B)
            return made if bias is None else made + bias

    def to_dense(self, dtype: Any = None, *, masked_grad: bool | None = None) -> Any:
        """The matrix as an ordinary tensor, of `dtype` if that is given; its gradient is dense."""
        made = _unpacked(self)
        return made if dtype is None else made.to(dtype)

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"{type(self).__name__}(shape={self.shape})"

    _repr = __repr__

    def __reduce__(self) -> Any:
        parts = [getattr(self, name) for name in _PARTS]
        more = self.fuse_transpose_cusparselt, self.alg_id_cusparselt, self.requires_grad
        return _rebuilt, (plain_class(self), tuple(self.shape), parts, more, isinstance(self, Parameter))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return self.__reduce__()

    def __copy__(self) -> Any:
        made, given = self.__reduce__()
        return made(*given)

    def __deepcopy__(self, memo: dict[Any, Any]) -> Any:
        if id(self) not in memo:
            kind, shape, parts, more, parameter = self.__reduce__()[1]
            memo[id(self)] = _rebuilt(kind, shape, [copy.deepcopy(part) for part in parts], more, parameter)
        return memo[id(self)]


def plain_class(matrix: Any) -> Any:
    """The class of a matrix that is no parameter."""
    return next(kind for kind in type(matrix).__mro__ if not issubclass(kind, Parameter))


def as_parameter(matrix: Any, requires_grad: bool) -> Any:
    """A parameter over the parts of a matrix."""
    kind = plain_class(matrix)
    if "_parameter_class" not in kind.__dict__:
        kind._parameter_class = type(kind.__name__, (kind, Parameter), {"__module__": kind.__module__})
    parts = [getattr(matrix, name) for name in _PARTS]
    more = matrix.fuse_transpose_cusparselt, matrix.alg_id_cusparselt, requires_grad
    return kind._parameter_class(tuple(matrix.shape), *parts, *more)


def _rebuilt(kind: Any, shape: Any, parts: Any, more: Any, parameter: bool) -> Any:
    made = kind(shape, *parts, *more)
    return as_parameter(made, made.requires_grad) if parameter else made


class SparseSemiStructuredTensorCUTLASS(SparseSemiStructuredTensor):
    """A semi-structured matrix whose `meta` is apart, in the order that CUTLASS reads it in."""

    BACKEND = "cutlass"
    _DTYPE_SHAPE_CONSTRAINTS: ClassVar[dict[Any, Any]] = {
        int8: _Config(16, 128, 16, 16),
        float16: _Config(32, 64, 8, 8),
        bfloat16: _Config(32, 64, 8, 8),
        float32: _Config(32, 32, 4, 4),
    }

    @classmethod
    def from_dense(cls, original_tensor: Any, alg_id: int = 0) -> Any:
        """Pack a dense matrix `[M, K]`; RuntimeError for a shape or dtype that the class doesn't have."""
        cls._validate_device_dim_dtype_shape(original_tensor)
        packed, meta = cls._pack(original_tensor.detach())
        return cls(original_tensor.shape, packed, meta, None, None, None, requires_grad=original_tensor.requires_grad)

    @classmethod
    def _pack(cls, dense: Any) -> tuple[Any, Any]:
        packed, meta = encoded(dense, int32 if dense.dtype is int8 else int16)
        return packed, reordered(meta)

    @staticmethod
    def _unpack(packed: Any, meta: Any, rows: int) -> Any:
        return decoded(packed, restored(meta))


class SparseSemiStructuredTensorCUSPARSELT(SparseSemiStructuredTensor):
    """A semi-structured matrix whose numbers come first in `packed`, and where they are after them."""

    BACKEND = "cusparselt"
    _DTYPE_SHAPE_CONSTRAINTS: ClassVar[dict[Any, Any]] = {
        float8_e4m3fn: _Config(32, 32, 16, 16),
        int8: _Config(32, 32, 16, 16),
        float16: _Config(16, 16, 8, 8),
        bfloat16: _Config(16, 16, 8, 8),
    }

    @classmethod
    def from_dense(cls, original_tensor: Any, alg_id: int = 0) -> Any:
        """Pack a dense matrix `[M, K]`; RuntimeError for a shape or dtype that the class doesn't have."""
        cls._validate_device_dim_dtype_shape(original_tensor)
        packed, _ = cls._pack(original_tensor.detach())
        return cls(
            original_tensor.shape, packed, None, None, None, None,
            SparseSemiStructuredTensor._FUSE_TRANSPOSE, alg_id, original_tensor.requires_grad,
        )  # fmt: skip

    @classmethod
    def _pack(cls, dense: Any) -> tuple[Any, Any]:
        from minitensor._functions.offered import cat

        packed, meta = encoded(dense, int16)
        both = cat([packed.reshape(-1).view(int8), meta.reshape(-1).view(int8)]).view(dense.dtype)
        return both.view(dense.shape[0], -1), None

    @staticmethod
    def _unpack(packed: Any, meta: Any, rows: int) -> Any:
        flat = packed.reshape(-1).view(int8)
        size = packed.element_size()
        numbers = (
            flat.numel() // (4 * size + 1) * 4 * size
        )  # a number of `size` bytes of two, an eighth of one for each
        values = flat[:numbers].view(packed.dtype).view(rows, -1)
        return decoded(values, flat[numbers:].view(int16).view(rows, -1))


class _Unpack(Function):
    """The dense matrix, whose gradient is dense as well."""

    @staticmethod
    def forward(ctx: Any, matrix: Any) -> Any:
        return _dense(matrix)

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient


def _dense(matrix: Any) -> Any:
    with _C.DisableTorchFunctionSubclass():
        rows, columns = matrix.shape
        if matrix.packed is None:
            return matrix._unpack(matrix.packed_t, matrix.meta_t, columns).t()
        return matrix._unpack(matrix.packed, matrix.meta, rows)


def _unpacked(matrix: Any) -> Any:
    return _Unpack.apply(matrix) if _C.is_recorded(matrix) else _dense(matrix)


def to_sparse_semi_structured(original_tensor: Any, transposed: bool = False, alg_id: int = 0) -> Any:
    """Pack a contiguous dense matrix `[M, K]`, of which two of each four neighbours in a row are zero.

    float16, bfloat16, int8 and float8_e4m3fn; with `SparseSemiStructuredTensor._FORCE_CUTLASS = True` float32 instead
    of the last one, with one zero of each two neighbours. M and K are multiples of what the class of the result asks
    for, else RuntimeError. What is there beside the two numbers is left out. `alg_id` is kept with it, and chooses
    nothing here.
    """
    if transposed:
        warn("to_sparse_semi_structured: transposed is deprecated", FutureWarning)
    force = SparseSemiStructuredTensor._FORCE_CUTLASS
    kind: Any = SparseSemiStructuredTensorCUTLASS if force else SparseSemiStructuredTensorCUSPARSELT
    return kind.from_dense(original_tensor, alg_id=alg_id)
