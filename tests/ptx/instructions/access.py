"""Loads, stores, atomics, address conversions and fences."""

from __future__ import annotations

from ..emit import BlockEmitter, opcode, width_of
from ..parser import Address, Imm, Instruction, Reg, Symbol, Vector

SPACES = ("global", "shared", "local", "const", "param")


def space_of(e: BlockEmitter, i: Instruction, address: Address) -> str:
    found = [p.split("::")[0] for p in i.parts[1:] if p.split("::")[0] in SPACES]
    space = found[0] if found else "generic"
    if space != "param":
        return space
    if isinstance(address.base, Symbol) and e.spaces.get(address.base.name) != "kernel_param":
        return "local"
    return "kernel_param"


def address_text(e: BlockEmitter, address: Address) -> str:
    base = address.base
    if isinstance(base, Symbol):
        return e.use(Symbol(base.name, address.offset), "u", 64)
    if isinstance(base, Imm):
        return e.constant_of(base.value + address.offset, 64)
    width = e.bits_of(base.name)
    text = e.use(base, "u", width)
    if width == 32:
        text = f"{text}.astype(np.uint64)"
    if address.offset:
        text = f"{text} + {e.constant_of(address.offset & ((1 << 64) - 1), 64)}"
    return text


def element(i: Instruction) -> tuple[str, int]:
    """The kind and the bits of what is loaded or stored."""
    kind = i.parts[-1]
    return ("s" if kind[0] == "s" else "u"), width_of(kind)


def check_count(e: BlockEmitter, i: Instruction, operand: object) -> tuple:
    parts = operand.parts if isinstance(operand, Vector) else (operand,)
    said = next((int(p[1:]) for p in i.parts if p in ("v2", "v4", "v8")), 1)
    if said != len(parts):
        raise e.fail(f"{len(parts)} operands")
    if width_of(i.parts[-1]) // 8 * said > 32:
        raise e.fail("more than 32 bytes")
    return parts


def strength(i: Instruction) -> str:
    """Whether an access is of memory that nobody writes, or one that others may race with."""
    if "nc" in i.parts:
        return ", 'nc'"
    return ", 'strong'" if any(p in i.parts for p in ("volatile", "relaxed", "acquire", "release", "mmio")) else ""


@opcode("ld", "ldu")
def load(e: BlockEmitter, i: Instruction) -> None:
    parts = check_count(e, i, i.operands[0])
    kind, bits = element(i)
    address = i.operands[1]
    space = space_of(e, i, address)
    where = address_text(e, address)
    if space == "kernel_param":
        got = e.let(f"m.parameter({where}, {bits // 8}, {len(parts)}, {i.line})")
    else:
        got = e.let(f"m.load({space!r}, {where}, {bits // 8}, {len(parts)}, {i.line}{strength(i)})")
    for k, part in enumerate(parts):
        e.set(part, kind, bits, f"{got}[{k}].view(np.int{bits})" if kind == "s" else f"{got}[{k}]")


def stored(e: BlockEmitter, operand: object, bits: int) -> str:
    if isinstance(operand, Reg) and e.bits_of(operand.name) > bits:
        return e.use(operand, "u", bits)
    return e.use(operand, "u", bits)


@opcode("st")
def store(e: BlockEmitter, i: Instruction) -> None:
    parts = check_count(e, i, i.operands[1])
    _, bits = element(i)
    values = "".join(stored(e, p, bits) + ", " for p in parts)
    space = space_of(e, i, i.operands[0])
    if space in ("kernel_param", "const"):
        raise e.fail("can't be written")
    e.write(f"m.store({space!r}, {address_text(e, i.operands[0])}, ({values}), {bits // 8}, {i.line}{strength(i)})")


@opcode("atom", "red")
def atomic(e: BlockEmitter, i: Instruction) -> None:
    operation = next(p for p in i.parts[1:] if p in ATOMICS)
    kind = i.parts[-1]
    if kind in ("f16x2", "bf16x2", "bf16", "f16") or "vec" in i.parts:
        raise e.fail("isn't supported")
    bits = width_of(kind)
    form = kind[0] if kind[0] in "sf" else "u"
    operands = list(i.operands)
    result = operands.pop(0) if i.parts[0] == "atom" else None
    values = ", ".join(e.use(o, form, bits) for o in operands[1:])
    space = space_of(e, i, operands[0])
    where = address_text(e, operands[0])
    call = f"m.atomic({operation!r}, {space!r}, {where}, ({values},), {bits // 8}, {form!r}, {i.line})"
    if result is None:
        e.write(call)
    else:
        e.set(result, "u", bits, call)


ATOMICS = ("add", "min", "max", "inc", "dec", "and", "or", "xor", "exch", "cas")


@opcode("cvta")
def cvta(e: BlockEmitter, i: Instruction) -> None:
    space = next(p.split("::")[0] for p in i.parts[1:] if p.split("::")[0] in SPACES)
    bits = width_of(i.parts[-1])
    if space == "param":
        raise e.fail("generic addresses of parameters aren't supported")
    value = address_text(e, Address(i.operands[1]))
    base = f"m.base({space!r})"
    if space == "global":
        e.set(i.operands[0], "u", bits, value)
    elif "to" in i.parts:
        e.set(i.operands[0], "u", bits, f"{value} - {base}")
    else:
        e.set(i.operands[0], "u", bits, f"{value} + {base}")


@opcode("isspacep")
def isspacep(e: BlockEmitter, i: Instruction) -> None:
    e.set(i.operands[0], "p", 1, f"m.is_space({i.parts[1].split('::')[0]!r}, {e.use(i.operands[1], 'u', 64)})")


@opcode("prefetch", "prefetchu", "nanosleep", "griddepcontrol", "discard", "pmevent")
def nothing(e: BlockEmitter, i: Instruction) -> None:
    """Has no effect on values."""


@opcode("membar", "fence")
def fence(e: BlockEmitter, i: Instruction) -> None:
    e.write("m.fence()")
