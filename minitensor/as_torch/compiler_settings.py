"""Settings of PyTorch's compiler, as programs make them: they can be set, read, and changed for a while.

This compiler has none of them (`minitensor.jit.options` and MT_JIT_FLAGS have its own), so they change nothing.
"""

from __future__ import annotations

import copy
import pickle
import sys
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from minitensor.autograd.grad_mode import Decorating

__all__ = ["DOCUMENTED", "Settings", "become_settings"]

# What PyTorch documents, with its defaults (torch.compiler.config, 2.13).
DOCUMENTED: dict[str, Any] = {
    "job_id": None,
    "dynamic_shapes": True,
    "assume_static_by_default": True,
    "automatic_dynamic_shapes": True,
    "recompile_limit": 8,
    "accumulated_recompile_limit": 256,
    "verbose": False,
    "capture_scalar_outputs": False,
    "capture_dynamic_output_shape_ops": False,
    "log_file_name": None,
    "fail_on_recompile_limit_hit": False,
    "allow_unspec_int_on_nn_module": False,
    "skip_tensor_guards_with_matching_dict_tags": True,
    "enable_cpp_symbolic_shape_guards": False,
    "wrap_top_frame": False,
    "reorderable_logging_functions": set(),
    "force_disable_caches": False,
}
_ABSENT = object()


class _Patch(Decorating):
    """Settings that hold until the end of a `with` statement, or in each call of a function."""

    def __init__(self, settings: Settings, wanted: dict[str, Any]) -> None:
        self._settings, self._wanted = settings, wanted
        self._before: list[dict[str, Any]] = []

    def _again(self) -> _Patch:
        return _Patch(self._settings, self._wanted)

    def __enter__(self) -> None:
        """Set them."""
        before = {name: vars(self._settings).get(name, _ABSENT) for name in self._wanted}
        self._before.append(before)
        try:
            self._settings.load_config(self._wanted)
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *error: object) -> None:
        """Put back what there was."""
        for name, value in self._before.pop().items():
            if value is not _ABSENT:
                setattr(self._settings, name, value)
            else:
                vars(self._settings).pop(name, None)


class Settings(ModuleType):
    """A module whose public attributes are settings."""

    def patch(self, arg1: str | Mapping[str, Any] | None = None, arg2: Any = None, **kwargs: Any) -> _Patch:
        """Set what is given, as `patch("name", value)`, `patch({"name": value})` or `patch(name=value)`.

        Until the end of a `with` statement, or in each call of a function that it decorates.
        """
        if isinstance(arg1, Mapping):
            if arg2 is not None or kwargs:
                raise TypeError("patch takes a dict of settings, a name and a value, or settings by name")
            return _Patch(self, dict(arg1))
        return _Patch(self, kwargs if arg1 is None else {arg1: arg2, **kwargs})

    def get_config_copy(self) -> dict[str, Any]:
        """Return a copy of all settings, by name."""
        return {name: copy.deepcopy(value) for name, value in vars(self).items() if name[0] != "_"}

    def save_config(self) -> bytes:
        """Return them as bytes, for `load_config`."""
        return pickle.dumps(self.get_config_copy(), protocol=2)

    def load_config(self, maybe_pickled_config: bytes | Mapping[str, Any]) -> None:
        """Set what `save_config` or `get_config_copy` gave. The bytes are a pickle: load only what you trust."""
        given = maybe_pickled_config
        for name, value in (given if isinstance(given, Mapping) else pickle.loads(given)).items():
            setattr(self, name, value)


class _Documented(Settings):
    """The settings that PyTorch documents, and no others."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"torch.compiler.config.{name} does not exist")

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__") and name not in DOCUMENTED:
            raise AttributeError(f"torch.compiler.config.{name} does not exist")
        super().__setattr__(name, value)


def become_settings(name: str, documented: bool | None = None) -> None:
    """Make the module of that name one of settings: with the documented ones, and if that is True, with no others."""
    module = sys.modules[name]
    if documented is not None:
        vars(module).update(copy.deepcopy(DOCUMENTED))
    if documented:
        vars(module)["__all__"] = list(DOCUMENTED)
    module.__class__ = _Documented if documented else Settings
