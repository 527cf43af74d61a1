"""Checkpointing: intermediate values are computed again in the backward pass instead of being kept."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any, cast

from minitensor import _C, autograd
from minitensor._warning import as_shown, warn
from minitensor.amp.state import restore_autocast
from minitensor.autograd.function import Saved, history_of
from minitensor.autograd.graph import saved_tensors_hooks
from minitensor.random import get_rng_state, set_rng_state
from minitensor.utils.selective_checkpoint import (
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
    ignored_ops,
)

__all__ = [
    "SAC_IGNORED_OPS",
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]

Tensor = _C.Tensor
_EARLY_STOP: list[bool | None] = [None]
SAC_IGNORED_OPS: frozenset[Any]  # made when it is asked for: the names of ops need the functions


class CheckpointError(RuntimeError):
    """The function did not save the same tensors when it was computed again."""


class set_checkpoint_early_stop(_C.Context):  # noqa: N801  (PyTorch's name)
    """A context that says of the checkpoints within it whether computing again ends as soon as nothing is missing.

    It is asked for when the function is called, not when it is computed again.
    """

    def __init__(self, enable: bool) -> None:
        self._enable = enable

    def _now(self) -> int:
        return len(_EARLY_STOP)

    def _set(self) -> None:
        _EARLY_STOP.append(self._enable)

    def _restore(self, before: int) -> None:
        del _EARLY_STOP[before:]


class GraphExecGroup(_C.Context):
    """Backward passes within one of these compute what is checkpointed again once, for all of them.

    For checkpoints without `use_reentrant`, and passes that ask for different parts of it. RuntimeError within another.
    """

    _current: GraphExecGroup | None = None

    def _now(self) -> None:
        if GraphExecGroup._current is not None:
            raise RuntimeError(
                f"GraphExecGroup contexts cannot be nested. Already inside group {GraphExecGroup._current}"
            )

    def _set(self) -> GraphExecGroup:
        GraphExecGroup._current = self
        return self

    def _restore(self, before: None) -> None:
        GraphExecGroup._current = before


class DefaultDeviceType:
    """The device whose random numbers are kept where no argument is on one that is not the CPU."""

    _device_type = "cuda"

    @staticmethod
    def set_device_type(device: str = "cuda") -> None:
        """Set it."""
        DefaultDeviceType._device_type = device

    @staticmethod
    def get_device_type() -> str:
        """Return it."""
        return DefaultDeviceType._device_type


def noop_context_fn() -> tuple[Any, Any]:
    """Return the contexts that ``checkpoint`` has by default: none."""
    return nullcontext(), nullcontext()


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the tensors of a tuple without their history, each wanting a gradient if it did.

    RuntimeError for anything but a tuple.
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}")
    return tuple(t.detach().requires_grad_(t.requires_grad) if isinstance(t, Tensor) else t for t in inputs)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warn if no tensor wants a gradient: then there is nothing to go back to."""
    if not any(isinstance(t, Tensor) and t.requires_grad for t in inputs):
        warn("None of the inputs have requires_grad=True. Gradients will be None")


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """Return the numbers of the GPUs that tensors among the arguments are on, and the states of their generators."""
    gpus = sorted({t.get_device() for t in _tensors(args) if t.device.type == "cuda"})
    return gpus, [_Random.of_gpus().get_rng_state(f"cuda:{gpu}") for gpu in gpus]


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], *, device_type: str | None = None) -> None:
    """Set the states of GPUs' generators to what ``get_device_states`` gave."""
    if (device_type or DefaultDeviceType.get_device_type()) == "meta":
        return
    for gpu, state in zip(devices, states, strict=True):
        _Random.of_gpus().set_rng_state(state, f"cuda:{gpu}")


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


_DEBUG: list[bool | None] = [None]


class set_checkpoint_debug_enabled(_C.Context):  # noqa: N801  (PyTorch's name)
    """A context that says for all checkpoints whether ``debug`` is on; None leaves it to each."""

    def __init__(self, enabled: bool | None) -> None:
        self._enabled = enabled

    def _now(self) -> int:
        return len(_DEBUG)

    def _set(self) -> None:
        _DEBUG.append(self._enabled)

    def _restore(self, before: int) -> None:
        del _DEBUG[before:]


class _Autocast(_C.Context):
    """Autocast as it was in the first run, for the second one."""

    def __init__(self) -> None:
        self._state = _C.autocast_state()

    def _now(self) -> tuple[int, int]:
        return _C.autocast_state(), _C.autocast_nesting()

    def _set(self) -> None:
        _C.autocast_state(self._state)
        _C.enter_autocast()

    def _restore(self, before: tuple[int, int]) -> None:
        restore_autocast(*before)


class _Random(_C.Context):
    """The states of the generators as they were, for the second run: the CPU's, and those of the arguments' GPUs."""

    def __init__(self, preserve: bool, args: Sequence[Any]) -> None:
        self._state = get_rng_state() if preserve else None
        gpus = {str(a.device) for a in args if isinstance(a, Tensor) and a.device.type == "cuda"} if preserve else ()
        self._gpus = {gpu: self.of_gpus().get_rng_state(gpu) for gpu in gpus}

    @staticmethod
    def of_gpus() -> Any:
        from minitensor import cuda

        return cuda

    def _now(self) -> Any:
        if self._state is None:
            return None
        return get_rng_state(), {gpu: self.of_gpus().get_rng_state(gpu) for gpu in self._gpus}

    def _set(self) -> None:
        if self._state is not None:
            self._restore((self._state, self._gpus))

    def _restore(self, before: tuple[Any, dict[str, Any]] | None) -> None:
        if before is None:
            return
        set_rng_state(before[0])
        for gpu, of_gpu in before[1].items():
            self.of_gpus().set_rng_state(of_gpu, gpu)


class _Arguments:
    """What the function was called with: tensors are kept as they are for any backward, and must not be changed."""

    def __init__(self, args: Sequence[Any]) -> None:
        self._others = [None if isinstance(a, Tensor) else a for a in args]
        self._saved = {i: Saved(a, None) for i, a in enumerate(args) if isinstance(a, Tensor)}
        self._with_history = [i for i in self._saved if history_of(args[i]) is not None]

    def get(self) -> list[Any]:
        given = [self._saved[i].get() if i in self._saved else other for i, other in enumerate(self._others)]
        if any(cast("Tensor", given[i]).grad_fn is None for i in self._with_history):
            raise RuntimeError(
                "Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(). This is not "
                "supported, please use out-of-place `.detach()` instead"
            )
        return given


class CheckpointFunction(autograd.Function):
    """Runs the function without a graph; its backward runs it again with one, and goes back through that."""

    @staticmethod
    def forward(ctx: Any, function: Any, preserve: bool, *args: Any) -> Any:
        """Call the function, and save the tensors among its arguments."""
        ctx.function, ctx.random, ctx.autocast = function, _Random(preserve, args), _Autocast()
        ctx.others = [None if isinstance(a, Tensor) else a for a in args]
        ctx.places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        return function(*args)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        """Call it again with a graph, and go back through that; RuntimeError in `autograd.grad`, which has inputs."""
        if not _C.backward_accumulates():
            raise RuntimeError(
                "When use_reentrant=True, checkpoint is incompatible with .grad() or passing an `inputs` parameter to "
                ".backward(). Set use_reentrant=False, or call .backward() without `inputs`."
            )
        args = list(ctx.others)
        for place, tensor in zip(ctx.places, ctx.saved_tensors, strict=True):
            args[place] = tensor.detach().requires_grad_(tensor.requires_grad)
        with ctx.random, ctx.autocast, autograd.enable_grad():
            results = ctx.function(*args)
        results = results if isinstance(results, (tuple, list)) else (results,)
        pairs = [(r, g) for r, g in zip(results, gradients, strict=True) if isinstance(r, Tensor) and r.requires_grad]
        if not pairs:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        autograd.backward([r for r, _ in pairs], [g for _, g in pairs])
        return (None, None, *(a.grad if isinstance(a, Tensor) else None for a in args))


class _StopRecomputationError(Exception):
    """Ends the second run when all that was saved has been computed."""


class _Frame:
    """One call: how many tensors it saved, and what they are once they have been computed again."""

    def __init__(
        self, run: Callable[[], Any], random: _Random, context: Callable[[], Any], checks: bool, early: bool
    ) -> None:
        self.run, self.random, self.context, self.checks, self.early = run, random, context, checks, early
        self.autocast = _Autocast()
        self.metas: list[tuple[Any, ...]] = []
        self.again: dict[int, Any] = {}
        self.backward: Any = 0  # the pass, or group, that they were computed for; another computes them anew

    def pack(self, tensor: Any) -> int:
        self.metas.append((tuple(tensor.shape), tensor.dtype, tensor.device))
        return len(self.metas) - 1

    def unpack(self, place: int) -> Any:
        backward = GraphExecGroup._current or _C.backward_id()
        if not backward or backward != self.backward:
            self.again = dict(enumerate(self._compute()))
            self.backward = backward
        if place not in self.again:
            raise CheckpointError(
                as_shown(
                    "minitensor.utils.checkpoint: a tensor that is computed again was asked for twice in one backward "
                    "pass. Keep what `saved_tensors` or an attribute like `_saved_self` gave."
                )
            )
        return self.again.pop(place)

    def _compute(self) -> list[Any]:
        found: list[Any] = []

        def pack(tensor: Any) -> Any:
            found.append(tensor.detach())
            if self.early and len(found) == len(self.metas):
                raise _StopRecomputationError
            return tensor.detach()

        # In PyTorch's order: the user's context is the innermost, and sees how the run ends.
        with (
            contextlib.suppress(_StopRecomputationError),
            saved_tensors_hooks(pack, lambda tensor: tensor),
            autograd.enable_grad(),
            self.random,
            self.autocast,
            self.context(),
        ):
            self.run()
        metas = [(tuple(t.shape), t.dtype, t.device) for t in found]
        if len(metas) != len(self.metas):
            raise CheckpointError(
                as_shown(
                    "minitensor.utils.checkpoint: A different number of tensors was saved during the original "
                    f"forward and recomputation.\nNumber of tensors saved during forward: {len(self.metas)}\n"
                    f"Number of tensors saved during recomputation: {len(metas)}."
                )
            )
        for place, (before, now) in enumerate(zip(self.metas, metas, strict=True)):
            if self.checks and before != now:
                raise CheckpointError(
                    as_shown(
                        "minitensor.utils.checkpoint: Recomputed values for the following tensors have "
                        f"different metadata than during the forward pass.\ntensor at position {place}:\n"
                        f"saved metadata: {before}\nrecomputed metadata: {now}"
                    )
                )
        return found


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] | None = None,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """`function(*args, **kwargs)` without keeping its intermediate values: backward computes them again.

    With `preserve_rng_state=True`, the default, random ops give the same numbers the second time. With `use_reentrant`
    the second run is a backward pass inside of the backward pass, and only positional tensors get gradients; without,
    saved tensors are replaced by places in the second run, which ends when all of them are there. `context_fn` gives
    contexts for the two runs. With `determinism_check="none"` the second run's shapes and dtypes are not compared.
    """
    preserve = kwargs.pop("preserve_rng_state", True)
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], got {determinism_check}")
    if _DEBUG[-1] is not None:
        debug = _DEBUG[-1]
    if use_reentrant is None:
        warn(
            "minitensor.utils.checkpoint: the use_reentrant parameter should be passed explicitly. Starting in "
            "PyTorch 2.9, calling checkpoint without use_reentrant will raise an exception. use_reentrant=False is "
            "recommended, but if you need to preserve the current default behavior, you can pass use_reentrant=True. "
            "Refer to docs for more details on the differences between the two variants."
        )
        use_reentrant = True
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not None or debug:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        if _C.is_grad_enabled() and not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            warn("None of the inputs have requires_grad=True. Gradients will be None")
        return CheckpointFunction.apply(function, preserve, *args)
    first, second = context_fn() if context_fn is not None else (nullcontext(), nullcontext())
    if not _C.recording():
        with first:
            return function(*args, **kwargs)
    given = _Arguments(args)
    early = early_stop if _EARLY_STOP[-1] is None else _EARLY_STOP[-1]
    frame = _Frame(
        lambda: function(*given.get(), **kwargs),
        _Random(preserve, args),
        lambda: second,
        determinism_check != "none",
        early,
    )
    with first, saved_tensors_hooks(frame.pack, frame.unpack):
        return function(*args, **kwargs)


def checkpoint_sequential(
    functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, **kwargs: Any
) -> Any:
    """The functions of a list, or of a Sequential, one after the other; all segments but the last are checkpointed."""
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if use_reentrant is None:
        warn("checkpoint_sequential: the use_reentrant parameter should be passed explicitly.")
        use_reentrant = True
    steps: Sequence[Any] = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def segment(start: int, end: int) -> Callable[[Any], Any]:
        def run(value: Any) -> Any:
            for step in steps[start:end]:
                value = step(value)
            return value

        return run

    size = len(steps) // segments
    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        run = segment(start, end)
        input = checkpoint(run, input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
    return segment(end, len(steps))(input)


def __getattr__(name: str) -> Any:
    if name == "SAC_IGNORED_OPS":
        return globals().setdefault(name, ignored_ops())
    raise AttributeError(f"module '{__name__}' has no attribute '{name}' (docs/names.md says what is here)")
