"""Pipes of samples by PyTorch's names: each takes another, and a :class:`DataLoader` takes the last."""

from minitensor.utils.data.datapipes import iter, map

__all__ = ["iter", "map"]
