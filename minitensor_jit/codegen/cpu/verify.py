"""What LLVM text for processors may declare.

LLVM ends the process where its backend has no code for something, so that it is asked for nothing that is not known to
work: `../llvm/ir_compiler.py` is for what is not known.
"""

from __future__ import annotations

import re
from typing import Final

from ..errors import CompileError

__all__ = ["verify"]

_FLOATS, _INTEGERS = r"(v\d+)?f(32|64)", r"(v\d+)?i(1|8|16|32|64)"
_ELEMENT = r"v\d+(f32|f64|i8|i16|i32|i64|f16|bf16|half|bfloat)"
_INTRINSICS: Final = re.compile(
    rf"llvm\.("
    rf"(fma|fabs|copysign|floor|ceil|trunc|round|roundeven|sqrt|maximum|minimum)\.{_FLOATS}"
    rf"|(smin|smax|umin|umax|ctpop|ctlz|cttz|fshl|fshr)\.{_INTEGERS}"
    rf"|arithmetic\.fence\.{_FLOATS}"
    rf"|masked\.(load|store)\.{_ELEMENT}\.p0|masked\.gather\.{_ELEMENT}\.v\d+p0"
    r"|memmove\.p0\.p0\.i64|prefetch\.p0|x86\.sse\.sfence|readcyclecounter"
    r")"
)
_DECLARED: Final = re.compile(r"^declare [^@\n]*@\"?(llvm\.[\w.]+)", re.MULTILINE)


def verify(text: str) -> None:
    """Raises `CompileError` naming the first intrinsic that no code is known for."""
    for found in _DECLARED.finditer(text):
        if not _INTRINSICS.fullmatch(found[1]):
            raise CompileError("CPU", f"no code for the function {found[1]}")
