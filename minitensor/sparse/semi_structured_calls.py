"""The calls that know semi-structured matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor._functions.offered import empty
from minitensor.sparse.dispatch import PASSED, attribute_name
from minitensor.sparse.semi_structured import SparseSemiStructuredTensor, plain_class

__all__ = ["call"]

_FULL = ("packed", "meta", "packed_t", "meta_t", "compressed_swizzled_bitmask")


def call(cls: type, func: Any, args: Any, kwargs: Any) -> Any:
    """`func(*args, **kwargs)`, of which an argument is semi-structured."""
    name = func.__name__
    if name in ("__get__", "__set__", "__delete__"):
        name = attribute_name(func)
    known = _CALLS.get(name)
    if known is not None:
        return known(*args, **kwargs)
    if name in PASSED:
        with _C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)
    raise NotImplementedError(
        f"{cls.__name__} only supports a specific set of operations, can't perform requested op ({name})"
    )


def _again(matrix: Any, change: Callable[[Any], Any], requires_grad: bool) -> Any:
    parts = (None if part is None else change(part) for part in (getattr(matrix, name) for name in _FULL))
    more = matrix.fuse_transpose_cusparselt, matrix.alg_id_cusparselt, requires_grad
    return plain_class(matrix)(tuple(matrix.shape), *parts, *more)


def _values(matrix: Any) -> Any:
    if matrix.meta is not None:
        return matrix.packed
    rows, columns = matrix.shape
    return matrix.packed.reshape(-1)[: rows * columns // 2].view(rows, -1)


def _indices(matrix: Any) -> Any:
    if matrix.meta is not None:
        return matrix.meta
    from minitensor._C import int16

    rows, columns = matrix.shape
    return matrix.packed.reshape(-1)[rows * columns // 2 :].view(int16).view(rows, -1)


def _transpose(matrix: Any) -> Any:
    bits = matrix.compressed_swizzled_bitmask
    return plain_class(matrix)(
        tuple(matrix.shape)[::-1], matrix.packed_t, matrix.meta_t, matrix.packed, matrix.meta,
        None if bits is None else bits.transpose(0, 1), matrix.fuse_transpose_cusparselt, matrix.alg_id_cusparselt,
    )  # fmt: skip


def _view(matrix: Any, *shape: Any) -> Any:
    shape = shape[0] if len(shape) == 1 and not isinstance(shape[0], int) else shape
    if tuple(shape) != tuple(matrix.shape):
        raise NotImplementedError("`view` of a SparseSemiStructuredTensor is for its own shape only")
    return matrix


def _mm(a: Any, b: Any) -> Any:
    if a.ndim != 2 or b.ndim != 2:
        raise NotImplementedError("`SparseSemiStructuredTensor` matmul: Broadcasting is not implemented")
    if isinstance(a, SparseSemiStructuredTensor):
        return a._mm(b)
    return _transpose(b)._mm(a, should_transpose_dense=True)


def _addmm(input: Any, mat1: Any, mat2: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
    if mat1.ndim != 2 or mat2.ndim != 2:
        raise NotImplementedError("`SparseSemiStructuredTensor` matmul: Broadcasting is not implemented")
    if input.ndim != 1:
        raise NotImplementedError(f"`SparseSemiStructuredTensor` matmul: only bias dim=1 supported. "
                                  f"Shape={input.shape}")  # fmt: skip
    if isinstance(mat1, SparseSemiStructuredTensor) or beta != 1 or alpha != 1:
        raise NotImplementedError("`SparseSemiStructuredTensor` matmul: only operand B of `addmm` can be sparse, "
                                  "and beta and alpha are 1")  # fmt: skip
    return _transpose(mat2)._mm(mat1, bias=input, should_transpose_dense=True)


def _linear(input: Any, weight: Any, bias: Any = None) -> Any:
    if isinstance(input, SparseSemiStructuredTensor):
        raise NotImplementedError("`linear`: only the weight can be a SparseSemiStructuredTensor")
    made = weight._mm(input.reshape(-1, input.shape[-1]), bias=bias, should_transpose_dense=True)
    return made.view(*input.shape[:-1], -1)


def _to(matrix: Any, *args: Any, **kwargs: Any) -> Any:
    # Which dtype and device are meant says a tensor without elements.
    wanted = empty(0, dtype=matrix.dtype, device=matrix.device).to(*args, **kwargs)
    if wanted.dtype is matrix.dtype and wanted.device == matrix.device:
        return matrix
    if wanted.device.type == "cpu":
        return matrix.to_dense().to(*args, **kwargs)
    raise NotImplementedError("`to()` is not implemented for SparseSemiStructuredTensor, but for `to('cpu')`")


_CALLS: dict[str, Callable[..., Any]] = {
    "values": _values,
    "indices": _indices,
    "detach": lambda matrix: _again(matrix, lambda part: part, False),
    "t": _transpose,
    "view": _view,
    "mm": _mm,
    "matmul": _mm,
    "__matmul__": _mm,
    "__rmatmul__": lambda a, b: _mm(b, a),
    "addmm": _addmm,
    "linear": _linear,
    "clone": lambda matrix, **_: _again(matrix, lambda part: part.clone(), matrix.requires_grad),
    "to": _to,
}
