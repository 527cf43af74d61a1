"""Processes with different numbers of inputs, by PyTorch's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, NamedTuple

from minitensor._functions.offered import ones, zeros
from minitensor._warning import warn
from minitensor.distributed.communication.collectives import all_reduce
from minitensor.distributed.groups.world import get_rank

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """What a process without inputs does in the place of a pass, and at the end."""

    def main_hook(self) -> None:
        """Make the exchanges of one pass of the others."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """Called once all processes have joined."""


class _JoinConfig(NamedTuple):
    enable: bool
    throw_on_early_termination: bool
    is_first_joinable: bool
    divide_by_initial_world_size: bool = True

    @staticmethod
    def construct_disabled_join_config() -> _JoinConfig:
        """Outside of a context."""
        return _JoinConfig(False, False, False)


class Joinable(ABC):
    """What exchanges something in each pass, and can do so without inputs."""

    def __init__(self) -> None:
        self._join_config = _JoinConfig.construct_disabled_join_config()

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return what a process without inputs does."""

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """The device of the exchanges that the context makes itself."""

    @property
    @abstractmethod
    def join_process_group(self) -> Any:
        """The group of the processes."""


class Join:
    """A context at whose end a process without inputs goes on with the exchanges of those that have some.

    Each joinable calls `Join.notify_join_context(self)` once a pass, before its exchanges. ValueError where there is
    none or they have different groups.
    """

    def __init__(
        self, joinables: list[Any], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable")
        self._joinables = joinables
        self._hooks: list[JoinHook] = []
        self._enable = enable
        self._throw = throw_on_early_termination
        groups = {id(one.join_process_group): one.join_process_group for one in joinables}
        if len(groups) > 1:
            raise ValueError("Using join context manager with multiple process groups")
        (self._group,) = groups.values()
        self._device = joinables[0].join_device
        for number, one in enumerate(joinables):
            one._join_config = _JoinConfig(
                enable, throw_on_early_termination, number == 0, kwargs.get("divide_by_initial_world_size", True)
            )
        self._hooks = [one.join_hook(**kwargs) for one in joinables]

    def __enter__(self) -> Join:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._enable and kind is None:
                self._join()
        finally:
            for one in self._joinables:
                one._join_config = _JoinConfig.construct_disabled_join_config()

    def _join(self) -> None:
        passes = 0
        last = True
        while True:
            active = self._active()
            if not active:
                break
            last = False
            if self._throw:
                self._say_that_it_ends()
            if passes == 1000:
                warn(
                    "Detected uneven input skew of greater than 1000. This means that rank "
                    f"{get_rank(self._group)} has at least 1000 fewer inputs than other currently-active ranks. "
                    "This level of skew could lead to performance degradation during training."
                )
            for hook in self._hooks:
                hook.main_hook()
            passes += 1
        for hook in self._hooks:
            hook.post_hook(last)

    def _active(self) -> int:
        count = zeros(1, device=self._device)
        all_reduce(count, group=self._group)
        return int(count.item())

    def _say_that_it_ends(self) -> None:
        all_reduce(zeros(1, device=self._device), group=self._group)
        raise RuntimeError(f"Rank {get_rank(self._group)} exhausted all inputs.")

    @staticmethod
    def notify_join_context(joinable: Joinable) -> None:
        """Say that this process has a pass to make. RuntimeError if another has none and the context says so."""
        if not hasattr(joinable, "_join_config"):
            raise AssertionError(f"Check that the {type(joinable)} constructor calls the ``Joinable`` constructor")
        config = joinable._join_config
        if not config.enable or not config.is_first_joinable:
            return
        all_reduce(ones(1, device=joinable.join_device), group=joinable.join_process_group)
        if config.throw_on_early_termination:
            ended = ones(1, device=joinable.join_device)
            all_reduce(ended, group=joinable.join_process_group)
            if int(ended.item()) != joinable.join_process_group.size():
                raise RuntimeError("Detected at least one rank that exhausted inputs. Throwing across all ranks.")
