"""PyTorch's older profiler, over `minitensor.profiler`."""

from __future__ import annotations

from typing import Any

from minitensor.profiler import profile as _profile
from minitensor.profiler import record_function
from minitensor.profiler.events import EventList, FunctionEvent, FunctionEventAvg

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "emit_nvtx", "profile", "record_function"]


class profile:  # noqa: N801  (PyTorch's name)
    """A context in which every kernel is noted; see ``minitensor.profiler.profile``, whose results it has."""

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Any = None,
    ) -> None:
        self.enabled = enabled
        self._inner = _profile(
            record_shapes=record_shapes,
            with_flops=with_flops,
            profile_memory=profile_memory,
            with_stack=with_stack,
            acc_events=acc_events,
        )

    def __enter__(self) -> profile:
        if self.enabled:
            self._inner.start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self.enabled:
            self._inner.stop()

    @property
    def function_events(self) -> EventList:
        """The events."""
        return self._inner.events()

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Return the sums of events of one name."""
        return self._inner.key_averages(group_by_input_shape, group_by_stack_n)

    def table(self, sort_by: str | None = None, row_limit: int = 100, **widths: Any) -> str:
        """Return the events as a table."""
        return self._inner.events().table(sort_by, row_limit, **widths)

    def total_average(self) -> FunctionEventAvg:
        """Return the sum of all events."""
        return self._inner.events().total_average()

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events."""
        return self._inner.events().self_cpu_time_total

    def export_chrome_trace(self, path: str) -> None:
        """Write the trace for Perfetto and chrome://tracing."""
        self._inner.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write lines for a flame graph."""
        self._inner.export_stacks(path, metric)

    def __iter__(self) -> Any:
        return iter(self._inner.events())


class emit_nvtx:  # noqa: N801  (PyTorch's name)
    """Marks for NVIDIA's tools, which are not made: NotImplementedError unless it is not ``enabled``."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes

    def __enter__(self) -> emit_nvtx:
        if self.enabled:
            raise NotImplementedError("emit_nvtx: ranges for NVTX are not made; minitensor.profiler has GPUs' kernels")
        return self

    def __exit__(self, *_error: object) -> None:
        pass
