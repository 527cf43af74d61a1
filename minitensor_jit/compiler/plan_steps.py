"""The steps of a launch plan, in the form in which the core reads them (`csrc/bindings/jit/compile_callback.cpp`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from minitensor_jit.compiler.trace_to_graph import ValueRef
from minitensor_jit.runtime.executable import AnyExecutable

__all__ = ["LaunchStep", "Step"]


class LaunchStep(NamedTuple):
    """A launch of compiled code."""

    entry: int
    """The address of the code."""
    inputs: Sequence[tuple[Any, str]]
    """Where each parameter is from, and its HLO type."""
    outputs: Sequence[ValueRef]
    scratch_bytes: int
    work_bytes: int
    """What it reads and writes, by which it is divided among threads."""
    executable: AnyExecutable
    name: str
    inside: Sequence[int]
    """The nodes of the trace whose ops it computes."""
    reports_errors: bool
    guarded: bool
    """Whether an op inside can fail: then all run again, one by one."""
    observer: Any
    """What observes its results, or None."""
    may_lose: bool
    """Whether its ops may run in its place, if these are faster."""
    program: Any
    """What launches it on a GPU, or None."""
    gpu: int
    """The number of the GPU, or -1."""


Step = int | LaunchStep
"""An op that its kernel runs, by its node in the trace, or a launch."""
