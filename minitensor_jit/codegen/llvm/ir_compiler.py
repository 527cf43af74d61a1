"""From LLVM text to code, where LLVM can't end the process.

It has assertions and fatal errors, which call `abort()`. So it runs on a thread that may be lost; from then on, since
that thread may hold anything of LLVM's, in a process of its own (`llvm_process.py`).
"""

from __future__ import annotations

import ctypes
import os
import pickle
import signal
import subprocess
import sys
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import llvmlite.binding as llvm
from llvmlite.binding import ffi

from minitensor import _C, _forks

from ..errors import CompileError
from .llvm_process import Machine

__all__ = ["Machine", "emit"]

_SERVER = os.path.join(os.path.dirname(__file__), "llvm_process.py")


def emit(machine: Machine, text: str, *, assembly: bool = False) -> bytes:
    """The object code of a module of LLVM text, or its assembly. `CompileError` where LLVM has no code for it."""
    if not _state.lost:
        found = _emit_here(machine, text, assembly)
        if isinstance(found, bytes):
            return found
        _state.lost = True
        raise CompileError("LLVM", f"it ended with {_name_of(found)}; from now on it runs in a process of its own")
    with _state.lock:
        return _emit_there(machine, text, assembly)


@dataclass
class _State:
    lock: Any
    lost: bool = False
    """Whether a thread of this process is lost in LLVM."""
    server: subprocess.Popen[bytes] | None = None
    pid: int = 0


_state = _State(_forks.lock())


def _name_of(number: int) -> str:
    return "exit()" if number == 0 else signal.Signals(number).name


def _address(pointer: Any) -> int:
    return ctypes.cast(pointer, ctypes.c_void_p).value or 0


def _emit_here(machine: Machine, text: str, assembly: bool) -> bytes | int:
    """The code, or the number of the signal that LLVM ended with."""
    made = machine.make()
    context = llvm.context.get_global_context()
    library = ctypes.CDLL(ffi.lib._name)
    lock: AbstractContextManager[Any] = getattr(ffi.lib, "_lock", nullcontext())
    with lock:
        found = _C._llvm_emit(
            _address(library.LLVMPY_ParseAssembly),
            _address(library.LLVMPY_TargetMachineEmitToMemory),
            _address(context._ptr),
            _address(made._ptr),
            text.encode(),
            not assembly,
        )
    if isinstance(found, int):
        return found
    module, buffer, error = found
    if module:
        llvm.ModuleRef(ctypes.cast(module, ffi.LLVMModuleRef), context).close()
    if not buffer:
        raise CompileError("LLVM", error or "no reason is given")
    memory = ctypes.cast(buffer, ffi.LLVMMemoryBufferRef)
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(memory), ffi.lib.LLVMPY_GetBufferSize(memory))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(memory)


def _emit_there(machine: Machine, text: str, assembly: bool) -> bytes:
    server = _state.server
    if server is None or server.poll() is not None or _state.pid != os.getpid():
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        server = _state.server = subprocess.Popen(
            [sys.executable, "-P", _SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )
        _state.pid = os.getpid()
    assert server.stdin is not None
    assert server.stdout is not None
    try:
        pickle.dump((machine.key, text, assembly), server.stdin)
        server.stdin.flush()
        code, error = pickle.load(server.stdout)
    except (OSError, EOFError, pickle.UnpicklingError):
        server.kill()
        raise CompileError("LLVM", f"its process ended with {_name_of(-server.wait())}") from None
    if error:
        raise CompileError("LLVM", error)
    return bytes(code)
