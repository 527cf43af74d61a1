"""Triangular systems, which the core's kernel solves, and Cholesky factors of small matrices, column by column."""

from __future__ import annotations

from typing import Final

from ...ir.builder import Builder
from ...ir.evaluate.custom_calls_lapack import flag, trsm_attributes
from ...ir.library import library
from ...ir.module import Instruction
from .rule import Rule

__all__ = ["LINALG_RULES", "solve_by_kernel"]

_KERNEL: Final = "_linalg_solve_triangular"
_LARGEST: Final = 8
"""Larger matrices are LAPACK's."""


def solve_by_kernel(b: Builder, i: Instruction) -> Instruction | None:
    """`triangular-solve` as the core's kernel, which gives eager code its bits."""
    if i.dtype not in ("f32", "f64", "c64", "c128") or not library().has_kernel(f"mt.kernel.{_KERNEL}"):
        return None
    a, right = i.operands
    transpose = str(i.attrs.get("transpose_a", "NO_TRANSPOSE"))
    lower = bool(i.attrs.get("lower"))
    if transpose != "NO_TRANSPOSE":
        last = len(a.dims) - 1
        a = b.transpose(a, (*range(last - 1), last, last - 1))
        lower = not lower
    if transpose == "ADJOINT" and a.array_shape.kind == "c":
        a = b.complex(b.real(a), b.negate(b.imag(a)))
    params = (not lower, bool(i.attrs.get("left_side")), bool(i.attrs.get("unit_diagonal")))
    return b.kernel_call(_KERNEL, [a, right], [i.array_shape], kinds="tt", params=params)[0]


def _cholesky(b: Builder, i: Instruction) -> Instruction | None:
    made = _factor(b, i.operands[0], bool(i.attrs.get("lower")))
    return None if made is None else made[0]


def _custom_call(b: Builder, i: Instruction) -> Instruction | None:
    """LAPACK's names for the two, as JAX has them."""
    target = str(i.attrs["custom_call_target"])
    if target.endswith("trsm_ffi") and not i.is_tuple and len(i.operands) == 2:
        return b.emit("triangular-solve", i.operands, trsm_attributes(i))
    if target.startswith("lapack_") and target.endswith("potrf_ffi") and len(i.operands) == 1 and i.is_tuple:
        made = _factor(b, i.operands[0], flag(i, "uplo", "LU") == "L")
        if made is not None:
            factor, found = made
            result = b.tuple(factor, b.convert(b.not_(found), "s32"))
            return result if result.shape == i.shape else None
    return None


def _factor(b: Builder, a: Instruction, lower: bool) -> tuple[Instruction, Instruction] | None:
    """The factor, NaN where there is none, and whether there is one; None for what is not done here."""
    shape, n = a.array_shape, a.dims[-1]
    if shape.dtype not in ("f32", "f64") or not isinstance(n, int) or not 0 < n <= _LARGEST or not shape.size:
        return None
    rank = len(a.dims)
    columns: list[Instruction] = []

    def part(x: Instruction, rows: tuple[int, int], column: tuple[int, int]) -> Instruction:
        starts, limits = (*(0 for _ in range(rank - 2)), rows[0], column[0]), (*a.dims[:-2], rows[1], column[1])
        return b.slice(x, starts, limits)

    if not lower:
        a = b.transpose(a, (*range(rank - 2), rank - 1, rank - 2))
    found: Instruction | None = None
    for j in range(n):
        rest = part(a, (j, n), (j, j + 1))
        for known in columns:
            tail = part(known, (j, n), (0, 1))
            pivot = b.broadcast(b.reshape(part(known, (j, j + 1), (0, 1)), a.dims[:-2]), tail.dims, range(rank - 2))
            rest = b.subtract(rest, b.multiply(tail, pivot))
        head = part(rest, (0, 1), (0, 1))
        head = b.reshape(head, a.dims[:-2])
        positive = b.compare(head, b.full(head.array_shape, 0.0), "GT")
        found = positive if found is None else b.and_(found, positive)
        root = b.broadcast(b.sqrt(head), rest.dims, range(rank - 2))
        column = b.divide(rest, root)
        zero = b.constant(0.0, shape.dtype)
        column = b.pad(column, zero, [*((0, 0, 0) for _ in range(rank - 2)), (j, 0, 0), (0, 0, 0)])
        # Each column is computed once, though all later ones read it.
        held = b.emit("opt-barrier", (b.tuple(column),))
        columns.append(b.get_tuple_element(held, 0))
    assert found is not None
    factor = b.concatenate(columns, rank - 1) if n > 1 else columns[0]
    if not lower:
        factor = b.transpose(factor, (*range(rank - 2), rank - 1, rank - 2))
    everywhere = b.broadcast(found, factor.dims, range(rank - 2))
    return b.select(everywhere, factor, b.full(shape, float("nan"))), found


LINALG_RULES: Final[dict[str, Rule]] = {
    "triangular-solve": solve_by_kernel,
    "cholesky": _cholesky,
    "custom-call": _custom_call,
}
