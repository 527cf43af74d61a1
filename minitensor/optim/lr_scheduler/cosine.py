"""Schedulers that let the learning rates fall as a cosine does."""

# ruff: noqa: N803  (PyTorch's names)

from __future__ import annotations

import math
from typing import Any

from minitensor.optim.lr_scheduler.base import LRScheduler
from minitensor.optim.optimizer import Optimizer


class CosineAnnealingLR(LRScheduler):
    """The rate falls to ``eta_min`` until epoch ``T_max`` as half of a cosine's wave does, and rises again.

    Loshchilov and Hutter, 2016, https://arxiv.org/abs/1608.03983, without restarts.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The next learning rates."""
        self._warn_outside_of_step()
        if self._is_initial:
            return self._rates()
        groups = self.optimizer.param_groups
        if self._step_count == 1 and self.last_epoch > 0:
            wave = 1 + math.cos(self.last_epoch * math.pi / self.T_max)
            return [self.eta_min + (rate - self.eta_min) * wave / 2 for rate in self.base_lrs]
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            wave = 1 - math.cos(math.pi / self.T_max)
            pairs = zip(self.base_lrs, groups, strict=True)
            return [group["lr"] + (rate - self.eta_min) * wave / 2 for rate, group in pairs]
        now = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        before = 1 + math.cos(math.pi * (self.last_epoch - 1) / self.T_max)
        return [now / before * (group["lr"] - self.eta_min) + self.eta_min for group in groups]

    def _get_closed_form_lr(self) -> list[Any]:
        wave = 1 + math.cos(math.pi * self.last_epoch / self.T_max)
        return [self.eta_min + (rate - self.eta_min) * wave / 2 for rate in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """The rate falls to ``eta_min`` within ``T_0`` epochs, then begins anew, for ``T_mult`` times as many each time.

    Loshchilov and Hutter, 2016, https://arxiv.org/abs/1608.03983. ``step`` may be called with fractions of epochs.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        if not isinstance(eta_min, (float, int)):
            raise ValueError(f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}")
        self.T_0 = T_0
        self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """The next learning rates."""
        self._warn_outside_of_step()
        wave = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (rate - self.eta_min) * wave / 2 for rate in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Set the next learning rates, or those of an epoch, which may be a fraction."""
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        elif epoch < self.T_0:
            self.T_cur, self.T_i = epoch, self.T_0
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            restarts = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**restarts - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**restarts
        self.last_epoch = math.floor(epoch)
        with self._in_step():
            rates = self.get_lr()
        self._set(rates)
