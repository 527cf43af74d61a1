"""What a product's epilogue may be."""

from __future__ import annotations

from ..ir.module import Instruction
from ..ir.opcode import is_elementwise
from ..ir.semantics.matrix import product_sizes
from .errors import CompileError
from .kernel_spec import KernelSpec

__all__ = ["check_chain", "check_epilogue", "check_registers_epilogue"]


def check_epilogue(spec: KernelSpec, dot: Instruction) -> None:
    """Raises `CompileError` unless the spec makes each of its elements of that of a product with tiles in memory."""
    _check_tiles(dot)
    check_chain(spec, dot)


def check_registers_epilogue(spec: KernelSpec, dot: Instruction) -> None:
    """The same for tiles in registers: operands may be computed, and the result may have any type."""
    _check_tiles(dot)
    _check_elementwise(spec, dot)


def check_chain(spec: KernelSpec, product: Instruction) -> None:
    """Raises `CompileError` unless each element is made of that of a product or convolution, and can overwrite it."""
    if any(o.opcode != "parameter" for o in product.operands):
        raise CompileError("fusion", f"a {product.opcode} of what is computed inside a fusion")
    _check_elementwise(spec, product)
    if spec.computation.root.dtype != product.dtype:
        raise CompileError("fusion", f"a {product.opcode} with results of another type")


def _check_tiles(dot: Instruction) -> None:
    if 1 in product_sizes(dot)[1::2]:
        raise CompileError("fusion", "a product without tiles inside a fusion")


def _check_elementwise(spec: KernelSpec, product: Instruction) -> None:
    (root, _), *others = spec.roots
    if others or root.dims != product.dims:
        raise CompileError("fusion", f"a {product.opcode} with other results than one of its own form")
    pending, seen = [root], {root}
    while pending:
        i = pending.pop()
        if i is product:
            continue
        for o in i.operands:
            if o not in seen:
                seen.add(o)
                pending.append(o)
        if i.opcode not in ("parameter", "broadcast", "constant") and not is_elementwise(i.opcode):
            raise CompileError("fusion", f"{i.opcode} behind a {product.opcode} inside a fusion")
