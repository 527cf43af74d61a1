"""Schedulers of cycles, of the learning rate and of the momentum against it."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from minitensor.optim.lr_scheduler.base import LRScheduler, attributes_of, check_optimizer, for_groups, put
from minitensor.optim.optimizer import Optimizer


class _OfMomentum(LRScheduler):
    """One that may change the momentum, or the first of the betas, as well."""

    def _cycles_momentum(self, optimizer: Optimizer, base: Any, highest: Any, last_epoch: int) -> tuple[Any, Any]:
        """Note and set the momentum of each group; its bounds."""
        if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.use_beta1 = "betas" in optimizer.defaults
        lows = for_groups("base_momentum", optimizer, base)
        highs = for_groups("max_momentum", optimizer, highest)
        if last_epoch == -1:
            for low, high, group in zip(lows, highs, optimizer.param_groups, strict=True):
                self._set_momentum(group, high)
                group["max_momentum"] = high
                group["base_momentum"] = low
        return lows, highs

    def _set_momentum(self, group: dict[str, Any], value: Any) -> None:
        if self.use_beta1:
            group["betas"] = (value, *group["betas"][1:])
        else:
            group["momentum"] = value


class CyclicLR(_OfMomentum):
    """The rate goes from ``base_lr`` to ``max_lr`` in ``step_size_up`` steps and back in ``step_size_down``.

    Smith, 2015, https://arxiv.org/abs/1506.01186. The height of a cycle stays ("triangular"), halves with each
    ("triangular2"), is multiplied by ``gamma`` with each step ("exp_range"), or by ``scale_fn`` of the number of the
    cycle or of the step (``scale_mode``, "cycle" or "iterations"). With ``cycle_momentum`` the momentum goes from
    ``max_momentum`` to ``base_momentum`` and back.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float = 0.8,
        max_momentum: float = 0.9,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        lows = for_groups("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for low, group in zip(lows, optimizer.param_groups, strict=True):
                put(group, "lr", low)
        self.max_lrs = for_groups("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        self.total_size = up + (up if step_size_down is None else float(step_size_down))
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        self._init_scale_fn()
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            found = self._cycles_momentum(optimizer, base_momentum, max_momentum, last_epoch)
            self.base_momentums, self.max_momentums = found
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def _init_scale_fn(self) -> None:
        if self._scale_fn_custom is not None:
            return
        self.scale_mode = "iterations" if self.mode == "exp_range" else "cycle"
        if self.mode == "exp_range":
            self._scale_fn_ref: Callable[[float], float] = partial(_of_step, self.gamma)
        else:
            self._scale_fn_ref = _halving if self.mode == "triangular2" else _staying

    def scale_fn(self, x: float) -> float:
        """The factor of a cycle's height, for the number of the cycle or of the step."""
        return self._scale_fn_ref(x) if self._scale_fn_custom is None else self._scale_fn_custom(x)

    def get_lr(self) -> list[Any]:
        """The next learning rates; the momentum is set."""
        self._warn_outside_of_step()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)

        def scaled(low: Any, high: Any) -> Any:
            return (high - low) * height * self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)

        rates = [low + scaled(low, high) for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]
        if self.cycle_momentum:
            bounds = zip(self.base_momentums, self.max_momentums, strict=True)
            momenta = [high - scaled(low, high) for low, high in bounds]
            for group, momentum in zip(self.optimizer.param_groups, momenta, strict=True):
                self._set_momentum(group, momentum)
        return rates

    def state_dict(self) -> dict[str, Any]:
        """Every attribute but the optimizer and functions; of ``scale_fn`` the attributes, if it is an object."""
        state = super().state_dict()
        state.pop("_scale_fn_ref", None)
        function = state["_scale_fn_custom"]
        state["_scale_fn_custom"] = None if function is None else attributes_of(function)
        return state

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
        saved = state_dict["_scale_fn_custom"]
        super().load_state_dict({key: value for key, value in state_dict.items() if key != "_scale_fn_custom"})
        if saved is not None:
            self._scale_fn_custom.__dict__.update(saved)
        self._init_scale_fn()


def _staying(_x: float) -> float:
    return 1.0


def _halving(x: float) -> float:
    return 1 / (2.0 ** (x - 1))


def _of_step(gamma: float, x: float) -> float:
    return gamma**x


class OneCycleLR(_OfMomentum):
    """The rate rises to ``max_lr`` and falls far below its beginning, in one cycle of ``total_steps``.

    Smith and Topin, 2017, https://arxiv.org/abs/1708.07120. It begins as ``max_lr / div_factor``, has risen after
    ``pct_start`` of the steps, and ends as ``max_lr / div_factor / final_div_factor``; with ``three_phase`` it falls to
    its beginning first, as fast as it rose. ``anneal_strategy`` is "cos" or "linear". The momentum goes from
    ``max_momentum`` to ``base_momentum`` and back. ``epochs`` times ``steps_per_epoch`` may be given for
    ``total_steps``.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        if total_steps is not None:
            _check_count("total_steps", total_steps)
            self.total_steps = total_steps
        elif epochs is not None and steps_per_epoch is not None:
            _check_count("epochs", epochs)
            _check_count("steps_per_epoch", steps_per_epoch)
            self.total_steps = epochs * steps_per_epoch
        else:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        rise, last = float(pct_start * self.total_steps) - 1, self.total_steps - 1
        up = _phase(rise, "initial_lr", "max_lr", "max_momentum", "base_momentum")
        if three_phase:
            again = float(2 * pct_start * self.total_steps) - 2
            down = _phase(again, "max_lr", "initial_lr", "base_momentum", "max_momentum")
            end = _phase(last, "initial_lr", "min_lr", "max_momentum", "max_momentum")
            self._schedule_phases = [up, down, end]
        else:
            self._schedule_phases = [up, _phase(last, "max_lr", "min_lr", "base_momentum", "max_momentum")]
        if not 0 <= pct_start <= 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_func_type = anneal_strategy
        highs = for_groups("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for high, group in zip(highs, optimizer.param_groups, strict=True):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self._cycles_momentum(optimizer, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _between(self, start: Any, end: Any, part: float) -> Any:
        if self._anneal_func_type == "linear":
            return (end - start) * part + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * part) + 1)

    def get_lr(self) -> list[Any]:
        """The next learning rates; the momentum is set."""
        self._warn_outside_of_step()
        step = self.last_epoch
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        begin, phases = 0.0, self._schedule_phases
        at = next((i for i, phase in enumerate(phases) if step <= phase["end_step"]), len(phases) - 1)
        if at:
            begin = phases[at - 1]["end_step"]
        phase = phases[at]
        part = (step - begin) / (phase["end_step"] - begin)
        rates = []
        for group in self.optimizer.param_groups:
            rates.append(self._between(group[phase["start_lr"]], group[phase["end_lr"]], part))
            if self.cycle_momentum:
                ends = group[phase["start_momentum"]], group[phase["end_momentum"]]
                self._set_momentum(group, self._between(*ends, part))
        return rates


def _phase(end: float, *keys: str) -> dict[str, Any]:
    return {"end_step": end} | dict(zip(("start_lr", "end_lr", "start_momentum", "end_momentum"), keys, strict=True))


def _check_count(name: str, value: Any) -> None:
    if not isinstance(value, int) or value <= 0:
        raise ValueError(f"Expected positive integer {name}, but got {value}")
