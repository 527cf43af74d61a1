"""Which GPUs there are, and which one is meant."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType
from typing import Any

from minitensor import _C
from minitensor._jit import entry_points


def is_available() -> bool:
    """Whether tensors can be on a GPU; `unavailable_reason` says why not."""
    return device_count() > 0


def unavailable_reason() -> str | None:
    """What is missing - the package, the driver or the GPU - and what to do; None if GPUs can be used."""
    reason: str | None = entry_points.cuda_module("driver").why_unavailable()
    return reason


def is_initialized() -> bool:
    """Whether a GPU is in use."""
    return entry_points.cuda_in_use()


def init() -> None:
    """Start to use GPUs, which the first tensor on one does too."""
    entry_points.start_cuda()


def device_count() -> int:
    """How many GPUs there are; 0 where none can be used."""
    return int(entry_points.cuda_module("driver").device_total())


def index_of(device: Any) -> int:
    """The number of a GPU, given as that, as a device, as its name, or as None for the current one."""
    if isinstance(device, int) and not isinstance(device, bool):
        if device < 0:
            return current_device()
        index = device
    else:
        made = _C.device("cuda") if device is None else _C.device(device)
        if made.type not in ("cuda", "jit_gpu"):
            raise ValueError(f"Expected a cuda device, but got: {made}")
        if made.index is None:
            return current_device()
        index = made.index
    entry_points.cuda_module("context").require(index)
    return index


def current_device() -> int:
    """The number of the GPU that `cuda` means on this thread; an error says what is missing where there is none."""
    entry_points.start_cuda()
    return int(entry_points.cuda_module("context").current_device())


def set_device(device: Any) -> None:
    """Have `cuda` mean that GPU on this thread."""
    index = index_of(device)
    entry_points.cuda_module("context").set_device(index)


class device:  # noqa: N801  (called like a function)
    """Have `cuda` mean a GPU for as long as the context; a number below 0, or None, changes nothing."""

    def __init__(self, device: Any) -> None:
        nothing = device is None or (isinstance(device, int) and device < 0)
        self.idx = -1 if nothing else index_of(device)
        self.prev_idx = -1

    def __enter__(self) -> None:
        """Change the current GPU."""
        if self.idx >= 0:
            self.prev_idx = current_device()
            set_device(self.idx)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Change it back."""
        if self.idx >= 0:
            set_device(self.prev_idx)


class device_of(device):  # noqa: N801  (called like a function)
    """Have `cuda` mean the GPU that a tensor is on; a tensor of the CPU changes nothing."""

    def __init__(self, obj: Any) -> None:
        super().__init__(obj.device.index if obj.device.type == "cuda" else -1)


@dataclass(frozen=True)
class DeviceProperties:
    """What a GPU is."""

    name: str
    major: int
    minor: int
    total_memory: int
    multi_processor_count: int
    max_threads_per_multi_processor: int
    max_threads_per_block: int
    shared_memory_per_block: int
    shared_memory_per_block_optin: int
    shared_memory_per_multiprocessor: int
    regs_per_multiprocessor: int
    warp_size: int
    L2_cache_size: int
    clock_rate: int
    """kHz."""
    memory_clock_rate: int
    """kHz."""
    memory_bus_width: int
    """Bits."""
    is_integrated: int
    pci_bus_id: int
    pci_device_id: int
    pci_domain_id: int

    @property
    def gcnArchName(self) -> str:  # noqa: N802  (PyTorch's name)
        """The architecture, as ptxas has it."""
        return f"sm_{self.major}{self.minor}"

    def __repr__(self) -> str:
        """As PyTorch shows it."""
        return (
            f"_CudaDeviceProperties(name='{self.name}', major={self.major}, minor={self.minor}, "
            f"total_memory={self.total_memory // (1 << 20)}MB, multi_processor_count={self.multi_processor_count}, "
            f"L2_cache_size={self.L2_cache_size // (1 << 20)}MB)"
        )


_ATTRIBUTES = {
    "multi_processor_count": "MULTIPROCESSOR_COUNT",
    "max_threads_per_multi_processor": "MAX_THREADS_PER_MULTIPROCESSOR",
    "max_threads_per_block": "MAX_THREADS_PER_BLOCK",
    "shared_memory_per_block": "MAX_SHARED_MEMORY_PER_BLOCK",
    "shared_memory_per_block_optin": "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN",
    "shared_memory_per_multiprocessor": "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR",
    "regs_per_multiprocessor": "MAX_REGISTERS_PER_MULTIPROCESSOR",
    "warp_size": "WARP_SIZE",
    "L2_cache_size": "L2_CACHE_SIZE",
    "clock_rate": "CLOCK_RATE",
    "memory_clock_rate": "MEMORY_CLOCK_RATE",
    "memory_bus_width": "GLOBAL_MEMORY_BUS_WIDTH",
    "is_integrated": "INTEGRATED",
    "pci_bus_id": "PCI_BUS_ID",
    "pci_device_id": "PCI_DEVICE_ID",
    "pci_domain_id": "PCI_DOMAIN_ID",
}


def get_device_properties(device: Any = None) -> DeviceProperties:
    """What a GPU is: its name, capability, memory, processors and more."""
    gpu = _gpu(device)
    major, minor = gpu.device.compute_capability()
    numbers = {field: _number(gpu, name) for field, name in _ATTRIBUTES.items()}
    return DeviceProperties(gpu.device.name(), major, minor, int(gpu.device.total_memory()), **numbers)


def _number(gpu: Any, name: str) -> int:
    """One of the driver's numbers; 0 where this driver, or PyCUDA, doesn't know it."""
    try:
        return int(gpu.attribute(name))
    except (AttributeError, entry_points.cuda_module("driver").driver().Error):
        return 0


def get_device_name(device: Any = None) -> str:
    """A GPU's name."""
    return str(_gpu(device).device.name())


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The compute capability of a GPU: (major, minor)."""
    major, minor = _gpu(device).device.compute_capability()
    return int(major), int(minor)


def _gpu(device: Any) -> Any:
    index = index_of(device)
    return entry_points.cuda_module("context").gpu(index)


def get_arch_list() -> list[str]:
    """The architectures that code is generated for; each newer GPU gets that of the newest one that is older."""
    return ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"] if is_available() else []


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether the current GPU computes with bfloat16; without emulation, whether its tensor cores do."""
    return is_available() and (including_emulation or get_device_capability()[0] >= 8)


def driver() -> Any:
    """The module `pycuda.driver`, with the context of the current GPU current: for what is not here."""
    index = current_device()
    entry_points.cuda_module("context").enter(index)
    return entry_points.cuda_module("driver").driver()


def can_device_access_peer(device: Any, peer_device: Any) -> bool:
    """Whether a GPU can read another one's memory."""
    here, there = _gpu(device), _gpu(peer_device)
    return here.index != there.index and bool(here.device.can_access_peer(there.device))


def synchronize(device: Any = None) -> None:
    """Wait until a GPU has done all it was given; runs what is recorded first. An error names what failed there."""
    index = index_of(device)
    _C.flush("cuda.synchronize()")
    entry_points.cuda_module("streams").synchronize(index)


def ipc_collect() -> None:
    """Free memory that other processes shared: there is none."""
