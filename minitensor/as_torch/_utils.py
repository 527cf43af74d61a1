"""`torch._utils`: what programs import from there, though it is private in PyTorch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from minitensor import _C, cat, cuda, split

__all__ = ["_flatten_dense_tensors", "_get_device_index", "_take_tensors", "_unflatten_dense_tensors"]


def _flatten_dense_tensors(tensors: Iterable[Any]) -> Any:
    """Return the elements of tensors of one dtype, one after the other."""
    return cat([tensor.reshape(-1) for tensor in tensors])


def _unflatten_dense_tensors(flat: Any, tensors: Iterable[Any]) -> tuple[Any, ...]:
    """Return views of what `_flatten_dense_tensors` gave, with the shapes of the tensors."""
    shapes = [tensor.shape for tensor in tensors]
    parts = split(flat, [shape.numel() for shape in shapes])
    return tuple(part.view(shape) for part, shape in zip(parts, shapes, strict=True))


def _take_tensors(tensors: Iterable[Any], size_limit: int) -> Iterator[Sequence[Any]]:
    """Yield lists of tensors of one type each, of at most so many bytes; one that is larger comes alone."""
    waiting: dict[str, list[Any]] = defaultdict(list)
    bytes_of: dict[str, int] = defaultdict(int)
    for tensor in tensors:
        kind, nbytes = tensor.type(), tensor.numel() * tensor.element_size()
        if waiting[kind] and bytes_of[kind] + nbytes > size_limit:
            yield waiting.pop(kind)
            bytes_of[kind] = 0
        waiting[kind].append(tensor)
        bytes_of[kind] += nbytes
    yield from (left for left in waiting.values() if left)


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """Return the index of a GPU; with `optional` that of the one in use for None; -1 for the CPU with `allow_cpu`.

    ValueError for what has none.
    """
    if isinstance(device, int):
        return device
    found = None if device is None else _C.device(device)
    if found is not None and found.type == "cpu" and allow_cpu:
        return -1
    if found is not None and found.type == "cpu":
        raise ValueError(f"Expected a non cpu device, but got: {found}")
    if found is not None and found.index is not None:
        return int(found.index)
    if not optional:
        raise ValueError(f"Expected a torch.device with a specified index or an integer, but got: {device}")
    return int(cuda.current_device())
