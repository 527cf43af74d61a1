"""Which modules this code generator accepts. Decided before anything is emitted: LLVM would end the process."""

from __future__ import annotations

from ..ir.module import Computation, Instruction, Module
from ..ir.narrow import NARROW
from ..ir.opcode import Trait, is_elementwise, opcodes_with
from ..ir.shape import Shape
from .emitter.elementwise import supports
from .emitter.types import PARTS, REGISTER
from .errors import CompileError

__all__ = ["check_module"]

MAX_RANK = 16
# A literal becomes text in the module; what is larger should be a parameter.
MAX_LITERAL_BYTES = 4 << 20

_EXPANDED = opcodes_with(Trait.EXPANDED)


def check_module(module: Module, narrow_products: bool = False) -> None:
    """Raises `CompileError` naming the first opcode, type or form that has no code.

    With `narrow_products`, products of float16 and bfloat16 arrays in float32 have code.
    """
    if any(not isinstance(p.shape, Shape) for p in module.entry.parameters):
        raise CompileError("parameter", "a tuple as a parameter of the entry")
    seen: set[Computation] = set()
    stack = [module.entry]
    while stack:
        computation = stack.pop()
        if computation in seen:
            continue
        seen.add(computation)
        for i in computation.instructions:
            _check(i, narrow_products)
            stack.extend(i.called())


def _is_narrow_product(dot: Instruction) -> bool:
    return dot.operands[0].dtype in NARROW and dot.dtype == "f32"


def _check(i: Instruction, narrow_products: bool) -> None:
    if is_elementwise(i.opcode):
        decision = supports(i)
        if not decision:
            raise CompileError(i.opcode, decision.reason)
    elif i.opcode in ("reduce", "dot") and any(o.dtype in PARTS for o in i.operands):
        raise CompileError(i.opcode, "no code for complex numbers")
    elif i.opcode in _EXPANDED:
        raise CompileError(i.opcode, "no code for this opcode yet")
    elif i.opcode == "dot" and i.dtype != i.operands[0].dtype and not (narrow_products and _is_narrow_product(i)):
        raise CompileError(i.opcode, f"no code for products of {i.operands[0].dtype} in {i.dtype}")
    elif any(i.attrs.get(key) for key in ("operand_batching_dims", "input_batching_dims")):
        raise CompileError(i.opcode, "no code for batching dimensions")
    if isinstance(i.shape, Shape):
        if i.dtype not in REGISTER:
            raise CompileError(i.opcode, f"no code for {i.dtype}")
        if len(i.dims) > MAX_RANK:
            raise CompileError(i.opcode, f"{len(i.dims)} dimensions, supported are {MAX_RANK}")
        if i.literal is not None and i.literal.nbytes > MAX_LITERAL_BYTES:
            raise CompileError(i.opcode, f"a literal of {i.literal.nbytes} bytes, supported are {MAX_LITERAL_BYTES}")
    if i.opcode == "gather" and 0 in i.operands[0].dims and i.array_shape.size:
        raise CompileError(i.opcode, "an element of an empty array")
