"""The compiler of minitensor: records ops, clusters them, and runs each cluster as one launch of compiled code.

It is turned on by `MT_JIT_FLAGS`, a session's configuration, `jit_scope` or `function`; see `minitensor_jit.api`.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .ir.library import Library, install

if TYPE_CHECKING:
    from minitensor.scripting import (
        Attribute,
        CompilationUnit,
        Error,
        Final,
        Future,
        RecursiveScriptModule,
        ScriptFunction,
        ScriptModule,
        TopLevelTracedModule,
        TracedModule,
        annotate,
        enable_onednn_fusion,
        export,
        fork,
        freeze,
        ignore,
        interface,
        is_scripting,
        is_tracing,
        isinstance,
        load,
        onednn_fusion_enabled,
        optimize_for_inference,
        optimized_execution,
        save,
        script,
        script_if_tracing,
        script_method,
        set_fusion_strategy,
        strict_fusion,
        trace,
        trace_module,
        unused,
        wait,
    )
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
    from minitensor_jit.reports import report
    from minitensor_jit.scopes import attr_scope, jit_scope

__all__ = [
    "Attribute",
    "CacheDirectoryError",
    "CompilationUnit",
    "CompileError",
    "DumpError",
    "Error",
    "Final",
    "FlagError",
    "Future",
    "InvalidArgumentError",
    "JitOptions",
    "LoweringError",
    "MismatchError",
    "NumericsError",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "TopLevelTracedModule",
    "TracedModule",
    "annotate",
    "attr_scope",
    "cache_clear",
    "cache_info",
    "current_options",
    "enable_onednn_fusion",
    "explain",
    "export",
    "fork",
    "freeze",
    "function",
    "hlo_profile",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "jit_scope",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "options",
    "report",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "session_scope",
    "set_fusion_strategy",
    "start_from_environment",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "verify",
    "wait",
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
    "report": "reports",
    **dict.fromkeys(("attr_scope", "jit_scope"), "scopes"),
}
# What PyTorch's module of the name `jit` has.
_SCRIPTING = frozenset({
    "Attribute", "CompilationUnit", "Error", "Final", "Future", "RecursiveScriptModule",
    "ScriptFunction", "ScriptModule", "TopLevelTracedModule", "TracedModule", "annotate", "enable_onednn_fusion",
    "export", "fork", "freeze", "ignore", "interface", "is_scripting",
    "is_tracing", "isinstance", "load", "onednn_fusion_enabled", "optimize_for_inference", "optimized_execution",
    "save", "script", "script_if_tracing", "script_method", "set_fusion_strategy", "strict_fusion",
    "trace", "trace_module", "unused", "wait",
})  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'minitensor_jit' has no attribute '{name}'")
    home = "minitensor.scripting" if name in _SCRIPTING else f"minitensor_jit.{_HOMES.get(name, 'api')}"
    value = globals()[name] = getattr(import_module(home), name)
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
