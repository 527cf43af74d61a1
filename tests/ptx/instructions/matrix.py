"""Matrix products of a warp, `ldmatrix` and `stmatrix`, and copies to shared memory that go on by themselves.

The layouts of fragments are those of the PTX ISA: lane `t` has group `g = t // 4` and place `c = t % 4`.
"""

from __future__ import annotations

import re

import numpy as np

from ..emit import BlockEmitter, opcode
from ..parser import Address, Imm, Instruction, Vector
from .arithmetic import from_bf16


@opcode("mma")
def mma(e: BlockEmitter, i: Instruction) -> None:
    """D = A * B + C for the shapes m16n8k16 and m16n8k8 of f16, bf16 and tf32."""
    shape = re.search(r"\.m(\d+)n(\d+)k(\d+)", i.opcode)
    d_type, a_type, b_type, c_type = i.parts[-4:]
    m, n, k = map(int, shape.groups())
    known = {("f16", 16), ("f16", 8), ("bf16", 16), ("bf16", 8), ("tf32", 8), ("tf32", 4)}
    if (m, n) != (16, 8) or (a_type, k) not in known or a_type != b_type or "row.col" not in i.opcode:
        raise e.fail("this shape or type isn't supported")
    if (d_type, c_type) not in (("f32", "f32"), ("f16", "f16")) or (d_type == "f16" and a_type != "f16"):
        raise e.fail("this type of result isn't supported")
    d, a, b, c = i.operands
    a_count = {"f16": k // 4, "bf16": k // 4, "tf32": k // 2}[a_type]
    counts = (4 if d_type == "f32" else 2, a_count, a_count // 2, 4 if c_type == "f32" else 2)
    for operand, count in zip((d, a, b, c), counts, strict=True):
        if not isinstance(operand, Vector) or len(operand.parts) != count:
            raise e.fail(f"{count} registers are needed")
    pieces = [f"({''.join(e.use(p, 'u', 32) + ', ' for p in operand.parts)})" for operand in (a, b, c)]
    got = e.let(f"m.matrix_product({', '.join(pieces)}, {k}, {a_type!r}, {d_type!r}, {i.line})")
    for index, part in enumerate(d.parts):
        e.set(part, "u", 32, f"{got}[{index}]")


@opcode("ldmatrix")
def ldmatrix(e: BlockEmitter, i: Instruction) -> None:
    from .access import address_text

    count = int(next(p for p in i.parts if p in ("x1", "x2", "x4"))[1:])
    if "m8n8" not in i.parts or i.parts[-1] != "b16":
        raise e.fail("isn't supported")
    if not isinstance(i.operands[0], Vector) or len(i.operands[0].parts) != count:
        raise e.fail(f"{count} registers are needed")
    where = address_text(e, i.operands[1])
    got = e.let(f"m.load_matrix({where}, {count}, {'trans' in i.parts}, {i.line})")
    for index, part in enumerate(i.operands[0].parts):
        e.set(part, "u", 32, f"{got}[{index}]")


@opcode("stmatrix")
def stmatrix(e: BlockEmitter, i: Instruction) -> None:
    from .access import address_text

    count = int(next(p for p in i.parts if p in ("x1", "x2", "x4"))[1:])
    if "m8n8" not in i.parts or i.parts[-1] != "b16" or len(i.operands[1].parts) != count:
        raise e.fail("isn't supported")
    values = "".join(e.use(p, "u", 32) + ", " for p in i.operands[1].parts)
    e.write(f"m.store_matrix({address_text(e, i.operands[0])}, ({values}), {'trans' in i.parts}, {i.line})")


@opcode("cp")
def copy(e: BlockEmitter, i: Instruction) -> None:
    """`cp.async` and what waits for it."""
    from .access import address_text

    if i.parts[1] != "async" or "bulk" in i.parts or "mbarrier" in i.parts:
        raise e.fail("isn't supported")
    if i.parts[2] == "commit_group":
        e.write("m.commit_copies()")
    elif i.parts[2] == "wait_group":
        e.write(f"m.wait_for_copies({i.operands[0].value})")
    elif i.parts[2] == "wait_all":
        e.write("m.wait_for_copies(-1)")
    else:
        target, source, size = i.operands[:3]
        if not (isinstance(target, Address) and isinstance(source, Address) and isinstance(size, Imm)):
            raise e.fail("takes two addresses and a size")
        if size.value not in (4, 8, 16) or (i.parts[2] == "cg" and size.value != 16):
            raise e.fail(f"can't copy {size.value} bytes")
        used = e.use(i.operands[3], "u", 32) if len(i.operands) > 3 else "None"
        where = f"{address_text(e, target)}, {address_text(e, source)}"
        e.write(f"m.copy_later({where}, {size.value}, {used}, {i.line})")


# What the lanes do


def halves(register, kind: str) -> list:
    """The two values of a register, in the order of their addresses, as float64."""
    parts = [(register & np.uint32(0xFFFF)).astype(np.uint16), (register >> np.uint32(16)).astype(np.uint16)]
    return [(p.view(np.float16) if kind == "f16" else from_bf16(p)).astype(np.float64) for p in parts]


LANE = np.arange(32)
GROUP, PLACE = LANE // 4, LANE % 4


def matrix_product(a: list, b: list, c: list, k: int, kind: str, result: str) -> list:
    """Registers as arrays [warps, 32]. Products are exact; their sum is rounded once from float64."""
    warps = a[0].shape[0]
    left, right = np.zeros((warps, 16, k)), np.zeros((warps, k, 8))
    if kind == "tf32":
        # Of each word the device reads the upper 19 bits.
        def value(register):
            return (register & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)

        for j, register in enumerate(a):
            left[:, GROUP + 8 * (j % 2), PLACE + 4 * (j // 2)] = value(register)
        for j, register in enumerate(b):
            right[:, PLACE + 4 * j, GROUP] = value(register)
    else:
        for j, register in enumerate(a):
            for half, value in enumerate(halves(register, kind)):
                left[:, GROUP + 8 * (j % 2), 2 * PLACE + 8 * (j // 2) + half] = value
        for j, register in enumerate(b):
            for half, value in enumerate(halves(register, kind)):
                right[:, 2 * PLACE + 8 * j + half, GROUP] = value
    total = left @ right
    registers = []
    if result == "f32":
        for j, register in enumerate(c):
            value = total[:, GROUP + 8 * (j // 2), 2 * PLACE + j % 2] + register.view(np.float32).astype(np.float64)
            short = value.astype(np.float32)
            registers.append(np.where(np.isnan(short), np.uint32(0x7FFFFFFF), short.view(np.uint32)))
    else:
        for j, register in enumerate(c):
            pair = [
                (total[:, GROUP + 8 * j, 2 * PLACE + half] + value).astype(np.float16).view(np.uint16).astype(np.uint32)
                for half, value in enumerate(halves(register, "f16"))
            ]
            registers.append(pair[0] | (pair[1] << np.uint32(16)))
    return registers


class MatrixLanes:
    """The part of `Lanes` for these instructions."""

    def start_copies(self) -> None:
        self.copies: list[tuple] = []
        """Copies that nobody waited for: lanes, their groups, offsets in shared memory, bytes."""
        self.groups = np.zeros(self.total, np.int64)
        """How many groups each thread has committed."""

    def whole_warps(self, line: int) -> None:
        """All 32 threads of each warp must be here."""
        warp = self.here(self.warp_of)
        count = np.bincount(warp, minlength=self.warps)
        missing = count[warp] != 32
        if missing.any():
            self.fault("divergent warp", line, missing, "all 32 threads of a warp must take part")

    def by_warp(self, values: tuple) -> list:
        """Each register as an array [warps, 32]; the threads are here in the order of their numbers."""
        return [np.ascontiguousarray(np.broadcast_to(v, self.n)).reshape(-1, 32) for v in values]

    def matrix_product(self, a, b, c, k: int, kind: str, result: str, line: int) -> list:
        self.whole_warps(line)
        registers = matrix_product(self.by_warp(a), self.by_warp(b), self.by_warp(c), k, kind, result)
        return [r.ravel() for r in registers]

    def rows(self, address, count: int):
        """The addresses of rows of 16 bytes that lanes of each warp name: [warps, matrices, 8]."""
        (address,) = self.by_warp((address,))
        return address[:, : 8 * count].reshape(-1, count, 8)

    def load_matrix(self, address, count: int, transposed: bool, line: int) -> list:
        self.whole_warps(line)
        rows = self.rows(address, count)
        index, everyone = self.index, self.everyone if self.index is None else self.index
        lanes = everyone.reshape(-1, 32)[:, : 8 * count].ravel()
        self.stand(lanes)
        words = self.spaces["shared"].load(self, rows.ravel(), 4, 4, line)
        self.stand(index)
        # [warps, matrices, rows, 8 halves]
        matrices = np.stack(words, axis=1).view(np.uint16).reshape(-1, count, 8, 8)
        if transposed:
            matrices = matrices.swapaxes(2, 3)
        low = matrices[:, :, GROUP, 2 * PLACE].astype(np.uint32)
        high = matrices[:, :, GROUP, 2 * PLACE + 1].astype(np.uint32)
        both = low | (high << np.uint32(16))
        return [np.ascontiguousarray(both[:, j]).ravel() for j in range(count)]

    def store_matrix(self, address, values: tuple, transposed: bool, line: int) -> None:
        self.whole_warps(line)
        count = len(values)
        rows = self.rows(address, count)
        matrices = np.zeros((rows.shape[0], count, 8, 8), np.uint16)
        for j, register in enumerate(self.by_warp(values)):
            matrices[:, j, GROUP, 2 * PLACE] = (register & np.uint32(0xFFFF)).astype(np.uint16)
            matrices[:, j, GROUP, 2 * PLACE + 1] = (register >> np.uint32(16)).astype(np.uint16)
        if transposed:
            matrices = matrices.swapaxes(2, 3)
        words = np.ascontiguousarray(matrices).view(np.uint32).reshape(-1, 4)
        index, everyone = self.index, self.everyone if self.index is None else self.index
        self.stand(everyone.reshape(-1, 32)[:, : 8 * count].ravel())
        self.spaces["shared"].store(self, rows.ravel(), tuple(words.T), 4, line)
        self.stand(index)

    def copy_later(self, target, source, size: int, used, line: int) -> None:
        """Reads now, writes when the thread waits: whoever looks earlier sees what was there before."""
        shared = self.spaces["shared"]
        index, everyone = self.index, self.everyone if self.index is None else self.index
        target, source = (np.broadcast_to(v, self.n) for v in (target, source))
        used = np.broadcast_to(np.uint32(size) if used is None else used, self.n)
        if (used > size).any():
            self.fault("out of bounds", line, used > size, f"more than {size} bytes of the source are asked for")
        data = np.zeros((self.n, size // 4), np.uint32)
        for some in np.unique(used):
            if not some:
                continue
            if some % 4:
                self.fault("unsupported", line, used == some, f"a source of {some} bytes isn't supported")
            chosen = np.flatnonzero(used == some)
            self.stand(everyone[chosen])
            parts = int(some) // 4 if some == size else 1
            for at in range(0, int(some), 4 * parts):
                words = self.load("global", source[chosen] + np.uint64(at), 4, parts, line)
                data[chosen, at // 4 : at // 4 + parts] = np.stack(words, axis=1)
            self.stand(index)
        offset = np.broadcast_to(shared.locate(self, target, size, line), self.n)
        shared.writes += size * self.n
        if self.traffic is not None:
            self.traffic.note(shared, offset, size, "written")
        if self.races is not None:
            self.races.write(shared, offset, size, line, 2)
        self.copies.append((everyone, self.groups[everyone].copy(), offset.copy(), data, size, line))

    def commit_copies(self) -> None:
        self.groups[self.everyone if self.index is None else self.index] += 1

    def wait_for_copies(self, left: int) -> None:
        """Until at most `left` of the groups that a thread committed are on their way; -1: until nothing is."""
        here = np.zeros(self.total, bool)
        here[self.everyone if self.index is None else self.index] = True
        index, shared, waiting = self.index, self.spaces["shared"], []
        for lanes, groups, offset, data, size, line in self.copies:
            done = here[lanes] & ((left < 0) | (groups < self.groups[lanes] - left))
            if done.any():
                place = offset[done] // size
                wide = np.ascontiguousarray(data[done])
                wide = wide.view(np.uint64) if size > 8 else wide.view(f"u{size}")[:, 0]
                shared.storage.data[size][place] = wide
                shared.storage.states[size][place] = (
                    np.uint64(0xFFFFFFFFFFFFFFFF) if size > 4 else np.uint32(0xFFFFFFFF)
                )
                if self.races is not None:
                    self.stand(lanes[done])
                    self.races.arrived(shared, offset[done], size)
            if not done.all():
                stay = ~done
                waiting.append((lanes[stay], groups[stay], offset[stay], data[stay], size, line))
        self.copies = waiting
        self.stand(index)
