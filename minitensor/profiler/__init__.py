"""What runs and how long it takes, by PyTorch's names. Events come from the core's timeline of kernels and launches."""

from minitensor.profiler.events import DeviceType
from minitensor.profiler.profile import (
    ExecutionTraceObserver,
    ProfilerAction,
    ProfilerActivity,
    kineto_available,
    profile,
    schedule,
    supported_activities,
    tensorboard_trace_handler,
)
from minitensor.profiler.recording import record_function

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]
