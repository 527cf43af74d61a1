"""Modules of code and their functions."""

from __future__ import annotations

import hashlib

import numpy as np
from ptx import PtxError
from ptx.machine import three

from .blocks import _bytes
from .contexts import Owned, _gpu, state
from .enums import function_attribute
from .errors import Error, failure
from .gpus import Gpu, alone, machine_of
from .streams import _queue

CUBIN = b"\x7fELF emulated "


def link_ptx(text: bytes) -> bytes:
    """What the driver's linker makes of PTX; PyCUDA doesn't give it out, the driver's library does."""
    _load_ptx("cuLinkAddData", text)
    body = text.rstrip(b"\0")
    return CUBIN + hashlib.sha256(body).digest() + body


def _load_ptx(call: str, text: bytes):
    try:
        machine = machine_of(text.rstrip(b"\0").decode(), state.settings)
    except (PtxError, UnicodeDecodeError) as error:
        raise failure(call, "INVALID_PTX", f"ptxas application ptx input, {error}") from error
    module = machine.module
    major, minor = (int(n) for n in (module.version or "0.0").split("."))
    if (major, minor) > state.settings.ptx_version:
        raise failure(call, "UNSUPPORTED_PTX_VERSION", f"Unsupported .version {major}.{minor}")
    arch = "".join(c for c in module.target if c.isdigit())
    if not arch or int(arch) > state.settings.capability[0] * 10 + state.settings.capability[1]:
        raise failure(call, "NO_BINARY_FOR_GPU")
    return machine


class Module(Owned):
    def __init__(self, gpu: Gpu, machine):
        super().__init__()
        self._gpu, self._machine = gpu, machine

    def get_function(self, name: str) -> Function:
        self._gpu.check_alive("cuModuleGetFunction")
        if name not in self._machine.kernel_names:
            raise failure("cuModuleGetFunction", "NOT_FOUND")
        return Function(self, name)

    @alone
    def get_global(self, name: str) -> tuple[int, int]:
        variable = self._machine.module.variables.get(name)
        if variable is None or variable.space != "global":
            raise failure("cuModuleGetGlobal", "NOT_FOUND")
        known = self._gpu.memory.globals.setdefault(id(self._machine), {})
        if name not in known:
            known[name] = self._gpu.memory.allocate(variable.size)
            self._gpu.memory.write(known[name], (variable.data or b"").ljust(variable.size, b"\0"))
        return known[name], variable.size


def module_from_buffer(buffer, options=(), message_handler=None) -> Module:
    try:
        gpu = _gpu("cuModuleLoadDataEx")
    except Error:
        b"\xb0".decode()  # PyCUDA makes text of a buffer for words that the driver hasn't written
        raise
    raw = _bytes(buffer).tobytes()
    try:
        if raw.startswith(b"\x7fELF"):
            digest, body = raw[len(CUBIN) : len(CUBIN) + 32], raw[len(CUBIN) + 32 :]
            if not raw.startswith(CUBIN) or hashlib.sha256(body).digest() != digest:
                raise failure("cuModuleLoadDataEx", "INVALID_IMAGE")
            raw = body
        machine = _load_ptx("cuModuleLoadDataEx", raw)
    except Error as error:
        if message_handler is not None:
            message_handler(False, "", str(error).partition(" - ")[2])
        raise
    if message_handler is not None:
        message_handler(True, "", "")
    return Module(gpu, machine)


def module_from_file(filename: str) -> Module:
    with open(filename, "rb") as file:
        return module_from_buffer(file.read())


class Function:
    def __init__(self, module: Module, name: str):
        self._module = module  # PyCUDA's keeps it alive too
        self._gpu, self._machine, self._name = module._gpu, module._machine, name
        self._dynamic_limit = 49152
        self._kernel = None

    @alone
    def _translated(self):
        if self._kernel is None:
            self._kernel = self._machine.kernel(self._name)
        return self._kernel

    def get_attribute(self, attribute: int) -> int:
        kernel = self._translated()
        return {
            "MAX_THREADS_PER_BLOCK": 1024,
            "SHARED_SIZE_BYTES": kernel.layouts["shared"].size,
            "LOCAL_SIZE_BYTES": kernel.layouts["local"].size,
            "CONST_SIZE_BYTES": len(kernel.const_data),
            "NUM_REGS": 32,
            "MAX_DYNAMIC_SHARED_SIZE_BYTES": self._dynamic_limit,
        }.get(function_attribute(attribute).name, 0)

    def set_attribute(self, attribute: int, value: int) -> None:
        self._gpu.check_alive("cuFuncSetAttribute")
        if function_attribute(attribute) == function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES:
            if value + self._translated().layouts["shared"].size > state.settings.shared_per_block:
                raise failure("cuFuncSetAttribute", "INVALID_VALUE")
            self._dynamic_limit = value

    def set_cache_config(self, config: int) -> None:
        self._gpu.check_alive("cuFuncSetCacheConfig")

    def __getattr__(self, name: str) -> int:
        if name.upper() not in function_attribute.__members__:
            raise AttributeError(name)
        return self.get_attribute(function_attribute[name.upper()])

    def _launch_kernel(self, grid, block, parameters, shared_bytes: int, stream) -> None:
        gpu = _gpu("cuLaunchKernel")
        if gpu is not self._gpu:
            raise failure("cuLaunchKernel", "INVALID_HANDLE", "the function belongs to another context")
        sizes, threads = three(grid), three(block)
        kernel = self._translated()
        if min(*sizes, *threads) < 1 or max(sizes[1:]) > 65535 or threads[2] > 64:
            raise failure("cuLaunchKernel", "INVALID_VALUE")
        if np.prod(threads) > 1024 or shared_bytes > max(self._dynamic_limit, 49152 - kernel.layouts["shared"].size):
            raise failure("cuLaunchKernel", "INVALID_VALUE")
        arguments = bytes(parameters)
        if len(arguments) < kernel.params.size:
            raise failure("cuLaunchKernel", "INVALID_VALUE", f"{kernel.params.size} bytes of parameters")
        machine, name = self._machine, self._name

        def run() -> None:
            machine.counts = gpu.counts
            machine.launch(name, sizes, threads, shared_bytes, arguments, gpu.memory)

        gpu.launch(name, run, _queue(gpu, stream))

    def prepare(self, formats, shared=None, texrefs=()) -> Function:
        self.arg_format = "".join(f if isinstance(f, str) else np.dtype(f).char for f in formats)
        return self

    def _pack(self, arguments: tuple) -> bytes:
        raw = b""
        for letter, argument in zip(self.arg_format, arguments, strict=True):
            piece = np.asarray(int(argument) if letter == "P" else argument, np.dtype(letter)).tobytes()
            raw += b"\0" * (-len(raw) % len(piece)) + piece
        return raw

    def prepared_call(self, grid, block, *arguments, shared_size: int = 0) -> None:
        self._launch_kernel(grid, block, self._pack(arguments), shared_size, None)

    def prepared_async_call(self, grid, block, stream, *arguments, shared_size: int = 0) -> None:
        self._launch_kernel(grid, block, self._pack(arguments), shared_size, stream)
