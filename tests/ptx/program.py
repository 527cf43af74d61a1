"""A kernel as a control flow graph: calls inlined, blocks in an order in which threads meet again, live registers.

Device functions are inlined, each call with registers, labels and variables of its own; parameters are memory of the
thread. A predicated instruction that isn't a branch becomes a block of its own. Blocks end at branches and barriers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .errors import PtxError
from .parser import Address, Function, Instruction, Label, Module, Pair, Reg, Symbol, Variable, Vector

ENDS = {"bra", "ret", "exit", "trap", "bar", "barrier"}


@dataclass
class Block:
    """Straight code. `end` is the last instruction where that is a branch, an exit or a barrier."""

    index: int = -1
    instructions: list[Instruction] = field(default_factory=list)
    end: Instruction | None = None
    taken: int = -1
    """The block that a branch goes to, and `following` the one that is next in the text."""
    following: int = -1
    reads: set[str] = field(default_factory=set)
    """Registers that are read before they are written here."""
    writes: set[str] = field(default_factory=set)
    live_out: set[str] = field(default_factory=set)

    @property
    def successors(self) -> list[int]:
        return [k for k in (self.taken, self.following) if k >= 0]


@dataclass
class Program:
    name: str
    blocks: list[Block]
    registers: dict[str, str]
    variables: dict[str, Variable]
    params: list[Variable]
    directives: dict[str, list[int]]
    maybe_unset: set[str]
    """Registers that may be read before they are written."""


class Inliner:
    def __init__(self, module: Module, kernel: Function):
        self.module = module
        self.registers = dict(kernel.registers)
        self.variables = dict(kernel.variables)
        self.calls = 0
        self.body: list = []
        self.inline(kernel, "", {}, None, ())

    def inline(self, function: Function, prefix: str, names: dict[str, str], after: str | None, active: tuple) -> None:
        """Adds the body; `names` are the caller's for the parameters, `after` is where a return goes to."""
        if function.name in active:
            raise PtxError(f"{function.name} calls itself, which isn't supported")
        labels = {item.name for item in function.body if isinstance(item, Label)}

        def rename(operand: object) -> object:
            if isinstance(operand, Reg):
                return replace(operand, name=prefix + operand.name)
            if isinstance(operand, Symbol):
                if operand.name in names:
                    return replace(operand, name=names[operand.name])
                if operand.name in function.variables or operand.name in labels:
                    return replace(operand, name=prefix + operand.name)
                return operand
            if isinstance(operand, Address):
                return replace(operand, base=rename(operand.base))
            if isinstance(operand, Vector):
                return Vector(tuple(map(rename, operand.parts)))
            if isinstance(operand, Pair):
                return Pair(rename(operand.first), rename(operand.second))
            return operand

        if prefix:
            self.registers |= {prefix + name: kind for name, kind in function.registers.items()}
            self.variables |= {prefix + v.name: replace(v, name=prefix + v.name) for v in function.variables.values()}
        for item in function.body:
            if isinstance(item, Label):
                self.body.append(Label(prefix + item.name))
                continue
            kind = item.parts[0]
            made = item
            if prefix:
                made = replace(
                    item,
                    operands=tuple(map(rename, item.operands)),
                    predicate=rename(item.predicate) if item.predicate else None,
                )
            if kind == "call":
                self.call(made, (*active, function.name))
            elif kind == "ret" and after is not None:
                self.body.append(replace(made, opcode="bra", operands=(Symbol(after),)))
            else:
                self.body.append(made)
        if after is not None:
            self.body.append(Label(after))

    def call(self, item: Instruction, active: tuple) -> None:
        lists = [o for o in item.operands if isinstance(o, Vector)]
        targets = [o for o in item.operands if isinstance(o, Symbol)]
        if not targets or targets[0].name not in self.module.functions:
            raise PtxError(
                f"line {item.line}: {item.opcode} of {targets[0].name if targets else 'a register'}: no such function"
            )
        callee = self.module.functions[targets[0].name]
        results = lists[0].parts if callee.results else ()
        arguments = lists[-1].parts if callee.params else ()
        if len(results) != len(callee.results) or len(arguments) != len(callee.params):
            raise PtxError(
                f"line {item.line}: {callee.name} takes {len(callee.params)} parameters, not {len(arguments)}"
            )
        names = {}
        for formal, actual in zip([*callee.results, *callee.params], [*results, *arguments], strict=True):
            names[formal.name] = actual.name
        self.calls += 1
        prefix = f"{self.calls}@"
        past = None
        if item.predicate is not None:
            past = f"{prefix}past"
            self.body.append(
                Instruction(
                    "bra", (Symbol(past),), item.line, replace(item.predicate, negated=not item.predicate.negated)
                )
            )
        self.inline(callee, prefix, names, f"{prefix}return", active)
        if past is not None:
            self.body.append(Label(past))


def operands_of(item: Instruction) -> tuple[list[str], list[str]]:
    """The registers that an instruction reads, and those that it writes."""
    reads: list[str] = []
    writes: list[str] = []

    def collect(operand: object, into: list[str]) -> None:
        if isinstance(operand, Reg):
            into.append(operand.name)
        elif isinstance(operand, Vector):
            for part in operand.parts:
                collect(part, into)
        elif isinstance(operand, Pair):
            collect(operand.first, into)
            collect(operand.second, into)
        elif isinstance(operand, Address):
            collect(operand.base, reads)

    rest = item.operands
    reduces = item.parts[0] in ("bar", "barrier") and "red" in item.parts
    if (item.parts[0] not in WITHOUT_RESULT or reduces) and rest and not isinstance(rest[0], Address):
        collect(rest[0], writes)
        rest = rest[1:]
    for operand in rest:
        collect(operand, reads)
    if item.predicate is not None:
        reads.append(item.predicate.name)
    return reads, writes


WITHOUT_RESULT = {"st", "red", "bra", "bar", "barrier", "ret", "exit", "trap", "cp", "prefetch", "membar",
                  "fence", "nanosleep", "discard", "prefetchu", "griddepcontrol", "brkpt", "pmevent"}  # fmt: skip


def blocks_of(body: list) -> list[Block]:
    """Cuts a flat body into blocks, in the order of the text."""
    blocks = [Block()]
    starts: dict[str, int] = {}

    def fresh() -> Block:
        if blocks[-1].instructions or blocks[-1].end:
            blocks.append(Block())
        return blocks[-1]

    skips: list[tuple[int, int]] = []
    for item in body:
        if isinstance(item, Label):
            fresh()
            starts[item.name] = len(blocks) - 1
            continue
        kind = item.parts[0]
        if kind in ("bar", "barrier") and item.parts[1] == "warp":
            kind = "bar.warp"  # no end: threads of a warp that are together stay so
        if item.predicate is not None and kind != "bra":
            around = replace(item.predicate, negated=not item.predicate.negated)
            blocks[-1].end = Instruction("bra", (), item.line, around)
            skips.append((len(blocks) - 1, 0))
            blocks.append(Block())
            bare = replace(item, predicate=None)
            if kind in ENDS:
                blocks[-1].end = bare
            else:
                blocks[-1].instructions.append(bare)
            blocks.append(Block())
            skips[-1] = (skips[-1][0], len(blocks) - 1)
            continue
        if kind in ENDS:
            blocks[-1].end = item
            blocks.append(Block())
        else:
            blocks[-1].instructions.append(item)
    last = blocks[-1]
    if last.end is None:
        last.end = Instruction("ret", (), 0)
    targets = dict(skips)
    for k, block in enumerate(blocks):
        kind = block.end.parts[0] if block.end else ""
        if kind == "bra":
            if k in targets:
                block.taken = targets[k]
            else:
                name = block.end.operands[0].name
                if name not in starts:
                    raise PtxError(f"line {block.end.line}: no label {name}")
                block.taken = starts[name]
            if block.end.predicate is not None:
                block.following = k + 1
        elif kind not in ("ret", "exit", "trap"):
            block.following = k + 1
    return blocks


def in_meeting_order(blocks: list[Block]) -> list[Block]:
    """Blocks in topological order without the back edges, the body of a loop before what follows the loop.

    Running the first block of this order that has threads makes diverged threads meet where their ways join.
    """
    order: list[int] = []
    seen = {0}
    depth = loop_depths(blocks)
    # A depth first search whose later visited successors come first in the order: the one inside more loops goes last.
    stack = [(0, iter(sorted(blocks[0].successors, key=lambda s: depth[s])))]
    while stack:
        node, successors = stack[-1]
        for following in successors:
            if following not in seen:
                seen.add(following)
                stack.append((following, iter(sorted(blocks[following].successors, key=lambda s: depth[s]))))
                break
        else:
            order.append(node)
            stack.pop()
    order.reverse()
    place = {old: new for new, old in enumerate(order)}
    ordered = [blocks[k] for k in order]
    for new, block in enumerate(ordered):
        block.index = new
        block.taken = place.get(block.taken, -1)
        block.following = place.get(block.following, -1)
    return ordered


def loop_depths(blocks: list[Block]) -> list[int]:
    """In how many natural loops each block lies; a back edge goes to a block that is being visited."""
    depth = [0] * len(blocks)
    before: list[list[int]] = [[] for _ in blocks]
    for k, block in enumerate(blocks):
        for following in block.successors:
            before[following].append(k)
    state = [0] * len(blocks)
    back: dict[int, list[int]] = {}
    stack = [(0, iter(blocks[0].successors))]
    state[0] = 1
    while stack:
        node, successors = stack[-1]
        for following in successors:
            if state[following] == 0:
                state[following] = 1
                stack.append((following, iter(blocks[following].successors)))
                break
            if state[following] == 1:
                back.setdefault(following, []).append(node)
        else:
            state[node] = 2
            stack.pop()
    for header, ends in back.items():
        inside = {header}
        work = list(ends)
        while work:
            node = work.pop()
            if node not in inside:
                inside.add(node)
                work.extend(before[node])
        for node in inside:
            depth[node] += 1
    return depth


def find_live(blocks: list[Block]) -> set[str]:
    """Sets what each block reads, writes and leaves to others; returns the registers that may be read unset."""
    for block in blocks:
        for item in [*block.instructions, *([block.end] if block.end else [])]:
            reads, writes = operands_of(item)
            block.reads.update(r for r in reads if r not in block.writes)
            block.writes.update(writes)
    live_in = [set(b.reads) for b in blocks]
    changed = True
    while changed:
        changed = False
        for block in reversed(blocks):
            out: set[str] = set()
            for following in block.successors:
                out |= live_in[following]
            block.live_out = out
            new = block.reads | (out - block.writes)
            if new != live_in[block.index]:
                live_in[block.index] = new
                changed = True
    return live_in[0]


def program_of(module: Module, name: str) -> Program:
    kernel = module.functions.get(name)
    if kernel is None or not kernel.entry:
        entries = [f.name for f in module.functions.values() if f.entry]
        raise PtxError(f"no kernel {name!r}; the module has {', '.join(entries) or 'none'}")
    inliner = Inliner(module, kernel)
    blocks = in_meeting_order(blocks_of(inliner.body))
    unset = find_live(blocks)
    return Program(name, blocks, inliner.registers, inliner.variables, kernel.params, kernel.directives, unset)
