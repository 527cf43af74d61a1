"""Kernels that reduce rows, in the order of the row step (`docs/numerics.md`).

There are forms for short rows (a thread or a warp has each), for those that the registers of a block hold, and for any
other: `RowKernel` chooses. The 64 lanes of a block of the order are two for each thread of a warp, which are
combined by shuffles; block results are combined in shared memory, or by a second kernel where there are few rows.
"""

from __future__ import annotations

from ...kernel_spec import KernelSpec
from ...reduction import Reduction
from ..unit import GpuUnit
from .row_held import HeldRows, TinyRows, WarpRows, fits_block, fits_warp
from .row_long import WARPS, LongRows, SplitRows
from .row_reduction import RowForm
from .row_split import StagedRows, fits_staging

__all__ = ["RowKernel"]

# Rows of so few elements have a thread each.
TINY = 8
# With fewer warps for each multiprocessor than this, blocks of the order are divided among thread blocks.
FEW_WARPS = 16


class RowKernel:
    """The kernel of a fusion whose reductions are row steps of one shape."""

    def __init__(self, unit: GpuUnit, spec: KernelSpec, found: list[Reduction]) -> None:
        rows = RowForm(unit, spec, found)
        form: type[RowForm] = LongRows
        if rows.length <= TINY:
            form = TinyRows
        elif fits_warp(rows):
            form = WarpRows
        elif self._is_split(unit, rows):
            form = StagedRows if fits_staging(rows) else SplitRows
        elif fits_block(rows):
            form = HeldRows
        self.form = form(unit, spec, found)
        # Threads beyond a row's end read what others may have written over.
        self.in_place = set() if self.form.has_guards() else self.form.in_place

    @staticmethod
    def _is_split(unit: GpuUnit, rows: RowForm) -> bool:
        single = rows.stages == 1 and not rows.element_roots
        warps = rows.outer * min(rows.blocks, WARPS)
        return single and rows.blocks > 1 and warps < FEW_WARPS * unit.target.multiprocessors

    def emit(self) -> None:
        """Emits and launches it."""
        self.form.emit()
