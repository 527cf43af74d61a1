"""What a GPU can do, for the roofline of `--hlo_profile`: bytes that copies move, and flops that it has units for."""

from __future__ import annotations

from bisect import bisect_left
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from minitensor_jit.runtime.cuda.context import gpu, using
from minitensor_jit.runtime.cuda.driver import driver

__all__ = ["GpuRoof", "measure_gpu"]

_SIZES: Final = tuple(2**k for k in (20, 23, 26, 29))
"""Bytes that copies move, read and written together: from what a GPU's caches hold to what none does."""
_IN_A_ROW: Final = 2**30
"""Bytes of copies between two events, if these are no more than `_MOST`."""
_MOST: Final = 64
_LANES: Final = (
    # From a compute capability on, the multiply-adds that a multiprocessor does in a cycle: float32, float64 (table
    # "Arithmetic Instructions" of the CUDA C++ programming guide), float16 and bfloat16 on tensor cores (NVIDIA's
    # papers on the architectures; those of Ampere and newer workstation GPUs with sums in float32).
    ((7, 0), 64, 32, 512),
    ((7, 2), 64, 32, 512),
    ((7, 5), 64, 2, 512),
    ((8, 0), 64, 32, 1024),
    ((8, 6), 128, 2, 512),
    ((9, 0), 128, 64, 2048),
    ((10, 0), 128, 64, 4096),
    ((10, 3), 128, 2, 4096),
    ((12, 0), 128, 2, 512),
)


@dataclass(frozen=True, slots=True)
class GpuRoof:
    """The roof over a kernel of a GPU: it can't be done before its bytes are moved, nor before its flops are done."""

    name: str
    bandwidth: tuple[float, ...]
    """Bytes in a second, for copies of the sizes above; measured."""
    peak: float
    """Bytes in a second by the memory's clock and the width of its bus."""
    flops: dict[str, float]
    """Operations in a second, by what does them: f32, f64, f16, tf32; a multiply-add is two."""

    def bandwidth_for(self, nbytes: int) -> float:
        """Bytes in a second for a kernel that moves so many."""
        return self.bandwidth[min(bisect_left(_SIZES, nbytes), len(self.bandwidth) - 1)]

    def seconds(self, nbytes: int, flops: int, arithmetic: str = "f32") -> float:
        """The least time that a kernel takes."""
        return max(nbytes / self.bandwidth_for(nbytes), flops / self.flops[arithmetic])

    def to_json(self) -> dict[str, Any]:
        """What `json` can write of it."""
        return {
            "name": self.name,
            "bytes_per_second": self.bandwidth[-1],
            "peak_bytes_per_second": self.peak,
            "flops_per_second": self.flops,
        }

    def __str__(self) -> str:
        rates = ", ".join(f"{rate / 1e12:.3g} of {kind}" for kind, rate in self.flops.items())
        return (
            f"{self.bandwidth[-1] / 1e9:.1f} GB/s, as copies reach ({self.peak / 1e9:.1f} by the clock of the memory), "
            f"and Tflop/s by the clock: {rates}, on {self.name}"
        )


@cache
def measure_gpu(index: int) -> GpuRoof:
    """Measure a GPU's copies, once a process, and ask the driver for the rest; takes some hundredths of a second."""
    one = gpu(index)
    clock = 1e3 * one.attribute("CLOCK_RATE")
    peak = 1e3 * one.attribute("MEMORY_CLOCK_RATE") * 2 * one.attribute("GLOBAL_MEMORY_BUS_WIDTH") / 8
    capability = one.device.compute_capability()
    lanes = next((row[1:] for row in reversed(_LANES) if row[0] <= capability), _LANES[0][1:])
    f32, f64, f16 = (2 * clock * one.attribute("MULTIPROCESSOR_COUNT") * n for n in lanes)
    flops = {"f32": f32, "f64": f64, "f16": f16, "tf32": f16 / 2}
    with using(index):
        measured = tuple(_copies())
    return GpuRoof(str(one.device.name()), measured or (peak,), peak, flops)


def _copies() -> list[float]:
    """Bytes in a second, for as many of the sizes as there is room for."""
    drv = driver()
    found: list[float] = []
    free, _ = drv.mem_get_info()
    for size in _SIZES:
        if 2 * size > free:
            break
        with suppress(drv.MemoryError):
            found.append(_copy(drv, size))
    return found


def _copy(drv: Any, size: int) -> float:
    blocks = [drv.mem_alloc(size // 2) for _ in range(2)]
    stream = drv.Stream()
    number = max(1, min(_IN_A_ROW // size, _MOST))
    best = float("inf")
    for _ in range(4):  # the first one wakes the GPU up
        first, last = drv.Event(), drv.Event()
        first.record(stream)
        for _ in range(number):
            drv.memcpy_dtod_async(blocks[0], blocks[1], size // 2, stream)
        last.record(stream)
        last.synchronize()
        best = min(best, 1e-3 * first.time_till(last) / number)
    for block in blocks:
        block.free()
    return size / max(best, 1e-9)
