"""LLVM's types, constants of them, and values: the text of each."""

from __future__ import annotations

import struct
from typing import Any, TypeAlias

from llvmlite import ir

from ...ir.size import NotSymbolic, Size
from ..indexing.sizes import name_of

Type: TypeAlias = Any  # llvmlite.ir.Type; llvmlite has no type hints

I1, I8, I16, I32, I64 = (ir.IntType(n) for n in (1, 8, 16, 32, 64))
F16, F32, F64 = ir.HalfType(), ir.FloatType(), ir.DoubleType()
PTR = ir.PointerType()
VOID = ir.VoidType()

_VECTORS: dict[tuple[Type, int], ir.VectorType] = {}
_TEXT: dict[int, tuple[Type, str]] = {}


def vector(element: Type, lanes: int) -> Type:
    """`<lanes x element>`, or the element itself for one lane; the same object every time."""
    if lanes == 1:
        return element
    key = (element, lanes)
    known = _VECTORS.get(key)
    if known is None:
        known = _VECTORS[key] = ir.VectorType(element, lanes)
    return known


def integer(bits: int) -> Type:
    """The integer type of so many bits."""
    return ir.IntType(bits)


def type_text(type_: Type) -> str:
    """The type as LLVM writes it."""
    entry = _TEXT.get(id(type_))
    if entry is None or entry[0] is not type_:
        entry = _TEXT[id(type_)] = (type_, "ptr" if isinstance(type_, ir.PointerType) else str(type_))
        if len(_TEXT) > 4096:  # types made on the fly by callers; ours are few and stay
            _TEXT.clear()
    return entry[1]


def float_text(value: float, type_: Type) -> str:
    """A floating-point constant in hexadecimal, exact."""
    if isinstance(type_, ir.FloatType):
        try:
            value = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            value = float("inf") if value > 0 else float("-inf")
    return f"0x{struct.unpack('Q', struct.pack('d', value))[0]:016X}"


def float_bits(text: str, type_: Type) -> int:
    """The bits of such a constant in its own format."""
    bits = int(text, 16)
    if not isinstance(type_, ir.FloatType):
        return bits
    sign, rest = bits >> 63 << 31, bits & (1 << 63) - 1
    if rest >= 0x7FF << 52:
        return int(sign | 0xFF << 23 | rest >> 29 & (1 << 23) - 1)
    narrow = struct.pack("f", struct.unpack("d", struct.pack("Q", bits))[0])
    return int(struct.unpack("I", narrow)[0])


def constant_text(type_: Type, value: Any) -> str:
    """The text of a constant of the given type; a Python number fills all lanes of a vector."""
    if isinstance(type_, ir.VectorType):
        if isinstance(value, Size):
            if type_.element not in (I32, I64):
                raise NotSymbolic(f"{value} as {type_text(type_)}")
            return name_of(value, type_.element.width, type_.count)
        if isinstance(value, (list, tuple)):
            elements = [constant_text(type_.element, getattr(v, "constant", v)) for v in value]
            if any(e != elements[0] for e in elements):
                text = type_text(type_.element)
                return "<" + ", ".join(f"{text} {e}" for e in elements) + ">"
            return f"splat ({type_text(type_.element)} {elements[0]})"
        if value is None:
            return "zeroinitializer"
        return f"splat ({type_text(type_.element)} {constant_text(type_.element, value)})"
    if value is ir.Undefined:
        return "poison"
    if isinstance(type_, (ir.FloatType, ir.DoubleType)):
        return float_text(float(0.0 if value is None else value), type_)
    if isinstance(type_, ir.PointerType):
        return "null"
    if type_ is I1 or type_ == I1:
        return "true" if value else "false"
    if isinstance(value, Size):
        if type_ not in (I32, I64):
            raise NotSymbolic(f"{value} as {type_text(type_)}")
        return name_of(value, type_.width, 1)
    return str(int(value or 0))


class Value:
    """An SSA value or a constant. `level` is the depth of the loop that it is computed in (see `Scope`)."""

    __slots__ = ("level", "ref", "text", "type")

    def __init__(self, type_: Type, text: str, ref: str, level: int = 0) -> None:
        self.type = type_
        self.text = text  # the type's text
        self.ref = ref
        self.level = level

    @property
    def lanes(self) -> int:
        """The number of vector lanes; 1 for a scalar."""
        return self.type.count if isinstance(self.type, ir.VectorType) else 1

    def __repr__(self) -> str:
        return f"{self.text} {self.ref}"


class LeadingLanes(Value):
    """The mask of the first `count` lanes, an i64: none if it is 0, at most all."""

    __slots__ = ("count",)

    def __init__(self, mask: Value, count: Value) -> None:
        super().__init__(mask.type, mask.text, mask.ref, mask.level)
        self.count = count


class Pair(Value):
    """A complex value: its parts, which are values of the same type. What asks for its type gets that of a part."""

    __slots__ = ("im", "re")

    def __init__(self, re: Value, im: Value) -> None:
        super().__init__(re.type, re.text, f"{re.ref}|{im.ref}", max(re.level, im.level))
        self.re, self.im = re, im


def constant(type_: Type, value: Any) -> Value:
    """A constant as a value."""
    return Value(type_, type_text(type_), constant_text(type_, value))


def mangle(type_: Type) -> str:
    """The type as it stands in the name of an overloaded intrinsic."""
    if isinstance(type_, ir.VectorType):
        return f"v{type_.count}{mangle(type_.element)}"
    if isinstance(type_, ir.FloatType):
        return "f32"
    if isinstance(type_, ir.DoubleType):
        return "f64"
    return "p0" if isinstance(type_, ir.PointerType) else str(type_)
