"""Integer, logic, comparison and move instructions."""

from __future__ import annotations

from ..emit import SIGNED, UNSIGNED, BlockEmitter, opcode, width_of
from ..parser import Instruction, Pair, Symbol, Vector

COMPARE = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}


def integer_type(item: Instruction) -> tuple[str, int]:
    """`s` or `u`, and the bits."""
    kind = item.parts[-1]
    return ("s" if kind[0] == "s" else "u"), width_of(kind)


def is_float(item: Instruction) -> bool:
    return item.parts[-1] in ("f16", "f16x2", "bf16", "bf16x2", "f32", "f64", "f32x2")


def widened(bits: int, kind: str) -> str:
    return (SIGNED if kind == "s" else UNSIGNED)[2 * bits]


def integer_add(e: BlockEmitter, i: Instruction, sign: str) -> None:
    _, bits = integer_type(i)
    d, x, y = i.operands
    if i.parts[-1] in ("u16x2", "s16x2"):
        raise e.fail("isn't supported")
    if "sat" in i.parts:
        wide = f"{e.use(x, 's', 32)}.astype(np.int64) {sign} {e.use(y, 's', 32)}"
        e.set(d, "s", 32, f"np.clip({wide}, -(1 << 31), (1 << 31) - 1).astype(np.int32)")
        return
    left, right = e.use(x, "u", bits), e.use(y, "u", bits)
    carry_in = i.parts[0] in ("addc", "subc")
    if carry_in or "cc" in i.parts:
        total = e.let(f"a.with_carry({left}, {right}, {'cc' if carry_in else 'False'}, {sign!r})")
        if "cc" in i.parts:
            e.write(f"cc = {total}[1]")
        e.set(d, "u", bits, f"{total}[0]")
        return
    e.set(d, "u", bits, f"{left} {sign} {right}")


@opcode("addc")
def addc(e: BlockEmitter, i: Instruction) -> None:
    integer_add(e, i, "+")


@opcode("subc")
def subc(e: BlockEmitter, i: Instruction) -> None:
    integer_add(e, i, "-")


def product(e: BlockEmitter, i: Instruction, part: str) -> tuple[str, str, int]:
    """An expression for a product's low, high or whole half, and its type."""
    kind, bits = integer_type(i)
    x, y = i.operands[1:3]
    if part == "lo":
        return f"{e.use(x, 'u', bits)} * {e.use(y, 'u', bits)}", "u", bits
    left, right = e.use(x, kind, bits), e.use(y, kind, bits)
    if bits == 64:
        return f"a.high_product_{kind}({left}, {right})", kind, bits
    wide = f"{left}.astype({widened(bits, kind)}) * {right}.astype({widened(bits, kind)})"
    if part == "wide":
        return wide, kind, 2 * bits
    return f"(({wide}) >> {bits}).astype({(SIGNED if kind == 's' else UNSIGNED)[bits]})", kind, bits


def integer_multiply(e: BlockEmitter, i: Instruction) -> None:
    text, kind, bits = product(e, i, i.parts[1])
    e.set(i.operands[0], kind, bits, text)


@opcode("mad")
def mad(e: BlockEmitter, i: Instruction) -> None:
    if is_float(i):
        raise e.fail("use fma")
    text, kind, bits = product(e, i, i.parts[1])
    e.set(i.operands[0], kind, bits, f"({text}) + {e.use(i.operands[3], kind, bits)}")


@opcode("mul24", "mad24")
def mad24(e: BlockEmitter, i: Instruction) -> None:
    kind, _ = integer_type(i)
    x, y = (f"a.low24_{kind}({e.use(o, kind, 32)})" for o in i.operands[1:3])
    text = f"{x} * {y}" if i.parts[1] == "lo" else f"({x} * {y}) >> 16"
    if i.parts[0] == "mad24":
        text = f"({text}) + {e.use(i.operands[3], kind, 32)}"
    e.set(i.operands[0], kind, 32, f"({text}).astype({(SIGNED if kind == 's' else UNSIGNED)[32]})")


def integer_divide(e: BlockEmitter, i: Instruction) -> None:
    kind, bits = integer_type(i)
    x, y = (e.use(o, kind, bits) for o in i.operands[1:])
    e.set(i.operands[0], kind, bits, f"a.divide_{kind}({x}, {y})")


@opcode("rem")
def rem(e: BlockEmitter, i: Instruction) -> None:
    kind, bits = integer_type(i)
    x, y = (e.use(o, kind, bits) for o in i.operands[1:])
    e.set(i.operands[0], kind, bits, f"a.remainder_{kind}({x}, {y})")


@opcode("sad")
def sad(e: BlockEmitter, i: Instruction) -> None:
    kind, bits = integer_type(i)
    x, y = (e.use(o, kind, bits) for o in i.operands[1:3])
    e.set(
        i.operands[0], kind, bits, f"np.maximum({x}, {y}) - np.minimum({x}, {y}) + {e.use(i.operands[3], kind, bits)}"
    )


def integer_extreme(e: BlockEmitter, i: Instruction) -> None:
    kind, bits = integer_type(i)
    x, y = (e.use(o, kind, bits) for o in i.operands[1:])
    e.set(i.operands[0], kind, bits, f"np.{i.parts[0]}imum({x}, {y})")


def integer_sign(e: BlockEmitter, i: Instruction) -> None:
    _kind, bits = integer_type(i)
    x = e.use(i.operands[1], "s", bits)
    e.set(i.operands[0], "s", bits, f"-{x}" if i.parts[0] == "neg" else f"np.abs({x})")


@opcode("and", "or", "xor")
def logic(e: BlockEmitter, i: Instruction) -> None:
    bits = width_of(i.parts[-1])
    x, y = (e.use(o, "p" if bits == 1 else "u", bits) for o in i.operands[1:])
    e.set(
        i.operands[0],
        "p" if bits == 1 else "u",
        bits,
        f"{x} {dict(zip(('and', 'or', 'xor'), '&|^', strict=True))[i.parts[0]]} {y}",
    )


@opcode("not")
def logical_not(e: BlockEmitter, i: Instruction) -> None:
    bits = width_of(i.parts[-1])
    e.set(i.operands[0], "p" if bits == 1 else "u", bits, f"~({e.use(i.operands[1], 'p' if bits == 1 else 'u', bits)})")


@opcode("cnot")
def cnot(e: BlockEmitter, i: Instruction) -> None:
    bits = width_of(i.parts[-1])
    e.set(i.operands[0], "u", bits, f"({e.use(i.operands[1], 'u', bits)} == 0).astype({UNSIGNED[bits]})")


@opcode("shl", "shr")
def shift(e: BlockEmitter, i: Instruction) -> None:
    kind, bits = integer_type(i)
    x = e.use(i.operands[1], kind, bits)
    n = e.use(i.operands[2], "u", 32)
    way = "left" if i.parts[0] == "shl" else "right"
    e.set(i.operands[0], kind, bits, f"a.shift_{way}({x}, {n})")


@opcode("shf")
def funnel(e: BlockEmitter, i: Instruction) -> None:
    low, high, n = (e.use(o, "u", 32) for o in i.operands[1:])
    e.set(i.operands[0], "u", 32, f"a.funnel_{i.parts[1]}({low}, {high}, {n}, {'wrap' in i.parts})")


@opcode("lop3")
def lop3(e: BlockEmitter, i: Instruction) -> None:
    x, y, z = (e.use(o, "u", 32) for o in i.operands[1:4])
    e.set(i.operands[0], "u", 32, f"a.lop3({x}, {y}, {z}, {i.operands[4].value})")


@opcode("popc", "clz", "brev", "bfind")
def count_bits(e: BlockEmitter, i: Instruction) -> None:
    kind, bits = integer_type(i)
    x = e.use(i.operands[1], kind, bits)
    name = i.parts[0]
    if name == "bfind":
        e.set(i.operands[0], "u", 32, f"a.bfind({x}, {'shiftamt' in i.parts})")
    else:
        e.set(i.operands[0], "u", bits if name == "brev" else 32, f"a.{name}({x})")


@opcode("bfe")
def bfe(e: BlockEmitter, i: Instruction) -> None:
    kind, bits = integer_type(i)
    x = e.use(i.operands[1], kind, bits)
    position, length = (e.use(o, "u", 32) for o in i.operands[2:])
    e.set(i.operands[0], kind, bits, f"a.bfe({x}, {position}, {length})")


@opcode("bfi")
def bfi(e: BlockEmitter, i: Instruction) -> None:
    bits = width_of(i.parts[-1])
    x, y = (e.use(o, "u", bits) for o in i.operands[1:3])
    position, length = (e.use(o, "u", 32) for o in i.operands[3:])
    e.set(i.operands[0], "u", bits, f"a.bfi({x}, {y}, {position}, {length})")


@opcode("prmt")
def prmt(e: BlockEmitter, i: Instruction) -> None:
    if len(i.parts) > 2:
        raise e.fail("only the general mode is supported")
    x, y, z = (e.use(o, "u", 32) for o in i.operands[1:])
    e.set(i.operands[0], "u", 32, f"a.prmt({x}, {y}, {z})")


@opcode("dp4a")
def dp4a(e: BlockEmitter, i: Instruction) -> None:
    left, right = i.parts[1:3]
    x, y = (e.use(o, "u", 32) for o in i.operands[1:3])
    kind = "u" if left == right == "u32" else "s"
    e.set(i.operands[0], kind, 32, f"a.dp4a({x}, {y}, {e.use(i.operands[3], kind, 32)}, {left!r}, {right!r})")


# Comparison and selection


def comparison(e: BlockEmitter, i: Instruction, how: str) -> str:
    kind = i.parts[-1]
    if is_float(i):
        x, y = (float_operand(e, o, kind) for o in i.operands[1:3])
        if "ftz" in i.parts:
            x, y = f"a.flush({x})", f"a.flush({y})"
        if how in ("num", "nan"):
            both = f"(({x} == {x}) & ({y} == {y}))"
            return both if how == "num" else f"~{both}"
        if how in ("equ", "neu", "ltu", "leu", "gtu", "geu"):
            # True where either is NaN: the negation of the opposite ordered comparison.
            opposite = {"equ": "ne", "neu": "eq", "ltu": "ge", "leu": "gt", "gtu": "le", "geu": "lt"}[how]
            if opposite == "ne":
                return f"(({x} == {y}) | ({x} != {x}) | ({y} != {y}))"
            if opposite == "eq":
                return f"({x} != {y})"
            return f"~({x} {COMPARE[opposite]} {y})"
        if how == "ne":
            return f"(({x} < {y}) | ({x} > {y}))"
        return f"({x} {COMPARE[how]} {y})"
    sign, bits = integer_type(i)
    x, y = (e.use(o, sign, bits) for o in i.operands[1:3])
    return f"({x} {COMPARE[how]} {y})"


def float_operand(e: BlockEmitter, operand: object, kind: str) -> str:
    if kind == "bf16":
        return f"a.from_bf16({e.use(operand, 'u', 16)})"
    return e.use(operand, "f", width_of(kind))


@opcode("setp")
def setp(e: BlockEmitter, i: Instruction) -> None:
    if i.parts[-1].endswith("x2"):
        raise e.fail("isn't supported")
    test = e.let(comparison(e, i, i.parts[1]))
    join = next((p for p in i.parts[2:-1] if p in ("and", "or", "xor")), None)
    other = e.use(i.operands[3], "p", 1) if join else None
    mark = {"and": "&", "or": "|", "xor": "^"}.get(join, "")
    results = i.operands[0]
    first, second = (results.first, results.second) if isinstance(results, Pair) else (results, None)
    e.set(first, "p", 1, f"{test} {mark} {other}" if join else test)
    if second is not None:
        e.set(second, "p", 1, f"(~{test}) {mark} {other}" if join else f"~{test}")


@opcode("set")
def set_value(e: BlockEmitter, i: Instruction) -> None:
    test = comparison(e, i, i.parts[1])
    result = next(p for p in i.parts[2:-1] if p not in ("ftz", "and", "or", "xor"))
    if result == "f32":
        e.set(i.operands[0], "f", 32, f"({test}).astype(np.float32)")
    else:
        e.set(i.operands[0], "u", 32, f"np.where({test}, np.uint32(0xFFFFFFFF), np.uint32(0))")


@opcode("selp")
def selp(e: BlockEmitter, i: Instruction) -> None:
    bits = width_of(i.parts[-1])
    kind = "p" if bits == 1 else "u"
    x, y = (e.use(o, kind, bits) for o in i.operands[1:3])
    e.set(i.operands[0], kind, bits, f"np.where({e.use(i.operands[3], 'p', 1)}, {x}, {y})")


@opcode("slct")
def slct(e: BlockEmitter, i: Instruction) -> None:
    bits = width_of(i.parts[-2])
    x, y = (e.use(o, "u", bits) for o in i.operands[1:3])
    e.set(i.operands[0], "u", bits, f"np.where({e.use(i.operands[3], i.parts[-1][0], 32)} >= 0, {x}, {y})")


# Moves


@opcode("mov")
def mov(e: BlockEmitter, i: Instruction) -> None:
    d, x = i.operands
    bits = width_of(i.parts[-1])
    if bits == 1:
        e.set(d, "p", 1, e.use(x, "p", 1))
    elif isinstance(d, Vector):
        part = bits // len(d.parts)
        whole = e.use(x, "u", bits)
        for k, piece in enumerate(d.parts):
            if not (isinstance(piece, Symbol) and piece.name == "_"):
                e.set(piece, "u", part, f"({whole} >> {e.constant_of(k * part, bits)}).astype({UNSIGNED[part]})")
    elif isinstance(x, Vector):
        part = bits // len(x.parts)
        pieces = [
            f"({e.use(p, 'u', part)}.astype({UNSIGNED[bits]}) << {e.constant_of(k * part, bits)})"
            for k, p in enumerate(x.parts)
        ]
        e.set(d, "u", bits, " | ".join(pieces))
    else:
        e.set(d, "u", bits, e.use(x, "u", bits))


@opcode("szext")
def szext(e: BlockEmitter, i: Instruction) -> None:
    kind, _ = integer_type(i)
    position = e.use(i.operands[2], "u", 32)
    e.set(i.operands[0], kind, 32, f"a.bfe({e.use(i.operands[1], kind, 32)}, np.uint32(0), {position})")


@opcode("bmsk")
def bmsk(e: BlockEmitter, i: Instruction) -> None:
    position, length = (e.use(o, "u", 32) for o in i.operands[1:])
    ones = "np.uint32(0xFFFFFFFF)"
    e.set(i.operands[0], "u", 32, f"a.bfi({ones}, np.uint32(0), {position}, {length})")
