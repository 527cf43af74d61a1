"""The part of the builder that appends instructions and makes a module of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike

from .infer.infer_shape import ShapeError, infer_shape
from .module import Attrs, Computation, Instruction, Literal, Metadata, Module
from .narrow import array_of
from .shape import DTYPES, AnyShape, Shape, dtype_of

__all__ = ["Dims", "InstructionBuilder"]

Dims = Sequence[int]


class InstructionBuilder:
    """Appends instructions, whatever they are, to one computation, and at the end makes a module of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._instructions: list[Instruction] = []
        self._parameters = 0
        self._metadata: Metadata | None = None
        self._combiners: dict[tuple[str, str], Computation] = {}

    # ---- making instructions

    def emit(
        self,
        opcode: str,
        operands: Sequence[Instruction] = (),
        attrs: Attrs | None = None,
        *,
        shape: AnyShape | None = None,
        literal: Literal | None = None,
        parameter_number: int | None = None,
        name: str | None = None,
    ) -> Instruction:
        """Appends any instruction; `shape` is needed for opcodes whose result the operands do not fix."""
        attrs = {} if attrs is None else attrs
        try:
            inferred = infer_shape(opcode, [o.shape for o in operands], attrs, shape)
        except ShapeError as error:
            at = self._metadata
            where = f" ({at.source_file}:{at.source_line})" if at and at.source_file else ""
            raise ShapeError(f"{error}{where}") from None
        instruction = Instruction(
            name or f"{opcode}.{len(self._instructions)}",
            opcode,
            inferred,
            operands,
            attrs,
            literal=literal,
            parameter_number=parameter_number,
            metadata=self._metadata,
        )
        self._instructions.append(instruction)
        return instruction

    @contextmanager
    def source(self, metadata: Metadata | None) -> Iterator[None]:
        """Instructions made within carry this metadata."""
        outer = self._metadata
        self._metadata = metadata
        try:
            yield
        finally:
            self._metadata = outer

    # ---- finishing

    def build(self, root: Instruction | Sequence[Instruction], *, entry_name: str = "main") -> Module:
        """A module whose entry returns `root`; several roots become a tuple."""
        return Module.from_entry(self.name, self.build_computation(root, name=entry_name))

    def build_computation(self, root: Instruction | Sequence[Instruction], *, name: str | None = None) -> Computation:
        """The instructions so far as a computation, for `to_apply`, `calls` or an entry."""
        if not isinstance(root, Instruction):
            root = self.tuple(*root)
        computation = Computation(name or self.name, self._instructions, root)
        computation.make_names_unique()
        return computation

    # ---- tuples

    def tuple(self, *elements: Instruction) -> Instruction:
        """A tuple of values."""
        return self.emit("tuple", elements)

    def get_tuple_element(self, x: Instruction, index: int) -> Instruction:
        """Element `index` of a tuple."""
        return self.emit("get-tuple-element", (x,), {"index": index})

    # ---- sources

    def parameter(self, shape: AnyShape, name: str | None = None, number: int | None = None) -> Instruction:
        """The next parameter, or the one with the given number."""
        number = self._parameters if number is None else number
        self._parameters = max(self._parameters, number + 1)
        return self.emit("parameter", shape=shape, parameter_number=number, name=name or f"param.{number}")

    def constant(self, value: ArrayLike, dtype: str | None = None) -> Instruction:
        """A literal. Python bools, ints and floats become pred, s32 and f32 unless `dtype` says otherwise."""
        if dtype is not None:
            if isinstance(value, int) and DTYPES[dtype].kind in "iu":
                value = np.uint64(value & (2**64 - 1))  # integers wrap
            array = array_of(value, dtype)
        elif isinstance(value, (np.ndarray, np.generic)):
            array = np.array(value, order="C")
        else:
            array = np.array(value, order="C")
            array = array.astype(
                {"b": np.bool_, "i": np.int32, "f": np.float32, "c": np.complex64}.get(array.dtype.kind, array.dtype)
            )
        array.setflags(write=False)
        return self.emit("constant", shape=Shape(dtype_of(array.dtype), array.shape), literal=array)

    def iota(self, shape: Shape, dimension: int = 0) -> Instruction:
        """The position along `dimension`, at each element."""
        return self.emit("iota", attrs={"iota_dimension": dimension}, shape=shape)

    def full(self, shape: Shape, value: ArrayLike) -> Instruction:
        """A constant scalar, broadcast to `shape`."""
        scalar = self.constant(value, shape.dtype)
        return scalar if not shape.dims else self.broadcast(scalar, shape.dims, ())

    def broadcast(self, x: Instruction, dims: Dims, broadcast_dimensions: Dims = ()) -> Instruction:
        """Dimension k of x becomes dimension `broadcast_dimensions[k]` of the result; the others repeat it."""
        shape = x.array_shape.with_dims(tuple(dims))
        return self.emit("broadcast", (x,), {"dimensions": tuple(broadcast_dimensions)}, shape=shape)
