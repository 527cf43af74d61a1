"""`script`, `trace` and what works on their results."""

from __future__ import annotations

import enum
import inspect
import sys
import types
from collections.abc import Callable
from typing import Any

from minitensor._warning import warn_of_pytorch
from minitensor.autograd import no_grad
from minitensor.nn import Module
from minitensor.scripting.functions import ScriptFunction
from minitensor.scripting.modules import (
    RecursiveScriptModule,
    ScriptModule,
    TopLevelTracedModule,
    TracedModule,
    scripted,
)

__all__ = ["freeze", "optimize_for_inference", "script", "script_method", "trace", "trace_module"]


def _warn_of_torchscript(name: str) -> None:
    shown = f"`minitensor.jit.{name}` is"
    if sys.version_info >= (3, 14):
        shown += " not supported in Python 3.14+ and may break."
    else:
        shown += " deprecated."
    warn_of_pytorch(
        f"{shown} Please switch to `minitensor.compile` or `minitensor.export`.", DeprecationWarning, once=False
    )


def script(obj: Any, optimize: None = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None) -> Any:
    """Return a module or function that TorchScript would have compiled: its Python runs.

    A module becomes a :class:`RecursiveScriptModule` with the same tensors, a function a :class:`ScriptFunction`; a
    class stays. TypeError for anything else.
    """
    _warn_of_torchscript("script")
    if isinstance(obj, Module):
        return scripted(obj, RecursiveScriptModule, RecursiveScriptModule)
    if inspect.isclass(obj) or isinstance(obj, (ScriptFunction, list, dict, enum.Enum)):
        return obj
    if isinstance(obj, (types.FunctionType, types.MethodType)):
        return ScriptFunction(obj)
    raise TypeError(f"script: expected a module, a function of Python or a class, got {type(obj).__name__}")


def script_method(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Return the method of a :class:`ScriptModule`."""
    _warn_of_torchscript("script_method")
    return fn


def trace(
    func: Any, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True, check_inputs: Any = None,
    check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: bool = False, _module_class: Any = None,
    _compilation_unit: Any = None, example_kwarg_inputs: dict[str, Any] | None = None, _store_inputs: bool = True,
) -> Any:  # fmt: skip
    """Call a function or module with an example, whose errors so come here, and return it as `script` does.

    Its Python runs in later calls too, so that control flow follows the values of each. RuntimeError without an
    example. `strict` and the options of checks change nothing: there is no second program to compare.
    """
    _warn_of_torchscript("trace")
    if not callable(func):
        raise RuntimeError(f"trace: expected a function or a module, got {type(func).__name__}")
    if isinstance(func, (ScriptFunction, ScriptModule)):
        return func
    if example_inputs is None and not isinstance(example_kwarg_inputs, dict):
        raise RuntimeError("example_kwarg_inputs should be a dict")
    if isinstance(func, types.MethodType) and isinstance(func.__self__, Module):
        if func.__name__ != "forward":
            raise AttributeError(
                "trace doesn't support compiling individual module's functions.\nPlease use trace_module"
            )
        func = func.__self__
    with no_grad():
        if example_kwarg_inputs is not None:
            func(**example_kwarg_inputs)
        else:
            func(*(example_inputs if isinstance(example_inputs, (tuple, list)) else (example_inputs,)))
    return scripted(func, TopLevelTracedModule, TracedModule) if isinstance(func, Module) else ScriptFunction(func)


def trace_module(
    mod: Module, inputs: dict[str, Any], optimize: Any = None, check_trace: bool = True, check_inputs: Any = None,
    check_tolerance: float = 1e-5, strict: bool = True, _force_outplace: bool = False, _module_class: Any = None,
    _compilation_unit: Any = None, example_inputs_is_kwarg: bool = False, _store_inputs: bool = True,
) -> Any:  # fmt: skip
    """Call the methods that `inputs` names, with the example of each, and return the module as `trace` does."""
    if not isinstance(mod, Module):
        raise AttributeError("expected torch.nn.Module as the first argument")
    if not isinstance(inputs, dict):
        raise AttributeError("expected a dictionary of (method_name, input) pairs")
    with no_grad():
        for name, example in inputs.items():
            call = mod if name == "forward" else getattr(mod, name)
            if example_inputs_is_kwarg:
                call(**example)
            else:
                call(*(example if isinstance(example, (tuple, list)) else (example,)))
    return scripted(mod, TopLevelTracedModule, TracedModule)


def freeze(mod: Any, preserved_attrs: list[str] | None = None, optimize_numerics: bool = True) -> Any:
    """Return a copy of a scripted module whose parameters and buffers are constants: it has neither any more.

    Those that `preserved_attrs` names stay. RuntimeError for other modules, or one that trains.
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to script your "
            "'nn.Module'."
        )
    if mod.training:
        raise RuntimeError(
            "Freezing is currently only implemented for modules in eval mode. Please call .eval() on your module "
            "before freezing."
        )
    import copy

    frozen = copy.deepcopy(mod)
    kept = set(preserved_attrs or ())
    for prefix, module in frozen.named_modules():
        for table in (module._parameters, module._buffers):
            for name in [n for n in table if (f"{prefix}.{n}" if prefix else n) not in kept]:
                value = table.pop(name)
                module.__dict__[name] = None if value is None else value.detach()
    return frozen


def optimize_for_inference(mod: Any, other_methods: list[str] | None = None) -> Any:
    """Return the module as `freeze` does, whatever it still has."""
    if not isinstance(mod, ScriptModule):
        raise ValueError(
            "optimize_for_inference expects ScriptModule as input. Please use torch.jit.script or torch.jit.trace to "
            "script your 'nn.Module'."
        )
    return freeze(mod.eval(), preserved_attrs=other_methods)
