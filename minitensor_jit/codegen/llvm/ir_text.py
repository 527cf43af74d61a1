"""A small writer of LLVM IR text.

It has the shape of `llvmlite.ir` (the same type objects, the builder's method names), but appends text at once instead
of building an object graph: an instruction costs about a microsecond instead of forty, and compile time is mostly ours.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llvmlite import ir

from ...ir.size import Size
from ..indexing.sizes import define_sizes
from .ir_types import I1, I8, I32, I64, PTR, VOID, Pair, Type, Value, constant, float_bits, mangle, type_text, vector

__all__ = ["NOTE", "Block", "Builder", "Function", "Module"]


NOTE = "  ; "
"""What stands between an instruction and the name of what it is emitted for."""

_LABEL = re.compile(r"label %(\w+)")


class Block:
    """A basic block: a label and lines."""

    __slots__ = ("label", "lines")

    def __init__(self, label: str) -> None:
        self.label = label
        self.lines: list[str] = []


class Function:
    """A function under construction."""

    def __init__(
        self,
        module: Module,
        name: str,
        result: Type,
        arguments: Sequence[tuple[Type, str]],
        *,
        attributes: str = "#0",
        linkage: str = "internal ",
    ) -> None:
        self.module = module
        self.name = name
        self.attributes = attributes
        self.linkage = linkage
        self.result = result
        self.arguments = [Value(t, type_text(t), f"%{n}") for t, n in arguments]
        self.argument_attributes: dict[str, str] = {}  # by the argument's name in the text
        self.allocas: list[str] = []
        self.head = Block("head")  # what is known from the arguments alone; it stands before the first block's lines
        self.blocks: list[Block] = []
        self._spills: dict[int, tuple[int, Value]] = {}
        self._next = 0
        module.functions.append(self)

    def fresh(self) -> str:
        """A new SSA name."""
        self._next += 1
        return f"%v{self._next}"

    def block(self, hint: str) -> Block:
        """Appends a new basic block."""
        self._next += 1
        block = Block(f"{hint}{self._next}")
        self.blocks.append(block)
        return block

    def alloca(self, element: Type, count: int, align: int = 64) -> Value:
        """Stack memory that lives as long as the call; `NotSymbolic` if `count` is no number."""
        count = operator.index(count)
        name = self.fresh()
        self.allocas.append(f"  {name} = alloca [{count} x {type_text(element)}], align {align}")
        return Value(PTR, "ptr", name)

    def spill(self, place: int, nbytes: int) -> Value:
        """Stack memory for the operands and results of one call after the other: the same for every call."""
        size, known = self._spills.get(place, (0, None))
        if known is None or size < nbytes:
            known = self.alloca(I8, nbytes)
            self._spills[place] = (nbytes, known)
        return known

    @property
    def runs_once(self) -> bool:
        """Whether no block of it runs again: none branches to itself or to one before it."""
        seen: set[str] = set()
        for block in self.blocks:
            seen.add(block.label)
            if any(label in seen for line in block.lines for label in _LABEL.findall(line)):
                return False
        return True

    @property
    def reference(self) -> Value:
        """The function's address."""
        return Value(PTR, "ptr", f"@{self.name}")

    def __str__(self) -> str:
        notes = self.argument_attributes
        arguments = ", ".join(f"{a.text} {notes.get(a.ref, '')}{a.ref}" for a in self.arguments)
        lines = [f"define {self.linkage}{type_text(self.result)} @{self.name}({arguments}) {self.attributes} {{"]
        for k, block in enumerate(self.blocks):
            lines.append(f"{block.label}:")
            if k == 0:
                lines.extend(self.allocas)
                sizes_at = len(lines)
                lines.extend(self.head.lines)
            lines.extend(block.lines)
        if self.blocks and self.arguments:
            lines[sizes_at:sizes_at] = define_sizes(lines, self.arguments[0].ref)
        lines.append("}")
        return "\n".join(lines)


class _Declared:
    """A function declared elsewhere, as `Builder.call` takes it."""

    __slots__ = ("name", "result", "signature")

    def __init__(self, name: str, result: Type, signature: str) -> None:
        self.name = name
        self.result = result
        self.signature = signature


class Module:
    """Functions, constant data and declarations of one compilation unit."""

    def __init__(self, name: str, triple: str, layout: str = "") -> None:
        self.name = name
        self.triple = triple
        self.layout = layout
        self.functions: list[Function] = []
        self.globals: list[str] = []
        self.attributes: list[str] = []
        self.metadata: dict[str, str] = {}
        self.imports: dict[str, int] = {}  # functions of this process that the code calls, with their addresses
        self.has_half_conversion = False  # whether the target converts float16 in one instruction
        self.narrowest_mask = 1  # the bytes of the smallest elements that the target loads and stores under a mask
        # Code for functions that the CPU calls, by the name of the function: the same operations.
        self.inline: Mapping[str, Callable[..., Value]] = {}
        self.float_flags = ""  # what LLVM may do to floating-point arithmetic, such as " contract"
        # With `annotated`, what lines are emitted for stands behind them as a comment: `note`.
        self.annotated = False
        self.note = ""
        self.foreign: dict[str, str] = {}  # declarations of functions whose types have no objects here
        self._declared: dict[str, _Declared] = {}
        self._data: dict[bytes, Value] = {}

    def annotate(self, name: str) -> str:
        """Say what the lines from here on are emitted for; returns the note that was in force."""
        before = self.note
        if self.annotated:
            self.note = f"{NOTE}{name}"
        return before

    def declare(self, name: str, result: Type, arguments: Sequence[Type]) -> _Declared:
        """Declares an external function or intrinsic."""
        known = self._declared.get(name)
        if known is None:
            signature = ", ".join(type_text(t) for t in arguments)
            known = self._declared[name] = _Declared(name, result, signature)
        return known

    def declare_intrinsic(self, intrinsic: str, tys: Sequence[Type] = (), fnty: Any = None) -> _Declared:
        """Like `llvmlite.ir.Module.declare_intrinsic`: overloaded on `tys`."""
        name = ".".join([intrinsic, *map(mangle, tys)])
        if fnty is not None:
            return self.declare(name, fnty.return_type, fnty.args)
        arity = {"llvm.fma": 3, "llvm.maximum": 2, "llvm.minimum": 2, "llvm.copysign": 2}.get(intrinsic, 1)
        return self.declare(name, tys[0], [tys[0]] * arity)

    def data(self, raw: bytes) -> Value:
        """Constant bytes, 64-byte aligned, shared when equal."""
        known = self._data.get(raw)
        if known is None:
            name = f"@data{len(self._data)}"
            body = "zeroinitializer" if not any(raw) else 'c"' + "".join(f"\\{byte:02X}" for byte in raw) + '"'
            self.globals.append(f"{name} = private unnamed_addr constant [{len(raw)} x i8] {body}, align 64")
            known = self._data[raw] = Value(PTR, "ptr", name)
        return known

    def __str__(self) -> str:
        lines = [f"; ModuleID = '{self.name}'", f'target triple = "{self.triple}"']
        if self.layout:
            lines.append(f'target datalayout = "{self.layout}"')
        lines.extend(self.globals)
        lines.extend(str(f) for f in self.functions)
        lines.extend(self.foreign.values())
        lines.extend(f"declare {type_text(d.result)} @{d.name}({d.signature})" for d in self._declared.values())
        lines.extend(f"attributes #{k} = {{ {a} }}" for k, a in enumerate(self.attributes))
        lines.extend(f"{name} = {text}" for name, text in self.metadata.items())
        return "\n".join(lines) + "\n"


# Integers of the size of a floating-point type.
_FLOATS = {"float": I32, "double": I64}
_ICMP = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def _two(opcode: str) -> Callable[..., Value]:
    def method(self: Builder, a: Any, b: Any) -> Value:
        return self._binary(opcode, a, b)

    return method


def _float_two(opcode: str) -> Callable[..., Value]:
    def method(self: Builder, a: Any, b: Any) -> Value:
        return self._binary(opcode + self.module.float_flags, a, b)

    return method


def _cast(opcode: str) -> Callable[..., Value]:
    def method(self: Builder, a: Any, type_: Type) -> Value:
        a, text = self.value(a), type_text(type_)
        if text == a.text:
            return a
        return self.emit(type_, text, f"{opcode} {a.text} {a.ref} to {text}")

    return method


class Builder:
    """Appends instructions to a block. Every value it makes carries the builder's loop level."""

    __slots__ = ("block", "function", "level", "module")

    def __init__(self, function: Function, block: Block, level: int = 0) -> None:
        self.function = function
        self.module = function.module
        self.block = block
        self.level = level

    def position_at_end(self, block: Block) -> None:
        """Continues in `block`."""
        self.block = block

    def value(self, operand: Any) -> Value:
        """`operand` as a value: one of ours, or a constant of llvmlite's."""
        if isinstance(operand, Value):
            return operand
        return constant(operand.type, operand.constant)

    def emit(self, type_: Type, text: str, line: str) -> Value:
        """Appends `name = line`, a value of the type."""
        name = self.function.fresh()
        self.block.lines.append(f"  {name} = {line}{self.module.note}")
        return Value(type_, text, name, self.level)

    def raw(self, line: str) -> None:
        """Appends an instruction without a result."""
        self.block.lines.append(f"  {line}{self.module.note}")

    def _binary(self, opcode: str, a: Any, b: Any) -> Value:
        a, b = self.value(a), self.value(b)
        return self.emit(a.type, a.text, f"{opcode} {a.text} {a.ref}, {b.ref}")

    def _unary(self, opcode: str, a: Any) -> Value:
        a = self.value(a)
        return self.emit(a.type, a.text, f"{opcode} {a.text} {a.ref}")

    add, sub, mul = _two("add"), _two("sub"), _two("mul")
    sdiv, udiv, srem, urem = _two("sdiv"), _two("udiv"), _two("srem"), _two("urem")
    shl, lshr, ashr = _two("shl"), _two("lshr"), _two("ashr")
    and_, or_, xor = _two("and"), _two("or"), _two("xor")
    fadd, fsub, fmul, fdiv = _float_two("fadd"), _float_two("fsub"), _float_two("fmul"), _float_two("fdiv")
    frem = _two("frem")
    trunc, zext, sext, fptrunc, fpext = _cast("trunc"), _cast("zext"), _cast("sext"), _cast("fptrunc"), _cast("fpext")
    sitofp, fptosi, fptoui = _cast("sitofp"), _cast("fptosi"), _cast("fptoui")
    _uitofp = _cast("uitofp")
    bitcast = _cast("bitcast")

    def uitofp(self, a: Any, type_: Type) -> Value:
        """An unsigned integer or a bool as a floating-point number."""
        a = self.value(a)
        if a.text == "i1":
            return self.select(a, constant(type_, 1), constant(type_, 0))
        return self._uitofp(a, type_)

    def fneg(self, a: Any) -> Value:
        """-a."""
        return self._unary("fneg", a)

    def neg(self, a: Any) -> Value:
        """0 - a."""
        a = self.value(a)
        return self._binary("sub", constant(a.type, 0), a)

    def not_(self, a: Any) -> Value:
        """All bits inverted."""
        a = self.value(a)
        return self._binary("xor", a, constant(a.type, True if _is_bool(a.type) else -1))

    def _compare(self, what: str, predicate: str, a: Any, b: Any) -> Value:
        a, b = self.value(a), self.value(b)
        type_ = vector(I1, a.lanes)
        return self.emit(type_, type_text(type_), f"{what} {predicate} {a.text} {a.ref}, {b.ref}")

    def icmp_signed(self, op: str, a: Any, b: Any) -> Value:
        """Comparison of signed integers; `op` is ==, !=, <, <=, > or >=."""
        name = _ICMP[op]
        return self._compare("icmp", name if op in ("==", "!=") else "s" + name, a, b)

    def icmp_unsigned(self, op: str, a: Any, b: Any) -> Value:
        """Comparison of unsigned integers."""
        name = _ICMP[op]
        return self._compare("icmp", name if op in ("==", "!=") else "u" + name, a, b)

    def fcmp_ordered(self, op: str, a: Any, b: Any, flags: Sequence[str] = ()) -> Value:
        """Comparison that is false if an operand is NaN; `op` may also be `ord`."""
        return self._compare("fcmp", "o" + _ICMP[op] if op in _ICMP else op, a, b)

    def fcmp_unordered(self, op: str, a: Any, b: Any, flags: Sequence[str] = ()) -> Value:
        """Comparison that is true if an operand is NaN; `op` may also be `uno`."""
        return self._compare("fcmp", "u" + _ICMP[op] if op in _ICMP else op, a, b)

    def select(self, condition: Any, a: Any, b: Any) -> Value:
        """`a` where the condition holds, else `b`."""
        if isinstance(a, Pair) and isinstance(b, Pair):
            return Pair(self.select(condition, a.re, b.re), self.select(condition, a.im, b.im))
        c, a, b = self.value(condition), self.value(a), self.value(b)
        bits = _FLOATS.get(a.text)
        if bits is not None and a.ref[:2] == "0x" == b.ref[:2]:
            # LLVM reads one of two floating-point constants from an array of both, and its pass over constants of
            # vectors (X86FixupVectorConstants, LLVM 22) fails on arrays if it finds out which one it is.
            one, other = (float_bits(v.ref, a.type) for v in (a, b))
            return self.bitcast(self.emit(bits, str(bits), f"select i1 {c.ref}, {bits} {one}, {bits} {other}"), a.type)
        return self.emit(a.type, a.text, f"select {c.text} {c.ref}, {a.text} {a.ref}, {b.text} {b.ref}")

    def call(self, callee: Any, arguments: Sequence[Any]) -> Value:
        """Calls a declared function; the result is void for a declaration that says so."""
        values = [self.value(a) for a in arguments]
        text = type_text(callee.result)
        line = f"call {text} @{callee.name}({', '.join(f'{v.text} {v.ref}' for v in values)})"
        if text == "void":
            self.raw(line)
            return Value(VOID, text, "")
        return self.emit(callee.result, text, line)

    def intrinsic(self, name: str, *arguments: Value) -> Value:
        """Calls an intrinsic overloaded on its first argument, which is also the result's type."""
        type_ = arguments[0].type
        callee = self.module.declare(f"{name}.{mangle(type_)}", type_, [a.type for a in arguments])
        return self.call(callee, arguments)

    def fma(self, a: Any, b: Any, c: Any) -> Value:
        """a * b + c, rounded once."""
        return self.intrinsic("llvm.fma", self.value(a), self.value(b), self.value(c))

    # ---- memory

    def gep(self, pointer: Value, index: Value | int, element: Type) -> Value:
        """The address of element `index`."""
        if isinstance(index, Size):
            index = constant(I64, index)
        if isinstance(index, int):
            if index == 0:
                return pointer
            return self.emit(PTR, "ptr", f"getelementptr {type_text(element)}, ptr {pointer.ref}, i64 {index}")
        return self.emit(PTR, "ptr", f"getelementptr {type_text(element)}, ptr {pointer.ref}, {index.text} {index.ref}")

    def load(self, pointer: Value, type_: Type, align: int = 1, suffix: str = "") -> Value:
        """Reads a value."""
        text = type_text(type_)
        return self.emit(type_, text, f"load {text}, ptr {pointer.ref}, align {align}{suffix}")

    def store(self, value: Value, pointer: Value, align: int = 1, suffix: str = "") -> None:
        """Writes a value."""
        self.raw(f"store {value.text} {value.ref}, ptr {pointer.ref}, align {align}{suffix}")

    # ---- vectors

    def freeze(self, a: Value) -> Value:
        """The same value, which LLVM does not look behind."""
        return self.emit(a.type, a.text, f"freeze {a.text} {a.ref}")

    def splat(self, a: Value, lanes: int) -> Value:
        """A vector with `a` in all lanes."""
        if lanes == 1 or a.lanes == lanes:
            return a
        if isinstance(a, Pair):
            return Pair(self.splat(a.re, lanes), self.splat(a.im, lanes))
        type_ = vector(a.type, lanes)
        text = type_text(type_)
        if a.ref[0] not in "%@":
            return Value(type_, text, f"splat ({a.text} {a.ref})")
        one = self.emit(type_, text, f"insertelement {text} poison, {a.text} {a.ref}, i64 0")
        return self.emit(type_, text, f"shufflevector {text} {one.ref}, {text} poison, <{lanes} x i32> zeroinitializer")

    def shuffle(self, a: Value, b: Value, lanes: Sequence[int]) -> Value:
        """The lanes of `a` followed by those of `b`, chosen by number."""
        type_ = vector(a.type.element, len(lanes))
        mask = f"<{len(lanes)} x i32> <{', '.join(f'i32 {k}' for k in lanes)}>"
        return self.emit(type_, type_text(type_), f"shufflevector {a.text} {a.ref}, {b.text} {b.ref}, {mask}")

    def extract_element(self, a: Value, lane: int | Value) -> Value:
        """One lane."""
        element = a.type.element
        index = f"i64 {lane}" if isinstance(lane, int) else f"{lane.text} {lane.ref}"
        return self.emit(element, type_text(element), f"extractelement {a.text} {a.ref}, {index}")

    # ---- control flow

    def branch(self, block: Block) -> None:
        """Jumps."""
        self.raw(f"br label %{block.label}")

    def cbranch(self, condition: Value, then: Block, otherwise: Block) -> None:
        """Jumps to one of two blocks."""
        self.raw(f"br i1 {condition.ref}, label %{then.label}, label %{otherwise.label}")

    def ret(self, value: Value | None = None) -> None:
        """Returns."""
        self.raw("ret void" if value is None else f"ret {value.text} {value.ref}")


def _is_bool(type_: Type) -> bool:
    return (type_.element if isinstance(type_, ir.VectorType) else type_) == I1
