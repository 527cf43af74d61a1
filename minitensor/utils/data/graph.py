"""Which pipes a pipe takes."""

from __future__ import annotations

import io
import pickle
from typing import Any

from minitensor.utils.data.datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse", "traverse_dps"]


class _Finder(pickle.Pickler):
    """Finds the pipes in the state of one: by pickling, which reaches whatever it is made of."""

    def __init__(self, root: Any) -> None:
        super().__init__(io.BytesIO())
        self.root, self.found = root, []  # type: ignore[var-annotated]

    def persistent_id(self, obj: Any) -> Any:
        """A name for each pipe that is found; it is not looked into."""
        if isinstance(obj, (IterDataPipe, MapDataPipe)) and obj is not self.root:
            if not any(obj is one for one in self.found):
                self.found.append(obj)
            return id(obj)
        return None

    def reducer_override(self, obj: Any) -> Any:
        """What can't be pickled holds no pipes that could be seen."""
        if obj is _nothing or isinstance(obj, type) or (callable(obj) and not hasattr(obj, "__dict__")):
            return NotImplemented
        if callable(obj) and getattr(obj, "__qualname__", None) is not None:
            return _nothing, ()
        try:
            obj.__reduce_ex__(4)
        except Exception:
            return _nothing, ()
        return NotImplemented


def _nothing() -> None:
    """Stands for what can't be pickled."""


def traverse_dps(datapipe: Any) -> dict[int, Any]:
    """The graph of a pipe: by the id of the pipe, the pipe and the graph of those that it takes."""
    return _traverse(datapipe, set())


def traverse(datapipe: Any, only_datapipe: bool | None = None) -> dict[int, Any]:
    """The same."""
    return traverse_dps(datapipe)


def _traverse(pipe: Any, seen: set[int]) -> dict[int, Any]:
    if not isinstance(pipe, (IterDataPipe, MapDataPipe)):
        raise RuntimeError(f"Expected `IterDataPipe` or `MapDataPipe`, but {type(pipe)} is found")
    if id(pipe) in seen:
        return {}
    inner = seen | {id(pipe)}
    finder = _Finder(pipe)
    finder.dump(pipe.__getstate__())
    found: dict[int, Any] = {}
    for one in finder.found:
        found.update(_traverse(one, inner))
    return {id(pipe): (pipe, found)}
