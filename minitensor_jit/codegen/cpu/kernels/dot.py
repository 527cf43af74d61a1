"""Matrix products: a dot's dimension numbers as the sizes and strides of one batched call of the runtime's GEMM."""

from __future__ import annotations

import struct
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import cast

from ....ir.infer.dot import dot_dims
from ....ir.module import Computation, Instruction
from ....ir.semantics.matrix import Matrix, matrix_of, product_sizes
from ....ir.size import Size, is_one
from ....runtime.buffer_assignment import Location
from ...abi import GEMM, GEMMS, GEMV
from ...emitter.loops import i64
from ...errors import CompileError
from ...kernel_spec import Binding, KernelSpec, Sequential, location_of
from ...llvm.ir_text import Function
from ...llvm.ir_types import I64, PTR, Value
from ..tables import emit_table
from ..unit import Unit
from .loop_kernel import LoopKernels

__all__ = ["Dot", "emit_product", "emit_products", "product_sequence"]

# The product wraps around for integers, so signedness doesn't matter.
_ROUTINE = {"f32": "f32", "f64": "f64", "s32": "s32", "u32": "s32", "s64": "s64", "u64": "s64", "u8": "u8", "s8": "u8"}


class Dot:
    """A call of the GEMM."""

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, unit: Unit, spec: KernelSpec, dot: Instruction) -> None:
        if dot.dtype not in _ROUTINE:
            raise CompileError("dot", f"no matrix product for {dot.dtype}")
        self.unit, self.spec, self.dot = unit, spec, dot
        self.sequential = product_sequence(dot)

    def emit(self) -> None:
        """Emits the call."""
        bindings = [self.spec.operands[o.parameter_number or 0] for o in self.dot.operands]
        emit_product(self.unit, self.dot, bindings, self.spec.results[0])


def emit_product(
    unit: Unit,
    dot: Instruction,
    operands: list[Binding],
    result: Location,
    epilogue: Function | None = None,
    added: Binding | None = None,
) -> None:
    """Emits the call, after copies of operands whose dimensions can't be walked with one stride a group.

    `epilogue(buffers, batch, row0, rows, col0, cols)` is called for each finished tile; `added` is an array of the
    result's form that the product is added to.
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
        unit.gemm_arguments = unit.entry.alloca(I64, 19)
    block = unit.gemm_arguments
    fields: list[int | Value] = [
        m, n, k, batch,
        unit.pointer(entry, buffers, a), left.free, left.contracted, left.batch,
        unit.pointer(entry, buffers, b), right.contracted, right.free, right.batch,
        unit.pointer(entry, buffers, result), n, 1, m * n,
        *((0, 0) if epilogue is None else (epilogue.reference, buffers)),
        0 if added is None else unit.pointer(entry, buffers, location_of(added)),
    ]  # fmt: skip
    for position, field in enumerate(fields):
        entry.store(field if isinstance(field, Value) else i64(field), entry.gep(block, position, I64), 8)
    # A product of a vector has an order of its own; of integers the order makes no difference.
    vector = dot.dtype in GEMV and (is_one(m) or is_one(n))
    field_of_routine = GEMV[dot.dtype] if vector else GEMM[_ROUTINE[dot.dtype]]
    routine = entry.load(entry.gep(runtime, field_of_routine, PTR), PTR, 8)
    entry.raw(f"call void {routine.ref}(ptr {block.ref})")


@dataclass(frozen=True, slots=True)
class _Form:
    """Sizes and strides of a product, and whether it is added to another array: what is the same in a sequence."""

    dtype: str
    sizes: tuple[int, int, int, int]
    left: Matrix
    right: Matrix
    adds: bool

    def words(self) -> bytes:
        """It as an `MtGemm` without pointers."""
        batch, m, k, n = self.sizes
        left, right = self.left, self.right
        words = [m, n, k, batch, 0, left.free, left.contracted, left.batch]
        words += [0, right.contracted, right.free, right.batch, 0, n, 1, m * n, 0, 0, 0]
        return struct.pack("<19q", *words)


def product_sequence(dot: Instruction, added: Instruction | None = None) -> Sequential | None:
    """A product as one of several in a row, if it is one of matrices which are read where they are."""
    sizes = product_sizes(dot)
    if dot.dtype not in GEMMS or any(isinstance(n, Size) or n == 0 for n in sizes) or 1 in sizes[1::2]:
        return None
    lb, lc, rb, rc = dot_dims(dot.attrs)
    found = []
    for o, batch, contracted in zip(dot.operands, (lb, rb), (lc, rc), strict=True):
        free = [d for d in range(len(o.dims)) if d not in batch and d not in contracted]
        found.append(matrix_of(o.array_shape, batch, free, contracted))
    left, right = found
    if left is None or right is None:
        return None
    form = _Form(dot.dtype, sizes, left, right, added is not None)
    read = [*dot.operands] if added is None else [*dot.operands, added]
    numbers = [o.parameter_number for o in read if o.parameter_number is not None]
    return Sequential((form, tuple(numbers)), tuple(numbers[:2]))


def emit_products(unit: Unit, key: Hashable, steps: Sequence[tuple[Sequence[Binding], Location]]) -> None:
    """Emits the call for products in a row that have one `Sequential.key`, each with its operands and its result."""
    form, numbers = cast("tuple[_Form, tuple[int, ...]]", key)
    places = []
    for operands, result in steps:
        left, right, *added = [location_of(operands[number]) for number in numbers]
        places += [left, right, result, *added]
    table = emit_table(unit, places)
    entry, runtime = unit.builder, unit.entry.arguments[1]
    routine = entry.load(entry.gep(runtime, GEMMS[form.dtype], PTR), PTR, 8)
    each = unit.module.data(form.words())
    count, width = len(steps), len(places) // len(steps)
    entry.raw(f"call void {routine.ref}(ptr {each.ref}, ptr {table.ref}, i64 {count}, i64 {width})")


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
