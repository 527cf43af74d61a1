"""Parses XLA's module text: what `printer.py` writes and what XLA itself prints for the opcodes of this IR."""

from __future__ import annotations

import itertools
import re
from typing import Any, Final

import numpy as np

from ..module import Attrs, Computation, Instruction, Literal, Metadata, Module
from ..opcode import CUSTOM_CALLS, OPCODES, Opcode, opcode_of
from ..semantics.collective import parse_groups
from ..semantics.draw import stream_of, with_stream
from ..semantics.window import ConvolutionDims, Window
from ..shape import DTYPES, AnyShape, Shape, TupleShape
from .lexer import ParseError, Token, tokens_of
from .syntax import ATTRIBUTES, parse_number, unescape

__all__ = ["ParseError", "parse_module"]

_SECTION: Final = re.compile(r"^(?:FileNames|FunctionNames|FileLocations|StackFrames)\n(?:[^\n]+\n)*", re.MULTILINE)


def parse_module(text: str, *, any_layout: bool = False) -> Module:
    """The module that `text` describes. Syntax only: call `verifier.verify` to check what it means.

    Arguments and results must be row-major; `any_layout` takes text that JAX prints before layouts are assigned.
    """
    parser = _Parser(text, any_layout)
    try:
        return parser.module()
    except RecursionError:
        raise ParseError("tuples or literals are nested too deeply", parser.token.line) from None


class _Parser:
    def __init__(self, text: str, any_layout: bool) -> None:
        self.any_layout = any_layout
        # XLA's tables of stack frames, which metadata may refer to, are skipped; newlines keep lines right.
        self.text = _SECTION.sub(lambda m: "\n" * m[0].count("\n"), text)
        self.tokens = tokens_of(self.text)
        self.position = 0
        self.computations: dict[str, Computation] = {}
        # (instruction, attribute, computation names, line), resolved when every computation is known.
        self.calls: list[tuple[Instruction, str, str | tuple[str, ...], int]] = []
        self.has_entry_layout = False
        self.foreign: list[tuple[int, str]] = []  # layouts that are not row-major: (line, layout)

    # ---- tokens

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def fail(self, message: str) -> ParseError:
        return ParseError(message, self.token.line)

    def take(self) -> Token:
        token = self.tokens[self.position]
        if token.kind != "end":
            self.position += 1
        return token

    def at(self, text: str) -> bool:
        token = self.tokens[self.position]
        return token.text == text and token.kind != "string"

    def accept(self, text: str) -> bool:
        if self.at(text):
            self.position += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.accept(text):
            raise self.fail(f"expected {text!r}, found {self.token.text!r}")

    def name(self, what: str) -> str:
        token = self.take()
        if token.kind != "name":
            raise ParseError(f"expected {what}, found {token.text!r}", token.line)
        return token.text.removeprefix("%")

    def integer(self, what: str) -> int:
        token = self.take()
        try:
            return int(token.text)
        except ValueError:
            raise ParseError(f"expected {what}, found {token.text!r}", token.line) from None

    def string(self, what: str) -> str:
        token = self.take()
        if token.kind != "string":
            raise ParseError(f"expected {what} in quotes, found {token.text!r}", token.line)
        return unescape(token.text[1:-1])

    def raw(self) -> str:
        """The text of one value whose structure does not matter here."""
        first = self.take()
        if first.text not in ("{", "["):
            return first.text
        depth, last = 1, first
        while depth:
            last = self.take()
            if last.kind == "end":
                raise ParseError("a brace is never closed", first.line)
            if last.kind == "punctuation":
                depth += (last.text in "{[") - (last.text in "}]")
        return self.text[first.start : last.end]

    # ---- module

    def module(self) -> Module:
        name = "module"
        if self.accept("HloModule"):
            name = self.name("the module's name")
            while self.accept(","):
                key = self.name("an attribute of the module")
                self.expect("=")
                if key == "entry_computation_layout":
                    self.entry_layout()
                else:
                    self.raw()
        entry: Computation | None = None
        while self.token.kind != "end":
            is_entry = self.accept("ENTRY")
            line = self.token.line
            computation = self.computation()
            if computation.name in self.computations:
                raise ParseError(f"computation {computation.name} is defined twice", line)
            self.computations[computation.name] = computation
            if is_entry:
                if entry is not None:
                    raise ParseError(f"a second ENTRY, {computation.name}", line)
                entry = computation
        if entry is None:
            raise self.fail("the module has no ENTRY computation")
        if not self.has_entry_layout:
            boundary = {i.line: i.name for i in (*entry.parameters, entry.root)}
            for line, layout in self.foreign:
                if line in boundary:
                    raise ParseError(f"{boundary[line]} has the layout {layout}; only row-major is supported", line)
        for instruction, key, called, line in self.calls:
            names = called if isinstance(called, tuple) else (called,)
            for one in names:
                if one not in self.computations:
                    raise ParseError(f"{instruction.name} names the unknown computation {one}", line)
            found = tuple(self.computations[one] for one in names)
            instruction.attrs[key] = found if isinstance(called, tuple) else found[0]
        draws = [i for c in self.computations.values() for i in c.instructions if i.opcode == "rng"]
        known = {stream_of(i) for i in draws}
        fresh = (n for n in itertools.count() if n not in known)
        for i in draws:
            if stream_of(i) is None:
                with_stream(i, next(fresh))
        return Module(name, self.computations.values(), entry)

    def entry_layout(self) -> None:
        """The layouts of the entry's arguments and results: `{(f32[2]{0})->f32[2]{0}}`."""
        self.has_entry_layout = True
        self.expect("{")
        self.shape()  # the arguments read like a tuple
        self.expect("->")
        self.shape()
        self.expect("}")
        if self.foreign:
            line, layout = self.foreign[0]
            raise ParseError(f"the entry's boundary has the layout {layout}; only row-major is supported", line)

    def computation(self) -> Computation:
        line = self.token.line
        name = self.name("a computation's name")
        if self.accept("("):  # the signature only repeats what the parameters say
            depth = 1
            while depth:
                token = self.take()
                if token.kind == "end":
                    raise ParseError(f"the signature of {name} is never closed", line)
                depth += (token.text == "(") - (token.text == ")")
            self.expect("->")
            self.shape()
        self.expect("{")
        instructions: dict[str, Instruction] = {}
        root: Instruction | None = None
        while not self.accept("}"):
            is_root = self.accept("ROOT")
            at = self.token.line
            instruction = self.instruction(instructions)
            if instruction.name in instructions:
                raise ParseError(f"{instruction.name} is defined twice in {name}", at)
            instructions[instruction.name] = instruction
            if is_root:
                if root is not None:
                    raise ParseError(f"{name} has a second ROOT, {instruction.name}", at)
                root = instruction
        if not instructions:
            raise ParseError(f"computation {name} is empty", line)
        if self.at(","):  # execution_thread="main"
            self.take()
            self.name("an attribute of the computation")
            self.expect("=")
            self.raw()
        # As in XLA, the last instruction is the root where none is marked.
        return Computation(name, instructions.values(), root or list(instructions.values())[-1], line=line)

    # ---- instructions

    def instruction(self, known: dict[str, Instruction]) -> Instruction:
        line = self.token.line
        name = self.name("an instruction's name")
        self.expect("=")
        shape = self.shape()
        opcode = self.name("an opcode")
        row = self.opcode(opcode, line)
        opcode = row.name
        result = Instruction(name, opcode, shape, line=line)
        self.expect("(")
        if opcode == "parameter":
            result.parameter_number = self.integer("a parameter number")
        elif opcode == "constant":
            if not isinstance(shape, Shape):
                raise ParseError("constants of tuple shape are not supported", line)
            result.literal = self.literal(shape)
        else:
            result.operands = self.operands(known)
            _canonical(result, known)
        self.expect(")")
        allowed = {*row.required, *row.optional}
        while self.accept(","):
            self.attribute(result, allowed)
        return result

    def opcode(self, name: str, line: int) -> Opcode:
        """The row of an opcode of the text; which one a custom-call is, its target says, further on in the line."""
        if name == "custom-call":
            words = itertools.takewhile(lambda t: t.line == line, self.tokens[self.position :])
            target = next((t for t in words if t.text == "custom_call_target"), None)
            text = self.tokens[self.tokens.index(target) + 2].text[1:] if target is not None else ""
            return OPCODES[next(opcode for prefix, opcode in CUSTOM_CALLS.items() if text.startswith(prefix))]
        try:
            return opcode_of(name)
        except ValueError as error:
            raise ParseError(str(error), line) from None

    def operands(self, known: dict[str, Instruction]) -> list[Instruction]:
        found: list[Instruction] = []
        while not self.at(")"):
            if found:
                self.expect(",")
            if self.at("(") or self._starts_shape():
                self.shape()  # XLA may print operands with their shapes
            token = self.token
            name = self.name("an operand's name")
            if name not in known:
                raise ParseError(f"operand {name} is not defined above", token.line)
            found.append(known[name])
        return found

    def _starts_shape(self) -> bool:
        return self.token.text in DTYPES and self.tokens[self.position + 1].text == "["

    def shape(self) -> AnyShape:
        if self.accept("("):
            elements: list[AnyShape] = []
            while not self.accept(")"):
                if elements:
                    self.expect(",")
                elements.append(self.shape())
            return TupleShape(tuple(elements))
        token = self.take()
        if token.text not in DTYPES:
            raise ParseError(f"unknown element type {token.text!r}; known: {', '.join(DTYPES)}", token.line)
        self.expect("[")
        dims: list[int] = []
        while not self.accept("]"):
            if dims:
                self.expect(",")
            if self.at("<") or self.at("?"):
                raise self.fail("dynamic dimensions are not supported")
            dims.append(self.integer("a dimension"))
        if any(d < 0 for d in dims):
            raise ParseError(f"negative dimension in {token.text}{dims}", token.line)
        # A name after the brace means that it opens a computation's body, as in `-> f32[] {`.
        if self.at("{") and self.tokens[self.position + 1].kind in ("number", "punctuation"):
            self.layout(len(dims))
        return Shape(token.text, tuple(dims))

    def layout(self, rank: int) -> None:
        """Reads a layout. XLA gives transposes the layout that makes them free; this IR has logical values only.

        So a layout other than the row-major one is dropped inside the module, and refused at the entry's boundary,
        where it says how the caller's memory is laid out.
        """
        line = self.token.line
        text = self.raw().replace(" ", "")
        if text == "{" + ",".join(map(str, range(rank - 1, -1, -1))) + "}":
            return
        order = text[1:-1].split(",")
        if sorted(order) != sorted(map(str, range(rank))):
            raise ParseError(f"layout {text} is not a permutation of {rank} dimensions; tiles are not supported", line)
        if not self.any_layout:
            self.foreign.append((line, text))

    def literal(self, shape: Shape) -> Literal:
        line = self.token.line
        if self.at("{") and self.tokens[self.position + 1].text == "...":
            raise self.fail("the constant was printed without its elements ({...})")
        elements: list[np.generic] = []

        def nested(depth: int) -> None:
            if depth == len(shape.dims):
                token = self.token
                try:
                    elements.append(self.complex_number(shape) if shape.kind == "c" else self.number(shape))
                except (ValueError, TypeError) as error:
                    raise ParseError(str(error), token.line) from None
                return
            self.expect("{")
            for k in range(shape.dims[depth]):
                if k:
                    self.expect(",")
                nested(depth + 1)
            self.expect("}")

        nested(0)
        try:
            array = np.array(elements, dtype=shape.numpy_dtype).reshape(shape.dims)
        except TypeError as error:
            raise ParseError(str(error), line) from None
        array.setflags(write=False)
        return array

    def number(self, shape: Shape) -> np.generic:
        return parse_number(self.take().text, shape)

    def complex_number(self, shape: Shape) -> np.generic:
        """`(real, imaginary)`; a lone number is real."""
        part = Shape("f32" if shape.dtype == "c64" else "f64")
        pair = [parse_number("0", part)] * 2
        if self.accept("("):
            pair[0] = self.number(part)
            self.expect(",")
            pair[1] = self.number(part)
            self.expect(")")
        else:
            pair[0] = self.number(part)
        both: np.generic = np.array(pair, part.numpy_dtype).view(shape.numpy_dtype)[0]
        return both

    # ---- attributes

    def attribute(self, owner: Instruction, allowed: set[str]) -> None:
        line = self.token.line
        key = self.name("an attribute")
        self.expect("=")
        if key == "metadata":
            owner.metadata = self.metadata()
            return
        if key not in ATTRIBUTES or (key not in allowed and ATTRIBUTES[key] != "raw"):
            known = ", ".join(sorted(allowed)) or "none"
            raise ParseError(f"{owner.opcode} has no attribute {key!r}; it has: {known}", line)
        attrs: Attrs = owner.attrs
        if key in attrs:
            raise ParseError(f"attribute {key} is given twice", line)
        form = ATTRIBUTES[key]
        if form == "computation":
            called = self.name("a computation")
            attrs[key] = None  # keeps its place among the attributes
            self.calls.append((owner, key, called, line))
        elif form == "computations":
            attrs[key] = None
            names = self.braces(lambda: self.name("a computation")) if self.at("{") else [self.name("a computation")]
            self.calls.append((owner, key, tuple(names), line))
        else:
            attrs[key] = self.value(form)

    def value(self, form: str) -> Any:
        if form == "dims":
            return tuple(self.braces(lambda: self.integer("a dimension")))
        if form == "int":
            return self.integer("an integer")
        if form == "string":
            return self.string("a name")
        if form == "bool":
            token = self.take()
            if token.text not in ("true", "false"):
                raise ParseError(f"expected true or false, found {token.text!r}", token.line)
            return token.text == "true"
        if form == "name":
            return self.name("a name")
        if form == "names":
            return tuple(self.braces(lambda: self.name("a name")))
        if form == "ranges":
            return tuple(self.braces(self.range_))
        if form in ("window", "labels"):
            line = self.token.line
            try:
                return Window.parse(self.raw()) if form == "window" else ConvolutionDims.parse(self.labels())
            except ValueError as error:
                raise ParseError(str(error), line) from None
        if form == "groups":
            line = self.token.line
            try:
                return parse_groups(self.groups())
            except ValueError as error:
                raise ParseError(str(error), line) from None
        if form == "padding":
            token = self.take()
            if token.kind != "padding":
                raise ParseError(f"expected a padding like 0_1x2_0, found {token.text!r}", token.line)
            parts = [[int(n) for n in p.split("_")] for p in token.text.split("x")]
            return tuple((p[0], p[1], p[2] if len(p) > 2 else 0) for p in parts)
        text = self.raw()
        return unescape(text[1:-1]) if text.startswith('"') else text

    def groups(self) -> str:
        """Lists in braces, or XLA's short form `[2,4]<=[4,2]T(1,0)`."""
        if not self.at("["):
            return self.raw()
        match = re.compile(r"\[[\d, ]*\]<=\[[\d, ]*\](?:T\([\d, ]*\))?").match(self.text, self.token.start)
        if match is None:
            raise self.fail(f"expected groups like [2,2]<=[4], found {self.token.text!r}")
        while self.token.kind != "end" and self.token.start < match.end():
            self.take()
        return match[0]

    def labels(self) -> str:
        """A word like `b01f_01io->b01f`, which may begin with digits."""
        match = re.compile(r"[A-Za-z0-9?]+_[A-Za-z0-9?]+->[A-Za-z0-9?]+").match(self.text, self.token.start)
        if match is None:
            raise self.fail(f"expected dimension labels like b01f_01io->b01f, found {self.token.text!r}")
        while self.token.kind != "end" and self.token.start < match.end():
            self.take()
        return match[0]

    def braces(self, item: Any) -> list[Any]:
        self.expect("{")
        items: list[Any] = []
        while not self.accept("}"):
            if items:
                self.expect(",")
            items.append(item())
        return items

    def range_(self) -> tuple[int, int, int]:
        self.expect("[")
        start = self.integer("a start")
        self.expect(":")
        limit = self.integer("a limit")
        stride = self.integer("a stride") if self.accept(":") else 1
        self.expect("]")
        return start, limit, stride

    def metadata(self) -> Metadata:
        texts: dict[str, str] = {}
        line = 0
        self.expect("{")
        while not self.accept("}"):
            key = self.name("a metadata field")
            self.expect("=")
            if key in ("op_type", "op_name", "source_file"):
                texts[key] = self.string(key)
            elif key == "source_line":
                line = self.integer("a line number")
            else:
                self.raw()  # source_end_line, stack_frame_id and the like
        return Metadata(source_line=line, **texts)


def _canonical(i: Instruction, known: dict[str, Instruction]) -> None:
    """What the text writes in two ways, this IR has in one: a scalar that chooses or bounds an array is broadcast."""
    if i.opcode == "bitcast-convert" and i.operands and isinstance(i.shape, Shape):
        source = i.operands[0].shape
        if isinstance(source, Shape) and source.itemsize != i.shape.itemsize:
            i.opcode = "bitcast-reinterpret"
    if i.opcode not in ("select", "clamp") or not isinstance(i.shape, Shape) or not i.dims:
        return
    for k in (0,) if i.opcode == "select" else (0, 2):
        operand = i.operands[k] if k < len(i.operands) else None
        if operand is None or not isinstance(operand.shape, Shape) or operand.dims:
            continue
        name = f"{i.name}.operand{k}"
        while name in known:
            name += ".broadcast"
        shape = operand.shape.with_dims(i.dims)
        known[name] = i.operands[k] = Instruction(
            name, "broadcast", shape, [operand], {"dimensions": ()}, metadata=i.metadata, line=i.line
        )


assert {k for row in OPCODES.values() for k in (*row.required, *row.optional)} <= set(ATTRIBUTES)
