"""Kernels for the tests: a few lines of PTX, or of LLVM's language, run over arrays."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache

import llvmlite.binding as llvm
import numpy as np

from .machine import Machine, Memory

HEAD = ".version 8.0\n.target sm_90\n.address_size 64\n"


def pack(arguments: Sequence) -> bytes:
    """Parameters, each at a multiple of its size: addresses are Python's integers, NumPy scalars are of their type."""
    raw = b""
    for argument in arguments:
        piece = struct.pack("<Q", argument) if isinstance(argument, int) else np.asarray(argument).tobytes()
        raw += b"\0" * (-len(raw) % len(piece)) + piece
    return raw


def launch(
    text: str, arguments: Sequence, *, grid=1, block=32, shared=0, kernel="k", machine: Machine | None = None
) -> list[np.ndarray]:
    """Runs a kernel; arrays among the arguments are put into memory, and what is there afterwards is returned."""
    machine = machine or Machine(text)
    memory = Memory(1 << 24)
    places, packed = [], []
    for argument in arguments:
        if isinstance(argument, np.ndarray) and argument.ndim:
            address = memory.allocate(argument.nbytes)
            memory.write(address, argument.tobytes())
            places.append((address, argument))
            packed.append(address)
        else:
            packed.append(argument)
    machine.launch(kernel, grid, block, shared, pack(packed), memory)
    return [np.frombuffer(memory.read(at, a.nbytes), a.dtype).reshape(a.shape) for at, a in places]


def kernel(body: str, params: str = ".param .u64 x, .param .u64 y", before: str = "") -> str:
    """A kernel `k` around a body, with registers of every type."""
    registers = "".join(
        f".reg .{t} %{n}<40>;\n"
        for n, t in (("p", "pred"), ("h", "b16"), ("r", "b32"), ("f", "f32"), ("d", "b64"), ("e", "f64"))
    )
    return f"{HEAD}{before}\n.visible .entry k({params})\n{{\n{registers}{body}\n}}\n"


# Element %tid.x of the arrays x and y: %d1 and %d2 are their addresses, %r1 is the thread.
ELEMENTS = """
mov.u32 %r1, %tid.x;
ld.param.u64 %d1, [x];
ld.param.u64 %d2, [y];
mul.wide.u32 %d3, %r1, {x};
mul.wide.u32 %d4, %r1, {y};
add.s64 %d1, %d1, %d3;
add.s64 %d2, %d2, %d4;
"""


def elementwise(body: str, of: int, to: int) -> str:
    """A kernel for one element a thread: of `of` bytes at %d1, the result of `to` bytes at %d2."""
    return kernel(ELEMENTS.format(x=of, y=to) + body + "\nret;")


def apply(body: str, columns: Sequence[np.ndarray], result: type) -> np.ndarray:
    """`body` computes from the columns in %x0, %x1, ... the value %y, in registers of their widths."""
    count = len(columns[0])
    table = np.zeros((len(columns) + 1, count), np.uint64)
    for k, column in enumerate(columns):
        table[k] = np.asarray(column).view(f"u{column.dtype.itemsize}")
    widths = [8 * c.dtype.itemsize for c in columns]
    out = 8 * np.dtype(result).itemsize
    text = f".reg .b64 %t, %w;\n.reg .b{out} %y;\n" + "".join(f".reg .b{w} %x{k};\n" for k, w in enumerate(widths))
    text += "mov.u32 %r1, %ctaid.x;\nmov.u32 %r2, %ntid.x;\nmov.u32 %r3, %tid.x;\nmad.lo.u32 %r1, %r1, %r2, %r3;\n"
    text += f"setp.ge.u32 %p1, %r1, {count};\n@%p1 bra END;\n"
    text += "ld.param.u64 %d1, [x];\nmul.wide.u32 %d3, %r1, 8;\nadd.s64 %d1, %d1, %d3;\n"
    for k, w in enumerate(widths):
        text += f"ld.global.b64 %t, [%d1+{8 * count * k}];\n" + (
            f"cvt.u{w}.u64 %x{k}, %t;\n" if w < 64 else f"mov.b64 %x{k}, %t;\n"
        )
    text += body + (f"\ncvt.u64.u{out} %w, %y;\n" if out < 64 else "\nmov.b64 %w, %y;\n")
    text += f"st.global.b64 [%d1+{8 * count * len(columns)}], %w;\nEND:\nret;"
    (table,) = launch(kernel(text, ".param .u64 x"), [table], grid=-(-count // 256), block=256)
    return table[-1].astype(f"u{out // 8}").view(result)


@lru_cache
def target_machine(cpu: str, features: str):
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple("nvptx64-nvidia-cuda").create_target_machine(cpu=cpu, features=features, opt=3)


def from_llvm(text: str, cpu: str = "sm_90", features: str = "+ptx80") -> str:
    """What LLVM makes of a module in its language."""
    module = llvm.parse_assembly(f'target triple = "nvptx64-nvidia-cuda"\n{text}')
    module.verify()
    return target_machine(cpu, features).emit_assembly(module)
