"""Values with operators, to write formulas of scalars as they stand in C++: one rounded operation after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from llvmlite import ir

from ...emitter import math
from ...llvm.ir_text import Builder
from ...llvm.ir_types import F32, F64, I32, I64, Value, constant
from .function_constants import DOUBLE, FLOAT

__all__ = ["Test", "Word", "X", "branch", "select"]


class Test:
    """A condition."""

    __slots__ = ("b", "v")

    def __init__(self, b: Builder, v: Value) -> None:
        self.b, self.v = b, v

    def __and__(self, other: Test) -> Test:
        return Test(self.b, self.b.and_(self.v, other.v))

    def __or__(self, other: Test) -> Test:
        return Test(self.b, self.b.or_(self.v, other.v))

    def __xor__(self, other: Test) -> Test:
        return Test(self.b, self.b.xor(self.v, other.v))

    def __invert__(self) -> Test:
        return Test(self.b, self.b.not_(self.v))


class Word:
    """An unsigned integer."""

    __slots__ = ("b", "v")

    def __init__(self, b: Builder, v: Value) -> None:
        self.b, self.v = b, v

    def _of(self, other: Any) -> Value:
        return other.v if isinstance(other, Word) else constant(self.v.type, other)

    def __add__(self, other: Any) -> Word:
        return Word(self.b, self.b.add(self.v, self._of(other)))

    def __sub__(self, other: Any) -> Word:
        return Word(self.b, self.b.sub(self.v, self._of(other)))

    def __rsub__(self, other: Any) -> Word:
        return Word(self.b, self.b.sub(self._of(other), self.v))

    def __mul__(self, other: Any) -> Word:
        return Word(self.b, self.b.mul(self.v, self._of(other)))

    def __and__(self, other: Any) -> Word:
        return Word(self.b, self.b.and_(self.v, self._of(other)))

    def __or__(self, other: Any) -> Word:
        return Word(self.b, self.b.or_(self.v, self._of(other)))

    def __xor__(self, other: Any) -> Word:
        return Word(self.b, self.b.xor(self.v, self._of(other)))

    def __lshift__(self, other: Any) -> Word:
        return Word(self.b, self.b.shl(self.v, self._of(other)))

    def __rshift__(self, other: Any) -> Word:
        return Word(self.b, self.b.lshr(self.v, self._of(other)))

    def __lt__(self, other: Any) -> Test:
        return Test(self.b, self.b.icmp_unsigned("<", self.v, self._of(other)))

    def __ge__(self, other: Any) -> Test:
        return Test(self.b, self.b.icmp_unsigned(">=", self.v, self._of(other)))

    def is_(self, other: Any) -> Test:
        """Equality."""
        return Test(self.b, self.b.icmp_unsigned("==", self.v, self._of(other)))

    def as_float(self) -> X:
        """The floating-point number with these bits."""
        return X(self.b, self.b.bitcast(self.v, F64 if self.v.type == I64 else F32))


class X:
    """A floating-point number. Numbers that it meets are constants of its type."""

    __slots__ = ("b", "v")

    def __init__(self, b: Builder, v: Value) -> None:
        self.b, self.v = b, v

    @property
    def is_double(self) -> bool:
        """Whether it is a float64."""
        return isinstance(self.v.type, ir.DoubleType)

    @property
    def more(self) -> dict[str, Any]:
        """The constants of its type."""
        return DOUBLE if self.is_double else FLOAT

    @property
    def format(self) -> Any:
        """The constants of its format."""
        return math.DOUBLE if self.is_double else math.FLOAT

    def _of(self, other: Any) -> Value:
        return other.v if isinstance(other, X) else constant(self.v.type, other)

    def _two(self, opcode: str, left: Value, right: Value) -> X:
        return X(self.b, getattr(self.b, opcode)(left, right))

    def __add__(self, other: Any) -> X:
        return self._two("fadd", self.v, self._of(other))

    def __radd__(self, other: Any) -> X:
        return self._two("fadd", self._of(other), self.v)

    def __sub__(self, other: Any) -> X:
        return self._two("fsub", self.v, self._of(other))

    def __rsub__(self, other: Any) -> X:
        return self._two("fsub", self._of(other), self.v)

    def __mul__(self, other: Any) -> X:
        return self._two("fmul", self.v, self._of(other))

    def __rmul__(self, other: Any) -> X:
        return self._two("fmul", self._of(other), self.v)

    def __truediv__(self, other: Any) -> X:
        return self._two("fdiv", self.v, self._of(other))

    def __rtruediv__(self, other: Any) -> X:
        return self._two("fdiv", self._of(other), self.v)

    def __neg__(self) -> X:
        return X(self.b, self.b.fneg(self.v))

    def _compare(self, op: str, other: Any) -> Test:
        return Test(self.b, self.b.fcmp_ordered(op, self.v, self._of(other)))

    def __lt__(self, other: Any) -> Test:
        return self._compare("<", other)

    def __le__(self, other: Any) -> Test:
        return self._compare("<=", other)

    def __gt__(self, other: Any) -> Test:
        return self._compare(">", other)

    def __ge__(self, other: Any) -> Test:
        return self._compare(">=", other)

    def is_(self, other: Any) -> Test:
        """Equality."""
        return self._compare("==", other)

    def is_not(self, other: Any) -> Test:
        """Inequality, true for NaN."""
        return Test(self.b, self.b.fcmp_unordered("!=", self.v, self._of(other)))

    def is_nan(self) -> Test:
        """Whether it is no number."""
        return self.is_not(self)

    def fma(self, y: Any, z: Any) -> X:
        """self * y + z, rounded once."""
        return X(self.b, self.b.fma(self.v, self._of(y), self._of(z)))

    def bits(self) -> Word:
        """Its bits."""
        return Word(self.b, self.b.bitcast(self.v, I64 if self.is_double else I32))

    def abs(self) -> X:
        """Without its sign."""
        return X(self.b, self.b.intrinsic("llvm.fabs", self.v))

    def sqrt(self) -> X:
        """The square root."""
        return X(self.b, self.b.intrinsic("llvm.sqrt", self.v))

    def floor(self) -> X:
        """Rounded down."""
        return X(self.b, self.b.intrinsic("llvm.floor", self.v))

    def trunc(self) -> X:
        """Rounded towards zero."""
        return X(self.b, self.b.intrinsic("llvm.trunc", self.v))

    def negative(self) -> Test:
        """Whether the sign bit is set."""
        mask = self.format.sign_mask
        return ~(self.bits() & mask).is_(0)

    def with_sign_of(self, other: X) -> X:
        """Its bits, and the sign of another; it is not negative itself."""
        return (self.bits() | (other.bits() & self.format.sign_mask)).as_float()

    def polynomial(self, coefficients: Sequence[float]) -> X:
        """The polynomial with these coefficients, from the highest order down."""
        result = X(self.b, constant(self.v.type, coefficients[-1]))
        for c in reversed(coefficients[:-1]):
            result = result.fma(self, c)
        return result

    def number(self, value: float) -> X:
        """A constant of its type."""
        return X(self.b, constant(self.v.type, value))

    def wide(self) -> X:
        """As a float64."""
        return self if self.is_double else X(self.b, self.b.fpext(self.v, F64))

    def narrow(self, like: X) -> X:
        """In the type of another."""
        return self if like.is_double == self.is_double else X(self.b, self.b.fptrunc(self.v, F32))

    def then(self, function: Callable[[Builder, Value], Value]) -> X:
        """A function of `codegen/emitter/math.py`."""
        return X(self.b, function(self.b, self.v))


def select(condition: Test, a: Any, b: Any) -> Any:
    """`a` where the condition holds, else `b`; one of them may be a number."""
    like: Final = a if isinstance(a, (X, Word)) else b
    first = a.v if isinstance(a, (X, Word)) else constant(like.v.type, a)
    second = b.v if isinstance(b, (X, Word)) else constant(like.v.type, b)
    return type(like)(like.b, like.b.select(condition.v, first, second))


def branch(condition: Test, rare: Callable[[], X], usual: X) -> X:
    """`rare()` where the condition holds, computed only there, else `usual`."""
    b = condition.b
    function = b.function
    then, after = function.block("rare"), function.block("usual")
    before = b.block.label
    b.cbranch(condition.v, then, after)
    b.position_at_end(then)
    value = rare()
    end = b.block.label
    b.branch(after)
    b.position_at_end(after)
    text = usual.v.text
    line = f"phi {text} [ {usual.v.ref}, %{before} ], [ {value.v.ref}, %{end} ]"
    return X(b, b.emit(usual.v.type, text, line))
