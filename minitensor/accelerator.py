"""The accelerator of this machine that tensors can be on: CUDA, if a GPU can be used.

The functions answer as PyTorch's do, also where no accelerator is there, so that programs which ask before they use one
run.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from minitensor import _C, cuda
from minitensor.streams import Stream

__all__ = [
    "current_accelerator",
    "current_device_idx",
    "current_device_index",
    "current_stream",
    "device_count",
    "device_index",
    "is_available",
    "set_device_idx",
    "set_device_index",
    "set_stream",
    "synchronize",
]


def _require() -> None:
    if not cuda.is_available():
        raise RuntimeError("Cannot access accelerator device when none is available.")


def is_available() -> bool:
    """Whether there is an accelerator."""
    return cuda.is_available()


def device_count() -> int:
    """How many accelerators there are."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> Any:
    """The accelerator's kind as a `device`, or None."""
    return _C.device("cuda") if cuda.is_available() else None


def current_device_index() -> int:
    """The index of the accelerator in use; RuntimeError without one."""
    _require()
    return cuda.current_device()


def set_device_index(device: Any, /) -> None:
    """Say which accelerator to use; RuntimeError without one."""
    _require()
    cuda.set_device(device)


def current_stream(device: Any = None, /) -> Stream:
    """The stream that this thread gives its work on an accelerator to; RuntimeError without one."""
    _require()
    return Stream(_own=cuda.current_stream(device))


def set_stream(stream: Stream, /) -> None:
    """Have this thread give its work to the stream, and use its accelerator; RuntimeError without one."""
    if not isinstance(stream, Stream):
        raise TypeError(f"set_stream() takes a Stream, got {type(stream).__name__}")
    _require()
    if stream._own is None:
        raise RuntimeError(f"a stream of {stream.device} is not one of an accelerator")
    cuda.set_device(stream.device)
    cuda.set_stream(stream._own)


class device_index:  # noqa: N801  (PyTorch's name)
    """A context in which an accelerator is in use; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self.idx = device
        self.prev_idx = -1

    def __enter__(self) -> None:
        """Use the accelerator."""
        if self.idx is not None:
            self.prev_idx = current_device_index()
            set_device_index(self.idx)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Use the one of before."""
        if self.idx is not None:
            set_device_index(self.prev_idx)


def synchronize(device: Any = None, /) -> None:
    """Wait until the accelerator has done all it was given; RuntimeError without one."""
    _require()
    cuda.synchronize(device)


current_device_idx = current_device_index
set_device_idx = set_device_index
