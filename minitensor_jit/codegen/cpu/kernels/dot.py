"""Matrix products: a dot's dimension numbers as the sizes and strides of one batched call of the runtime's GEMM."""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.infer.infer_shape import dot_dims
from ....ir.module import Computation, Instruction
from ....ir.semantics.matrix import Matrix, matrix_of, product_sizes
from ....ir.size import is_one
from ....runtime.buffer_assignment import Location
from ...abi import GEMM, GEMV
from ...emitter.loops import i64
from ...errors import CompileError
from ...kernel_spec import Binding, KernelSpec, location_of
from ...llvm.ir_text import I64, PTR, Function, Value
from ..unit import Unit
from .loop_kernel import LoopKernels

__all__ = ["Dot", "emit_product"]

# The product wraps around for integers, so signedness doesn't matter.
_ROUTINE = {"f32": "f32", "f64": "f64", "s32": "s32", "u32": "s32", "s64": "s64", "u64": "s64", "u8": "u8", "s8": "u8"}


class Dot:
    """A call of the GEMM."""

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, unit: Unit, spec: KernelSpec, dot: Instruction) -> None:
        if dot.dtype not in _ROUTINE:
            raise CompileError("dot", f"no matrix product for {dot.dtype}")
        self.unit, self.spec, self.dot = unit, spec, dot

    def emit(self) -> None:
        """Emits the call."""
        bindings = [self.spec.operands[o.parameter_number or 0] for o in self.dot.operands]
        emit_product(self.unit, self.dot, bindings, self.spec.results[0])


def emit_product(
    unit: Unit, dot: Instruction, operands: list[Binding], result: Location, epilogue: Function | None = None
) -> None:
    """Emits the call, after copies of operands whose dimensions can't be walked with one stride a group.

    `epilogue(buffers, batch, row0, rows, col0, cols)` is called for each finished tile.
    """
    lb, lc, rb, rc = dot_dims(dot.attrs)
    lhs, rhs = (o.array_shape for o in dot.operands)
    lf = [d for d in range(lhs.rank) if d not in lb and d not in lc]
    rf = [d for d in range(rhs.rank) if d not in rb and d not in rc]
    batch, m, k, n = product_sizes(dot)
    if 0 in (batch, m, n):
        return
    left, a = _operand(unit, dot.operands[0], operands[0], lb, lf, lc)
    right, b = _operand(unit, dot.operands[1], operands[1], rb, rf, rc)
    entry = unit.builder
    buffers, runtime = unit.entry.arguments
    if unit.gemm_arguments is None:
        unit.gemm_arguments = unit.entry.alloca(I64, 18)
    block = unit.gemm_arguments
    fields: list[int | Value] = [
        m, n, k, batch,
        unit.pointer(entry, buffers, a), left.free, left.contracted, left.batch,
        unit.pointer(entry, buffers, b), right.contracted, right.free, right.batch,
        unit.pointer(entry, buffers, result), n, 1, m * n,
        *((0, 0) if epilogue is None else (epilogue.reference, buffers)),
    ]  # fmt: skip
    for position, field in enumerate(fields):
        entry.store(field if isinstance(field, Value) else i64(field), entry.gep(block, position, I64), 8)
    # A product of a vector has an order of its own; of integers the order makes no difference.
    vector = dot.dtype in GEMV and (is_one(m) or is_one(n))
    field_of_routine = GEMV[dot.dtype] if vector else GEMM[_ROUTINE[dot.dtype]]
    routine = entry.load(entry.gep(runtime, field_of_routine, PTR), PTR, 8)
    entry.raw(f"call void {routine.ref}(ptr {block.ref})")


def _operand(
    unit: Unit, i: Instruction, binding: Binding, batch: Sequence[int], free: Sequence[int], contracted: Sequence[int]
) -> tuple[Matrix, Location]:
    matrix = matrix_of(i.array_shape, batch, free, contracted)
    if matrix is not None:
        return matrix, location_of(binding)
    order = [*batch, *free, *contracted]
    shape = i.array_shape.with_dims(tuple(i.dims[d] for d in order))
    copy = unit.temporary(shape.nbytes)
    parameter = Instruction("x", "parameter", i.shape, parameter_number=0)
    root = Instruction("copy", "transpose", shape, (parameter,), {"dimensions": tuple(order)})
    spec = KernelSpec("dot_operand", Computation("copy", [parameter, root], root), [binding], [copy])
    LoopKernels(unit, spec).emit()
    matrix = matrix_of(
        shape,
        range(len(batch)),
        range(len(batch), len(batch) + len(free)),
        range(len(batch) + len(free), len(order)),
    )
    assert matrix is not None
    return matrix, copy
