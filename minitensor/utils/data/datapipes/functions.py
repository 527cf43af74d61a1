"""What pipes that call functions have in common, and streams that close themselves."""

from __future__ import annotations

import fnmatch
import inspect
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from minitensor._warning import warn

__all__ = ["StreamWrapper", "check_columns", "length_of", "listed", "opened", "warn_of_unpicklable"]


def length_of(pipe: Any, source: Any) -> int:
    """The length of what a pipe takes. TypeError, which names the pipe, if it has none."""
    if not hasattr(type(source), "__len__"):
        raise TypeError(f"{type(pipe).__name__} instance doesn't have valid length")
    return len(source)


def warn_of_unpicklable(function: Any) -> None:
    """TypeError for what can't be called; a warning for what no other process can be sent."""
    if not callable(function):
        raise TypeError(f"A callable function is expected, but {type(function)} is provided.")
    inner = getattr(function, "func", function)
    if inspect.isfunction(inner) and (inner.__name__ == "<lambda>" or "<locals>" in inner.__qualname__):
        kind = "Lambda function" if inner.__name__ == "<lambda>" else "Local function"
        warn(f"{kind} is not supported by pickle, please use regular python function or functools.partial instead.")


def check_columns(function: Callable[..., Any], columns: Any) -> None:
    """ValueError if a function can't take as many arguments as there are columns."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):  # of C
        return
    count = len(columns) if isinstance(columns, (list, tuple)) else 1
    positional = [p for p in signature.parameters.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in positional)
    name = getattr(function, "__name__", type(function).__name__)
    if any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in signature.parameters.values()):
        raise ValueError(f"The function {name} takes a keyword-only parameter, which is not allowed.")
    rest = any(p.kind is p.VAR_POSITIONAL for p in signature.parameters.values())
    if count < least or (count > len(positional) and not rest):
        raise ValueError(f"The function {name} takes {len(positional)} parameters, but {count} are required.")


def listed(root: str, masks: str | list[str], recursive: bool, absolute: bool, unordered: bool) -> Iterator[str]:
    """The files of a folder whose names fit a mask, sorted unless that doesn't matter; a file itself."""
    masks = [masks] if isinstance(masks, str) else masks

    def fits(name: str) -> bool:
        return not any(masks) or any(fnmatch.fnmatch(name, mask) for mask in masks)

    def failed(error: OSError) -> None:
        warn(f"{error.filename} : {error.strerror}")
        raise error

    if os.path.isfile(root):
        path = os.path.abspath(root) if absolute else root
        if fits(os.path.basename(path)):
            yield path
        return
    for folder, folders, files in os.walk(root, onerror=failed):
        place = os.path.abspath(folder) if absolute else folder
        yield from (os.path.join(place, name) for name in (files if unordered else sorted(files)) if fits(name))
        if not recursive:
            break
        if not unordered:
            folders.sort()


class StreamWrapper:
    """A file that closes itself when nobody has it any more."""

    def __init__(self, file_obj: Any, parent_stream: Any = None, name: str | None = None) -> None:
        """`name`: how it is shown."""
        self.file_obj, self.name, self.closed = file_obj, name, False

    @classmethod
    def close_streams(cls, v: Any, depth: int = 0) -> None:
        """Close the streams among the items of tuples, lists and dicts."""
        if depth > 10:
            return
        if isinstance(v, StreamWrapper):
            v.close()
        elif isinstance(v, dict):
            for item in v.values():
                cls.close_streams(item, depth + 1)
        elif isinstance(v, (list, tuple)):
            for item in v:
                cls.close_streams(item, depth + 1)

    def close(self) -> None:
        """Close the file."""
        if not self.closed:
            self.closed = True
            self.file_obj.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["file_obj"], name)

    def __iter__(self) -> Iterator[Any]:
        yield from self.file_obj

    def __next__(self) -> Any:
        return next(self.file_obj)

    def __del__(self) -> None:
        if "file_obj" in vars(self):
            self.close()

    def __repr__(self) -> str:
        return (
            f"StreamWrapper<{self.file_obj!r}>"
            if self.name is None
            else f"StreamWrapper<{self.name},{self.file_obj!r}>"
        )


def opened(paths: Iterable[str], mode: str, encoding: str | None) -> Iterator[tuple[str, StreamWrapper]]:
    """Each path with its open file. TypeError for what is no path."""
    paths = [paths] if isinstance(paths, str) else paths
    mode = f"r{mode}" if mode in ("b", "t") else mode
    for path in paths:
        if not isinstance(path, str):
            raise TypeError(f"Expected string type for pathname, but got {type(path)}")
        yield path, StreamWrapper(open(path, mode, encoding=encoding), name=path)  # noqa: SIM115
