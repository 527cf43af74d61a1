"""Matrix products with an epilogue: what is done with each element, tile by tile, while the tile is in the cache."""

from __future__ import annotations

from ....ir.module import Instruction
from ....ir.semantics.matrix import product_sizes
from ...abi import GEMM
from ...errors import CompileError
from ...kernel_spec import KernelSpec
from ...matrix import check_epilogue
from ..unit import Unit
from .dot import emit_product
from .epilogue import emit_epilogue

__all__ = ["DotWithEpilogue"]


class DotWithEpilogue:
    """A call of the GEMM whose result is overwritten, element by element, with what a fusion makes of it."""

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, unit: Unit, spec: KernelSpec, dot: Instruction) -> None:
        check_epilogue(spec, dot)
        if dot.dtype not in GEMM:
            raise CompileError("fusion", f"no product of {dot.dtype} with an epilogue")
        self.unit, self.spec, self.dot = unit, spec, dot

    def emit(self) -> None:
        """Emits the epilogue and the call."""
        spec, dot = self.spec, self.dot
        function = None
        if 0 not in dot.dims:
            batch, rows, _, columns = product_sizes(dot)
            function = emit_epilogue(self.unit, spec, dot, (batch, rows, columns))
        bindings = [spec.operands[o.parameter_number or 0] for o in dot.operands]
        emit_product(self.unit, dot, bindings, spec.results[0], function)
