"""Object code in memory, loaded by the core's own linker: code from disk needs no LLVM."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from minitensor import _C

__all__ = ["LoadedCode"]


class LoadedCode:
    """Object code in memory; `close` (or the end of the object's life) unloads it.

    `imports` has the addresses of functions that it calls by name. Where the core has no linker for the machine, LLVM's
    is used. RuntimeError if an object is damaged or calls what is not there, OutOfMemoryError if there is no memory.
    """

    def __init__(self, code: bytes, symbol: str, imports: Mapping[str, int] | None = None) -> None:
        self._code: Any
        self.address: int
        try:
            self.address, self._code = _C.load_object_code(code, symbol, dict(imports or {}))
        except NotImplementedError:
            from minitensor_jit.runtime.llvm_linker import link

            self.address, self._code = link(code, symbol, imports or {})

    def close(self) -> None:
        """Unloads the code; its address is invalid from here on."""
        self._code = None
        self.address = 0
