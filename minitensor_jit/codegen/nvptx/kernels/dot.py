"""Which kernel a matrix product gets: on tensor cores, of a vector, or in tiles; and copies of operands for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Final

import numpy as np

from ....ir.infer.dot import dot_dims
from ....ir.module import Computation, Instruction
from ....ir.semantics.matrix import BLOCK_K, Matrix, matrix_of, product_sizes
from ....ir.shape import DTYPES, Shape
from ...errors import CompileError
from ...kernel_spec import KernelSpec
from ...matrix import check_registers_epilogue
from ..unit import GpuUnit, Symbol
from .loop_kernel import LoopKernels
from .tensor_core_product import TF32, chunk_of, emit_tensor_product
from .tiled_product import TiledProduct
from .vector_product import emit_vector_product

__all__ = ["Dot", "Operand"]

_DTYPES: Final = frozenset({"f32", "f64", "s32", "u32", "s64", "u64", "u8", "s8"})


@dataclass(frozen=True)
class Operand:
    """An operand of a product: its array, and the strides of its matrices."""

    symbol: Symbol | None
    matrix: Matrix
    computed: Computed | None = None
    """What is evaluated instead of read, for an operand that is no array in memory."""


@dataclass(frozen=True)
class Computed:
    """An operand by its instruction: its batch, free and contracted dimensions."""

    instruction: Instruction
    batch: tuple[int, ...]
    free: tuple[int, ...]
    contracted: tuple[int, ...]


class Dot:
    """The kernel of a product, and of what a fusion makes of its elements."""

    in_place: set[tuple[int, int]] = set()  # noqa: RUF012 - never changed

    def __init__(self, unit: GpuUnit, spec: KernelSpec, dot: Instruction) -> None:
        if dot.dtype not in _DTYPES:
            raise CompileError("dot", f"no matrix product for {dot.dtype}")
        narrow = dot.operands[0].dtype in ("bf16", "f16")
        newer = unit.target.compute_capability >= (8, 0)
        if narrow and (dot.dtype != "f32" or not newer):
            raise CompileError("dot", f"no product of {dot.operands[0].dtype} in {dot.dtype} for {unit.target.name}")
        computed = [o for o in dot.operands if o.opcode != "parameter"]
        if spec.computation.roots != [dot] or computed:
            check_registers_epilogue(spec, dot)
        if computed and narrow:
            raise CompileError("dot", "a product on tensor cores of what is computed inside a fusion")
        self.unit, self.spec, self.dot = unit, spec, dot
        _, m, _, n = product_sizes(dot)
        rounds = (
            dot.attrs.get("algorithm") == TF32 and dot.dtype == "f32" and newer and not computed and 1 not in (m, n)
        )
        self.on_tensor_cores = narrow or rounds
        """Those of float32 only where they may be rounded; products of vectors have an order of their own."""

    def emit(self) -> None:
        """Emits and launches it, after copies of operands that can't be walked with one stride a group."""
        dot = self.dot
        lb, lc, rb, rc = dot_dims(dot.attrs)
        batch, m, _, n = product_sizes(dot)
        if 0 in (batch, m, n):
            return
        groups = []
        for i, of_batch, contracted in zip(dot.operands, (lb, rb), (lc, rc), strict=True):
            free = [d for d in range(len(i.dims)) if d not in of_batch and d not in contracted]
            groups.append(self._operand(i, of_batch, free, contracted))
        left, right = groups
        if self.on_tensor_cores:
            emit_tensor_product(self.unit, self.spec, dot, left, right)
            return
        if (m == 1 or n == 1) and DTYPES[dot.dtype].kind == "f":
            emit_vector_product(self.unit, self.spec, dot, left, right, BLOCK_K)
            return
        TiledProduct(self.unit, self.spec, dot, left, right).emit()

    def _operand(self, i: Instruction, batch: Sequence[int], free: Sequence[int], contracted: Sequence[int]) -> Operand:
        if i.opcode != "parameter":
            return Operand(None, Matrix(0, 0, 0), Computed(i, tuple(batch), tuple(free), tuple(contracted)))
        symbol = self.unit.symbol(self.spec, i)
        matrix = matrix_of(i.array_shape, batch, free, contracted)
        if matrix is not None and (not self.on_tensor_cores or _is_in_chunks(matrix, i, free, contracted)):
            return Operand(symbol, matrix)
        order = [*batch, *free, *contracted]
        shape = i.array_shape.with_dims(tuple(i.dims[d] for d in order))
        parameter = Instruction("x", "parameter", i.shape, parameter_number=0)
        root = Instruction("copy", "transpose", shape, (parameter,), {"dimensions": tuple(order)})
        made = [parameter, root]
        if self.on_tensor_cores:
            sizes = (shape.dims[: len(batch)], shape.dims[len(batch) : len(batch) + len(free)])
            shape = shape.with_dims((*map(prod, sizes), prod(i.dims[d] for d in contracted)))
            matrices = Instruction("matrices", "reshape", shape, (root,))
            zero = Instruction("zero", "constant", Shape(i.dtype), literal=np.zeros((), shape.numpy_dtype))
            rest = -shape.dims[2] % chunk_of(i.dtype)
            shape = shape.with_dims((*shape.dims[:2], shape.dims[2] + rest))
            padding = ((0, 0, 0), (0, 0, 0), (0, rest, 0))
            root = Instruction("padded", "pad", shape, (matrices, zero), {"padding": padding})
            made += [matrices, zero, root]
            batch, free, contracted = (0,), (1,), (2,)
        copy = self.unit.temporary(shape.nbytes)
        spec = KernelSpec(f"{self.spec.name}_operand", Computation("copy", made, root))
        assert i.parameter_number is not None
        spec.operands = [self.spec.operands[i.parameter_number]]
        with self.unit.renamed({("operand", 0): symbol, ("result", 0): copy}):
            LoopKernels(self.unit, spec).emit()
        ends = len(batch), len(batch) + len(free), len(shape.dims)
        matrix = matrix_of(shape, range(ends[0]), range(ends[0], ends[1]), range(ends[1], ends[2]))
        assert matrix is not None
        return Operand(copy, matrix)


def _is_in_chunks(matrix: Matrix, i: Instruction, free: Sequence[int], contracted: Sequence[int]) -> bool:
    """Whether the rows of matrices, in either direction, are made of whole chunks."""
    inner, across, size = matrix.contracted, matrix.free, prod(i.dims[d] for d in contracted)
    if inner != 1:
        inner, across, size = across, inner, prod(i.dims[d] for d in free)
    chunk = chunk_of(i.dtype)
    return inner == 1 and not (across % chunk or matrix.batch % chunk or size % chunk)
