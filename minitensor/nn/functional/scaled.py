"""Products of matrices of floats of eight bits, which have scales."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TypeVar

from minitensor import _C
from minitensor._C import Tensor
from minitensor.composite.linalg.contraction import FLOAT8

__all__ = ["ScalingType", "SwizzleType", "scaled_mm"]

_One = TypeVar("_One")


class ScalingType(enum.Enum):
    """What a scale is of: the whole matrix, a row of it (of the second one a column), or a block."""

    TensorWise = 0
    RowWise = 1
    BlockWise1x16 = 2
    BlockWise1x32 = 3
    BlockWise1x128 = 4
    BlockWise128x128 = 5


class SwizzleType(enum.Enum):
    """In which order the scales of blocks lie in memory."""

    NO_SWIZZLE = 0
    SWIZZLE_32_4_4 = 1


def scaled_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    scale_a: Tensor | list[Tensor],
    scale_recipe_a: ScalingType | list[ScalingType],
    scale_b: Tensor | list[Tensor],
    scale_recipe_b: ScalingType | list[ScalingType],
    swizzle_a: SwizzleType | list[SwizzleType] | None = None,
    swizzle_b: SwizzleType | list[SwizzleType] | None = None,
    bias: Tensor | None = None,
    output_dtype: _C.dtype | None = _C.bfloat16,
    contraction_dim: Sequence[int] = (),
    use_fast_accum: bool = False,
) -> Tensor:
    """Return ``(scale_a * mat_a) @ (scale_b * mat_b) + bias`` of float8 matrices ``[M, K]`` and ``[K, N]``.

    Sums are taken in float32 and rounded once, to ``output_dtype``; None is that of ``mat_a``. A scale is float32:
    of one element (``ScalingType.TensorWise``), or both have one for each row of ``mat_a`` and column of ``mat_b``
    (``RowWise``). ``bias`` is ``[N]``. Blocks with scales, which only GPUs have in PyTorch, are a NotImplementedError;
    ValueError for scales that don't fit. ``use_fast_accum`` changes nothing.
    """
    recipes = _one(scale_recipe_a, "scale_recipe_a"), _one(scale_recipe_b, "scale_recipe_b")
    a, b = _one(scale_a, "scale_a"), _one(scale_b, "scale_b")
    swizzled = [s for s in (swizzle_a, swizzle_b) if s is not None]
    blocks = [kind for kind in recipes if kind not in (ScalingType.TensorWise, ScalingType.RowWise)]
    if blocks or any(_one(s, "swizzle") is not SwizzleType.NO_SWIZZLE for s in swizzled):
        raise NotImplementedError("scaled_mm: scales of blocks are not here; scales are TensorWise or RowWise")
    if contraction_dim:
        raise NotImplementedError("scaled_mm: contraction_dim is not here; mat_a is [M, K] and mat_b [K, N]")
    if recipes[0] is not recipes[1]:
        raise ValueError("Invalid scaling configuration: both scales are TensorWise, or both RowWise")
    if recipes[0] is ScalingType.RowWise and mat_a.dim() == mat_b.dim() == 2:
        a, b = a.reshape(-1, 1), b.reshape(1, -1)
    return _scaled_mm(mat_a, mat_b, a, b, bias, None, output_dtype, use_fast_accum)


def _scaled_mm(
    input: Tensor,
    mat2: Tensor,
    scale_a: Tensor,
    scale_b: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: _C.dtype | None = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """Return ``(scale_a * input) @ (scale_b * mat2) + bias``; see :func:`scaled_mm`. `scale_result` is not read."""
    for name, matrix in (("mat1", input), ("mat2", mat2)):
        if matrix.dim() != 2:
            raise RuntimeError(f"{name} must be a matrix")
    rows, columns = input.shape[0], mat2.shape[1]
    if input.shape[1] != mat2.shape[0]:
        raise RuntimeError(f"mat_a and mat_b shapes cannot be multiplied ({rows}x{input.shape[1]} and "
                           f"{mat2.shape[0]}x{columns})")  # fmt: skip
    scales = scale_a, scale_b
    one = all(scale.numel() == 1 for scale in scales)
    by_row = scale_a.shape == (rows, 1) and scale_b.shape == (1, columns)
    kinds = (*FLOAT8, _C.float8_e8m0fnu)
    if (
        input.dtype not in kinds
        or mat2.dtype not in kinds
        or any(scale.dtype is not _C.float32 for scale in scales)
        or not (one or by_row)
    ):
        raise ValueError(
            "Invalid scaling configuration: matrices are float8 and scales float32, both of one element or "
            f"({rows}, 1) and (1, {columns}); got {input.dtype} and {mat2.dtype}, scales {scale_a.dtype} "
            f"{tuple(scale_a.shape)} and {scale_b.dtype} {tuple(scale_b.shape)}"
        )
    if bias is not None and bias.numel() != columns:
        raise RuntimeError(f"Bias must be size {columns} but got {bias.numel()}")
    if one:
        scale_a, scale_b = scale_a.reshape(()), scale_b.reshape(())
    made = (input.float() * scale_a) @ (mat2.float() * scale_b)
    if bias is not None:
        made = made + bias.float()
    return made.to(input.dtype if out_dtype is None else out_dtype)


def _one(value: _One | list[_One], name: str) -> _One:
    """The only one of a list; several are for blocks within blocks."""
    if not isinstance(value, (list, tuple)):
        return value
    if len(value) != 1:
        raise NotImplementedError(f"scaled_mm: {name} has {len(value)} parts, one is here")
    return value[0]
