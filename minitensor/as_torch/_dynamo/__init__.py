"""`torch._dynamo`: what libraries outside PyTorch call of it."""

from __future__ import annotations

from minitensor import Tensor
from minitensor.as_torch._dynamo import config, exc
from minitensor.compiler import (
    OptimizedModule,
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
)

__all__ = [
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "exc",
    "graph_break",
    "is_compiling",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "maybe_mark_dynamic",
    "reset",
]


def graph_break(msg: str = "") -> None:
    """Do nothing: what can be compiled is compiled wherever it stands."""


def mark_dynamic(t: Tensor, index: int | tuple[int, ...] | list[int], **bounds: object) -> None:
    """Do nothing: sizes that vary are followed by themselves."""


def mark_static(t: Tensor, index: int | tuple[int, ...] | list[int] | None = None) -> None:
    """Do nothing: a size that never varies is compiled as a number."""


def mark_static_address(t: Tensor, guard: bool = True) -> None:
    """Do nothing: where a tensor lies is no part of compiled code."""


maybe_mark_dynamic = mark_dynamic
