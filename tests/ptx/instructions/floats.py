"""Floating point instructions, and add, mul, min and others that exist for integers too.

Arithmetic is IEEE's in every format and rounding mode that is here. The approximate instructions (`ex2.approx`, ...)
give the correctly rounded value, which a device only comes near.
"""

from __future__ import annotations

from collections.abc import Callable

from ..emit import UNSIGNED, BlockEmitter, opcode, width_of
from ..parser import Instruction
from .integer import (
    float_operand,
    integer_add,
    integer_divide,
    integer_extreme,
    integer_multiply,
    integer_sign,
    is_float,
)

ROUNDING = ("rn", "rz", "rm", "rp")


def rounding(e: BlockEmitter, i: Instruction) -> str:
    found = [p for p in i.parts[1:] if p in ROUNDING]
    return found[0] if found else "rn"


def apply(e: BlockEmitter, i: Instruction, operands: list, compute: Callable[[str, list[str]], str]) -> None:
    """Computes in the instruction's format; packed pairs are computed half by half."""
    kind = i.parts[-1]
    if kind in ("f16x2", "bf16x2"):
        halves = []
        for shift in (0, 16):
            xs = [f"({e.use(o, 'u', 32)} >> {shift}).astype(np.uint16)" for o in operands]
            if kind == "f16x2":
                value = f"a.bits16({finish(i, compute('f16', [x + '.view(np.float16)' for x in xs]))})"
            else:
                value = f"a.to_bf16({finish(i, compute('bf16', [f'a.from_bf16({x})' for x in xs]))})"
            halves.append(e.let(f"{value}.astype(np.uint32)"))
        e.set(i.operands[0], "u", 32, f"{halves[0]} | ({halves[1]} << 16)")
        return
    xs = [float_operand(e, o, kind) for o in operands]
    if "ftz" in i.parts:
        xs = [f"a.flush({x})" for x in xs]
    value = finish(i, compute(kind, xs))
    if kind == "bf16":
        e.set(i.operands[0], "u", 16, f"a.to_bf16({value})")
    else:
        e.set(i.operands[0], "f", width_of(kind), value)


def finish(i: Instruction, value: str) -> str:
    if "sat" in i.parts:
        value = f"a.saturate({value})"
    if "relu" in i.parts:
        value = f"a.relu({value})"
    return f"a.flush({value})" if "ftz" in i.parts else value


def binary(e: BlockEmitter, i: Instruction, name: str, sign: str) -> None:
    mode = rounding(e, i)

    def compute(kind: str, xs: list[str]) -> str:
        if mode == "rn":
            return f"({xs[0]} {sign} {xs[1]})"
        if kind != "f32":
            raise e.fail(f"rounding {mode} is supported for f32 only")
        return f"a.directed_{name}({xs[0]}, {xs[1]}, {mode!r})"

    apply(e, i, list(i.operands[1:]), compute)


@opcode("add")
def add(e: BlockEmitter, i: Instruction) -> None:
    binary(e, i, "add", "+") if is_float(i) else integer_add(e, i, "+")


@opcode("sub")
def sub(e: BlockEmitter, i: Instruction) -> None:
    binary(e, i, "sub", "-") if is_float(i) else integer_add(e, i, "-")


@opcode("mul")
def mul(e: BlockEmitter, i: Instruction) -> None:
    binary(e, i, "mul", "*") if is_float(i) else integer_multiply(e, i)


@opcode("fma")
def fma(e: BlockEmitter, i: Instruction) -> None:
    mode = rounding(e, i)

    def compute(kind: str, xs: list[str]) -> str:
        if mode == "rn":
            return f"a.fma_{kind}({', '.join(xs)})"
        if kind != "f32":
            raise e.fail(f"rounding {mode} is supported for f32 only")
        return f"a.directed_fma({', '.join(xs)}, {mode!r})"

    apply(e, i, list(i.operands[1:]), compute)


@opcode("div")
def div(e: BlockEmitter, i: Instruction) -> None:
    if not is_float(i):
        integer_divide(e, i)
        return
    if rounding(e, i) != "rn":
        raise e.fail("only rounding rn is supported")
    apply(e, i, list(i.operands[1:]), lambda kind, xs: f"({xs[0]} / {xs[1]})")


def unary(name: str, text: str) -> None:
    @opcode(name)
    def handler(e: BlockEmitter, i: Instruction) -> None:
        if rounding(e, i) != "rn":
            raise e.fail("only rounding rn is supported")
        apply(e, i, list(i.operands[1:]), lambda kind, xs: text.format(xs[0]))


unary("sqrt", "np.sqrt({0})")
unary("rcp", "a.reciprocal({0})")
unary("rsqrt", "a.reciprocal_root({0})")
unary("ex2", "a.wide(np.exp2, {0})")
unary("lg2", "a.wide(np.log2, {0})")
unary("sin", "a.wide(np.sin, {0})")
unary("cos", "a.wide(np.cos, {0})")
unary("tanh", "a.wide(np.tanh, {0})")


@opcode("min", "max")
def extreme(e: BlockEmitter, i: Instruction) -> None:
    if not is_float(i):
        if i.parts[-1].endswith("x2") or "relu" in i.parts:
            raise e.fail("isn't supported")
        integer_extreme(e, i)
        return
    if "xorsign" in i.parts:
        raise e.fail("xorsign isn't supported")

    def compute(kind: str, xs: list[str]) -> str:
        text = xs[0]
        for x in xs[1:]:
            text = f"a.float_{i.parts[0]}({text}, {x}, {'NaN' in i.parts})"
        return text

    apply(e, i, list(i.operands[1:]), compute)


@opcode("neg", "abs")
def sign(e: BlockEmitter, i: Instruction) -> None:
    if not is_float(i):
        integer_sign(e, i)
        return
    kind = i.parts[-1]
    bits = width_of(kind)
    mask = (0x80008000 if kind.endswith("x2") else 1 << (bits - 1)) & ((1 << bits) - 1)
    x = e.use(i.operands[1], "u", bits)
    if "ftz" in i.parts:
        x = f"a.flush({x}.view(np.float32)).view(np.uint32)"
    if i.parts[0] == "neg":
        e.set(i.operands[0], "u", bits, f"{x} ^ {e.constant_of(mask, bits)}")
    else:
        e.set(i.operands[0], "u", bits, f"{x} & {e.constant_of(~mask & ((1 << bits) - 1), bits)}")


@opcode("copysign")
def copysign(e: BlockEmitter, i: Instruction) -> None:
    bits = width_of(i.parts[-1])
    top = e.constant_of(1 << (bits - 1), bits)
    signs, x = (e.use(o, "u", bits) for o in i.operands[1:])
    e.set(i.operands[0], "u", bits, f"({x} & ~{top}) | ({signs} & {top})")


@opcode("testp")
def testp(e: BlockEmitter, i: Instruction) -> None:
    bits = width_of(i.parts[-1])
    x = e.use(i.operands[1], "f", bits)
    smallest = f"np.finfo({x}.dtype).smallest_normal"
    tests = {
        "finite": f"np.isfinite({x})",
        "infinite": f"np.isinf({x})",
        "number": f"({x} == {x})",
        "notanumber": f"({x} != {x})",
        "normal": f"(np.isfinite({x}) & (np.abs({x}) >= {smallest}))",
        "subnormal": f"(({x} != 0) & (np.abs({x}) < {smallest}))",
    }
    e.set(i.operands[0], "p", 1, tests[i.parts[1]])


# Conversions

INTEGER_ROUNDING = {"rni": "rint", "rzi": "trunc", "rmi": "floor", "rpi": "ceil"}


@opcode("cvt")
def cvt(e: BlockEmitter, i: Instruction) -> None:
    packed = [p for p in i.parts if p.endswith("x2")]
    if packed:
        if len(i.operands) != 3 or i.parts[-1] != "f32" or packed[0] not in ("f16x2", "bf16x2"):
            raise e.fail("isn't supported")
        # The first source becomes the upper half.
        halves = [
            e.let(f"{narrow(e, i, packed[0][:-2], e.use(o, 'f', 32), 'f32')}.astype(np.uint32)") for o in i.operands[1:]
        ]
        e.set(i.operands[0], "u", 32, f"({halves[0]} << 16) | {halves[1]}")
        return
    to, of = i.parts[-2], i.parts[-1]
    if to == "tf32":
        mode = next(p for p in i.parts if p in ("rn", "rna", "rz"))
        e.set(i.operands[0], "u", 32, f"a.to_tf32({e.use(i.operands[1], 'u', 32)}, {mode!r})")
        return
    floats = ("f16", "bf16", "f32", "f64")
    x = i.operands[1]
    if to in floats and of in floats:
        value = float_operand(e, x, of)
        if "ftz" in i.parts:
            value = f"a.flush({value})"
        whole = next((INTEGER_ROUNDING[p] for p in i.parts if p in INTEGER_ROUNDING), None)
        if whole:
            value = f"np.{whole}({value})"
        float_result(e, i, to, value, of)
    elif to in floats:
        kind = "s" if of[0] == "s" else "u"
        float_result(e, i, to, e.use(x, kind, width_of(of)), of)
    elif of in floats:
        value = float_operand(e, x, of)
        if "ftz" in i.parts:
            value = f"a.flush({value})"
        whole = next((INTEGER_ROUNDING[p] for p in i.parts if p in INTEGER_ROUNDING), None)
        if whole is None:
            raise e.fail("a conversion to an integer needs a rounding mode")
        kind, bits = to[0], width_of(to)
        e.set(i.operands[0], kind, bits, f"a.to_integer(np.{whole}({value}), {kind!r}, {bits})")
    else:
        kind, bits = of[0], width_of(of)
        kind = "s" if kind == "s" else "u"
        value = e.use(x, kind, bits)
        to_kind, to_bits = ("s" if to[0] == "s" else "u"), width_of(to)
        if "sat" in i.parts:
            value = f"a.clip_integer({value}, {to_kind!r}, {to_bits})"
        value = f"{value}.astype({UNSIGNED[to_bits]})"
        e.set(i.operands[0], to_kind, to_bits, f"{value}.view(np.int{to_bits})" if to_kind == "s" else value)


def narrow(e: BlockEmitter, i: Instruction, to: str, value: str, of: str) -> str:
    """The bits of a value, or the value itself for f32 and f64, rounded as the instruction says."""
    mode = rounding(e, i)
    if "sat" in i.parts:
        value = f"a.saturate({value})"
    if "relu" in i.parts:
        value = f"a.relu({value})"
    if "satfinite" in i.parts:
        raise e.fail("satfinite isn't supported")
    if to == "bf16":
        return f"a.to_bf16({value}, {mode!r})"
    if to == "f16":
        return f"a.to_f16({value}, {mode!r})"
    return f"a.to_float({value}, {width_of(to)}, {mode!r})"


def float_result(e: BlockEmitter, i: Instruction, to: str, value: str, of: str) -> None:
    text = narrow(e, i, to, value, of)
    if to in ("bf16", "f16"):
        e.set(i.operands[0], "u", 16, text)
    else:
        e.set(i.operands[0], "f", width_of(to), f"a.flush({text})" if "ftz" in i.parts else text)
