"""What may stand in LLVM text for GPUs.

LLVM ends the process when its backend can't lower something: so it is asked for nothing that is not known to work.
"""

from __future__ import annotations

import re
from typing import Final

from ..errors import CompileError

__all__ = ["verify"]

_ARITHMETIC = "add|sub|mul|sdiv|udiv|srem|urem|shl|lshr|ashr|and|or|xor|fadd|fsub|fmul|fdiv|fneg|icmp|fcmp|select|phi"
_CASTS = "trunc|zext|sext|fptrunc|fpext|sitofp|uitofp|fptosi|fptoui|bitcast|addrspacecast"
_OTHERS = "getelementptr|load|store|atomicrmw|insertelement|extractelement|extractvalue|br|ret|call"
_OPCODES: Final = frozenset(f"{_ARITHMETIC}|{_CASTS}|{_OTHERS}".split("|"))

_FLOATS, _INTEGERS = r"f(32|64)", r"i(8|16|32|64)"
_INTRINSICS: Final = re.compile(
    r"llvm\.("
    rf"(fma|fabs|copysign|floor|ceil|trunc|round|roundeven|sqrt|maximum|minimum)\.{_FLOATS}"
    rf"|(smin|smax|umin|umax|ctpop|ctlz|cttz)\.{_INTEGERS}"
    r"|(fshl|fshr)\.i(32|64)"
    r"|nvvm\.read\.ptx\.sreg\.(tid|ctaid|ntid|nctaid)\.[xyz]"
    r"|nvvm\.barrier0"
    r"|nvvm\.shfl\.sync\.(down|bfly|idx|up)\.(i32|f32)"
    r"|nvvm\.vote\.ballot\.sync"
    r"|nvvm\.bar\.warp\.sync"
    r"|nvvm\.cp\.async\.(commit\.group|wait\.group|cg\.shared\.global\.16(\.s)?)"
    r"|nvvm\.ldmatrix\.sync\.aligned\.m8n8\.x4\.(trans\.)?b16\.p3"
    r"|nvvm\.mma\.m16n8k16\.row\.col\.(bf16|f32\.f32)"
    r"|nvvm\.mma\.m16n8k8\.row\.col\.tf32"
    r"|nvvm\.f2tf32\.rna"
    r")"
)
# Memory and registers have these element types, and vectors of no more than 16 bytes.
_ELEMENTS: Final = {"i1": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "half": 2, "float": 4, "double": 8}
_VECTOR: Final = re.compile(r"<(\d+) x (\w+)>")
_INSTRUCTION: Final = re.compile(r"  (?:%[\w.]+ = )?([a-z]+)")
_CALLEE: Final = re.compile(r'@("[^"]+"|[\w.]+)\(')
_WIDTH: Final = re.compile(r"\bi(\d+)\b")


def verify(text: str) -> None:
    """Raises `CompileError` naming the first line that has an instruction, an intrinsic or a type without code."""
    defined: set[str] = set()
    lines = text.splitlines()
    for line in lines:
        if line.startswith("define"):
            found = _CALLEE.search(line)
            assert found is not None
            defined.add(found[1])
    for line in lines:
        if line.startswith("  "):
            _check_instruction(line, defined)
        elif line.startswith("declare"):
            found = _CALLEE.search(line)
            if found is None or not _INTRINSICS.fullmatch(found[1]):
                raise CompileError("nvptx", f"no code for the function of {line!r}")


def _check_instruction(line: str, defined: set[str]) -> None:
    found = _INSTRUCTION.match(line)
    if found is None or found[1] not in _OPCODES:
        raise CompileError("nvptx", f"no code for the instruction of {line.strip()!r}")
    if found[1] == "call":
        callee = _CALLEE.search(line)
        if callee is None or not (_INTRINSICS.fullmatch(callee[1]) or callee[1] in defined):
            raise CompileError("nvptx", f"no code for the call of {line.strip()!r}")
    if "<" in line:
        for count, element in _VECTOR.findall(line):
            if element not in _ELEMENTS or element == "i1" or int(count) * _ELEMENTS[element] > 16:
                raise CompileError("nvptx", f"no code for the vectors of {line.strip()!r}")
    if any(width not in ("1", "8", "16", "32", "64") for width in _WIDTH.findall(line)):
        raise CompileError("nvptx", f"no code for the integers of {line.strip()!r}")
