"""Matrix products with an epilogue: what is done with each element, tile by tile, while the tile is in the cache."""

from __future__ import annotations

from ...ir.matrix import product_sizes
from ...ir.module import Computation, Instruction
from ..abi import GEMM
from ..elemental import Emitter
from ..errors import CompileError
from ..index import Lin, Space
from ..llvm import I64, PTR, VOID, Function, Value
from ..loops import counted_loop, i64
from ..matrix import check_epilogue
from ..task import Task, element_cost, reachable
from .dot import emit_product
from .loop_kernel import copies_for
from .loops import vector_loop
from .unit import Unit

__all__ = ["DotWithEpilogue"]


class DotWithEpilogue:
    """A call of the GEMM whose result is overwritten, element by element, with what a fusion makes of it."""

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, unit: Unit, task: Task, dot: Instruction) -> None:
        check_epilogue(task, dot)
        if dot.dtype not in GEMM:
            raise CompileError("fusion", f"no product of {dot.dtype} with an epilogue")
        self.unit, self.task, self.dot = unit, task, dot

    def emit(self) -> None:
        """Emits the epilogue and the call."""
        task, dot = self.task, self.dot
        function = None if 0 in dot.dims else self._epilogue()
        bindings = [task.operands[o.parameter_number or 0] for o in dot.operands]
        emit_product(self.unit, dot, bindings, task.results[0], function)

    def _epilogue(self) -> Function:
        """`epilogue(buffers, batch, row0, rows, col0, cols)`."""
        unit = self.unit
        task, product = self._behind_the_product()
        root = task.computation.root
        batch, rows, _, columns = product_sizes(self.dot)
        unit.kernels += 1
        name = f'"{task.name}.{unit.kernels}.epilogue"'
        numbers = ("batch", "row0", "rows", "col0", "cols")
        function = Function(unit.module, name, VOID, [(PTR, "ctx"), *((I64, n) for n in numbers)])
        instructions = reachable([root])
        lanes = unit.lanes(list(instructions))
        while lanes > 1 and lanes >= 2 * columns:
            lanes //= 2
        space = Space()
        e = Emitter(function, space, lanes)
        unit.bind(e, task, function.arguments[0])
        target = unit.result_pointer(e, task.results[0])
        cost = element_cost(instructions, root.array_shape.size)
        copies = min(copies_for(cost), max(1, columns // lanes))
        copies = 1 << (copies.bit_length() - 1)
        row = space.var("row", batch * rows)

        def element(v: Lin, copy: int) -> None:
            flat = row * columns + v
            value = e.value(root, space.delinearize(flat, root.dims))
            e.store(target, root.dtype, flat, value)

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
        assert product.parameter_number is not None
        return function

    def _behind_the_product(self) -> tuple[Task, Instruction]:
        """The computation with the product as one more parameter, which lies where the result will."""
        old = self.task.computation
        number = len(old.parameters)
        product = Instruction("product", "parameter", self.dot.shape, parameter_number=number)
        mapping: dict[Instruction, Instruction] = {}
        for i in old.instructions:
            mapping[i] = product if i is self.dot else i.clone([mapping[o] for o in i.operands])
        parameters = [mapping[p] for p in old.parameters]
        others = [m for i, m in mapping.items() if i not in old.parameters and i is not self.dot]
        computation = Computation(old.name, [*parameters, product, *others], mapping[old.root])
        operands = [*self.task.operands, self.task.results[0]]
        return Task(self.task.name, computation, operands, self.task.results), product
