"""What this CPU has."""

from __future__ import annotations

from minitensor import _C

__all__ = ["get_cpu_capability"]

_CAPABILITIES = {"avx2": "AVX2", "avx512": "AVX512"}


def get_cpu_capability() -> str:
    """The instruction set whose kernels run, by PyTorch's name: "DEFAULT", "AVX2" or "AVX512"."""
    return _CAPABILITIES.get(_C.build_config()["isa"], "DEFAULT")
