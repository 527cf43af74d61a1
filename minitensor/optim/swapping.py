"""An optimizer that works on other parameters for a while."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from minitensor.optim.optimizer import Optimizer

__all__ = ["swap_in_optimizer_params_and_state"]


@contextmanager
def swap_in_optimizer_params_and_state(
    optimizer: Optimizer, swapin_parameters: Mapping[str, Any], swapin_optim_state: Mapping[str, Any]
) -> Iterator[None]:
    """Within the context the optimizer has other parameters and another state; afterwards its own again.

    ``swapin_parameters`` are in the order of the optimizer's parameters. ``swapin_optim_state`` has the form of
    ``optimizer.state_dict()``; its tensors are used as they are, so what is written to them in place stays there.
    ValueError where there are other numbers of groups or parameters.
    """
    groups, state = optimizer.param_groups, optimizer.state
    given = list(swapin_parameters.values())
    count = sum(len(group["params"]) for group in groups)
    packed = swapin_optim_state["param_groups"]
    if len(given) != count or [len(g["params"]) for g in packed] != [len(g["params"]) for g in groups]:
        raise ValueError(
            f"swap_in_optimizer_params_and_state: the optimizer has {count} parameters in {len(groups)} groups, and "
            f"there are {len(given)} to swap in, and {len(packed)} groups of their state"
        )
    numbers = [number for group in packed for number in group["params"]]
    by_number = dict(zip(numbers, given, strict=True))
    inside: Any = defaultdict(dict)
    for key, of_param in swapin_optim_state["state"].items():
        inside[by_number.get(key, key)] = dict(of_param) if isinstance(of_param, Mapping) else of_param
    optimizer.param_groups = [
        {**group, "params": [by_number[number] for number in group["params"]]} for group in packed
    ]
    optimizer.state = inside
    try:
        yield
    finally:
        optimizer.param_groups, optimizer.state = groups, state
