"""The base class of all optimizers: groups of parameters with their options, and a state for each parameter."""

from __future__ import annotations

import functools
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from itertools import chain
from typing import Any, TypeAlias

from minitensor import _C
from minitensor._C import Tensor
from minitensor._functions.offered import from_dlpack
from minitensor._profile.events import begin_range, end_range
from minitensor._warning import warn
from minitensor.autograd.gradients import clear_gradients
from minitensor.utils.hooks import RemovableHandle, add_hook

__all__ = ["Optimizer", "register_optimizer_step_post_hook", "register_optimizer_step_pre_hook"]

ParamsT: TypeAlias = Iterable[Any]

_global_optimizer_pre_hooks: OrderedDict[int, Any] = OrderedDict()
_global_optimizer_post_hooks: OrderedDict[int, Any] = OrderedDict()
_HOOKS = (
    "_optimizer_step_pre_hooks", "_optimizer_step_post_hooks", "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks", "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)  # fmt: skip


class _RequiredParameter:
    """A default that says that every group needs a value of its own."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Have ``hook(optimizer, args, kwargs)`` called before every step of every optimizer.

    What it returns, if not None, is a pair that takes the place of ``args`` and ``kwargs``.
    """
    return add_hook(_global_optimizer_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """Have ``hook(optimizer, args, kwargs)`` called after every step of every optimizer."""
    return add_hook(_global_optimizer_post_hooks, hook)


class Optimizer:
    """Updates parameters; a subclass defines :meth:`step`.

    ``params`` are tensors, pairs of a name and a tensor, or dictionaries that each hold these under "params" and,
    beside them, options that differ from the ``defaults``. A compiled function reads options that are floats anew at
    each call if ``step`` asks for them by ``_C.bound_number(group, name)``.
    """

    param_groups: list[dict[str, Any]]
    state: defaultdict[Tensor, Any]

    def __init__(self, params: ParamsT, defaults: dict[str, Any]) -> None:
        self.defaults = defaults
        for name in _HOOKS:
            setattr(self, name, OrderedDict())
        self._patch_step_function()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {params.type()}"
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def __getstate__(self) -> dict[str, Any]:
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        for name in _HOOKS:
            self.__dict__.setdefault(name, OrderedDict())
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a dictionary of parameters and their options, which gets the defaults of what it doesn't have."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
                "will change between runs. Please use a list instead."
            )
        params = [params] if isinstance(params, Tensor) else list(params)
        names = [param[0] for param in params if isinstance(param, tuple)]
        params = [param[1] if isinstance(param, tuple) else param for param in params]
        if names and len(names) != len(params):
            raise ValueError("all optimizer params should be with/without names. Some param names are missing")
        param_group["params"] = params
        if names:
            param_group["param_names"] = names
        for param in params:
            if not isinstance(param, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {_typename(param)}")
            if not self.defaults.get("differentiable") and not (param.is_leaf or param.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        for name, default in self.defaults.items():
            if default is required and name not in param_group:
                raise ValueError(f"parameter group didn't specify a value of required optimization parameter {name}")
            param_group.setdefault(name, default)
        if len(params) != len({id(param) for param in params}):
            warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information"
            )
        taken = {id(param) for group in self.param_groups for param in group["params"]}
        for group in self.param_groups:
            if ("param_names" in param_group) != ("param_names" in group):
                kind = "with names" if "param_names" in param_group else "without names"
                raise ValueError(
                    "all optimizer param groups should be with/without names. "
                    f"cannot add param group {kind} to the optimizer"
                )
        if any(id(param) in taken for param in params):
            raise ValueError("some parameters appear in more than one parameter group")
        self.param_groups.append(param_group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients, or set them to zero if not ``set_to_none``."""
        started = begin_range()
        clear_gradients(self._every_param(), set_to_none)
        if started >= 0:
            end_range(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad", started)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters once; ``closure``, if given, computes the loss anew and returns it."""
        raise NotImplementedError

    @staticmethod
    def profile_hook_step(func: Callable[..., Any]) -> Callable[..., Any]:
        """A ``step`` with the hooks around it; its end is where what was recorded runs."""

        @functools.wraps(func)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            self = args[0]
            started = begin_range()
            for pre in chain(_global_optimizer_pre_hooks.values(), self._optimizer_step_pre_hooks.values()):
                changed = pre(self, args, kwargs)
                if changed is None:
                    continue
                if not isinstance(changed, tuple) or len(changed) != 2:
                    raise RuntimeError(
                        f"{func} must return None or a tuple of (new_args, new_kwargs), but got {changed}."
                    )
                args, kwargs = changed
            out = _C.call_step(func, args, kwargs)
            for post in chain(self._optimizer_step_post_hooks.values(), _global_optimizer_post_hooks.values()):
                post(self, args, kwargs)
            _C.end_step()
            if started >= 0:
                end_range(f"Optimizer.step#{type(self).__name__}.step", started)
            return out

        return wrapper

    def _patch_step_function(self) -> None:
        kind = type(self)
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{kind.__name__}.zero_grad"
        if not getattr(kind.step, "hooked", None):
            hooked: Any = self.profile_hook_step(kind.step)
            hooked.hooked = True
            kind.step = hooked  # type: ignore[method-assign]

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Have ``hook(optimizer, args, kwargs)`` called before each step; it may return other arguments as a pair."""
        return add_hook(self._optimizer_step_pre_hooks, hook)  # type: ignore[attr-defined]

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Have ``hook(optimizer, args, kwargs)`` called after each step."""
        return add_hook(self._optimizer_step_post_hooks, hook)  # type: ignore[attr-defined]

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Have ``hook(optimizer)`` called before :meth:`state_dict`; before the other hooks if ``prepend``."""
        return add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend=prepend)  # type: ignore[attr-defined]

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Have ``hook(optimizer, state_dict)`` called after :meth:`state_dict`; it may return another one."""
        return add_hook(self._optimizer_state_dict_post_hooks, hook, prepend=prepend)  # type: ignore[attr-defined]

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Have ``hook(optimizer, state_dict)`` called before :meth:`load_state_dict`; it may return another one."""
        return add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend=prepend)  # type: ignore[attr-defined]

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> RemovableHandle:
        """Have ``hook(optimizer)`` called after :meth:`load_state_dict`."""
        return add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend=prepend)  # type: ignore[attr-defined]

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the options; parameters appear as their numbers, counted through the groups."""
        for before in self._optimizer_state_dict_pre_hooks.values():  # type: ignore[attr-defined]
            before(self)
        numbers = {id(param): number for number, param in enumerate(self._every_param())}
        # What belongs to no parameter keeps its own key.
        state = {numbers[id(k)] if isinstance(k, Tensor) else k: value for k, value in self.state.items()}
        groups = [{k: v for k, v in group.items() if k != "params"} for group in self.param_groups]
        for packed, group in zip(groups, self.param_groups, strict=True):
            packed["params"] = [numbers[id(param)] for param in group["params"]]
        found: dict[str, Any] = {"state": state, "param_groups": groups}
        for after in self._optimizer_state_dict_post_hooks.values():  # type: ignore[attr-defined]
            changed = after(self, found)
            found = found if changed is None else changed
        return found

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over copies of a state and options that :meth:`state_dict` returned for as many parameters.

        Floating point tensors of a parameter's state become of its dtype and device, but for "step".
        """
        state_dict = dict(state_dict)
        for before in self._optimizer_load_state_dict_pre_hooks.values():  # type: ignore[attr-defined]
            changed = before(self, state_dict)
            state_dict = state_dict if changed is None else changed
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        for mine, theirs in zip(self.param_groups, saved, strict=True):
            if len(mine["params"]) != len(theirs["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
                )
        numbers = [number for group in saved for number in group["params"]]
        params = dict(zip(numbers, self._every_param(), strict=True))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for number, values in state_dict["state"].items():
            if number in params:
                state[params[number]] = _fitted(values, params[number])
            else:
                state[number] = deepcopy(values)
        groups = []
        for mine, theirs in zip(self.param_groups, saved, strict=True):
            group = deepcopy({k: v for k, v in theirs.items() if k != "params"})
            group["params"] = mine["params"]
            if "param_names" in mine:
                group.setdefault("param_names", mine["param_names"])
            groups.append(group)
        self.__setstate__({"state": state, "param_groups": groups})
        for after in self._optimizer_load_state_dict_post_hooks.values():  # type: ignore[attr-defined]
            after(self)

    def _every_param(self) -> Iterator[Tensor]:
        return (param for group in self.param_groups for param in group["params"])

    def __repr__(self) -> str:
        text = f"{type(self).__name__} ("
        for number, group in enumerate(self.param_groups):
            lines = [f"    {key}: {group[key]}\n" for key in sorted(group) if key != "params"]
            text += f"\nParameter Group {number}\n" + "".join(lines)
        return text + ")"


def _typename(value: Any) -> str:
    kind = type(value)
    if isinstance(value, Tensor):
        return f"minitensor.{kind.__name__}"
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _fitted(value: Any, param: Tensor, name: Any = None) -> Any:
    """A copy of a part of a parameter's state, on its device and, but for a count of steps, in its dtype if a float."""
    if hasattr(value, "detach") and not isinstance(value, Tensor):
        value = from_dlpack(value.detach())  # another library's
    if isinstance(value, Tensor):
        value = value.detach().clone()
        if name == "step":
            return value
        return value.to(param.device, param.dtype) if param.is_floating_point() else value.to(param.device)
    if isinstance(value, dict):
        return {key: _fitted(part, param, key) for key, part in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(_fitted(part, param) for part in value)
    return deepcopy(value)
