"""Averages of models over their training."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

from minitensor import nn
from minitensor._C import int64
from minitensor._functions.offered import tensor
from minitensor.autograd import no_grad
from minitensor.nn.modules.batchnorm import _BatchNorm
from minitensor.optim import lists
from minitensor.optim.lr_scheduler.base import LRScheduler, for_groups
from minitensor.optim.optimizer import Optimizer

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """A function of lists of averages and of parameters, which moves the averages by ``1 - decay``."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param_list: Any, current_param_list: Any, _: Any) -> None:
        """Move the averages."""
        if ema_param_list[0].is_floating_point() or ema_param_list[0].is_complex():
            lists.lerp_(ema_param_list, current_param_list, 1 - decay)
        else:
            moved = lists.add(lists.mul(ema_param_list, decay), lists.mul(current_param_list, 1 - decay))
            lists.copy_(ema_param_list, moved)

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """A function of lists of averages and of parameters, and of how many are averaged: the mean of all."""

    @no_grad()
    def swa_update(averaged_param_list: Any, current_param_list: Any, num_averaged: Any) -> None:
        """Move the averages."""
        if averaged_param_list[0].is_floating_point() or averaged_param_list[0].is_complex():
            lists.lerp_(averaged_param_list, current_param_list, 1 / (num_averaged + 1))
        else:
            moves = lists.div(lists.sub(current_param_list, averaged_param_list), num_averaged + 1)
            lists.copy_(averaged_param_list, lists.add(averaged_param_list, moves))

    return swa_update


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Any]:
    """A function of an average and a parameter, which gives the average moved by ``1 - decay``."""
    _check_decay(decay)

    @no_grad()
    def ema_update(ema_param: Any, current_param: Any, num_averaged: Any) -> Any:
        """The next average."""
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Callable[..., Any]:
    """A function of an average and a parameter, and of how many are averaged: the mean of all."""

    @no_grad()
    def swa_update(averaged_param: Any, current_param: Any, num_averaged: Any) -> Any:
        """The next average."""
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(nn.Module):
    """A copy of a model whose parameters are averages of the model's, of the times of :meth:`update_parameters`.

    ``avg_fn(average, parameter, count)`` gives the next average, or ``multi_avg_fn(averages, parameters, count)``
    changes a list of them; without either it is the mean. Buffers are averaged with ``use_buffers``, else copied.
    """

    def __init__(
        self,
        model: nn.Module,
        device: Any = None,
        avg_fn: Callable[..., Any] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the averaged model gives."""
        return self.module(*args, **kwargs)

    def update_parameters(self, model: nn.Module) -> None:
        """Take the model's parameters into the averages; the first time they are copied."""

        def averaged(of: nn.Module) -> Iterable[Any]:
            return itertools.chain(of.parameters(), of.buffers()) if self.use_buffers else of.parameters()

        averages = [p.detach() for p in averaged(self.module)]
        currents = [p.detach().to(a.device) for a, p in zip(averages, averaged(model), strict=False)]
        count: Any = self.n_averaged
        if count == 0:
            for average, current in zip(averages, currents, strict=True):
                average.copy_(current)
        elif self.multi_avg_fn is not None:
            kinds: dict[Any, list[int]] = {}
            for at, average in enumerate(averages):
                kinds.setdefault((str(average.device), average.dtype), []).append(at)
            for places in kinds.values():
                here = count.to(averages[places[0]].device)
                self.multi_avg_fn([averages[i] for i in places], [currents[i] for i in places], here)
        else:
            function = get_swa_avg_fn() if self.avg_fn is None else self.avg_fn
            for average, current in zip(averages, currents, strict=True):
                average.copy_(function(average, current, count.to(average.device)))
        if not self.use_buffers:
            for mine, theirs in zip(self.module.buffers(), model.buffers(), strict=True):
                mine.detach().copy_(theirs.detach().to(mine.device))
        self.n_averaged += 1


@no_grad()
def update_bn(loader: Iterable[Any], model: nn.Module, device: Any = None) -> None:
    """Compute the statistics of a model's batch norms anew, over the batches of a loader (their first items)."""
    norms: list[Any] = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    was_training = model.training
    model.train()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # all batches count alike
    for batch in loader:
        first = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(first if device is None else first.to(device))
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """The rate goes to ``swa_lr``, a number or one for each group, within ``anneal_epochs``, and stays there.

    Izmailov et al., 2018, https://arxiv.org/abs/1803.05407. ``anneal_strategy`` is "cos" or "linear".
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        for rate, group in zip(for_groups("swa_lr", optimizer, swa_lr), optimizer.param_groups, strict=True):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def anneal_func(self, t: float) -> float:
        """How much of the way has been gone after that part of the time."""
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[Any]:
        """The next learning rates."""
        self._warn_outside_of_step()
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = (self.anneal_func(max(0, min(1, at / max(1, self.anneal_epochs)))) for at in (step - 1, step))
        rates = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            # Where the rate began, from where it is.
            begin = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            rates.append(end * now + begin * (1 - now))
        return rates
