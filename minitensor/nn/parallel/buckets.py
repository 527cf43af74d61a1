"""Gradients side by side in buckets, which are averaged over processes as soon as they are full."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor._functions.offered import zeros

__all__ = ["Bucket", "GradBucket", "bucket_assignment"]

FIRST_BUCKET_BYTES = 1 << 20
BUCKET_BYTES = 25 << 20


def bucket_assignment(parameters: Sequence[Any], order: Sequence[int], limits: Sequence[int]) -> list[list[int]]:
    """Parts of `order`, numbers of parameters, such that each has one dtype and device and about the bytes of a bucket.

    A bucket is full with the parameter that reaches its limit. Buckets of a dtype and device have one limit after the
    other, and those that are left the last one. Buckets are in the order in which they begin.
    """
    open_: dict[Any, list[int]] = {}
    sizes: dict[Any, int] = {}
    full: dict[Any, int] = {}  # how many buckets are
    found: list[list[int]] = []
    for number in order:
        parameter = parameters[number]
        key = parameter.dtype, parameter.device
        if key not in open_:
            open_[key] = []
            found.append(open_[key])
            sizes[key] = 0
        open_[key].append(number)
        sizes[key] += parameter.numel() * parameter.element_size()
        if sizes[key] >= limits[min(full.get(key, 0), len(limits) - 1)]:
            full[key] = full.get(key, 0) + 1
            del open_[key]
    return found


class GradBucket:
    """What a communication hook gets: the gradients of some parameters in one tensor."""

    def __init__(self, bucket: Bucket, last: bool) -> None:
        self._bucket = bucket
        self._last = last
        self._buffer = bucket.buffer

    def index(self) -> int:
        """Return the bucket's number; buckets come in the order of these."""
        return self._bucket.index

    def buffer(self) -> Any:
        """Return the gradients as one tensor with one dimension."""
        return self._buffer

    def gradients(self) -> list[Any]:
        """Return the gradients as parts of the buffer, each in its parameter's shape."""
        return self._bucket.parts(self._buffer)

    def parameters(self) -> list[Any]:
        """Return the parameters."""
        return list(self._bucket.parameters)

    def is_last(self) -> bool:
        """Return whether it is the last one of a backward pass."""
        return self._last

    def set_buffer(self, buffer: Any) -> None:
        """Have another tensor in the buffer's place."""
        self._buffer = buffer


class Bucket:
    """Some parameters, and a buffer with a place for the gradient of each."""

    def __init__(self, index: int, numbers: Sequence[int], parameters: Sequence[Any]) -> None:
        self.index = index
        self.numbers = list(numbers)
        self.parameters = list(parameters)
        self.sizes = [p.numel() for p in parameters]
        first = parameters[0]
        self.buffer = zeros(sum(self.sizes), dtype=first.dtype, device=first.device)
        self.views = self.parts(self.buffer)
        self.waits_for = len(self.numbers)
        self.work: Any = None  # of the engine, or a hook's future
        self.hooked = False

    def parts(self, buffer: Any) -> list[Any]:
        """A buffer's parts, each in its parameter's shape."""
        pieces = buffer.split(self.sizes)
        return [piece.view(p.shape) for piece, p in zip(pieces, self.parameters, strict=True)]
