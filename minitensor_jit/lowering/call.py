"""One recorded call, as the rows' rules and the lowering see it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from minitensor import _C

FLOATING = frozenset({"f16", "bf16", "f32", "f64"})

_LOOP_DTYPES = {"s8": "s32", "s16": "s32", "u16": "s32", "u32": "s64", "f16": "f32", "bf16": "f32"}


def loop_dtype(dtype: str) -> str:
    """The type in which elements of a type are computed (`docs/numerics.md`)."""
    return _LOOP_DTYPES.get(dtype, dtype)


def why_not_lowered(call: RecordedCall) -> str | None:
    """Why a call has no HLO of its own; None if it has."""
    row = call.row
    if not row.compilable:
        return str(row.reason)
    if call.complex and row.kind not in ("movement", "creation", "index") and not row.complex_lower:
        return "its form for complex numbers has no lowering"
    reason: str | None = row.refuse(call) if row.refuse is not None else None
    return reason


def can_fail(row: Any, compute: str) -> bool:
    """Whether a call that computes in this type may fail by the values of its operands, as the core sees it."""
    return bool(row.fallible) and (row.kind != "elementwise" or compute not in FLOATING)


def has_kernel(call: RecordedCall) -> bool:
    """Whether compiled code can call the op's eager kernel."""
    return call.row.kernel is None and not call.row.overwrites and _C.has_native_kernel(call.row.name)


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand: `kind` is node, input, scalar or none. A `baked` scalar is a constant of the compiled code."""

    kind: str
    index: int = 0
    result: int = 0
    scalar: Any = None
    baked: bool = False


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """What `Row.refuse` and the lowering are given; a node's payload."""

    row: Any
    operands: Sequence[Operand]
    params: Sequence[Any]
    results: Sequence[tuple[str, tuple[int, ...]]]
    compute: str
    """The dtype that operands of elementwise ops are converted to."""
    node: int
    """The node's place in the trace."""
    dtypes: frozenset[str]
    """The types of its operands and results, and of the arithmetic."""
    shapes: Sequence[tuple[int, ...] | None]
    """Those of the operands that are tensors; None for others."""
    default_dtype: str
    """As it was at the call."""
    rounds_products: bool
    """Whether products of float32 might be rounded then."""

    def in_loop_dtypes(self) -> RecordedCall:
        """The call as if its operands and results were of the types that elements are computed in."""
        results = [(loop_dtype(dtype), dims) for dtype, dims in self.results]
        return replace(self, results=results, compute=loop_dtype(self.compute))

    @property
    def floating(self) -> bool:
        """Whether the arithmetic is in floating point."""
        return self.compute in FLOATING

    @property
    def complex(self) -> bool:
        """Whether complex numbers are read or made."""
        return not self.dtypes.isdisjoint(("c64", "c128"))

    @property
    def result_floating(self) -> bool:
        """Whether the first result is of a floating-point type."""
        return self.results[0][0] in FLOATING

    def constant(self, operand: int) -> Any:
        """The number that operand is in every run of the compiled code, or None."""
        given = self.operands[operand]
        return given.scalar if given.kind == "scalar" and given.baked else None

    def is_input(self, operand: int) -> bool:
        """Whether the operand was there before the recording."""
        return self.operands[operand].kind == "input"
