"""Builder methods of the elementwise opcodes."""

from __future__ import annotations

from .builder_base import InstructionBuilder
from .infer.infer_shape import ShapeError
from .library import ELEMENTWISE_PREFIX, find_loop
from .module import Instruction
from .opcode import NATIVE_RANGE

__all__ = ["Elementwise"]


class Elementwise(InstructionBuilder):
    """The part of `Builder` for elementwise opcodes."""

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
