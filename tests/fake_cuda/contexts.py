"""Devices and contexts, and which of them a thread uses."""

from __future__ import annotations

import ctypes
import threading
import warnings

from .enums import device_attribute
from .errors import failure
from .gpus import Gpu, Settings


class State:
    """The GPUs that there are, for all threads."""

    def __init__(self, settings: Settings):
        self.settings = settings
        self.gpus: list[Gpu] = []
        self.started = False


class Thread(threading.local):
    def __init__(self):
        self.stack: list[Context] = []


state = State(Settings())
_thread = Thread()


def reset(new: Settings) -> None:
    """Begins anew, with other GPUs."""
    global _thread
    state.__init__(new)
    _thread = Thread()


def init(flags: int = 0) -> None:
    state.settings.meet("cuInit")
    if not state.settings.devices:
        raise failure("cuInit", "NO_DEVICE")
    if not state.started:
        state.gpus.extend(Gpu(k, state.settings) for k in range(state.settings.devices))
    state.started = True


def get_version() -> tuple[int, int, int]:
    return (13, 0, 0)


def get_driver_version() -> int:
    return state.settings.driver_version


class Device:
    def __init__(self, number: int):
        _need_init("cuDeviceGet")
        if not 0 <= number < len(state.gpus):
            raise failure("cuDeviceGet", "INVALID_DEVICE")
        self._number = number

    @staticmethod
    def count() -> int:
        _need_init("cuDeviceGetCount")
        return len(state.gpus)

    def name(self) -> str:
        return "Emulated GPU"

    def pci_bus_id(self) -> str:
        return f"0000:{self._number + 1:02X}:00.0"

    def compute_capability(self) -> tuple[int, int]:
        return state.settings.capability

    def total_memory(self) -> int:
        return state.settings.memory

    def get_attribute(self, attribute: int) -> int:
        known = {
            "MAX_THREADS_PER_BLOCK": 1024,
            "MAX_BLOCK_DIM_X": 1024,
            "MAX_BLOCK_DIM_Y": 1024,
            "MAX_BLOCK_DIM_Z": 64,
            "MAX_GRID_DIM_X": (1 << 31) - 1,
            "MAX_GRID_DIM_Y": 65535,
            "MAX_GRID_DIM_Z": 65535,
            "MAX_SHARED_MEMORY_PER_BLOCK": 49152,
            "TOTAL_CONSTANT_MEMORY": 65536,
            "WARP_SIZE": 32,
            "MAX_REGISTERS_PER_BLOCK": 65536,
            "CLOCK_RATE": 1_000_000,
            "MULTIPROCESSOR_COUNT": state.settings.multiprocessors,
            "CONCURRENT_KERNELS": 1,
            "PCI_BUS_ID": self._number + 1,
            "MEMORY_CLOCK_RATE": 1_000_000,
            "GLOBAL_MEMORY_BUS_WIDTH": 1024,
            "L2_CACHE_SIZE": 1 << 20,
            "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
            "ASYNC_ENGINE_COUNT": 2,
            "UNIFIED_ADDRESSING": 1,
            "COMPUTE_CAPABILITY_MAJOR": state.settings.capability[0],
            "COMPUTE_CAPABILITY_MINOR": state.settings.capability[1],
            "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": state.settings.shared_per_block + 1024,
            "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": state.settings.shared_per_block,
        }
        return known.get(device_attribute(attribute).name, 0)

    def get_attributes(self) -> dict[int, int]:
        return {a: self.get_attribute(a) for a in device_attribute}

    def __getattr__(self, name: str) -> int:
        if name.upper() not in device_attribute.__members__:
            raise AttributeError(name)
        return self.get_attribute(device_attribute[name.upper()])

    def can_access_peer(self, other: Device) -> bool:
        return self._number != other._number

    def make_context(self, flags: int = 0) -> Context:
        made = Context(state.gpus[self._number])
        made.push()
        return made

    def retain_primary_context(self) -> Context:
        """It isn't pushed."""
        return Context(state.gpus[self._number])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other._number == self._number

    def __hash__(self) -> int:
        return self._number


def _key() -> int:
    key = ctypes.c_uint()
    _c.pthread_key_create(ctypes.byref(key), _c.abort)
    return key.value


_c = ctypes.PyDLL(None)
_abort_key = _key()


def abort_at_end_of_thread(inside: bool) -> None:
    """As PyCUDA, whose stack of contexts ends the process if a thread dies with something on it."""
    _c.pthread_setspecific(_abort_key, ctypes.c_void_p(1 if inside else None))


class Context:
    def __init__(self, gpu: Gpu):
        self._gpu = gpu
        self._thread = threading.get_ident()
        self.handle = 0xC0000 + gpu.index

    def push(self) -> None:
        self._gpu.check_alive("cuCtxPushCurrent")
        _thread.stack.append(self)
        abort_at_end_of_thread(bool(_thread.stack))

    @staticmethod
    def pop() -> None:
        if not _thread.stack:
            raise failure("context::pop", "INVALID_CONTEXT", "cannot pop non-current context")
        _thread.stack.pop()
        abort_at_end_of_thread(bool(_thread.stack))

    def detach(self) -> None:
        if self in _thread.stack:
            _thread.stack.remove(self)
        abort_at_end_of_thread(bool(_thread.stack))

    @staticmethod
    def get_current() -> Context | None:
        return _thread.stack[-1] if _thread.stack else None

    @staticmethod
    def get_device() -> Device:
        return Device(_gpu("cuCtxGetDevice").index)

    @staticmethod
    def synchronize() -> None:
        _gpu("cuCtxSynchronize").finish_all("cuCtxSynchronize")

    def enable_peer_access(self, peer: Context, flags: int = 0) -> None:
        _gpu("cuCtxEnablePeerAccess")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Context) and other._gpu is self._gpu

    def __hash__(self) -> int:
        return self.handle


class Owned:
    """What belongs to the context that was current when it was made.

    It can be cleaned up where that is current, and on the thread that made the context; elsewhere PyCUDA leaks it.
    """

    def __init__(self):
        self._context = Context.get_current()

    def __del__(self, current=Context.get_current, get_ident=threading.get_ident, warn=warnings.warn) -> None:
        context = getattr(self, "_context", None)
        if context is not None and current() is not context and get_ident() != context._thread:
            warn(f"{type(self).__name__.lower()} in out-of-thread context could not be cleaned up", stacklevel=2)


def _need_init(call: str) -> None:
    if not state.started:
        raise failure(call, "NOT_INITIALIZED")


def _gpu(call: str) -> Gpu:
    """The GPU of the current context, for a call that may fail."""
    _need_init(call)
    if not _thread.stack:
        raise failure(call, "INVALID_CONTEXT")
    gpu = _thread.stack[-1]._gpu
    gpu.check_alive(call)
    state.settings.meet(call)
    return gpu
