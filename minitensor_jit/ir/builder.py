"""Builds a module, one method an opcode, with shapes inferred and checked at every step."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import ArrayLike

from .builder_structured import WholeArrays
from .infer.infer_shape import ShapeError, infer_shape
from .library import ELEMENTWISE_PREFIX, find_loop
from .module import Attrs, Computation, Instruction, Literal, Metadata, Module
from .narrow import array_of
from .opcode import NATIVE_RANGE
from .semantics.combiners import combiner, highest, lowest
from .semantics.kernel_call import KERNEL_PREFIX, KernelCall, Param
from .shape import DTYPES, AnyShape, Shape, TupleShape, dtype_of

__all__ = ["Builder", "combiner", "highest", "lowest"]

Dims = Sequence[int]


class Builder(WholeArrays):
    """Appends instructions to one computation and, at the end, makes a module (or a computation) of them."""

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

    # ---- elementwise, one operand

    def _unary(self, opcode: str, x: Instruction) -> Instruction:
        return self.emit(opcode, (x,))

    def abs(self, x: Instruction) -> Instruction:
        """|x|."""
        return self._unary("abs", x)

    def real(self, x: Instruction) -> Instruction:
        """The real part of a complex number."""
        return self._unary("real", x)

    def imag(self, x: Instruction) -> Instruction:
        """The imaginary part of a complex number."""
        return self._unary("imag", x)

    def complex(self, re: Instruction, im: Instruction) -> Instruction:
        """The complex number of these parts."""
        return self._binary("complex", re, im)

    def negate(self, x: Instruction) -> Instruction:
        """-x."""
        return self._unary("negate", x)

    def sign(self, x: Instruction) -> Instruction:
        """-1, 0 or 1; keeps zeros' signs and NaN."""
        return self._unary("sign", x)

    def not_(self, x: Instruction) -> Instruction:
        """Logical not of pred, bitwise not of integers."""
        return self._unary("not", x)

    def exponential(self, x: Instruction) -> Instruction:
        """e to the x."""
        return self._unary("exponential", x)

    def exponential_minus_one(self, x: Instruction) -> Instruction:
        """e to the x, minus one."""
        return self._unary("exponential-minus-one", x)

    def log(self, x: Instruction) -> Instruction:
        """The natural logarithm."""
        return self._unary("log", x)

    def log_plus_one(self, x: Instruction) -> Instruction:
        """log(1 + x)."""
        return self._unary("log-plus-one", x)

    def tanh(self, x: Instruction) -> Instruction:
        """The hyperbolic tangent."""
        return self._unary("tanh", x)

    def logistic(self, x: Instruction) -> Instruction:
        """1 / (1 + exp(-x))."""
        return self._unary("logistic", x)

    def sqrt(self, x: Instruction) -> Instruction:
        """The IEEE square root."""
        return self._unary("sqrt", x)

    def rsqrt(self, x: Instruction) -> Instruction:
        """1 / sqrt(x)."""
        return self._unary("rsqrt", x)

    def floor(self, x: Instruction) -> Instruction:
        """The next integer downwards."""
        return self._unary("floor", x)

    def ceil(self, x: Instruction) -> Instruction:
        """The next integer upwards."""
        return self._unary("ceil", x)

    def round_nearest_even(self, x: Instruction) -> Instruction:
        """The nearest integer, ties to even."""
        return self._unary("round-nearest-even", x)

    def round_nearest_afz(self, x: Instruction) -> Instruction:
        """The nearest integer, ties away from zero."""
        return self._unary("round-nearest-afz", x)

    def sine(self, x: Instruction) -> Instruction:
        """sin(x)."""
        return self._unary("sine", x)

    def cosine(self, x: Instruction) -> Instruction:
        """cos(x)."""
        return self._unary("cosine", x)

    def is_finite(self, x: Instruction) -> Instruction:
        """Whether x is neither infinite nor NaN."""
        return self._unary("is-finite", x)

    def popcnt(self, x: Instruction) -> Instruction:
        """The number of set bits."""
        return self._unary("popcnt", x)

    def copy(self, x: Instruction) -> Instruction:
        """A copy."""
        return self._unary("copy", x)

    def convert(self, x: Instruction, dtype: str) -> Instruction:
        """The same values in another type; numbers out of range become what the core makes of them."""
        shape = x.array_shape.with_dtype(dtype)
        attrs = dict(NATIVE_RANGE) if x.array_shape.is_floating and shape.is_integral else {}
        return self.emit("convert", (x,), attrs, shape=shape)

    def bitcast_convert(self, x: Instruction, dtype: str) -> Instruction:
        """The same bits in another type; one of another size gains or loses the last dimension."""
        shape = x.array_shape.with_dtype(dtype)
        if shape.itemsize == x.array_shape.itemsize:
            return self.emit("bitcast-convert", (x,), shape=shape)
        if shape.itemsize < x.array_shape.itemsize:
            shape = shape.with_dims((*x.dims, x.array_shape.itemsize // shape.itemsize))
        else:
            shape = shape.with_dims(x.dims[:-1])
        return self.emit("bitcast-reinterpret", (x,), shape=shape)

    # ---- elementwise, two operands

    def _binary(self, opcode: str, x: Instruction, y: Instruction) -> Instruction:
        return self.emit(opcode, (x, y))

    def add(self, x: Instruction, y: Instruction) -> Instruction:
        """x + y; `or` for pred."""
        return self._binary("add", x, y)

    def subtract(self, x: Instruction, y: Instruction) -> Instruction:
        """x - y."""
        return self._binary("subtract", x, y)

    def multiply(self, x: Instruction, y: Instruction) -> Instruction:
        """x * y; `and` for pred."""
        return self._binary("multiply", x, y)

    def divide(self, x: Instruction, y: Instruction) -> Instruction:
        """x / y; integers truncate towards zero."""
        return self._binary("divide", x, y)

    def remainder(self, x: Instruction, y: Instruction) -> Instruction:
        """The remainder of the truncating division; it has the sign of x."""
        return self._binary("remainder", x, y)

    def power(self, x: Instruction, y: Instruction) -> Instruction:
        """x to the y."""
        return self._binary("power", x, y)

    def atan2(self, y: Instruction, x: Instruction) -> Instruction:
        """The angle of the point (x, y)."""
        return self._binary("atan2", y, x)

    def maximum(self, x: Instruction, y: Instruction) -> Instruction:
        """The larger one; NaN if either is NaN; -0 is less than +0."""
        return self._binary("maximum", x, y)

    def minimum(self, x: Instruction, y: Instruction) -> Instruction:
        """The smaller one; NaN if either is NaN; -0 is less than +0."""
        return self._binary("minimum", x, y)

    def and_(self, x: Instruction, y: Instruction) -> Instruction:
        """Logical or bitwise and."""
        return self._binary("and", x, y)

    def or_(self, x: Instruction, y: Instruction) -> Instruction:
        """Logical or bitwise or."""
        return self._binary("or", x, y)

    def xor(self, x: Instruction, y: Instruction) -> Instruction:
        """Logical or bitwise exclusive or."""
        return self._binary("xor", x, y)

    def shift_left(self, x: Instruction, y: Instruction) -> Instruction:
        """x << y; 0 if y is not less than the number of bits."""
        return self._binary("shift-left", x, y)

    def shift_right_logical(self, x: Instruction, y: Instruction) -> Instruction:
        """x >> y, filling with zeros; 0 if y is not less than the number of bits."""
        return self._binary("shift-right-logical", x, y)

    def shift_right_arithmetic(self, x: Instruction, y: Instruction) -> Instruction:
        """x >> y, filling with the sign."""
        return self._binary("shift-right-arithmetic", x, y)

    def compare(self, x: Instruction, y: Instruction, direction: str) -> Instruction:
        """The pred `x direction y`, direction being EQ, NE, LT, LE, GT or GE."""
        return self.emit("compare", (x, y), {"direction": direction})

    # ---- elementwise, three operands

    def select(self, pred: Instruction, on_true: Instruction, on_false: Instruction) -> Instruction:
        """`on_true` where pred, else `on_false`; a scalar pred is broadcast."""
        return self.emit("select", (self._fit(pred, on_true), on_true, on_false))

    def clamp(self, low: Instruction, x: Instruction, high: Instruction) -> Instruction:
        """minimum(maximum(low, x), high); scalar bounds are broadcast."""
        return self.emit("clamp", (self._fit(low, x), x, self._fit(high, x)))

    def _fit(self, x: Instruction, like: Instruction) -> Instruction:
        return self.broadcast(x, like.dims, ()) if not x.dims and like.dims else x

    # ---- elementwise, by a function of the core

    def elementwise_call(self, name: str, *operands: Instruction) -> Instruction:
        """What the eager kernel of the op `name` computes, with operands converted to its compute type and broadcast.

        The same loop runs in eager and in compiled code, so their bits are equal. A number among the operands is
        a `full` of it.
        """
        dtype = operands[0].dtype
        loop = find_loop(name, dtype)
        if loop is None:
            raise ShapeError(f"no loop is called {name} for {dtype}")
        if loop.inputs != len(operands):
            raise ShapeError(f"the loop {name} has {loop.inputs} input(s), got {len(operands)}")
        shape = operands[0].array_shape.with_dtype(loop.result)
        return self.emit("elementwise-call", operands, {"custom_call_target": ELEMENTWISE_PREFIX + name}, shape=shape)

    # ---- data movement

    def broadcast(self, x: Instruction, dims: Dims, broadcast_dimensions: Dims = ()) -> Instruction:
        """Dimension k of x becomes dimension `broadcast_dimensions[k]` of the result; the others repeat it."""
        shape = x.array_shape.with_dims(tuple(dims))
        return self.emit("broadcast", (x,), {"dimensions": tuple(broadcast_dimensions)}, shape=shape)

    def reshape(self, x: Instruction, dims: Dims) -> Instruction:
        """The same elements in row-major order, with other dimensions."""
        return self.emit("reshape", (x,), shape=x.array_shape.with_dims(tuple(dims)))

    def transpose(self, x: Instruction, permutation: Dims) -> Instruction:
        """Dimension k of the result is dimension `permutation[k]` of x."""
        return self.emit("transpose", (x,), {"dimensions": tuple(permutation)})

    def slice(self, x: Instruction, starts: Dims, limits: Dims, strides: Dims | None = None) -> Instruction:
        """The elements `starts[d] : limits[d] : strides[d]` in each dimension d."""
        strides = (1,) * len(starts) if strides is None else strides
        if not len(starts) == len(limits) == len(strides):
            raise ShapeError("slice needs as many starts as limits and strides")
        return self.emit("slice", (x,), {"slice": tuple(zip(starts, limits, strides, strict=True))})

    def concatenate(self, operands: Sequence[Instruction], dimension: int) -> Instruction:
        """The operands one after the other along `dimension`."""
        return self.emit("concatenate", tuple(operands), {"dimensions": (dimension,)})

    def pad(self, x: Instruction, value: Instruction, padding: Sequence[Sequence[int]]) -> Instruction:
        """Adds (low, high[, interior]) elements of `value` in each dimension; negative ones crop."""
        full = tuple((int(p[0]), int(p[1]), int(p[2]) if len(p) > 2 else 0) for p in padding)
        return self.emit("pad", (x, value), {"padding": full})

    def reverse(self, x: Instruction, dimensions: Dims) -> Instruction:
        """The elements in reverse order along `dimensions`."""
        return self.emit("reverse", (x,), {"dimensions": tuple(dimensions)})

    def dynamic_slice(self, x: Instruction, starts: Sequence[Instruction], sizes: Dims) -> Instruction:
        """A window of the given sizes; starts are clamped so that it lies inside x."""
        return self.emit("dynamic-slice", (x, *starts), {"dynamic_slice_sizes": tuple(sizes)})

    def dynamic_update_slice(self, x: Instruction, update: Instruction, starts: Sequence[Instruction]) -> Instruction:
        """x with a window replaced by `update`; starts are clamped so that it lies inside x."""
        return self.emit("dynamic-update-slice", (x, update, *starts))

    def gather(
        self,
        x: Instruction,
        indices: Instruction,
        *,
        offset_dims: Dims,
        collapsed_slice_dims: Dims,
        start_index_map: Dims,
        index_vector_dim: int,
        slice_sizes: Dims,
        indices_are_sorted: bool = False,
    ) -> Instruction:
        """Windows of x at positions read from `indices` (XLA's gather); positions are clamped."""
        attrs: Attrs = {
            "offset_dims": tuple(offset_dims),
            "collapsed_slice_dims": tuple(collapsed_slice_dims),
            "start_index_map": tuple(start_index_map),
            "index_vector_dim": index_vector_dim,
            "slice_sizes": tuple(slice_sizes),
        }
        if indices_are_sorted:
            attrs["indices_are_sorted"] = True
        return self.emit("gather", (x, indices), attrs)

    def scatter(
        self,
        x: Instruction,
        indices: Instruction,
        updates: Instruction,
        *,
        update_window_dims: Dims,
        inserted_window_dims: Dims,
        scatter_dims_to_operand_dims: Dims,
        index_vector_dim: int,
        kind: str | Computation = "add",
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
    ) -> Instruction:
        """x with windows combined with `updates` in their order (XLA's scatter); windows out of bounds are skipped."""
        attrs: Attrs = {
            "update_window_dims": tuple(update_window_dims),
            "inserted_window_dims": tuple(inserted_window_dims),
            "scatter_dims_to_operand_dims": tuple(scatter_dims_to_operand_dims),
            "index_vector_dim": index_vector_dim,
            "to_apply": self._combiner(kind, x.dtype),
        }
        if indices_are_sorted:
            attrs["indices_are_sorted"] = True
        if unique_indices:
            attrs["unique_indices"] = True
        return self.emit("scatter", (x, indices, updates), attrs)

    # ---- reductions and contractions

    def _combiner(self, kind: str | Computation, dtype: str) -> Computation:
        if isinstance(kind, Computation):
            return kind
        known = self._combiners.get((kind, dtype))
        if known is None:
            known = self._combiners[kind, dtype] = combiner(kind, dtype)
        return known

    def reduce(
        self,
        operands: Instruction | Sequence[Instruction],
        inits: Instruction | Sequence[Instruction],
        dimensions: Dims,
        kind: str | Computation = "add",
    ) -> Instruction:
        """Combines the elements along `dimensions`, from the scalar `inits`.

        `kind` is add, multiply, maximum, minimum, and, or, xor, or a computation; one that reduces several operands at
        once takes `(accumulators..., values...)` and the result is then a tuple.
        """
        inputs = (operands,) if isinstance(operands, Instruction) else tuple(operands)
        starts = (inits,) if isinstance(inits, Instruction) else tuple(inits)
        if not inputs:
            raise ShapeError("reduce needs an operand")
        attrs: Attrs = {"dimensions": tuple(dimensions), "to_apply": self._combiner(kind, inputs[0].dtype)}
        return self.emit("reduce", (*inputs, *starts), attrs)

    def reduce_sum(self, x: Instruction, dimensions: Dims) -> Instruction:
        """The sum along `dimensions`, from zero."""
        return self.reduce(x, self.constant(0, x.dtype), dimensions, "add")

    def reduce_max(self, x: Instruction, dimensions: Dims) -> Instruction:
        """The maximum along `dimensions`, from the lowest value of the type."""
        return self.reduce(x, self.constant(lowest(x.dtype), x.dtype), dimensions, "maximum")

    def reduce_min(self, x: Instruction, dimensions: Dims) -> Instruction:
        """The minimum along `dimensions`, from the highest value of the type."""
        return self.reduce(x, self.constant(highest(x.dtype), x.dtype), dimensions, "minimum")

    def sort(
        self, operands: Sequence[Instruction], dimension: int, comparator: Computation, *, is_stable: bool = True
    ) -> Instruction:
        """Sorts the operands together along `dimension` by `comparator(a0, b0, a1, b1, ...) -> pred`."""
        attrs: Attrs = {"dimensions": (dimension,), "to_apply": comparator}
        if is_stable:
            attrs["is_stable"] = True
        return self.emit("sort", tuple(operands), attrs)

    def dot(
        self,
        lhs: Instruction,
        rhs: Instruction,
        *,
        lhs_contracting_dims: Dims,
        rhs_contracting_dims: Dims,
        lhs_batch_dims: Dims = (),
        rhs_batch_dims: Dims = (),
    ) -> Instruction:
        """The general dot product: batch dimensions first, then those of lhs, then those of rhs."""
        attrs: Attrs = {}
        if lhs_batch_dims or rhs_batch_dims:
            attrs["lhs_batch_dims"] = tuple(lhs_batch_dims)
        attrs["lhs_contracting_dims"] = tuple(lhs_contracting_dims)
        if lhs_batch_dims or rhs_batch_dims:
            attrs["rhs_batch_dims"] = tuple(rhs_batch_dims)
        attrs["rhs_contracting_dims"] = tuple(rhs_contracting_dims)
        return self.emit("dot", (lhs, rhs), attrs)

    def matmul(self, lhs: Instruction, rhs: Instruction) -> Instruction:
        """The product of matrices, with equal leading batch dimensions."""
        rank = lhs.array_shape.rank
        if rank < 2 or rhs.array_shape.rank != rank:
            raise ShapeError(f"matmul of {lhs.shape} and {rhs.shape}: ranks must be equal and at least 2")
        batch = tuple(range(rank - 2))
        return self.dot(
            lhs,
            rhs,
            lhs_contracting_dims=(rank - 1,),
            rhs_contracting_dims=(rank - 2,),
            lhs_batch_dims=batch,
            rhs_batch_dims=batch,
        )

    # ---- kernels of the core

    def kernel_call(
        self,
        op: str,
        operands: Sequence[Instruction],
        results: Sequence[Shape],
        *,
        kinds: str,
        params: Sequence[Param],
        default_dtype: str = "f32",
        may_fail: bool = False,
    ) -> list[Instruction]:
        """The results of an op of the core, computed by its eager kernel; `kernel_call.py` says what `kinds` are.

        One that may fail is called even if nobody reads what it gives.
        """
        attrs: Attrs = {
            "custom_call_target": KERNEL_PREFIX + op,
            "backend_config": KernelCall(op, kinds, tuple(params), default_dtype).config(),
        }
        if may_fail:
            attrs["custom_call_has_side_effect"] = True
        if len(results) == 1:
            return [self.emit("kernel-call", operands, attrs, shape=results[0])]
        call = self.emit("kernel-call", operands, attrs, shape=TupleShape(tuple(results)))
        return [self.get_tuple_element(call, k) for k in range(len(results))]

    # ---- tuples and calls

    def tuple(self, *elements: Instruction) -> Instruction:
        """A tuple of values."""
        return self.emit("tuple", elements)

    def get_tuple_element(self, x: Instruction, index: int) -> Instruction:
        """Element `index` of a tuple."""
        return self.emit("get-tuple-element", (x,), {"index": index})

    def call(self, computation: Computation, *operands: Instruction) -> Instruction:
        """The result of a computation."""
        return self.emit("call", operands, {"to_apply": computation})

    def fusion(self, computation: Computation, *operands: Instruction, kind: str = "kLoop") -> Instruction:
        """The result of a computation that is compiled as one kernel."""
        return self.emit("fusion", operands, {"kind": kind, "calls": computation})
