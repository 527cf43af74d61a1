"""Instructions of a warp: shuffles, votes, matches and reductions among its threads."""

from __future__ import annotations

from ..emit import BlockEmitter, opcode
from ..parser import Instruction, Pair


@opcode("shfl")
def shuffle(e: BlockEmitter, i: Instruction) -> None:
    if i.parts[1] != "sync":
        raise e.fail("only shfl.sync exists")
    d = i.operands[0]
    result, inside = (d.first, d.second) if isinstance(d, Pair) else (d, None)
    x, b, c, mask = (e.use(o, "u", 32) for o in i.operands[1:])
    got = e.let(f"m.shuffle({i.parts[2]!r}, {x}, {b}, {c}, {mask}, {i.line})")
    e.set(result, "u", 32, f"{got}[0]")
    if inside is not None:
        e.set(inside, "p", 1, f"{got}[1]")


@opcode("vote")
def vote(e: BlockEmitter, i: Instruction) -> None:
    if i.parts[1] != "sync":
        raise e.fail("only vote.sync exists")
    how = i.parts[2]
    test, mask = e.use(i.operands[1], "p", 1), e.use(i.operands[2], "u", 32)
    e.set(
        i.operands[0],
        "u" if how == "ballot" else "p",
        32 if how == "ballot" else 1,
        f"m.vote({how!r}, {test}, {mask}, {i.line})",
    )


@opcode("match")
def match(e: BlockEmitter, i: Instruction) -> None:
    bits = int(i.parts[-1][1:])
    d = i.operands[0]
    result, same = (d.first, d.second) if isinstance(d, Pair) else (d, None)
    got = e.let(
        f"m.match({i.parts[1]!r}, {e.use(i.operands[1], 'u', bits)}, {e.use(i.operands[2], 'u', 32)}, {i.line})"
    )
    e.set(result, "u", 32, f"{got}[0]")
    if same is not None:
        e.set(same, "p", 1, f"{got}[1]")


@opcode("redux")
def redux(e: BlockEmitter, i: Instruction) -> None:
    kind = "s" if i.parts[-1] == "s32" else "u"
    if i.parts[-1] == "f32":
        raise e.fail("isn't supported")
    e.set(
        i.operands[0],
        kind,
        32,
        f"m.redux({i.parts[2]!r}, {e.use(i.operands[1], kind, 32)}, {e.use(i.operands[2], 'u', 32)}, {i.line})",
    )


@opcode("activemask")
def activemask(e: BlockEmitter, i: Instruction) -> None:
    e.set(i.operands[0], "u", 32, "m.active_mask()")


@opcode("elect")
def elect(e: BlockEmitter, i: Instruction) -> None:
    got = e.let(f"m.elect({e.use(i.operands[1], 'u', 32)}, {i.line})")
    e.set(i.operands[0].first, "u", 32, f"{got}[0]")
    e.set(i.operands[0].second, "p", 1, f"{got}[1]")


@opcode("bar", "barrier")
def warp_barrier(e: BlockEmitter, i: Instruction) -> None:
    """Those of a block end the block of code; this is `bar.warp.sync`."""
    if i.parts[1] != "warp":
        raise e.fail("isn't supported")
    e.write(f"m.warp_barrier({e.use(i.operands[0], 'u', 32)}, {i.line})")
