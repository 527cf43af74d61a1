"""The base class of schedulers of learning rates."""

from __future__ import annotations

import types
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

from minitensor._C import Tensor
from minitensor._warning import warn
from minitensor.optim.optimizer import Optimizer

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the scheduler. During the deprecation, if epoch is different from None, the closed "
    "form is used instead of the new chainable form, where available. Please open an issue if you are unable to "
    "replicate your use case: https://github.com/pytorch/pytorch/issues/new/choose."
)
_DETAILS = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"


def values_of(optimizer: Optimizer, key: str) -> list[Any]:
    """The values of all groups under a key; tensors as copies."""
    return [own(group[key]) for group in optimizer.param_groups]


def own(value: Any) -> Any:
    """The value; a copy if it is a tensor."""
    return value.clone() if isinstance(value, Tensor) else value


def put(group: dict[str, Any], key: str, value: Any) -> None:
    """Set a value of a group; a tensor that is there is written."""
    if isinstance(group[key], Tensor):
        group[key].fill_(value.squeeze() if isinstance(value, Tensor) else value)
    else:
        group[key] = value


def for_groups(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """A value for each group, of one for all or a list."""
    groups = optimizer.param_groups
    if not isinstance(value, (list, tuple)):
        return [own(value) for _ in groups]
    if len(value) != len(groups):
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} values, "
            f"param_groups has {len(groups)}."
        )
    return [own(v) for v in value]


def check_optimizer(optimizer: Any) -> None:
    """TypeError if it is none."""
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


def attributes_of(function: Any) -> dict[str, Any] | None:
    """What is saved of a callable: a plain function, which can't be saved, gives None."""
    return None if isinstance(function, types.FunctionType) else function.__dict__.copy()


class LRScheduler:
    """Changes the learning rates of an optimizer's groups, at each :meth:`step`.

    A subclass defines :meth:`get_lr`; it may define ``_get_closed_form_lr``, for ``step(epoch)``. With ``last_epoch``
    other than -1 it goes on from there, with the groups' "initial_lr".
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        check_optimizer(optimizer)
        self.optimizer = optimizer
        for number, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", own(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{number}] when resuming scheduler with "
                    "last_epoch >= 0.\nThis typically happens when:\n1. You're trying to resume training from a "
                    "checkpoint but haven't properly loaded the optimizer state\n2. You're using last_epoch >= 0 for a "
                    "fresh training run (not recommended)"
                )
        self.base_lrs = values_of(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _note_steps(optimizer)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """Every attribute but the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over what :meth:`state_dict` returned."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The learning rates of the groups, as the last step set them."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The next learning rates; only :meth:`step` calls it."""
        raise NotImplementedError

    def step(self, epoch: int | None = None) -> None:
        """Set the next learning rates, or those of an epoch."""
        if self._step_count == 1:
            if not hasattr(self.optimizer.step, "_wrapped_by_lr_sched"):
                warn(
                    "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
                    f"Please, make sure to call `optimizer.step()` before `lr_scheduler.step()`. {_DETAILS}"
                )
            elif not getattr(self.optimizer, "_opt_called", False):
                warn(
                    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
                    "should call them in the opposite order: `optimizer.step()` before `lr_scheduler.step()`.  Failure "
                    "to do this will result in PyTorch skipping the first value of the learning rate schedule. "
                    f"{_DETAILS}"
                )
        self._step_count += 1
        if epoch is not None:
            warn(EPOCH_DEPRECATION_WARNING)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        closed = getattr(self, "_get_closed_form_lr", None)
        with self._in_step():
            rates = self.get_lr() if epoch is None or closed is None else closed()
        self._set(rates)

    @contextmanager
    def _in_step(self) -> Iterator[None]:
        self._get_lr_called_within_step = True
        try:
            yield
        finally:
            self._get_lr_called_within_step = False

    def _set(self, rates: list[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            put(group, "lr", rate)
        self._last_lr = self._rates()

    def _rates(self) -> list[Any]:
        return values_of(self.optimizer, "lr")

    def _times(self, factor: Any) -> list[Any]:
        return [group["lr"] * factor for group in self.optimizer.param_groups]

    def _warn_outside_of_step(self) -> None:
        if not self._get_lr_called_within_step:
            warn("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.")


class _LRScheduler(LRScheduler):
    """The base class by its older name."""


def _note_steps(optimizer: Optimizer) -> None:
    """Have the optimizer note that a step was made."""
    step: Any = optimizer.step
    if hasattr(step, "_wrapped_by_lr_sched"):
        return
    function: Callable[..., Any] = step.__func__
    reference = weakref.ref(optimizer)

    @wraps(function)
    def noted(*args: Any, **kwargs: Any) -> Any:
        mine: Any = reference()
        mine._opt_called = True
        return function(mine, *args, **kwargs)

    noted._wrapped_by_lr_sched = True  # type: ignore[attr-defined]
    optimizer.step = noted  # type: ignore[method-assign]
