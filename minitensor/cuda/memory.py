"""What a GPU's memory holds. Freed blocks are kept for the next tensor of their size, which is what is *cached*."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor._jit import entry_points
from minitensor.cuda.devices import index_of, is_initialized


def _stats(device: Any) -> dict[str, int]:
    stats: dict[str, int] = _C.cuda_memory_stats(index_of(device))
    return stats


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors take."""
    return _stats(device)["allocated"] if is_initialized() else 0


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors took since the start, or since `reset_peak_memory_stats`."""
    return _stats(device)["peak_allocated"] if is_initialized() else 0


def memory_reserved(device: Any = None) -> int:
    """Bytes that were obtained from the driver: in tensors, or cached."""
    return _stats(device)["reserved"] if is_initialized() else 0


def max_memory_reserved(device: Any = None) -> int:
    """The most bytes that were obtained from the driver since the start, or since `reset_peak_memory_stats`."""
    return _stats(device)["peak_reserved"] if is_initialized() else 0


memory_cached = memory_reserved
max_memory_cached = max_memory_reserved


def empty_cache() -> None:
    """Give cached memory of all GPUs back to the driver, so that other programs can have it."""
    if is_initialized():
        entry_points.cuda_module("start").runtime().give_back_finished()
        for gpu in entry_points.cuda_module("context").all_gpus():
            _C.cuda_empty_cache(gpu.index)


def reset_peak_memory_stats(device: Any = None) -> None:
    """Start the peaks anew from what is in use."""
    _C.cuda_reset_peaks(index_of(device))


reset_max_memory_allocated = reset_peak_memory_stats
reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: Any = None) -> None:
    """Nothing: what was allocated and freed in all is counted from the start of the process."""
    index_of(device)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """(free bytes, all bytes) of a GPU, as its driver sees them."""
    index = index_of(device)
    with entry_points.cuda_module("context").using(index):
        free, total = entry_points.cuda_module("driver").driver().mem_get_info()
    return int(free), int(total)


def memory_stats(device: Any = None) -> dict[str, int]:
    """Counts and bytes, by PyTorch's names: `allocated_bytes.all.current`, `num_alloc_retries` and so on."""
    s = _stats(device)
    found: dict[str, int] = {}

    def add(name: str, current: int, peak: int, allocated: int, freed: int) -> None:
        for pool in ("all",):
            found[f"{name}.{pool}.current"] = current
            found[f"{name}.{pool}.peak"] = peak
            found[f"{name}.{pool}.allocated"] = allocated
            found[f"{name}.{pool}.freed"] = freed

    add("allocation", s["blocks"], s["peak_blocks"], s["allocations"], s["frees"])
    add("segment", s["segments"], s["peak_segments"], s["allocations"] - s["cache_hits"], 0)
    add("active", s["blocks"], s["peak_blocks"], s["allocations"], s["frees"])
    add("allocated_bytes", s["allocated"], s["peak_allocated"], s["total_allocated"], s["total_freed"])
    add("active_bytes", s["allocated"], s["peak_allocated"], s["total_allocated"], s["total_freed"])
    add("reserved_bytes", s["reserved"], s["peak_reserved"], s["total_reserved"], s["total_released"])
    found["requested_bytes.all.current"] = s["requested"]
    found["requested_bytes.all.peak"] = s["peak_requested"]
    found["num_alloc_retries"] = s["retries"]
    found["num_ooms"] = s["failures"]
    found["num_cache_hits"] = s["cache_hits"]
    found["num_device_alloc"] = s["allocations"] - s["cache_hits"]
    return dict(sorted(found.items()))


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """A table of what a GPU's memory holds, for people."""
    index = index_of(device)
    s = _stats(index)
    free, total = mem_get_info(index)
    rows = [
        ("in tensors", s["allocated"], s["peak_allocated"]),
        ("  as asked for", s["requested"], s["peak_requested"]),
        ("from the driver", s["reserved"], s["peak_reserved"]),
        ("cached", s["reserved"] - s["allocated"], None),
    ]
    lines = [
        f"Memory of cuda:{index}: {_mib(total - free)} of {_mib(total)} are in use, by this program and others",
        f"{'':<18} {'now':>14} {'peak':>14}",
        *(f"{name:<18} {_mib(now):>14} {'' if peak is None else _mib(peak):>14}" for name, now, peak in rows),
        f"{s['allocations']:,} allocations, {s['cache_hits']:,} of them from the cache; the cache had to be emptied "
        f"{s['retries']:,} times, and {s['failures']:,} times there was no memory",
    ]
    if not abbreviated:
        lines.append(entry_points.cuda_module("memory").memory_table(index))
    return "\n".join(lines) + "\n"


def _mib(nbytes: int) -> str:
    return f"{nbytes / (1 << 20):,.1f} MiB"
