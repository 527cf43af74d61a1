"""Several dimensions as one, and one as several."""

from __future__ import annotations

from typing import Any

from minitensor._C import Tensor
from minitensor.nn.modules.module import Module

__all__ = ["Flatten", "Unflatten"]


class Flatten(Module):
    """Makes one dimension of those from ``start_dim`` to ``end_dim``."""

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` with fewer dimensions."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Return the dimensions."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Makes dimensions of the given sizes of one; one of the sizes may be -1."""

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if isinstance(dim, int):
            self._need(unflattened_size, int, "ints")
        elif isinstance(dim, str):
            raise NotImplementedError("there are no named dimensions: dim must be an int")
        else:
            raise TypeError("invalid argument type for dim parameter")
        self.dim = dim
        self.unflattened_size = unflattened_size

    @staticmethod
    def _need(sizes: Any, kind: type, plural: str) -> None:
        if not isinstance(sizes, (tuple, list)):
            raise TypeError(f"unflattened_size must be a tuple of {plural}, but found type {type(sizes).__name__}")
        for place, size in enumerate(sizes):
            if not isinstance(size, kind):
                raise TypeError(
                    f"unflattened_size must be tuple of {plural}, but found element of type {type(size).__name__} at "
                    f"pos {place}"
                )

    def forward(self, input: Tensor) -> Tensor:
        """Return ``input`` with more dimensions."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """Return dimension and sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
