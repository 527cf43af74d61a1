"""What libraries import of this private module of PyTorch's."""

from __future__ import annotations

from types import TracebackType

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex:
    """A block in which `vmap` takes `x[i]` with a tensor of one index. It always does here, so nothing changes."""

    def __enter__(self) -> TransformGetItemToIndex:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End."""
