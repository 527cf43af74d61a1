"""Automatic differentiation: gradients, gradient modes, custom functions, and reading the graph."""

import importlib
from typing import Any

from minitensor.autograd.function import Function
from minitensor.autograd.grad_mode import (
    enable_grad,
    enforce_grad_layout_policy,
    inference_mode,
    no_grad,
    set_grad_enabled,
    set_multithreading_enabled,
)
from minitensor.autograd.gradients import backward, grad

__all__ = [
    "Function",
    "NestedIOFunction",
    "Variable",
    "anomaly_mode",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "enforce_grad_layout_policy",
    "forward_ad",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]

# What is imported by the first use of it, and where it is.
_LAZY = {
    "anomaly_mode": "", "detect_anomaly": "anomaly_mode", "forward_ad": "", "functional": "",
    "gradcheck": "finite_differences", "gradgradcheck": "finite_differences", "graph": "",
    "NestedIOFunction": "nested_function",
    "Variable": "variable", "profiler": "", "variable": "variable", "set_detect_anomaly": "anomaly_mode",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'minitensor.autograd' has no attribute '{name}'")
    module = importlib.import_module(f"minitensor.autograd.{_LAZY[name] or name}")
    # All names of the module at once: its import puts the module itself where its function of the same name belongs.
    for other, source in _LAZY.items():
        if source and source == _LAZY[name]:
            globals()[other] = getattr(module, other)
    return globals()[name] if _LAZY[name] else module


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})
