"""A module that several processes train together: each on its part of a batch, with the gradients' mean."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from minitensor import _C
from minitensor import distributed as dist
from minitensor._C import int64, is_grad_enabled
from minitensor._functions.offered import ones, tensor, zeros
from minitensor._warning import warn
from minitensor.distributed.algorithms.join import Join, Joinable, JoinHook
from minitensor.distributed.communication.coalesced import broadcast_coalesced
from minitensor.nn.modules import Module
from minitensor.nn.parallel.reducer import Reducer

__all__ = ["DistributedDataParallel"]

_OLDER = (
    "`broadcast_buffers` is deprecated: use `forward_sync_buffers`. With it false all processes still "
    "begin with the buffers of rank 0, with `broadcast_buffers=False` they don't"
)
_BOTH = "`broadcast_buffers` is deprecated, and ignored where `forward_sync_buffers` is given"

# Not attributes: a compiled function that calls the module compares these before each call, and what counts the
# gradients of a pass is another at every one. A program has its own exchanges.
_REDUCERS: weakref.WeakKeyDictionary[Any, Reducer] = weakref.WeakKeyDictionary()
_GROUPS: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()


class DistributedDataParallel(Module, Joinable):
    """Calls `module`, and has its gradients be the means over all processes of a group when a backward pass ends.

    All processes make it of the same module, and begin with the parameters and buffers of rank 0 (`init_sync`). Names
    in its state dict begin with "module.", as in PyTorch.

    `forward_sync_buffers`: before each forward pass buffers become those of rank 0 (`broadcast_buffers` is its older
    name; if that is false, they don't at the beginning either). `bucket_cap_mb`: gradients are exchanged in buckets of
    so many MiB; by default the first is 1 MiB and the others 25. `bucket_cap_mb_list` has a number for each bucket, the
    last one for those that are left. Their sizes change no bit. `batched_grad_copy` is taken: copies are as they are.
    `find_unused_parameters`: some parameters may play no part in a pass, which is seen in the graph of the result.
    `gradient_as_bucket_view`: `.grad` is a part of a bucket's memory, which saves a copy. `static_graph`: every pass
    uses the same parameters as the first one.

    Modules are on the CPU, or all on one GPU: `device_ids` is None, or for a GPU a list of its number. ValueError for
    others, RuntimeError where no parameter wants a gradient or processes have different modules.
    """

    def __init__(
        self,
        module: Module,
        device_ids: Sequence[Any] | None = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool | None = None,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
        skip_all_reduce_unused_params: bool = False,
        bucket_cap_mb_list: Sequence[int] | None = None,
        batched_grad_copy: bool = False,
        forward_sync_buffers: bool | None = None,
    ) -> None:
        super().__init__()
        Joinable.__init__(self)
        for name, given in (
            ("delay_all_reduce_named_params", delay_all_reduce_named_params),
            ("param_to_hook_all_reduce", param_to_hook_all_reduce),
            ("mixed_precision", mixed_precision),
            ("device_mesh", device_mesh),
        ):
            if given is not None:
                raise NotImplementedError(f"DistributedDataParallel: {name} is not supported")
        group = dist.group.WORLD if process_group is None else process_group
        if group is None:
            raise ValueError(
                "Default process group has not been initialized, please make sure to call init_process_group."
            )
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        self.parameters_to_ignore = ignored
        named = [(n, p) for n, p in module.named_parameters() if p.requires_grad and n not in ignored]
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient."
            )
        self.device_ids = _checked_devices(module, device_ids, output_device)
        self.output_device = self.device_ids[0] if self.device_ids else None
        self.module = module
        _GROUPS[self] = group
        self.dim = dim
        self.device = named[0][1].device
        if broadcast_buffers is not None:
            warn(_BOTH if forward_sync_buffers is not None else _OLDER, FutureWarning)
        sync_buffers = broadcast_buffers is not False if forward_sync_buffers is None else True
        self.forward_sync_buffers = sync_buffers if forward_sync_buffers is None else forward_sync_buffers
        self.batched_grad_copy = batched_grad_copy
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.static_graph = static_graph
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        if bucket_cap_mb is not None and bucket_cap_mb <= 0:
            raise ValueError(f"bucket_cap_mb must be positive, got {bucket_cap_mb}")
        capacities: list[float] = (
            [*bucket_cap_mb_list] if bucket_cap_mb_list else [bucket_cap_mb] if bucket_cap_mb else []
        )
        if any(capacity <= 0 for capacity in capacities):
            raise ValueError(f"bucket_cap_mb_list must have positive numbers, got {capacities}")
        self._module_buffers = [b for n, b in module.named_buffers() if n not in ignored]
        self._check_same(named)
        if init_sync:
            others = [p for n, p in module.named_parameters() if n not in ignored]
            buffers = self._module_buffers if sync_buffers else []
            broadcast_coalesced([*others, *buffers], self.process_group, 0)
        self._options: dict[str, Any] = {
            "bucket_bytes": [int(capacity * (1 << 20)) for capacity in capacities] or None,
            "find_unused": find_unused_parameters,
            "as_view": gradient_as_bucket_view,
            "static": static_graph,
        }
        self._begin(named)

    def _begin(self, named: Sequence[tuple[str, Any]]) -> None:
        reducer = Reducer(named, self.process_group, **self._options)
        owner = weakref.ref(self)

        def tell_joined() -> None:
            if (ddp := owner()) is not None:
                ddp._tell_joined()

        reducer.on_start = tell_joined
        _REDUCERS[self] = reducer

    @property
    def broadcast_buffers(self) -> bool:
        """The older name of `forward_sync_buffers`."""
        return self.forward_sync_buffers

    @broadcast_buffers.setter
    def broadcast_buffers(self, value: bool) -> None:
        self.forward_sync_buffers = value

    @property
    def reducer(self) -> Reducer:
        """What averages the gradients."""
        return _REDUCERS[self]

    @property
    def process_group(self) -> Any:
        """The group of the processes."""
        return _GROUPS[self]

    def _check_same(self, named: Sequence[tuple[str, Any]]) -> None:
        mine = [(name, str(p.dtype), tuple(p.shape)) for name, p in named]
        every: list[Any] = [None] * self.process_group.size()
        dist.all_gather_object(every, mine, self.process_group)
        for rank, theirs in enumerate(every):
            if theirs == every[0]:
                continue
            if len(theirs) != len(every[0]):
                what = f"{len(theirs)} parameters, rank 0 has {len(every[0])}"
            else:
                a, b = next((a, b) for a, b in zip(theirs, every[0], strict=True) if a != b)
                what = f"{a[0]} of {a[1]}{list(a[2])}, rank 0 {b[0]} of {b[1]}{list(b[2])}"
            raise RuntimeError(f"DDP expects same model across all ranks, but rank {rank} has {what}")

    def __getstate__(self) -> dict[str, Any]:
        return dict(super().__getstate__())

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Join the default group anew."""
        super().__setstate__(state)
        _GROUPS[self] = dist.group.WORLD
        named = [
            (n, p) for n, p in self.module.named_parameters() if p.requires_grad and n not in self.parameters_to_ignore
        ]
        self._begin(named)

    # ---- passes

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Return the module's result; the backward pass from it averages gradients, but for one in `no_sync`."""
        syncs = is_grad_enabled() and self.require_backward_grad_sync
        Join.notify_join_context(self)
        if self._join_config.enable:
            self._share_flags()
        if syncs:
            self.reducer.before_forward()
        if self.will_sync_module_buffers():
            self._sync_buffers()
        found = self.module(*inputs, **kwargs)
        if syncs:
            self.require_forward_param_sync = True
            self.reducer.before_backward(found)
        else:
            self.require_forward_param_sync = False
        return found

    def will_sync_module_buffers(self) -> bool:
        """Return whether the next forward pass takes buffers from rank 0."""
        return self.require_forward_param_sync and self.forward_sync_buffers and bool(self._module_buffers)

    def _sync_buffers(self) -> None:
        source = 0
        if self._join_config.enable:
            source = self._last_active(self.process_group.rank())
        broadcast_coalesced(self._module_buffers, self.process_group, source)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Have forward passes inside leave gradients to add up in each process; the next one outside averages sums."""
        before = self.require_backward_grad_sync
        self.require_backward_grad_sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def register_comm_hook(self, state: object, hook: Callable[..., Any]) -> None:
        """Have `hook(state, bucket)` exchange each bucket in place of the mean; it returns a future of the new buffer.

        TypeError if it is not callable, RuntimeError for a second one.
        """
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self.reducer.hook = (state, hook)

    def _set_static_graph(self) -> None:
        self.static_graph = self.reducer.static = self._options["static"] = True

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(module: Module, params_and_buffers_to_ignore: Any) -> None:
        """Leave parameters and buffers of these names to each process."""
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore

    # ---- uneven inputs

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Join:
        """A context in which processes may have different numbers of batches.

        Who has no more takes part in the others' exchanges with zeros; their sums are divided by the number of all
        processes, or with `divide_by_initial_world_size=False` by that of those that still have some. At the end all
        have the parameters of one that went on longest. With `throw_on_early_termination` everyone raises RuntimeError
        as soon as one has no more.
        """
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What is done in a process that has no more batches."""
        return _Shadow(self)

    @property
    def join_device(self) -> Any:
        """The device of the module."""
        return self.device

    @property
    def join_process_group(self) -> Any:
        """The group of the processes."""
        return self.process_group

    def _last_active(self, mine: int) -> int:
        """The highest rank that says so of itself; -1 stands for one that says nothing."""
        found = tensor([mine])
        dist.all_reduce(found, dist.ReduceOp.MAX, self.process_group)
        return int(found.item())

    def _share_flags(self) -> None:
        """Who has no more batches must know what this pass exchanges: buffers, and gradients."""
        syncs = is_grad_enabled() and self.require_backward_grad_sync
        flags = tensor([int(self.will_sync_module_buffers()), int(syncs)])
        dist.all_reduce(flags, dist.ReduceOp.MAX, self.process_group)

    def _tell_joined(self) -> None:
        config = self._join_config
        if not config.enable:
            self.reducer.divisor = None
            return
        active = ones(1)
        dist.all_reduce(active, group=self.process_group)
        whole = config.divide_by_initial_world_size
        self.reducer.divisor = self.process_group.size() if whole else int(active.item())


class _Shadow(JoinHook):
    """The exchanges of a process without batches."""

    def __init__(self, ddp: DistributedDataParallel) -> None:
        self.ddp = ddp

    def main_hook(self) -> None:
        """Take part in one pass of the others."""
        ddp, group = self.ddp, self.ddp.process_group
        flags = zeros(2, dtype=int64)
        dist.all_reduce(flags, dist.ReduceOp.MAX, group)
        buffers, gradients = flags.tolist()
        if gradients:
            ddp.reducer.before_forward()
        if buffers:
            broadcast_coalesced(ddp._module_buffers, group, ddp._last_active(-1))
        if gradients:
            dist.all_reduce(zeros(1), group=group)
            ddp.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        """Take the parameters and buffers of one that went on longest."""
        ddp = self.ddp
        source = ddp._last_active(ddp.process_group.rank() if is_last_joiner else -1)
        every = itertools.chain(ddp.module.parameters(), ddp._module_buffers)
        broadcast_coalesced(list(every), ddp.process_group, source)


def _checked_devices(module: Module, device_ids: Sequence[Any] | None, output_device: Any) -> list[Any]:
    devices = {p.device for p in module.parameters()}
    kinds = {device.type for device in devices}
    if len(kinds) > 1:
        raise ValueError(
            "DistributedDataParallel's input module must be on the same type of devices, but input module parameters "
            f"locate in {kinds}."
        )
    if device_ids is None or len(device_ids) == 0:
        return []
    if len(device_ids) > 1:
        raise ValueError("device_ids can only be None or contain a single element.")
    if kinds == {"cpu"} or len(devices) > 1:
        raise ValueError(
            "DistributedDataParallel device_ids and output_device arguments only work with "
            f"single-device/multiple-device GPU modules or CPU modules, but got device_ids {list(device_ids)}, "
            f"output_device {output_device}, and module parameters {devices}."
        )
    wanted = device_ids[0]
    wanted = _C.device("cuda", wanted) if isinstance(wanted, int) else _C.device(wanted)
    if devices != {wanted}:
        raise ValueError(f"device_ids is [{wanted}], but the module's parameters are on {devices}")
    return [wanted.index]
