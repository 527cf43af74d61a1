"""PTX text as data: a module of variables and functions, whose bodies are lists of labels and instructions.

The names of registers, labels and variables that a `{ }` block inside a function declares are made unique here, so
that a body is flat. Facts are from NVIDIA's "PTX ISA", version 9.0.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from functools import cache

from .errors import PtxError

TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+|//[^\n]*|/\*.*?\*/)
      | (?P<string>"[^"]*")
      | (?P<number>0[fF][0-9a-fA-F]{8}|0[dD][0-9a-fA-F]{16}|0[xX][0-9a-fA-F]+U?|\d+\.\d*(?:[eE][-+]?\d+)?|\d+U?)
      | (?P<word>[.%$_A-Za-z][\w$%]*(?:(?:::|\.)[\w$]+(?:::\w+)*)*)
      | (?P<mark>[-+{}()\[\],;:@!|<>=~*])
      | (?P<wrong>.)
    """,
    re.VERBOSE | re.DOTALL,
)
SIZES = {"8": 1, "16": 2, "32": 4, "64": 8, "128": 16}
STATE_SPACES = {".global", ".shared", ".const", ".local", ".param"}


@dataclass(frozen=True)
class Reg:
    name: str
    negated: bool = False


@dataclass(frozen=True)
class Special:
    """A register that the machine sets, such as %tid.x."""

    name: str


@dataclass(frozen=True)
class Imm:
    """A literal: an integer, or the bits of a floating point number and their width."""

    value: int
    float_bits: int = 0


@dataclass(frozen=True)
class Symbol:
    name: str
    offset: int = 0


@dataclass(frozen=True)
class Address:
    base: Reg | Symbol | Imm
    offset: int = 0


@dataclass(frozen=True)
class Vector:
    parts: tuple


@dataclass(frozen=True)
class Pair:
    """Two results, `a|b`."""

    first: object
    second: object


@dataclass(frozen=True)
class Instruction:
    opcode: str
    operands: tuple
    line: int
    predicate: Reg | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        return parts_of(self.opcode)


@cache
def parts_of(opcode: str) -> tuple[str, ...]:
    return tuple(opcode.split("."))


@dataclass(frozen=True)
class Label:
    name: str


@dataclass
class Variable:
    """A variable of a state space; `size` is -1 for memory whose size the launch says."""

    name: str
    space: str
    size: int
    align: int
    data: bytes | None = None


@dataclass
class Function:
    name: str
    entry: bool
    line: int
    results: list[Variable] = field(default_factory=list)
    params: list[Variable] = field(default_factory=list)
    body: list = field(default_factory=list)
    registers: dict[str, str] = field(default_factory=dict)
    """The type of each register, as in `b32` or `pred`."""
    variables: dict[str, Variable] = field(default_factory=dict)
    directives: dict[str, list[int]] = field(default_factory=dict)


@dataclass
class Module:
    version: str = ""
    target: str = ""
    functions: dict[str, Function] = field(default_factory=dict)
    variables: dict[str, Variable] = field(default_factory=dict)


def tokenize(text: str) -> list[tuple[str, str, int]]:
    tokens, line = [], 1
    for match in TOKEN.finditer(text):
        kind = match.lastgroup
        if kind == "space":
            line += match.group().count("\n")
        elif kind == "wrong":
            raise PtxError(f"line {line}: can't read {text[match.start() : match.start() + 20]!r}")
        else:
            tokens.append((kind, match.group(), line))
    tokens.append(("end", "", line))
    return tokens


SPECIAL = re.compile(
    r"%(tid|ntid|ctaid|nctaid|laneid|warpid|nwarpid|smid|nsmid|gridid|clock|clock64|globaltimer|clock_hi"
    r"|lanemask_(eq|le|lt|ge|gt)|dynamic_smem_size|total_smem_size)(\.[xyz])?$"
)


def type_size(name: str) -> int:
    """Bytes of a type such as `.b32` or `f16x2`."""
    if name.lstrip(".") in ("f16x2", "bf16x2"):
        return 4
    digits = re.search(r"\d+", name)
    if digits is None or digits.group() not in SIZES:
        raise PtxError(f"no size is known of type {name}")
    return SIZES[digits.group()]


class Scope:
    def __init__(self, prefix: str):
        self.prefix = prefix
        self.names: dict[str, str] = {}
        self.ranges: dict[str, tuple[int, str]] = {}
        """Prefixes that `%r<9>` declares, and how many."""


class Parser:
    def __init__(self, text: str):
        self.tokens = tokenize(text)
        self.at = 0
        self.module = Module()
        self.scopes: list[Scope] = []
        self.function: Function | None = None
        self.blocks = 0

    # Tokens

    @property
    def text(self) -> str:
        return self.tokens[self.at][1]

    @property
    def line(self) -> int:
        return self.tokens[self.at][2]

    def next(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1][1]

    def accept(self, text: str) -> bool:
        if self.text == text and self.tokens[self.at][0] != "end":
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise PtxError(f"line {self.line}: expected {text!r} and found {self.text!r}")

    def integer(self) -> int:
        sign = -1 if self.accept("-") else 1
        try:
            return sign * int(self.next().rstrip("U"), 0)
        except ValueError:
            raise PtxError(f"line {self.line}: expected an integer, found {self.tokens[self.at - 1][1]!r}") from None

    # The module

    def parse(self) -> Module:
        while self.tokens[self.at][0] != "end":
            word = self.next()
            if word == ".version":
                self.module.version = self.next()
            elif word == ".target":
                self.module.target = self.next()
                while self.accept(","):
                    self.next()
            elif word == ".address_size":
                self.integer()
            elif word in (".visible", ".extern", ".weak", ".common"):
                continue
            elif word in (".entry", ".func"):
                self.parse_function(entry=word == ".entry")
            elif word in STATE_SPACES:
                self.parse_variables(word, self.module.variables)
            elif word == ".file":
                while self.line == self.tokens[self.at - 1][2]:
                    self.next()
            elif word == ".section":
                while not self.accept("{"):
                    self.next()
                while not self.accept("}"):
                    self.next()
            else:
                raise PtxError(f"line {self.tokens[self.at - 1][2]}: unexpected {word!r}")
        return self.module

    def parse_variables(self, space: str, into: dict[str, Variable]) -> list[Variable]:
        """After the state space: `.align 16 .b8 name[64] = {...};`, or several names."""
        declared = []
        align, count, kind = 0, 1, ""
        while self.text.startswith("."):
            word = self.next()
            if word == ".align":
                align = self.integer()
            elif word in (".v2", ".v4"):
                count = int(word[2:])
            elif word in (".visible", ".extern", ".ptr", ".attribute"):
                continue
            else:
                kind = word
        while True:
            name = self.next()
            size = type_size(kind) * count
            while self.accept("["):
                size = -1 if self.text == "]" else size * self.integer()
                self.expect("]")
            data = None
            if self.accept("="):
                data = self.parse_initializer(kind, size)
            own = self.declare(name) if self.scopes else name
            into[own] = Variable(own, space[1:], size, align or type_size(kind), data)
            declared.append(into[own])
            if not self.accept(","):
                break
        self.expect(";")
        return declared

    def parse_initializer(self, kind: str, size: int) -> bytes:
        letter = {1: "B", 2: "H", 4: "I", 8: "Q"}[type_size(kind)]
        values = []

        def value() -> None:
            if self.accept("{"):
                while not self.accept("}"):
                    value()
                    self.accept(",")
                return
            literal = self.parse_operand()
            if not isinstance(literal, Imm):
                raise PtxError(f"line {self.line}: the initializer {literal} isn't a number")
            values.append(literal.value & ((1 << 8 * type_size(kind)) - 1))

        value()
        return struct.pack(f"<{len(values)}{letter}", *values).ljust(size, b"\0")

    def parse_params(self) -> list[Variable]:
        params = []
        self.expect("(")
        while not self.accept(")"):
            align, kind, pointer = 0, "", False
            while self.text.startswith("."):
                word = self.next()
                if word == ".align":
                    # Of a pointer this is what it points to.
                    said = self.integer()
                    align = align if pointer else said
                elif word in (".param", ".reg", ".ptr", ".global", ".shared", ".const", ".local"):
                    pointer |= word == ".ptr"
                else:
                    kind = word
            name = self.next()
            size = type_size(kind)
            if self.accept("["):
                size *= 1 if self.text == "]" else self.integer()
                self.expect("]")
            params.append(Variable(name, "param", size, align or type_size(kind)))
            self.accept(",")
        return params

    def parse_function(self, entry: bool) -> None:
        function = Function("", entry, self.line)
        if self.text == "(":
            function.results = self.parse_params()
        function.name = self.next()
        if self.text == "(":
            function.params = self.parse_params()
        while self.text.startswith("."):
            word = self.next()
            numbers = []
            if self.tokens[self.at][0] == "number":
                numbers.append(self.integer())
                while self.accept(","):
                    numbers.append(self.integer())
            function.directives[word[1:]] = numbers
        if self.accept(";"):
            return  # only declared
        self.function = function
        self.expect("{")
        self.scopes = [Scope("")]
        for variable in function.results + function.params:
            self.scopes[0].names[variable.name] = variable.name
        self.parse_block()
        self.resolve_labels()
        self.scopes = []
        self.module.functions[function.name] = function

    # Bodies

    def declare(self, name: str) -> str:
        scope = self.scopes[-1]
        scope.names[name] = scope.prefix + name
        return scope.prefix + name

    def lookup(self, name: str) -> str | None:
        match = re.match(r"(.*?)(\d+)$", name)
        for scope in reversed(self.scopes):
            if name in scope.names:
                return scope.names[name]
            if match and match[1] in scope.ranges:
                count, kind = scope.ranges[match[1]]
                if int(match[2]) < count:
                    own = scope.prefix + name
                    self.function.registers[own] = kind
                    return own
        return None

    def parse_block(self) -> None:
        function = self.function
        while not self.accept("}"):
            if self.accept("{"):
                self.blocks += 1
                self.scopes.append(Scope(f"{self.scopes[-1].prefix}{self.blocks}:"))
                self.parse_block()
                self.scopes.pop()
                continue
            word = self.text
            if word == ".reg":
                self.next()
                self.parse_registers()
            elif word in STATE_SPACES:
                self.next()
                self.parse_variables(word, function.variables)
            elif word in (".loc", ".pragma"):
                line = self.line
                while self.line == line and self.text != ";":
                    self.next()
                self.accept(";")
            elif word in (".visible", ".extern"):
                self.next()
            elif self.tokens[self.at + 1][1] == ":":
                function.body.append(Label(self.declare(self.next())))
                self.expect(":")
                if self.text.startswith(".branchtargets") or self.text.startswith(".callprototype"):
                    raise PtxError(f"line {self.line}: {self.text} isn't supported")
            elif self.accept(";"):
                continue
            else:
                function.body.append(self.parse_instruction())

    def parse_registers(self) -> None:
        kind = self.next()
        if kind in (".v2", ".v4"):
            raise PtxError(f"line {self.line}: vector registers aren't supported")
        while True:
            name = self.next()
            if self.accept("<"):
                self.scopes[-1].ranges[name] = (self.integer(), kind[1:])
                self.expect(">")
            else:
                self.function.registers[self.declare(name)] = kind[1:]
            if not self.accept(","):
                break
        self.expect(";")

    def parse_instruction(self) -> Instruction:
        line, predicate = self.line, None
        if self.accept("@"):
            negated = self.accept("!")
            name = self.lookup(self.next())
            if name is None:
                raise PtxError(f"line {line}: the predicate isn't declared")
            predicate = Reg(name, negated)
        opcode = self.next()
        operands = []
        while not self.accept(";"):
            if self.tokens[self.at][0] == "end":
                raise PtxError(f"line {line}: {opcode} has no end")
            operands.append(self.parse_operand())
            if self.text != ";":
                self.expect(",")
        return Instruction(opcode, tuple(operands), line, predicate)

    def parse_operand(self) -> object:
        operand = self.parse_single()
        if self.accept("|"):
            return Pair(operand, self.parse_single())
        return operand

    def parse_single(self) -> object:
        if self.accept("{"):
            parts = []
            while not self.accept("}"):
                parts.append(self.parse_operand())
                self.accept(",")
            return Vector(tuple(parts))
        if self.accept("("):
            parts = []
            while not self.accept(")"):
                parts.append(self.parse_operand())
                self.accept(",")
            return Vector(tuple(parts))
        if self.accept("["):
            base, offset = self.parse_single(), 0
            while self.text in ("+", "-"):
                sign = 1 if self.next() == "+" else -1
                offset += sign * self.integer()
            self.expect("]")
            if isinstance(base, Symbol):
                base, offset = Symbol(base.name), offset + base.offset
            return Address(base, offset)
        if self.accept("!"):
            operand = self.parse_single()
            return Reg(operand.name, negated=not operand.negated)
        if self.accept("-"):
            operand = self.parse_single()
            return Imm(-operand.value)
        kind, piece, line = self.tokens[self.at]
        self.at += 1
        if kind == "number":
            return number(piece)
        if kind != "word":
            raise PtxError(f"line {line}: expected an operand, found {piece!r}")
        if SPECIAL.match(piece):
            return Special(piece)
        if piece == "WARP_SZ":
            return Imm(32)
        if piece == "_":
            return Symbol("_")
        own = self.lookup(piece)
        if own is not None and own in self.function.registers:
            return Reg(own)
        offset = 0
        if self.text == "+" and self.tokens[self.at + 1][0] == "number" and own is not None:
            self.next()
            offset = self.integer()
        # Labels may be declared after their use: `resolve_labels` finds these.
        return Symbol(own or "?".join([piece, *(s.prefix for s in reversed(self.scopes))]), offset)

    def resolve_labels(self) -> None:
        """Names that were used before they were declared get their scope's name, or stay those of the module."""
        labels = {item.name for item in self.function.body if isinstance(item, Label)}

        def early(operand: object) -> bool:
            if isinstance(operand, Symbol):
                return "?" in operand.name
            if isinstance(operand, Address):
                return early(operand.base)
            return isinstance(operand, Vector) and any(map(early, operand.parts))

        def resolve(operand: object) -> object:
            if isinstance(operand, Symbol) and "?" in operand.name:
                piece, *prefixes = operand.name.split("?")
                own = next((p + piece for p in prefixes if p + piece in labels), piece)
                if own.startswith("%"):
                    raise PtxError(f"the register {own} of {self.function.name} isn't declared")
                return Symbol(own, operand.offset)
            if isinstance(operand, Address):
                return Address(resolve(operand.base), operand.offset)
            if isinstance(operand, Vector):
                return Vector(tuple(map(resolve, operand.parts)))
            return operand

        self.function.body = [
            item
            if isinstance(item, Label) or not any(map(early, item.operands))
            else Instruction(item.opcode, tuple(map(resolve, item.operands)), item.line, item.predicate)
            for item in self.function.body
        ]


def number(text: str) -> Imm:
    if text[:2] in ("0f", "0F"):
        return Imm(int(text[2:], 16), 32)
    if text[:2] in ("0d", "0D"):
        return Imm(int(text[2:], 16), 64)
    if "." in text:
        return Imm(struct.unpack("<Q", struct.pack("<d", float(text)))[0], 64)
    text = text.rstrip("U")
    return Imm(int(text, 8) if len(text) > 1 and text[0] == "0" and text.isdigit() else int(text, 0))


def parse(text: str) -> Module:
    """Raises PtxError with the line of what can't be read."""
    return Parser(text).parse()
