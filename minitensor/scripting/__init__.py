"""PyTorch's `torch.jit` without another language: scripted and traced functions and modules run their Python.

The names are those of `minitensor.jit` too, beside the compiler's own. A scripted module has the parameters and
methods of the module that it was made of, and can be saved. What describes TorchScript's own graph or code, such as
`.graph`, raises AttributeError; :mod:`minitensor.fx` and :mod:`minitensor.export` have graphs.
"""

from minitensor.scripting.annotations import (
    Attribute,
    Final,
    annotate,
    export,
    ignore,
    interface,
    is_scripting,
    is_tracing,
    isinstance,
    unused,
)
from minitensor.scripting.files import load, save
from minitensor.scripting.functions import (
    CompilationUnit,
    Error,
    Future,
    ScriptFunction,
    fork,
    script_if_tracing,
    wait,
)
from minitensor.scripting.modules import RecursiveScriptModule, ScriptModule, TopLevelTracedModule, TracedModule
from minitensor.scripting.script_and_trace import (
    freeze,
    optimize_for_inference,
    script,
    script_method,
    trace,
    trace_module,
)
from minitensor.scripting.settings import (
    enable_onednn_fusion,
    onednn_fusion_enabled,
    optimized_execution,
    set_fusion_strategy,
    strict_fusion,
)

__all__ = [
    "Attribute", "CompilationUnit", "Error", "Final", "Future", "RecursiveScriptModule", "ScriptFunction",
    "ScriptModule", "TopLevelTracedModule", "TracedModule", "annotate", "enable_onednn_fusion", "export", "fork",
    "freeze", "ignore", "interface", "is_scripting", "is_tracing", "isinstance", "load", "onednn_fusion_enabled",
    "optimize_for_inference", "optimized_execution", "save", "script", "script_if_tracing", "script_method",
    "set_fusion_strategy", "strict_fusion", "trace", "trace_module", "unused", "wait",
]  # fmt: skip
