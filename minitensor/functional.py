"""Functions on tensors that are composed of ops, and ops under PyTorch's other names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import _C
from minitensor.ops import ROWS
from minitensor.ops.elementwise import where as _where
from minitensor.ops.index import nonzero as _nonzero
from minitensor.ops.movement import cat

__all__ = [
    "broadcast_shapes", "broadcast_tensors", "broadcast_to", "chunk", "concat", "concatenate", "flatten", "gather",
    "index_add", "index_copy", "index_select", "is_tensor", "max", "mean", "min", "narrow", "numel",
    "repeat_interleave", "reshape", "scatter_add", "sort", "split", "stack", "std", "t", "unbind", "unique", "var",
    "where",
]  # fmt: skip

Tensor = _C.Tensor
concat = concatenate = cat


def is_tensor(obj: Any) -> bool:
    """Whether obj is a Tensor."""
    return isinstance(obj, Tensor)


def numel(input: Any) -> int:
    """The number of elements."""
    return int(input.numel())


def stack(tensors: Sequence[Any], dim: int = 0) -> Tensor:
    """The tensors side by side along a new dimension."""
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tuple(tensors[0].shape)
    for i, other in enumerate(tensors):
        if tuple(other.shape) != first:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(first)} at entry 0 "
                f"and {list(other.shape)} at entry {i}"
            )
    return cat([other.unsqueeze(dim) for other in tensors], dim)


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """input where the condition holds, other elsewhere; with the condition alone, the indices where it holds."""
    if input is None and other is None:
        return tuple(_nonzero(condition).unbind(1))
    return _where(condition, input, other)


def max(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The largest element; along dim, values and indices; or elementwise against another tensor."""
    return input.max(dim, keepdim)


def min(input: Any, dim: Any = None, keepdim: bool = False) -> Any:
    """The smallest element; along dim, values and indices; or elementwise against another tensor."""
    return input.min(dim, keepdim)


mean = ROWS["mean"].call


def broadcast_shapes(*shapes: Sequence[int]) -> _C.Size:
    """The shape that all broadcast to."""
    result: list[int] = []
    for shape in shapes:
        shape = [shape] if isinstance(shape, int) else list(shape)
        rank = len(result) if len(result) > len(shape) else len(shape)
        a, b = [1] * (rank - len(result)) + result, [1] * (rank - len(shape)) + shape
        result = []
        for x, y in zip(a, b, strict=True):
            if x != y and 1 not in (x, y):
                raise RuntimeError("Shape mismatch: objects cannot be broadcast to a single shape")
            result.append(y if x == 1 else x)
    return _C.Size(result)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """The tensors expanded to the shape that all broadcast to."""
    shape = broadcast_shapes(*(tuple(x.shape) for x in tensors))
    return tuple(x.expand(tuple(shape)) for x in tensors)


def broadcast_to(input: Any, size: Sequence[int]) -> Tensor:
    """The tensor expanded to size."""
    return input.expand(tuple(size))


def repeat_interleave(input: Any, repeats: int, dim: int | None = None) -> Tensor:
    """Every element, or slice along dim, repeated."""
    x = input.reshape(-1) if dim is None else input
    d = (0 if dim is None else dim) % x.ndim
    shape = list(x.shape)
    spread = x.unsqueeze(d + 1).expand([*shape[: d + 1], repeats, *shape[d + 1 :]])
    return spread.reshape([*shape[:d], shape[d] * repeats, *shape[d + 1 :]])


def _as_function(name: str) -> Any:
    method = getattr(Tensor, name)

    def function(input: Any, *args: Any, **kwargs: Any) -> Any:
        return method(input, *args, **kwargs)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = method.__doc__
    return function


reshape = _as_function("reshape")
flatten = _as_function("flatten")
t = _as_function("t")
unbind = _as_function("unbind")
narrow = _as_function("narrow")
split = _as_function("split")
chunk = _as_function("chunk")
gather = _as_function("gather")
index_add = _as_function("index_add")
index_copy = _as_function("index_copy")
index_select = _as_function("index_select")
scatter_add = _as_function("scatter_add")
sort = _as_function("sort")
std = _as_function("std")
unique = _as_function("unique")
var = _as_function("var")
