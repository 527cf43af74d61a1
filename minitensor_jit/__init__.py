"""The compiler of minitensor: records ops, clusters them, and runs each cluster as one launch of compiled code.

It is turned on by `MT_JIT_FLAGS`, a session's configuration, `jit_scope` or `function`; see `minitensor_jit.api`.
"""

from minitensor_jit.api import (
    cache_clear,
    cache_info,
    explain,
    jit_scope,
    options,
    session_scope,
    start_from_environment,
)
from minitensor_jit.errors import CompileError, InvalidArgumentError
from minitensor_jit.flags import FlagError, JitOptions
from minitensor_jit.function import function

__all__ = [
    "CompileError",
    "FlagError",
    "InvalidArgumentError",
    "JitOptions",
    "cache_clear",
    "cache_info",
    "explain",
    "function",
    "jit_scope",
    "options",
    "session_scope",
    "start_from_environment",
]
