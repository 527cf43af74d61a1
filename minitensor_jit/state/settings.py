"""What the framework's own frames read of the framework's Python state, and programs or others may change.

These frames are not seen to run. But their code has the names of what it reads and writes: where code begins that has
the name of a setting, the setting is noted. A setting that is not in `SETTINGS` would be read once, when a function is
recorded. So `tests/project/test_changed_state.py` finds everything in both packages that a function changes, and
wants it here or among the caches and registries that it lists, each with a reason.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import types
from collections.abc import Callable
from typing import Any

__all__ = ["NAMES", "SETTINGS", "named_by", "parts_of", "value_of"]

SETTINGS: dict[str, tuple[str, ...]] = {
    "minitensor._tensor.printing": ("_options",),
    "minitensor.autograd.forward_ad": ("_LEVELS",),
    "minitensor.autograd.grad_mode": ("set_multithreading_enabled._wanted",),
    "minitensor.autograd.graph": ("_DISABLED", "_MUTABLE"),
    "minitensor.backends.cudnn": ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32"),
    "minitensor.backends.mkldnn": ("enabled", "deterministic"),
    "minitensor.backends.opt_einsum": ("enabled", "strategy"),
    "minitensor.compat.v1.framework.graph": ("_default", "_stack"),
    "minitensor.compat.v1.logging": ("_logger",),
    "minitensor.compiler": ("_default", "_exports"),
    "minitensor.distributed.groups.options": ("_level",),
    "minitensor.distributed.groups.world": ("_world", "default_pg_timeout"),
    "minitensor.distributed.rendezvous": ("_handlers",),
    "minitensor.distributions.constraint_registry": ("biject_to._registry", "transform_to._registry"),
    "minitensor.distributions.distribution": ("Distribution._validate_args",),
    "minitensor.distributions.kl.registry": ("_KL_REGISTRY", "_found"),
    "minitensor.fx.node": ("_IMPURE",),
    "minitensor.fx.tracer": ("_WRAPPED",),
    "minitensor.hub": ("_folder",),
    "minitensor.library": ("_launching",),
    "minitensor.library.custom_ops": ("_OPS",),
    "minitensor.multiprocessing": ("_strategy",),
    "minitensor.nn.attention": ("_ACTIVE", "_IMPLS"),
    "minitensor.nn.modules.module": (
        "_global_buffer_registration_hooks", "_global_module_registration_hooks",
        "_global_parameter_registration_hooks",
    ),
    "minitensor.nn.utils.parametrize": ("_depth", "_known"),
    "minitensor.optim.optimizer": ("_global_optimizer_pre_hooks", "_global_optimizer_post_hooks"),
    "minitensor.random": ("_kind",),
    "minitensor.scripting.settings": ("_kept", "_strategy"),
    "minitensor.serialization.safe_globals": ("_allowed",),
    "minitensor.settings": ("_state",),
    "minitensor.sparse.invariants": ("_always",),
    "minitensor.utils._pytree.nodes": ("SUPPORTED_NODES", "NODES_BY_NAME"),
    "minitensor.utils.checkpoint": (
        "DefaultDeviceType._device_type", "GraphExecGroup._current", "_DEBUG", "_EARLY_STOP",
    ),
    "minitensor.utils.data.collate": ("default_collate_fn_map",),
    "minitensor.utils.data.datapipes.decorators": ("_state",),
    "minitensor.utils.data.worker": ("_info",),
    "os": ("environ", "getenv"),
}  # fmt: skip
"""By module, names in it; after a dot, attributes of a class or an object there."""

_BY_NAME: dict[str, list[tuple[str, str]]] = {}
for _module, _paths in SETTINGS.items():
    for _path in _paths:
        _BY_NAME.setdefault(_path.rpartition(".")[2], []).append((_module, _path))
NAMES = frozenset(_BY_NAME)
"""The names that code has which touches a setting."""


def named_by(code: types.CodeType, space: dict[str, Any]) -> list[tuple[str, str]]:
    """Return the settings that code with these globals may touch, of the modules that are loaded."""
    found = []
    for name in dict.fromkeys(code.co_names):
        for module, path in _BY_NAME.get(name, ()):
            owner = sys.modules.get(module)
            if owner is not None and (path != name or _is_there(code, space, name, owner)):
                found.append((module, path))
    return found


def _is_there(code: types.CodeType, space: dict[str, Any], name: str, owner: types.ModuleType) -> bool:
    """Whether the name may stand for what the module has under it: other modules have others by that name."""
    own = vars(owner)
    return (
        own is space
        or (name in space and space[name] is own.get(name))
        or owner.__name__ in code.co_names  # it is imported there
        or any(space.get(other) is owner for other in code.co_names)
    )


def value_of(module: str, path: str) -> tuple[Any, str, Any]:
    """Return what a setting belongs to, its name there, and its value, None if it isn't there."""
    *outer, name = path.split(".")
    owner: Any = sys.modules[module]
    for part in outer:
        owner = getattr(owner, part)
    return owner, name, vars(owner).get(name)


def _state_of_thread(local: threading.local) -> tuple[Any, ...]:
    return tuple((name, tuple(value) if isinstance(value, list) else value) for name, value in vars(local).items())


@functools.cache
def parts_of(module: str, path: str) -> Callable[[], tuple[Any, ...]] | None:
    """Return what gives the parts of a setting that no guard on objects can compare, or None."""
    value = value_of(module, path)[2]
    if isinstance(value, threading.local):
        return lambda: _state_of_thread(value)
    if module == "os":
        return lambda: tuple(os.environ._data.items())  # type: ignore[attr-defined]
    if path == "_logger":
        return lambda: (value.level, value.getEffectiveLevel())
    return None
