"""LLVM's linker, for machines that the core's own has no rules for."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Mapping
from functools import cache
from typing import Any

import llvmlite.binding as llvm

__all__ = ["link"]

_lock = threading.Lock()
_names = itertools.count()


def link(code: bytes, symbol: str, imports: Mapping[str, int]) -> tuple[int, Any]:
    """The address of a symbol of an object, and what keeps the object in memory."""
    builder = llvm.JITLibraryBuilder().add_object_img(code).add_current_process().export_symbol(symbol)
    for name, address in imports.items():
        builder.import_symbol(name, address)
    with _lock:
        # A library's name can't be used twice in a process.
        tracker = builder.link(_jit(), f"minitensor.{next(_names)}")
    return tracker[symbol], tracker


@cache
def _jit() -> Any:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.create_lljit_compiler()
