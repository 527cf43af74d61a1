"""Affine and bilinear maps."""

from __future__ import annotations

from minitensor import _C
from minitensor._C import Tensor
from minitensor._functions.offered import cat, matmul, stack
from minitensor.composite.linalg.contraction import FLOAT8, FUSED, addmm, bilinear, fused_addmm
from minitensor.composite.registry import autocast, shortcut, with_out
from minitensor.ops import ROWS

__all__ = ["bilinear", "grouped_mm", "linear"]

_matmul, _transpose = ROWS["matmul"].call, ROWS["transpose"].call


@with_out
@shortcut("T2?~T", _C.linear)
@autocast("lower", "lower")
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return ``input @ weight.T + bias``; ``weight`` is ``[out_features, in_features]`` or ``[in_features]``."""
    if weight.ndim == 1:
        if bias is not None:
            _check_dtypes(input, weight, bias)
            if input.ndim > 1 or bias.ndim:
                raise RuntimeError("mat2 must be a matrix, got 1-D tensor")
        result = _matmul(input, weight)
        return result if bias is None else result + bias
    matrix = _transpose(weight, 0, 1)
    if bias is None:
        return _matmul(input, matrix)
    _check_dtypes(input, weight, bias)
    dtype = input.dtype
    if dtype in FUSED and input.dim() > 0 and bias.dim() == 1 and bias.shape[0] in (1, matrix.shape[1]):
        if input.dim() == 1:
            return fused_addmm(bias, input.unsqueeze(0), matrix).squeeze(0)
        return fused_addmm(bias, input, matrix)
    if dtype in FLOAT8 and input.dim() == 2:
        return addmm(bias, input, matrix)
    return _matmul(input, matrix) + bias


def _check_dtypes(input: Tensor, weight: Tensor, bias: Tensor) -> None:
    """Raise RuntimeError where they differ, which no promotion settles."""
    if input.dtype is not weight.dtype:
        first, given = "mat1", input
    elif bias.dtype is not weight.dtype:
        first, given = "self", bias
    else:
        return
    raise RuntimeError(
        f"{first} and mat2 must have the same dtype, but got {_C.type_name(given.dtype)} and "
        f"{_C.type_name(weight.dtype)}"
    )


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: _C.dtype | None = None,
) -> Tensor:
    """Return matrix products of groups; ``offs`` has the ends of the groups along the dimension that is divided.

    Two matrices ``[M, K]`` and ``[K, N]`` are divided along ``K`` and give ``[G, M, N]``. A matrix ``[M, K]`` and
    ``[G, K, N]`` are divided along ``M``; ``[G, M, K]`` and ``[K, N]`` along ``N``. Two batches need no ``offs``.
    """
    if mat_a.dim() not in (2, 3) or mat_b.dim() not in (2, 3):
        raise RuntimeError("mat_a and mat_b must be 2d or 3d tensors")
    if bias is not None:
        raise RuntimeError("Bias not supported yet")
    if mat_a.dim() == 3 and mat_b.dim() == 3:
        if offs is not None:
            raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
        result = matmul(mat_a, mat_b)
        return result if out_dtype is None else result.to(out_dtype)
    if offs is None:
        raise RuntimeError("Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d")
    ends = [int(n) for n in offs.tolist()]
    starts = [0, *ends[:-1]]
    ranges = list(zip(starts, ends, strict=True))
    if mat_a.dim() == 2 and mat_b.dim() == 2:
        result = stack([matmul(mat_a[:, i:j], mat_b[i:j]) for i, j in ranges])
    elif mat_a.dim() == 2:
        result = cat([matmul(mat_a[i:j], mat_b[g]) for g, (i, j) in enumerate(ranges)], 0)
    else:
        result = cat([matmul(mat_a[g], mat_b[:, i:j]) for g, (i, j) in enumerate(ranges)], 1)
    return result if out_dtype is None else result.to(out_dtype)
