"""What processor this is, told without LLVM: part of the key of code that is kept on disk."""

from __future__ import annotations

import os
import sys
from functools import cache

__all__ = ["processor"]

# What /proc/cpuinfo says of a processor and not of the moment.
_LASTING = frozenset(
    {"vendor_id", "cpu family", "model", "model name", "stepping", "flags"}
    | {"Features", "CPU implementer", "CPU architecture", "CPU variant", "CPU part", "CPU revision", "isa"}
)


def processor() -> str:
    """The processor with all its features, and the instruction set that `MT_ISA` limits code to."""
    return f"{os.environ.get('MT_ISA', '')} {_processor()}"


@cache
def _processor() -> str:
    described = _described("/proc/cpuinfo") if sys.platform == "linux" else ""
    if described:
        return described
    from minitensor_jit.codegen.cpu.target_machine import host_target

    return " ".join(host_target().key)


def _described(path: str) -> str:
    """What the first processor's block says; empty if there is nothing about its features."""
    found: dict[str, str] = {}
    block = b""
    try:
        # Not more than needed: the system makes up the text as it is read, and there may be hundreds of blocks.
        with open(path, "rb", buffering=0) as file:
            while b"\n\n" not in block and (more := file.read(4096)):
                block += more
    except OSError:
        return ""
    for line in block.partition(b"\n\n")[0].decode(errors="replace").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in _LASTING:
            found[name.strip()] = value.strip()
    return repr(found) if {"flags", "Features", "isa"} & set(found) else ""
