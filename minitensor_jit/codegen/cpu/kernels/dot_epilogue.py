"""Matrix products with an epilogue: what is done with each element, tile by tile, while the tile is in the cache."""

from __future__ import annotations

from ....ir.module import Instruction
from ....ir.semantics.matrix import BLOCK_K, product_sizes
from ....ir.size import Size
from ...abi import GEMM
from ...errors import CompileError
from ...kernel_spec import KernelSpec
from ...matrix import check_epilogue
from ..unit import Unit
from .dot import emit_product, product_sequence
from .epilogue import emit_epilogue

__all__ = ["DotWithEpilogue"]


class DotWithEpilogue:
    """A call of the GEMM whose result is overwritten, element by element, with what a fusion makes of it.

    Where that is only to add it to another array, as gradients are added up, the GEMM does so before it writes.
    """

    def __init__(self, unit: Unit, spec: KernelSpec, dot: Instruction) -> None:
        check_epilogue(spec, dot)
        if dot.dtype not in GEMM:
            raise CompileError("fusion", f"no product of {dot.dtype} with an epilogue")
        self.unit, self.spec, self.dot = unit, spec, dot
        self.added = _added(spec, dot)
        number = None if self.added is None else self.added.parameter_number
        self.in_place: set[tuple[int, int]] = set() if number is None else {(0, number)}
        self.sequential = None if self.added is None else product_sequence(dot, self.added)

    def emit(self) -> None:
        """Emits the epilogue and the call."""
        spec, dot = self.spec, self.dot
        function = None
        if self.added is None and 0 not in dot.dims:
            batch, rows, _, columns = product_sizes(dot)
            function = emit_epilogue(self.unit, spec, dot, (batch, rows, columns))
        bindings = [spec.operands[o.parameter_number or 0] for o in dot.operands]
        added = None if self.added is None else spec.operands[self.added.parameter_number or 0]
        emit_product(self.unit, dot, bindings, spec.results[0], function, added)


def _added(spec: KernelSpec, dot: Instruction) -> Instruction | None:
    """The array that the product is added to, where that is all that is done with it."""
    root = spec.computation.root
    k = product_sizes(dot)[2]
    if root.opcode != "add" or dot not in root.operands or isinstance(k, Size) or not 0 < k <= BLOCK_K:
        return None
    (other,) = [o for o in root.operands if o is not dot] or [dot]
    alone = other.opcode == "parameter" and other.dims == dot.dims and other not in dot.operands
    return other if alone else None
