"""CUDA graphs by PyTorch's names. There is no capturing: a compiled function is what runs many kernels by one call."""

from __future__ import annotations

from typing import Any, NoReturn

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]


def _refused(name: str) -> NoReturn:
    raise NotImplementedError(
        f"cuda.{name}: streams can't be captured; minitensor.function(jit_compile=True) compiles a function as a whole"
    )


class CUDAGraph:
    """A captured stream. Programs name it in annotations; to make one is a NotImplementedError."""

    def __init__(self, *options: Any, **named: Any) -> None:
        _refused("CUDAGraph")


class graph:  # noqa: N801  (PyTorch's name)
    """A block that is captured: a NotImplementedError."""

    def __init__(self, *options: Any, **named: Any) -> None:
        _refused("graph")


def graph_pool_handle() -> NoReturn:
    """Raise NotImplementedError: there is no memory of graphs."""
    _refused("graph_pool_handle")


def make_graphed_callables(*arguments: Any, **named: Any) -> NoReturn:
    """Raise NotImplementedError: nothing is captured."""
    _refused("make_graphed_callables")


def is_current_stream_capturing() -> bool:
    """Return False: no stream ever is."""
    return False
