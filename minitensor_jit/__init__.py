"""The compiler of minitensor: records ops, clusters them, and runs each cluster as one launch of compiled code.

It is turned on by `MT_JIT_FLAGS`, a session's configuration, `jit_scope` or `function`; see `minitensor_jit.api`.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

# What is imported from here on takes as long as a thread needs for touching memory.
if (
    "--persistent_cache_directory" in os.environ.get("MT_JIT_FLAGS", "")
    and "minitensor._C" in sys.modules
    and getattr(sys.modules.get("minitensor._programs"), "begun", None) is None  # which may launch nothing at all
):
    import_module("minitensor_jit.runtime.forecast").foretell_from_environment()

from .ir.library import Library, install

if TYPE_CHECKING:
    from minitensor_jit.api import (
        cache_clear,
        cache_info,
        current_options,
        explain,
        hlo_profile,
        options,
        session_scope,
        start_from_environment,
        verify,
    )
    from minitensor_jit.compiled_function import function
    from minitensor_jit.errors import (
        CacheDirectoryError,
        CompileError,
        DumpError,
        InvalidArgumentError,
        LoweringError,
        MismatchError,
        NumericsError,
    )
    from minitensor_jit.flags import FlagError, JitOptions
    from minitensor_jit.scopes import attr_scope, jit_scope

__all__ = [
    "CacheDirectoryError",
    "CompileError",
    "DumpError",
    "FlagError",
    "InvalidArgumentError",
    "JitOptions",
    "LoweringError",
    "MismatchError",
    "NumericsError",
    "attr_scope",
    "cache_clear",
    "cache_info",
    "current_options",
    "explain",
    "function",
    "hlo_profile",
    "jit_scope",
    "options",
    "session_scope",
    "start_from_environment",
    "verify",
]

# By module. Imported when they are asked for: the IR, the passes and their tools need no tensors.
_HOMES = {
    **dict.fromkeys(
        (
            "CacheDirectoryError",
            "CompileError",
            "DumpError",
            "InvalidArgumentError",
            "LoweringError",
            "MismatchError",
            "NumericsError",
        ),
        "errors",
    ),
    **dict.fromkeys(("FlagError", "JitOptions"), "flags"),
    "function": "compiled_function",
    **dict.fromkeys(("attr_scope", "jit_scope"), "scopes"),
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'minitensor_jit' has no attribute '{name}'")
    value = getattr(import_module(f"minitensor_jit.{_HOMES.get(name, 'api')}"), name)
    globals()[name] = value
    return value


def _library() -> Library:
    core: Library = import_module("minitensor_jit.codegen.library").CoreLibrary()
    return core


install(_library)


def __dir__() -> list[str]:
    # Not what the module itself imports.
    return sorted({name for name in globals() if name.startswith("__")} | set(__all__))


# Where tensors record from the start, their import asks for the compiler: not in the middle of a module of this package
# that imports them.
if os.environ.get("MT_JIT_FLAGS"):
    import_module("minitensor")
