"""A kernel ready to run: its blocks as Python functions, its variables at addresses."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from .emit import BlockEmitter, width_of
from .errors import PtxError
from .instructions import access, arithmetic, floats, integer, matrix, warp  # noqa: F401 - they register their opcodes
from .memory import SHARED_BASE
from .parser import Address, Instruction, Module, Pair, Reg, Symbol, Variable, Vector
from .program import Block, program_of


@dataclass
class Step:
    """A block that can run: `function(m, *inputs)` gives the outputs, then what the end needs."""

    function: object
    inputs: list[int]
    outputs: list[int]
    kind: str
    taken: int
    following: int
    conditional: bool
    line: int
    opcode: str
    opcodes: Counter
    count: int
    result: int = -1
    """The register that a reduction at a barrier sets."""


@dataclass
class Layout:
    """Where variables lie in a state space."""

    size: int = 0
    addresses: dict[str, int] = field(default_factory=dict)

    def add(self, variable: Variable) -> None:
        self.size = -(-self.size // variable.align) * variable.align
        self.addresses[variable.name] = self.size
        self.size += max(variable.size, 0)


def symbols_in(item: Instruction) -> set[str]:
    found: set[str] = set()

    def visit(operand: object) -> None:
        if isinstance(operand, Symbol):
            found.add(operand.name)
        elif isinstance(operand, Vector):
            for part in operand.parts:
                visit(part)
        elif isinstance(operand, Pair):
            visit(operand.first)
            visit(operand.second)
        elif isinstance(operand, Address):
            visit(operand.base)

    for operand in item.operands:
        visit(operand)
    return found


class Kernel:
    def __init__(self, module: Module, name: str):
        program = program_of(module, name)
        self.name = name
        self.params = Layout()
        for param in program.params:
            self.params.add(param)
        self.limits = program.directives
        used: set[str] = set()
        for block in program.blocks:
            for item in [*block.instructions, *([block.end] if block.end else [])]:
                used |= symbols_in(item)
        variables = {k: v for k, v in (module.variables | program.variables).items() if k in used}
        self.layouts = {space: Layout() for space in ("shared", "local", "const")}
        dynamic = []
        self.spaces = dict.fromkeys(self.params.addresses, "kernel_param")
        for variable in variables.values():
            space = "local" if variable.space == "param" else variable.space
            self.spaces[variable.name] = space
            if space == "global":
                continue
            if variable.size < 0:
                dynamic.append(variable)
            else:
                self.layouts[space].add(variable)
        for variable in dynamic:
            shared = self.layouts["shared"]
            shared.size = -(-shared.size // max(variable.align, 16)) * max(variable.align, 16)
            shared.addresses[variable.name] = shared.size
        self.const_data = bytearray(self.layouts["const"].size)
        for variable in variables.values():
            if variable.space == "const" and variable.data is not None:
                at = self.layouts["const"].addresses[variable.name]
                self.const_data[at : at + len(variable.data)] = variable.data
        self.globals = {v.name: v for v in variables.values() if v.space == "global"}
        self.symbols = self.params.addresses | {
            k: v for layout in self.layouts.values() for k, v in layout.addresses.items()
        }
        self.registers = program.registers
        self.numbers = {name: k for k, name in enumerate(program.registers)}
        self.names = list(program.registers)
        self.maybe_unset = {self.numbers[r] for r in program.maybe_unset}
        self.granules = shortest_accesses(program.blocks)
        self.source: list[str] = []
        self.steps = self.translate(program.blocks)

    def translate(self, blocks: list[Block]) -> list[Step]:
        scope = {"np": np, "a": arithmetic, "SHARED_BASE": SHARED_BASE}
        pending = []
        for block in blocks:
            e = BlockEmitter(f"block_{block.index}", self.registers, self.symbols, self.spaces)
            for item in block.instructions:
                try:
                    e.emit(item)
                except (KeyError, IndexError, StopIteration, AttributeError, TypeError, ValueError) as error:
                    raise PtxError(f"line {item.line}: {item.opcode} can't be read ({error!r})") from error
            outputs = sorted(block.writes & block.live_out, key=self.numbers.get)
            end = block.end
            kind = end.parts[0] if end else "next"
            extra: list[str] = []
            result = -1
            condition = None
            if end is not None:
                e.item = end
                if kind == "bra":
                    condition = end.predicate
                elif kind in ("bar", "barrier"):
                    kind, extra, result = self.barrier(e, end)
                    outputs = [r for r in outputs if self.numbers[r] != result]
            self.source.append(e.source(outputs, condition, extra))
            scope |= e.constants
            opcodes = Counter(item.opcode for item in block.instructions)
            if end is not None and end.line:
                opcodes[end.opcode] += 1
            pending.append((e, block, kind, outputs, condition, result, opcodes))
        exec(compile("\n\n".join(self.source), f"<ptx {self.name}>", "exec"), scope)
        return [
            Step(
                scope[e.name],
                [self.numbers[r] for r in e.inputs],
                [self.numbers[r] for r in outputs],
                kind,
                block.taken,
                block.following,
                condition is not None,
                block.end.line if block.end else 0,
                block.end.opcode if block.end else "",
                opcodes,
                sum(opcodes.values()),
                result,
            )
            for e, block, kind, outputs, condition, result, opcodes in pending
        ]

    def barrier(self, e: BlockEmitter, item: Instruction) -> tuple[str, list[str], int]:
        """The kind `bar.sync`, `bar.arrive` or `bar.red.OP`, number, count (0: all), predicate; the result."""
        parts = [p for p in item.parts[1:] if p not in ("cta", "aligned")]
        operands = list(item.operands)
        result, kind, test = -1, f"bar.{parts[0]}", "None"
        if parts[0] not in ("sync", "arrive", "red"):
            raise e.fail("isn't supported")
        if parts[0] == "red":
            register = operands.pop(0)
            if not isinstance(register, Reg):
                raise e.fail("needs a register")
            result = self.numbers[register.name]
            kind += f".{parts[1]}"
            test = e.use(operands.pop(), "p", 1)
        number = e.use(operands[0], "u", 32)
        count = e.use(operands[1], "u", 32) if len(operands) > 1 else "0"
        return kind, [number, count, test], result


def shortest_accesses(blocks: list[Block]) -> dict[str, int]:
    """The bytes of the shortest element that is loaded or stored in each state space."""
    shortest = {"global": 8, "shared": 8}
    for block in blocks:
        for item in block.instructions:
            parts = item.parts
            if parts[0] not in ("ld", "st", "atom", "red", "ldu"):
                continue
            spaces = [
                p.split("::")[0] for p in parts if p.split("::")[0] in ("global", "shared", "local", "param", "const")
            ]
            for space in shortest:
                if not spaces or space in spaces:
                    shortest[space] = min(shortest[space], width_of(parts[-1]) // 8)
    return {space: min(size, 4) for space, size in shortest.items()}
