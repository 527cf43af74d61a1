"""One block of PTX as the source of a Python function over NumPy vectors, one element a thread that runs it.

A register's value is a vector, or a scalar where all threads have the same; it is kept as unsigned integers (predicates
as bools), and as signed or floating point views where instructions ask for them. Handlers of opcodes register with
`@opcode`. Masks are nowhere: the machine hands in the values of the threads that are there, and scatters the results.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from .errors import PtxError
from .parser import Imm, Instruction, Reg, Special, Symbol

Handler = Callable[["BlockEmitter", Instruction], None]
HANDLERS: dict[str, Handler] = {}
UNSIGNED = {8: "np.uint8", 16: "np.uint16", 32: "np.uint32", 64: "np.uint64"}
SIGNED = {8: "np.int8", 16: "np.int16", 32: "np.int32", 64: "np.int64"}
FLOAT = {16: "np.float16", 32: "np.float32", 64: "np.float64"}


def opcode(*names: str) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        for name in names:
            if name in HANDLERS:
                raise AssertionError(f"two handlers of {name}")
            HANDLERS[name] = handler
        return handler

    return register


@cache
def width_of(kind: str) -> int:
    """Bits of a type; a predicate has one."""
    if kind == "pred":
        return 1
    if kind in ("f16x2", "bf16x2"):
        return 32
    return int("".join(c for c in kind if c.isdigit()))


class BlockEmitter:
    """`symbols` are the addresses of variables, `registers` the types."""

    def __init__(self, name: str, registers: dict[str, str], symbols: dict[str, int], spaces: dict[str, str]):
        self.name = name
        self.registers = registers
        self.symbols = symbols
        self.spaces = spaces
        """The state space of each variable: parameters of device functions are memory of the thread."""
        self.lines: list[str] = []
        self.constants: dict[str, object] = {}
        self.values: dict[str, dict[str, str]] = {}
        self.inputs: list[str] = []
        self.count = 0
        self.item: Instruction | None = None

    # Writing

    def write(self, line: str) -> None:
        self.lines.append(line)

    def fresh(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def let(self, expression: str) -> str:
        name = self.fresh()
        self.write(f"{name} = {expression}")
        return name

    def constant(self, value: object) -> str:
        array = np.asarray(value)
        name = f"c_{array.dtype.char}{array.tobytes()[::-1].hex()}".replace("?", "p")
        self.constants[name] = value
        return name

    def constant_of(self, value: int, bits: int) -> str:
        return self.constant(np.asarray(value, f"u{bits // 8}")[()])

    def fail(self, message: str) -> PtxError:
        return PtxError(f"line {self.item.line}: {self.item.opcode}: {message}")

    # Operands

    def bits_of(self, register: str) -> int:
        return width_of(self.registers[register])

    def use(self, operand: object, kind: str, bits: int) -> str:
        """An expression for an operand; `kind` is `u`nsigned, `s`igned, `f`loating point or `p`redicate."""
        if isinstance(operand, Imm):
            return self.literal(operand, kind, bits)
        if isinstance(operand, Special):
            name = f"m.special({operand.name[1:]!r})"
            return self.view(name, kind, bits, 64 if operand.name[1:] in ("clock64", "globaltimer") else 32)
        if isinstance(operand, Symbol):
            if self.spaces.get(operand.name) == "global":
                # Where it lies in global memory is known when the kernel runs.
                place = f"m.global_address({operand.name!r})"
                return f"({place} + {self.constant_of(operand.offset, 64)})" if operand.offset else place
            if operand.name not in self.symbols:
                raise self.fail(f"{operand.name} isn't declared")
            return self.literal(Imm(self.symbols[operand.name] + operand.offset), kind, bits)
        if not isinstance(operand, Reg):
            raise self.fail(f"{operand} isn't a register or a number")
        forms = self.forms(operand.name)
        width = self.bits_of(operand.name)
        if kind == "p":
            if width != 1:
                raise self.fail(f"{operand.name} isn't a predicate")
            return f"~{forms['p']}" if operand.negated else forms["p"]
        if width == 1:
            raise self.fail(f"{operand.name} is a predicate")
        if width < bits:
            raise self.fail(f"{operand.name} has {width} bits, not {bits}")
        key = f"{kind}{bits}"
        if key not in forms:
            base = forms.get(f"u{width}")
            if base is None:
                base = self.let(self.bits_from_float(forms[f"f{width}"], width))
                forms[f"u{width}"] = base
            if key not in forms:
                forms[key] = self.let(self.view(base, kind, bits, width))
        return forms[key]

    def forms(self, register: str) -> dict[str, str]:
        if register not in self.values:
            name = f"i{len(self.inputs)}"
            self.inputs.append(register)
            width = self.bits_of(register)
            self.values[register] = {"p" if width == 1 else f"u{width}": name}
        return self.values[register]

    def view(self, name: str, kind: str, bits: int, width: int) -> str:
        if bits < width:
            name = f"({name}).astype({UNSIGNED[bits]})"
        elif bits > width:
            raise self.fail(f"a value of {width} bits where {bits} are needed")
        if kind == "s":
            return f"{name}.view({SIGNED[bits]})"
        if kind == "f":
            return f"{name}.view({FLOAT[bits]})"
        return name

    def literal(self, operand: Imm, kind: str, bits: int) -> str:
        if kind == "p":
            return self.constant(np.bool_(operand.value != 0))
        value = operand.value
        if operand.float_bits and operand.float_bits != bits:
            wide = np.uint64(value).view(np.float64) if operand.float_bits == 64 else np.uint32(value).view(np.float32)
            value = int(np.asarray(wide).astype(f"f{bits // 8}").view(f"u{bits // 8}"))
        elif kind == "f" and not operand.float_bits and value not in (0,) and bits != 16:
            value = int(np.asarray(value, f"f{bits // 8}").view(f"u{bits // 8}"))
        raw = np.asarray(value & ((1 << bits) - 1), f"u{bits // 8}")
        return self.constant(raw.view({"u": "u", "s": "i", "f": "f"}[kind] + str(bits // 8))[()])

    @staticmethod
    def bits_from_float(name: str, bits: int) -> str:
        return f"a.bits{bits}({name})"

    # Results

    def set(self, operand: object, kind: str, bits: int, expression: str) -> None:
        """Writes a register; a narrower value is extended with its sign, if it has one."""
        name = self.let(expression)
        if isinstance(operand, Symbol) and operand.name == "_":
            return
        if not isinstance(operand, Reg):
            raise self.fail(f"the result {operand} isn't a register")
        width = self.bits_of(operand.name)
        if (kind == "p") != (width == 1) or width < bits:
            raise self.fail(f"{operand.name} can't hold the result")
        if kind == "p":
            self.values[operand.name] = {"p": name}
            return
        if width > bits:
            if kind == "f":
                name = self.let(self.bits_from_float(name, bits))
                kind = "u"
            name = self.let(f"{name}.astype({SIGNED[width] if kind == 's' else UNSIGNED[width]})")
        if kind == "s":
            self.values[operand.name] = {f"s{width}": name, f"u{width}": self.let(f"{name}.view({UNSIGNED[width]})")}
        else:
            self.values[operand.name] = {f"{kind}{width}": name}

    def output(self, register: str) -> str:
        width = self.bits_of(register)
        return self.use(Reg(register), "p" if width == 1 else "u", width)

    # Whole blocks

    def emit(self, item: Instruction) -> None:
        self.item = item
        handler = HANDLERS.get(item.parts[0])
        if handler is None:
            raise self.fail("the machine doesn't know this opcode")
        handler(self, item)

    def source(self, outputs: list[str], condition: Reg | None, extra: list[str]) -> str:
        """The function's text: it returns the outputs, the condition of the branch and `extra` expressions."""
        results = [self.output(r) for r in outputs]
        if condition is not None:
            results.append(self.use(condition, "p", 1))
        results += extra
        head = f"def {self.name}(m{''.join(f', i{k}' for k in range(len(self.inputs)))}):"
        return "\n    ".join([head, *self.lines, f"return ({''.join(r + ', ' for r in results)})"])
