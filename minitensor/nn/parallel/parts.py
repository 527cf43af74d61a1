"""The steps of data parallelism by themselves: parts of a batch, copies of a module, calls, results together.

Devices are GPUs by number, or any by name; the same one may be named several times.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from minitensor import _C
from minitensor._C import Tensor
from minitensor._functions.offered import cat
from minitensor._warning import warn
from minitensor.nn.modules.module import Module

__all__ = ["gather", "parallel_apply", "replicate", "scatter", "scatter_kwargs"]


def _device(given: Any) -> _C.device:
    return _C.device("cuda", given) if isinstance(given, int) else _C.device(given)


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """Return the parts of tensors, in nested tuples, lists and dicts, one structure for each device.

    Tensors are split along `dim`; everything else is in each part.
    """
    devices = [_device(one) for one in target_gpus]

    def split(value: Any) -> list[Any]:
        if isinstance(value, Tensor):
            return [part.to(device) for part, device in zip(value.chunk(len(devices), dim), devices, strict=False)]
        if isinstance(value, tuple) and hasattr(value, "_fields"):
            return [type(value)(*items) for items in zip(*map(split, value), strict=False)]
        if isinstance(value, (tuple, list)) and value:
            made = tuple if isinstance(value, tuple) else list
            return [made(items) for items in zip(*map(split, value), strict=False)]
        if isinstance(value, dict) and value:
            return [type(value)(items) for items in zip(*map(split, value.items()), strict=False)]
        return [value for _ in devices]

    return split(inputs)


def scatter_kwargs(
    inputs: Any, kwargs: dict[str, Any] | None, target_gpus: Sequence[Any], dim: int = 0
) -> tuple[tuple[Any, ...], tuple[dict[str, Any], ...]]:
    """Return the arguments of each device's call: those by position, and those by name."""
    given = scatter(inputs, target_gpus, dim) if inputs else []
    named = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(given), len(named))
    given += [()] * (count - len(given))
    named += [{}] * (count - len(named))
    return tuple(map(tuple, given)), tuple(named)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Return the results of several devices as one, on a device: tensors joined along `dim`, numbers as a vector.

    -1 is the CPU. ValueError for dicts with different keys.
    """
    device = _C.device("cpu") if target_device in (-1, "cpu") else _device(target_device)

    def join(parts: list[Any]) -> Any:
        first = parts[0]
        if isinstance(first, Tensor):
            if all(part.dim() == 0 for part in parts) and dim == 0:
                warn(
                    "Was asked to gather along dimension 0, but all input tensors were scalars; will instead unsqueeze "
                    "and return a vector."
                )
                parts = [part.unsqueeze(0) for part in parts]
            return cat([part.to(device) for part in parts], dim)
        if first is None:
            return None
        if isinstance(first, dict):
            if any(len(part) != len(first) for part in parts):
                raise ValueError("All dicts must have the same number of keys")
            return type(first)((key, join([part[key] for part in parts])) for key in first)
        if hasattr(first, "_fields"):
            return type(first)(*map(join, map(list, zip(*parts, strict=True))))
        return type(first)(map(join, map(list, zip(*parts, strict=True))))

    return join(list(outputs))


def replicate(network: Module, devices: Sequence[Any], detach: bool = False) -> list[Module]:
    """Return a copy of a module for each device. Gradients go to the module's parameters, unless `detach`."""
    return [_replica(network, _device(device), detach, {}) for device in devices]


def _replica(module: Module, device: _C.device, detach: bool, made: dict[int, Module]) -> Module:
    if id(module) in made:
        return made[id(module)]
    copied = made[id(module)] = copy.copy(module)
    for table in ("_parameters", "_buffers", "_modules"):
        copied.__dict__[table] = dict(module.__dict__[table])
    for name, child in module._modules.items():
        if child is not None:
            copied._modules[name] = _replica(child, device, detach, made)
    # As attributes: what was computed of a parameter is none.
    for name, parameter in module._parameters.items():
        if parameter is not None:
            del copied._parameters[name]
            moved = parameter.to(device)
            copied.__dict__[name] = moved.detach() if detach else moved
    for name, buffer in module._buffers.items():
        copied._buffers[name] = None if buffer is None else buffer.to(device)
    return copied


def parallel_apply(
    modules: Sequence[Callable[..., Any]], inputs: Sequence[Any], kwargs_tup: Sequence[dict[str, Any]] | None = None,
    devices: Sequence[Any] | None = None,
) -> list[Any]:  # fmt: skip
    """Return the results of modules, each called with its inputs, one after the other.

    AssertionError where there are not as many of each.
    """
    named = kwargs_tup if kwargs_tup is not None else [{} for _ in modules]
    for what, given in (("inputs", inputs), ("kwargs", named), ("devices", devices)):
        if given is not None and len(given) != len(modules):
            raise AssertionError(
                f"The number of modules {len(modules)} is not equal to the number of {what} {len(given)}"
            )
    return [
        module(*(given if isinstance(given, (list, tuple)) else (given,)), **more)
        for module, given, more in zip(modules, inputs, named, strict=True)
    ]
