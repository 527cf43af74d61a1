"""The base class of all optimizers: groups of parameters with their options, and a state for each parameter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any

import minitensor as mt
from minitensor import _C
from minitensor.autograd.gradients import clear_gradients


class Optimizer:
    """Updates parameters; a subclass defines :meth:`step`.

    ``params`` are tensors, or dictionaries that each hold tensors under "params" and, beside them, options that differ
    from the ``defaults``. A ``step`` ends with a call of :meth:`_end_step`.
    """

    param_groups: list[dict[str, Any]]
    state: defaultdict[mt.Tensor, dict[str, Any]]

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, mt.Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, "
                f"but got {type(params).__name__}"
            )
        self.defaults = defaults
        self.param_groups = []
        self.state = defaultdict(dict)
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a dictionary of parameters and their options."""
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group).__name__}")
        params = param_group["params"]
        if isinstance(params, set):
            raise TypeError("optimizer parameters need to be organized in ordered collections: a set has no order")
        params = [params] if isinstance(params, mt.Tensor) else list(params)
        taken = {id(param) for group in self.param_groups for param in group["params"]}
        for param in params:
            if not isinstance(param, mt.Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(param).__name__}")
            if not (param.is_leaf or param.grad_fn is None):
                raise ValueError("can't optimize a non-leaf Tensor")
            if id(param) in taken:
                raise ValueError("some parameters appear in more than one parameter group, or twice in one")
            taken.add(id(param))
        self.param_groups.append({**self.defaults, **param_group, "params": params})

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop all gradients, or set them to zero if not ``set_to_none``."""
        clear_gradients(self._params(), set_to_none)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update all parameters once; ``closure``, if given, computes the loss anew and returns it."""
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the options; parameters appear as their numbers, counted through the groups."""
        numbers = {id(param): number for number, param in enumerate(self._params())}
        # What belongs to no parameter keeps its own key.
        state = {numbers[id(k)] if isinstance(k, mt.Tensor) else k: value for k, value in self.state.items()}
        groups = [{**group, "params": [numbers[id(param)] for param in group["params"]]} for group in self.param_groups]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take over copies of a state and options that :meth:`state_dict` returned for as many parameters."""
        saved = state_dict["param_groups"]
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        for mine, theirs in zip(self.param_groups, saved, strict=True):
            if len(mine["params"]) != len(theirs["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
                )
        numbers = [number for group in saved for number in group["params"]]
        params = dict(zip(numbers, self._params(), strict=True))
        state: defaultdict[Any, Any] = defaultdict(dict)
        for number, values in state_dict["state"].items():
            if number in params:
                state[params[number]] = _fitted(values, params[number])
            else:
                state[number] = deepcopy(values)
        self.state = state
        self.param_groups = [
            {**deepcopy({k: v for k, v in theirs.items() if k != "params"}), "params": mine["params"]}
            for mine, theirs in zip(self.param_groups, saved, strict=True)
        ]

    def _params(self) -> Iterator[mt.Tensor]:
        return (param for group in self.param_groups for param in group["params"])

    def _end_step(self) -> None:
        """Mark the end of a step: what was recorded so far runs."""
        _C.end_step()

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])


def _fitted(value: Any, param: mt.Tensor, name: Any = None) -> Any:
    """A copy of a part of a parameter's state, on its device and, but for a count of steps, in its dtype if a float."""
    if isinstance(value, mt.Tensor):
        value = value.detach().clone()
        if name == "step":
            return value
        return value.to(param.device, param.dtype) if param.is_floating_point() else value.to(param.device)
    if isinstance(value, dict):
        return {key: _fitted(part, param, key) for key, part in value.items()}
    if type(value) in (list, tuple, set):
        return type(value)(_fitted(part, param) for part in value)
    return deepcopy(value)
