"""Handles that remove a registered hook."""

from __future__ import annotations

import itertools
from typing import Any

_keys = itertools.count()


class RemovableHandle:
    """Removes a hook: by :meth:`remove`, or at the end of a ``with`` block."""

    def __init__(self, hooks: dict[int, Any], key: int) -> None:
        self._hooks = hooks
        self._key = key

    def remove(self) -> None:
        """Remove the hook. Doing so twice is harmless."""
        self._hooks.pop(self._key, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.remove()


def add_hook(hooks: dict[int, Any], hook: Any, prepend: bool) -> RemovableHandle:
    """Add ``hook`` to the others, after or before them."""
    key = next(_keys)
    rest = dict(hooks) if prepend else {}
    if prepend:
        hooks.clear()
    hooks[key] = hook
    hooks.update(rest)
    return RemovableHandle(hooks, key)
