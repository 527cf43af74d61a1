"""Handles of hooks."""

from __future__ import annotations

from typing import Any

from minitensor import _C


class RemovableHook:
    """What `register_hook` returns: `remove()` takes the hook away."""

    def __init__(self, node: Any, hook: Any) -> None:
        self._node, self._hook = node, hook

    def remove(self) -> None:
        """Take the hook away; a second call does nothing."""
        if self._hook is not None:
            _C.remove_hook(self._node, self._hook)
            self._node = self._hook = None
