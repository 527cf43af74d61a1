"""Streams and events of any kind of device, and the error of what fails there.

On the CPU a call is done when it returns, so that its one stream is always done, and there are no events to record, as
in PyTorch. Those of GPUs are `cuda`'s.
"""

from __future__ import annotations

from typing import Any

from minitensor import _C

__all__ = ["AcceleratorError", "Event", "Stream"]

# PyTorch's numbers.
_KINDS = {"cpu": 0, "cuda": 1, "meta": 14}


class AcceleratorError(RuntimeError):
    """What runs on a GPU failed, or its driver refused something."""


def _cuda() -> Any:
    from minitensor import cuda

    return cuda


def _device_of(device: Any) -> Any:
    """The device asked for: by default the accelerator, if there is one, otherwise the CPU."""
    if device is None:
        return _C.device("cuda", _cuda().current_device()) if _cuda().is_available() else _C.device("cpu")
    if isinstance(device, int) and not isinstance(device, bool):
        if not _cuda().is_available():
            raise RuntimeError("Cannot access accelerator device when none is available.")
        return _C.device("cuda", device)
    found = _C.device(device)
    if found.type not in _KINDS:
        raise RuntimeError(f"there are no streams of {found.type} devices")
    if found.type != "cuda":
        return _C.device(found.type)
    return _C.device("cuda", _cuda().current_device()) if found.index is None else found


def _described(thing: Stream | Event, more: str) -> str:
    index = -1 if thing.device.index is None else thing.device.index
    kind = "Stream" if isinstance(thing, Stream) else "Event"
    return f"{_C.shown_package()}.{kind} device_type={thing.device.type}, device_index={index}, {more}"


def _no_events(device: Any) -> RuntimeError:
    return RuntimeError(f"{device.type} backend doesn't support events.")


class Stream:
    """A queue of work on a device: what is given to it runs in order.

    `with mt.Stream("cuda"):` gives what is called inside to a new stream of a GPU.
    """

    __slots__ = ("_device", "_entered", "_own")

    def __init__(self, device: Any = None, *, priority: int = 0, _own: Any = None) -> None:
        if _own is None:
            found = _device_of(device)
            _own = _cuda().Stream(found, priority) if found.type == "cuda" else None
        self._own = _own
        self._device = found if _own is None else _own.device
        self._entered: list[Any] = []

    @property
    def device(self) -> Any:
        """The device that it belongs to."""
        return self._device

    @property
    def device_index(self) -> int:
        """The number of its GPU; -1 for other devices."""
        return -1 if self._device.index is None else int(self._device.index)

    @property
    def device_type(self) -> int:
        """PyTorch's number of the kind of device: 0 for the CPU, 1 for GPUs."""
        return _KINDS[self._device.type]

    @property
    def stream_id(self) -> int:
        """Its number on its device; 0 for the default one."""
        return 0 if self._own is None else int(self._own.stream_id)

    @property
    def native_handle(self) -> int:
        """The driver's handle; RuntimeError for devices without one."""
        if self._own is None:
            raise RuntimeError("Backend doesn't support getting stream native handle.")
        return int(self._own.cuda_stream)

    def query(self) -> bool:
        """Whether all that it was given is done; runs what is recorded first."""
        _C.flush("a stream's query()")
        return self._own is None or bool(self._own.query())

    def synchronize(self) -> None:
        """Wait until all that it was given is done; runs what is recorded first."""
        _C.flush("a stream's synchronize()")
        if self._own is not None:
            self._own.synchronize()

    def is_capturing(self) -> bool:
        """Whether a CUDA graph is being made of what it is given."""
        if self._own is None or self._own != _cuda().current_stream(self._device):
            return False
        return bool(_cuda().is_current_stream_capturing())

    def record_event(self, event: Event | None = None) -> Event:
        """An event that happens when all that it was given so far is done."""
        if event is not None and not isinstance(event, Event):
            raise RuntimeError("expected event to be a torch.Event object")
        made = Event(self._device) if event is None else event
        made.record(self)
        return made

    def wait_event(self, event: Event) -> None:
        """What it is given from here on begins after the event."""
        if not isinstance(event, Event):
            raise RuntimeError("expected event to be a torch.Event object")
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """What it is given from here on begins after all that the other was given so far."""
        if not isinstance(stream, Stream):
            raise RuntimeError("expected stream to be a torch.Stream object")
        self.wait_event(stream.record_event())

    def __enter__(self) -> Stream:
        """Have this thread give its work to the stream."""
        context = None if self._own is None else _cuda().stream(self._own)
        if context is not None:
            context.__enter__()
        self._entered.append(context)
        return self

    def __exit__(self, *error: Any) -> None:
        """Have it give its work to the stream of before."""
        context = self._entered.pop()
        if context is not None:
            context.__exit__(*error)

    def __eq__(self, other: object) -> bool:
        """Whether it is the same queue."""
        return isinstance(other, Stream) and (self._device, self.stream_id) == (other._device, other.stream_id)

    def __hash__(self) -> int:
        return hash((self._device, self.stream_id))

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle '{_C.shown_package()}.Stream' object")

    def __repr__(self) -> str:
        """The device and the number."""
        return _described(self, f"stream_id={self.stream_id}")


class Event:
    """A moment of a stream: to wait for, and with `enable_timing` to measure the time between two."""

    __slots__ = ("_device", "_own", "_timing")

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False
    ) -> None:
        for name, value in (("enable_timing", enable_timing), ("blocking", blocking), ("interprocess", interprocess)):
            if not isinstance(value, bool):
                raise TypeError(f"Event(): argument '{name}' must be bool, not {type(value).__name__}")
        self._device = _device_of(device)
        self._timing = enable_timing
        # PyTorch says that the other two have no effect.
        self._own: Any = _cuda().Event(enable_timing) if self._device.type == "cuda" else None

    @property
    def device(self) -> Any:
        """The device whose moments it can be."""
        return self._device

    @property
    def event_id(self) -> int:
        """0 before it is recorded, and on devices without events."""
        raw = None if self._own is None else self._own._moment.raw
        return 0 if raw is None else id(raw)

    def record(self, stream: Stream | None = None) -> None:
        """Let it be the moment when all that the stream was given so far is done."""
        if self._own is None:
            raise _no_events(self._device)
        if stream is not None and (not isinstance(stream, Stream) or stream._own is None):
            raise RuntimeError("expected stream to be a torch.Stream object of a GPU")
        self._own.record(None if stream is None else stream._own)

    def wait(self, stream: Stream | None = None) -> None:
        """What the stream is given from here on begins after it. Nothing if it was not recorded."""
        if self.event_id:
            self._own.wait(None if stream is None else stream._own)

    def query(self) -> bool:
        """Whether it has happened, or was not recorded."""
        return self._own is None or bool(self._own.query())

    def synchronize(self) -> None:
        """Wait until it has happened."""
        if self._own is not None:
            self._own.synchronize()

    def elapsed_time(self, other: Event) -> float:
        """Milliseconds from this event to another one."""
        if not isinstance(other, Event):
            raise RuntimeError("expected other to be a torch.Event object")
        if not (self._timing and other._timing):
            raise ValueError("Both events must be created with argument 'enable_timing=True'.")
        if not (self.event_id and other.event_id):
            raise ValueError("Both events must be recorded before calculating elapsed time.")
        return float(self._own.elapsed_time(other._own))

    def ipc_handle(self) -> bytes:
        """NotImplementedError, as in PyTorch."""
        raise NotImplementedError(f"{_C.shown_package()}.Event ipc is not supported")

    def __reduce__(self) -> Any:
        raise TypeError(f"cannot pickle '{_C.shown_package()}.Event' object")

    def __repr__(self) -> str:
        """The device, and whether times are measured."""
        return _described(self, f"event_flag={int(self._timing)}, event_id={self.event_id}")
