"""Settings of GPUs."""

from __future__ import annotations

from minitensor.settings import get_float32_matmul_precision, set_float32_matmul_precision

__all__ = ["is_built", "matmul"]


def is_built() -> bool:
    """Whether this is built for GPUs: it always is; `cuda.is_available` says whether there is one."""
    return True


class _Matmul:
    """What products on GPUs may do."""

    __slots__ = ()

    @property
    def allow_tf32(self) -> bool:
        """Whether tensor cores may have the products of float32 matrices, rounded to TF32's ten bits. False at first.

        It is the same setting as `set_float32_matmul_precision`: "highest" is False, "high" and "medium" are True.
        GPUs before compute capability 8.0, products of vectors and convolutions stay exact, as does the CPU.
        """
        return get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise TypeError(f"allow_tf32 must be a bool, but got {type(value).__name__}")
        if value != self.allow_tf32:
            set_float32_matmul_precision("high" if value else "highest")


matmul = _Matmul()
