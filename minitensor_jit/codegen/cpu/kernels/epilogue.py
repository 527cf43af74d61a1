"""What is done with each element of a product or a convolution, tile by tile, while the tile is in the cache."""

from __future__ import annotations

from ....ir.module import Computation, Instruction
from ...emitter.elemental import Emitter
from ...emitter.loops import counted_loop, i64
from ...indexing.indexing_map import AffineExpr, Space
from ...kernel_spec import KernelSpec, element_cost, reachable
from ...llvm.ir_text import Function
from ...llvm.ir_types import I64, PTR, VOID, Value
from ..unit import Unit
from .loop_kernel import copies_for
from .vector_loops import vector_loop

__all__ = ["emit_epilogue"]


def emit_epilogue(unit: Unit, whole: KernelSpec, product: Instruction, sizes: tuple[int, int, int]) -> Function:
    """Emits `epilogue(buffers, batch, row0, rows, col0, cols)` for a batch of matrices: how many, rows, columns.

    It overwrites a tile of the product, which lies where the result will, with what the spec makes of its elements.
    """
    spec = _behind(whole, product)
    batch, rows, columns = sizes
    root = spec.computation.root
    unit.kernels += 1
    name = f'"{spec.name}.{unit.kernels}.epilogue"'
    numbers = ("batch", "row0", "rows", "col0", "cols")
    function = Function(unit.module, name, VOID, [(PTR, "ctx"), *((I64, n) for n in numbers)])
    instructions = reachable([root])
    lanes = unit.lanes(list(instructions))
    while lanes > 1 and lanes >= 2 * columns:
        lanes //= 2
    space = Space()
    e = Emitter(function, space, lanes)
    unit.bind(e, spec, function.arguments[0])
    target = unit.result_pointer(e, spec.results[0])
    cost = element_cost(instructions, root.array_shape.size)
    copies = min(copies_for(cost), max(1, columns // lanes))
    copies = 1 << (copies.bit_length() - 1)
    row = space.var("row", batch * rows)

    def element(v: AffineExpr, copy: int) -> None:
        flat = row * columns + v
        value = e.value(root, space.delinearize(flat, root.dims))
        e.store(target, root.dtype, flat, value, in_place=True)

    _, matrix, first, count, left, width = function.arguments
    b = e.inner
    begin = b.add(b.mul(matrix, i64(rows)), first)
    right = b.add(left, width)

    def body(at: Value, _: list[Value]) -> list[Value]:
        e.set_variable(row, at)
        vector_loop(e, columns, copies, left, right, element)
        return []

    counted_loop(e, begin, b.add(begin, count), 1, body)
    e.inner.ret()
    return function


def _behind(whole: KernelSpec, product: Instruction) -> KernelSpec:
    """The computation with the product as one more parameter, which lies where the result will."""
    old = whole.computation
    number = len(old.parameters)
    stand_in = Instruction("product", "parameter", product.shape, parameter_number=number)
    mapping: dict[Instruction, Instruction] = {}
    for i in old.instructions:
        mapping[i] = stand_in if i is product else i.clone([mapping[o] for o in i.operands])
    parameters = [mapping[p] for p in old.parameters]
    others = [m for i, m in mapping.items() if i not in old.parameters and i is not product]
    computation = Computation(old.name, [*parameters, stand_in, *others], mapping[old.root])
    operands = [*whole.operands, whole.results[0]]
    return KernelSpec(whole.name, computation, operands, whole.results)
