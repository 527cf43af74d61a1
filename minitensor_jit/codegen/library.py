"""The functions of the eager core that compiled modules call, and the evaluator too."""

from __future__ import annotations

from minitensor import _C

from ..ir.library import Loop

__all__ = ["CoreLibrary"]


class CoreLibrary:
    """The inner loops of the core's elementwise kernels, by the names of its ops."""

    def __init__(self) -> None:
        self._loops: dict[tuple[str, str], Loop | None] = {}

    def loop(self, name: str, dtype: str) -> Loop | None:
        """The loop that the eager kernel of the op `name` runs on elements of that type, if there is one."""
        key = name, dtype
        if key not in self._loops:
            found = _C.elementwise_loop(name, dtype)
            self._loops[key] = None if found is None else Loop(name, dtype, found[1], found[2], found[0])
        return self._loops[key]
