"""Looking at the graph, and changing how tensors are kept for the backward pass."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple
from weakref import WeakKeyDictionary

from minitensor import _C, _forks
from minitensor.autograd.hooks import RemovableHandle, register

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "region_activation_memory_budget",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
]

Node = _C.GradNode


class GradientEdge(NamedTuple):
    """A place in the graph that a gradient arrives at: a node, and which of its outputs."""

    node: Any
    output_nr: int


def get_gradient_edge(tensor: Any) -> GradientEdge:
    """The edge that the gradient of `tensor` arrives at; it keeps the graph alive, but not the tensor's memory."""
    if not tensor.requires_grad:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    if tensor.grad_fn is not None:
        return GradientEdge(tensor.grad_fn, tensor.output_nr)
    # A leaf's accumulator is found where a use of the leaf leads to.
    with _grad_mode(True):
        return GradientEdge(tensor.alias().grad_fn.next_functions[0][0], 0)


@contextmanager
def _grad_mode(enabled: bool) -> Any:
    previous = _C.recording()
    try:
        _C.set_recording(int(enabled))
        yield
    finally:
        _C.set_recording(previous)


def increment_version(tensor: Any) -> None:
    """Count a write to the tensor, or to each of several, that nothing else has counted."""
    for t in (tensor,) if isinstance(tensor, _C.Tensor) else tensor:
        _C.increment_version(t)


_DISABLED, _MUTABLE = threading.local(), threading.local()


class saved_tensors_hooks(_C.Context):  # noqa: N801  (PyTorch's name)
    """While it is in force, what is kept for backward is `pack_hook(tensor)`, and `unpack_hook` gives the tensor back.

    The innermost pair applies. The hooks must not change their argument in place.
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def _now(self) -> Any:
        message = getattr(_DISABLED, "message", None)
        if message is not None:
            raise RuntimeError(message)
        return _C.saved_tensor_hooks()

    def _set(self) -> None:
        for hook in (self.pack_hook, self.unpack_hook):
            if not callable(hook):
                raise TypeError(f"saved tensors are packed and unpacked by functions, not {type(hook).__name__}")
        _C.set_saved_tensor_hooks((self.pack_hook, self.unpack_hook))

    def _restore(self, before: Any) -> None:
        _C.set_saved_tensor_hooks(before)


class save_on_cpu(saved_tensors_hooks):  # noqa: N801  (PyTorch's name)
    """Keep what is saved for backward in host memory, and bring it back to its device when it is needed."""

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Any) -> Any:
            return tensor.device, tensor.detach().clone() if tensor.device.type == "cpu" else tensor.cpu()

        def unpack(packed: Any) -> Any:
            device, tensor = packed
            return tensor.to(device)

        super().__init__(pack, unpack)


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Any:
    """Within it, using saved_tensors_hooks raises a RuntimeError with the message; as it does within these itself."""
    if _C.saved_tensor_hooks() is not None:
        raise RuntimeError(error_message)
    previous = getattr(_DISABLED, "message", None)
    _DISABLED.message = error_message
    try:
        yield
    finally:
        _DISABLED.message = previous


class _Key:
    """Of something that was saved: its node has it, for as long as it may be asked for."""


class _Snapshots(saved_tensors_hooks):
    """Saved tensors, and a copy of each for the case that somebody writes to it."""

    def __init__(self) -> None:
        held: WeakKeyDictionary[_Key, tuple[Any, int | None, Any]] = WeakKeyDictionary()
        self._held = held

        def pack(tensor: Any) -> Any:
            key = _Key()
            held[key] = tensor, None if tensor.is_inference() else tensor._version, tensor.detach().clone()
            return key

        def unpack(key: Any) -> Any:
            if key not in held:
                raise AssertionError(
                    "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph "
                    "was originally recorded."
                )
            tensor, version, copy = held[key]
            return tensor if version is None or tensor._version == version else copy

        super().__init__(pack, unpack)

    def clear(self) -> None:
        """Forget what was saved: graphs that were recorded until now have no backward pass any more."""
        self._held.clear()


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[Any]:
    """Within it, tensors that are saved for backward may be written in place; backward uses what they held before.

    Every saved tensor is copied, so it costs the memory of them all. A backward pass through what was recorded within
    it has to be within it too: outside, and after `clear()` of what it gives, it is an AssertionError.
    """
    if getattr(_MUTABLE, "within", False):
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    _MUTABLE.within = True
    kept = _Snapshots()
    try:
        with kept:
            yield kept
    finally:
        _MUTABLE.within = False
        kept.clear()


def register_multi_grad_hook(
    tensors: Sequence[Any], fn: Callable[..., Any], *, mode: Literal["all", "any"] = "all"
) -> Any:
    """Call `fn` once a backward pass: with the list of all gradients, or in mode "any" with the first that comes.

    Gradients that the pass does not compute are None in the list. In mode "all" each tensor has to require grad.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if mode == "any":
        tensors = [t for t in tensors if t.requires_grad]
    elif not all(t.requires_grad for t in tensors):
        raise AssertionError("Expected gradient function to be set")
    lock = _forks.lock()
    edges = [get_gradient_edge(t) for t in tensors]
    seen: dict[int, dict[int, Any]] = defaultdict(dict)
    calls: dict[int, int] = defaultdict(int)

    def arrived(place: int, gradient: Any) -> None:
        run = _C.backward_id()
        with lock:
            known = seen[run]
            known[place] = gradient
            if mode == "any":
                fire = len(known) == 1
            else:
                # Which of the tensors this pass reaches is known from the start of it. As in PyTorch, the places count
                # that they had at the registration, also after `detach_()`.
                calls[run] += 1
                fire = calls[run] == sum(_C.will_execute(e.node) for e in edges)
            if fire and mode == "all":
                del seen[run], calls[run]
            for old in [r for r in seen if r != run]:
                del seen[old]
                calls.pop(old, None)
        if fire:
            fn(gradient) if mode == "any" else fn([known.get(i) for i in range(len(tensors))])

    def hook(place: int) -> Callable[[Any], None]:
        return lambda gradient: arrived(place, gradient)

    return _Handles([register(t, hook(i), "tensor") for i, t in enumerate(tensors)])


class _Handles:
    """Several handles as one."""

    def __init__(self, handles: Iterable[RemovableHandle]) -> None:
        self._handles = list(handles)

    def remove(self) -> None:
        """Take all the hooks away."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *exception: object) -> None:
        self.remove()


@contextmanager
def region_activation_memory_budget(budget: float) -> Iterator[None]:
    """Say how much of what a backward pass needs may be kept, from 0 to 1. All of it is, whatever is said.

    :func:`minitensor.utils.checkpoint.checkpoint` has parts computed again. ValueError for other numbers.
    """
    if not 0 <= budget <= 1:
        raise ValueError(f"budget must be in [0, 1], got {budget}")
    yield


def set_warn_on_accumulate_grad_stream_mismatch(enabled: bool) -> None:
    """Do nothing: gradients are computed and added up on one stream."""


def set_override_stale_capture_stream(enabled: bool) -> None:
    """Do nothing: no stream is captured."""
