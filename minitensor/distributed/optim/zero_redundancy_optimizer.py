"""An optimizer of which each process keeps the state of some parameters only (Rajbhandari et al., ZeRO, 2020)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from typing import Any

from minitensor import distributed as dist
from minitensor._functions.offered import cat
from minitensor.autograd import enable_grad
from minitensor.distributed.algorithms.join import Join, Joinable, JoinHook
from minitensor.distributed.communication.coalesced import broadcast_coalesced
from minitensor.optim import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """Steps with `optimizer_class` on this process's share of the parameters, and gets the others from their processes.

    Each parameter goes, the largest first, to the process that has the least so far; `defaults` are the options of
    `optimizer_class`. Gradients are the same on all processes, as `DistributedDataParallel` leaves them, so that every
    process has the parameters that one optimizer would give all of them, bit for bit.

    `parameters_as_bucket_view`: parameters become parts of one tensor for each process and dtype, which is sent without
    a copy. Steps can't be overlapped with the exchange of gradients: NotImplementedError for `overlap_with_ddp`.
    """

    optim: Any
    """The optimizer of this process's share."""

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if overlap_with_ddp:
            raise NotImplementedError(
                "ZeroRedundancyOptimizer(overlap_with_ddp=True): a step begins when all gradients are there"
            )
        given = list(params)
        if not given:
            raise ValueError("params argument given to the optimizer should be an iterable of Tensors, it is empty")
        Joinable.__init__(self)
        self.process_group: Any = dist.group.WORLD if process_group is None else process_group
        if self.process_group is None:
            raise ValueError(
                "Default process group has not been initialized, please make sure to call init_process_group."
            )
        self.world_size, self.rank = self.process_group.size(), self.process_group.rank()
        self._optimizer_class = optimizer_class
        self._optimizer_defaults = dict(defaults)
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self.initialized = False
        self._all_state_dicts: list[dict[str, Any]] = []
        self._buckets: list[list[Any]] = []
        Optimizer.__init__(self, given, dict(defaults))
        self._share_out()
        self.initialized = True

    # ---- whose is what

    def _share_out(self) -> None:
        """Give each process parameters, group by group, and make the optimizer of this one's."""
        load = [0] * self.world_size
        self._shares: list[list[list[Any]]] = [[[] for _ in self.param_groups] for _ in range(self.world_size)]
        for number, group in enumerate(self.param_groups):
            for parameter in sorted(group["params"], key=lambda p: -p.numel()):
                rank = min(range(self.world_size), key=load.__getitem__)
                load[rank] += parameter.numel() if parameter.requires_grad else 0
                self._shares[rank][number].append(parameter)
        self._owner = {
            id(parameter): rank for rank, groups in enumerate(self._shares) for parameter in chain.from_iterable(groups)
        }
        if self.parameters_as_bucket_view:
            self._make_buckets()
        mine = [
            {**{k: v for k, v in group.items() if k not in ("params", "param_names")}, "params": part}
            for group, part in zip(self.param_groups, self._shares[self.rank], strict=True)
        ]
        before = self.optim.state if self.initialized else None
        self.optim = self._optimizer_class(_present(mine), **self._optimizer_defaults)
        self._numbers = [n for n, group in enumerate(mine) if group["params"]]
        if before is not None:
            self.optim.state.update({p: s for p, s in before.items() if self._owner.get(id(p)) == self.rank})
        for group in self.param_groups:
            for ours in self.optim.param_groups:
                for key in ours:
                    if key not in ("params", "param_names"):
                        group.setdefault(key, ours[key])

    def _make_buckets(self) -> None:
        self._buckets = []
        for groups in self._shares:
            by_dtype: dict[Any, list[Any]] = {}
            for parameter in chain.from_iterable(groups):
                by_dtype.setdefault(parameter.dtype, []).append(parameter)
            made = []
            for parameters in by_dtype.values():
                flat = cat([p.detach().reshape(-1) for p in parameters])
                for parameter, part in zip(parameters, flat.split([p.numel() for p in parameters]), strict=True):
                    parameter.data = part.view(parameter.shape)
                made.append(flat)
            self._buckets.append(made)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters; all processes must add the same."""
        Optimizer.add_param_group(self, param_group)
        if self.initialized:
            self._share_out()

    # ---- steps

    def step(self, closure: Callable[[], Any] | None = None, **kwargs: Any) -> Any:
        """Step on this process's parameters, and get the others' from theirs; return the closure's result."""
        Join.notify_join_context(self)
        loss = self._local_step(closure, **kwargs)
        self._sync()
        return loss

    def _local_step(self, closure: Callable[[], Any] | None, **kwargs: Any) -> Any:
        self._copy_options(self.param_groups, self.optim.param_groups, to_mine=True)
        loss = None
        if self._numbers:
            loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        elif closure is not None:
            with enable_grad():
                loss = closure()
        self._copy_options(self.param_groups, self.optim.param_groups, to_mine=False)
        return loss

    def _copy_options(self, every: list[dict[str, Any]], mine: list[dict[str, Any]], to_mine: bool) -> None:
        for number, own in zip(self._numbers, mine, strict=False):  # a process without parameters has an empty group
            source, target = (every[number], own) if to_mine else (own, every[number])
            target.update({k: v for k, v in source.items() if k not in ("params", "param_names")})

    def _sync(self) -> None:
        for rank, groups in enumerate(self._shares):
            sent = self._buckets[rank] if self.parameters_as_bucket_view else list(chain.from_iterable(groups))
            broadcast_coalesced(sent, self.process_group, rank)

    # ---- state

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Collect the states of all processes on rank `to` of the group, for its `state_dict`."""
        mine = self.optim.state_dict()
        every: list[Any] | None = [None] * self.world_size if self.rank == to else None
        destination = dist.get_global_rank(self.process_group, to)
        dist.gather_object(mine, every, dst=destination, group=self.process_group)
        self._all_state_dicts = every or []

    def state_dict(self) -> dict[str, Any]:
        """Return the state of one optimizer of all parameters, on the rank that it was collected on.

        RuntimeError without `consolidate_state_dict`.
        """
        if not self._all_state_dicts:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to="
                f"{self.rank})` on all ranks beforehand if you meant to save the global state."
            )
        whole = Optimizer.state_dict(self)
        number = {id(p): n for n, p in enumerate(chain.from_iterable(g["params"] for g in self.param_groups))}
        for groups, state in zip(self._shares, self._all_state_dicts, strict=True):
            order = [number[id(p)] for p in chain.from_iterable(groups)]
            for place, found in state["state"].items():
                whole["state"][order[place]] = found
        whole["state"] = dict(sorted(whole["state"].items()))
        return whole

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Take the state of all parameters; each process keeps its own share."""
        Optimizer.load_state_dict(self, state_dict)
        own = {p: s for p, s in self.state.items() if self._owner.get(id(p)) == self.rank}
        self.state.clear()
        self.optim.state.clear()
        self.optim.state.update(own)
        self._copy_options(self.param_groups, self.optim.param_groups, to_mine=True)

    # ---- uneven inputs

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What is done in a process that has no more batches: its share of each step."""
        return _Step(self)

    @property
    def join_device(self) -> Any:
        """The device of the parameters."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self) -> Any:
        """The group of the processes."""
        return self.process_group


class _Step(JoinHook):
    def __init__(self, zero: ZeroRedundancyOptimizer) -> None:
        self.zero = zero

    def main_hook(self) -> None:
        """Step on the share of this process."""
        self.zero._local_step(None)
        self.zero._sync()


def _present(groups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The groups that have parameters; a group of none, if none has."""
    return [group for group in groups if group["params"]] or [{"params": []}]
