"""LLVM's linker, for machines that the core's own has no rules for.

It maps every object apart, ends the process where the system has no mappings left, and takes ten times as long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import llvmlite.binding as llvm

from minitensor import _forks

__all__ = ["link"]

_lock = _forks.lock()


def link(code: bytes, symbol: str, imports: Mapping[str, int]) -> tuple[int, Any]:
    """The address of a symbol of an object, and what keeps the object in memory."""
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(symbol)
    for name, address in imports.items():
        builder.import_symbol(name, address)
    with _lock:
        linker = _Linker.current()
        tracker = linker.link(builder)
    tracker.linker = linker  # goes after it
    return tracker[symbol], tracker


class _Linker:
    """Loads some objects, and goes when all of them have gone.

    LLVM never forgets a library's name and tables, 10 KB each, so a linker that lived as long as the process would grow
    with every module that was ever compiled. One for each object would cost ten times the time of loading it.
    """

    MOST = 32
    _current: _Linker | None = None

    def __init__(self) -> None:
        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        # LLVM's other linker maps the sections of an object apart. In a process with gigabytes of mappings they may
        # come to lie too far from each other for the code's distances of 32 bits, and it ends the process.
        self._engine = llvm.create_lljit_compiler(use_jit_link=True)
        self._loaded = 0

    @classmethod
    def current(cls) -> _Linker:
        """The one that loads the next object; called with the lock held."""
        if cls._current is None or cls._current._loaded == cls.MOST:
            cls._current = cls()
        return cls._current

    def link(self, builder: Any) -> Any:
        """What keeps the object loaded, and has the addresses of its symbols."""
        self._loaded += 1  # also if it fails: a name can't be used twice
        return builder.link(self._engine, f"minitensor.{self._loaded}")
