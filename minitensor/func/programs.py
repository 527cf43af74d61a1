"""Functions of functions, modules and tensors that transforms work on."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor.nn import Module
from minitensor.nn.modules.batchnorm import _BatchNorm

__all__ = ["debug_unwrap", "functionalize", "replace_all_batch_norm_modules_"]


def functionalize(func: Callable[..., Any], *, remove: str = "mutations") -> Callable[..., Any]:
    """Return a function that gives what `func` gives, and writes to inputs as it does.

    What records it, the compiler, has no views and no writes whatever the function does. RuntimeError for another
    `remove` than `"mutations"` and `"mutations_and_views"`.
    """
    if not callable(func):
        raise TypeError(f"functionalize: expected a function, got {type(func).__name__}")
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(
            f"functionalize(f, remove='mutations'): received invalid argument for remove={remove}. Valid options are: "
            "remove='mutations' and remove='mutations_and_views'"
        )

    @functools.wraps(func)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return func(*args, **kwargs)

    return wrapped


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Take the running statistics from every batch normalisation in a module, and return the module.

    TypeError for what is no module.
    """
    if not isinstance(root, Module):
        raise TypeError(f"replace_all_batch_norm_modules_: expected a module, got {type(root).__name__}")
    for module in root.modules():
        if isinstance(module, _BatchNorm) and module.track_running_stats:
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root


def debug_unwrap(tensor: Any, *, recurse: bool = True) -> Any:
    """Return what is behind a tensor that :func:`vmap` maps over: all of its elements. Others as they are.

    With `recurse` behind those of outer transforms too. For looking at values only. TypeError for what is no tensor.
    """
    if not isinstance(tensor, _C.Tensor):
        raise TypeError(f"debug_unwrap: expected a tensor, got {type(tensor).__name__}")
    level = _C.vmap_level(tensor)
    while level:
        tensor, _ = _C.vmap_unwrap(tensor, level)
        level = _C.vmap_level(tensor) if recurse else 0
    return tensor
