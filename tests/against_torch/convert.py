"""PyTorch's objects as ours, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import minitensor as mt

_NAMES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128",
]  # fmt: skip
DTYPES = {getattr(torch, name): getattr(mt, name) for name in _NAMES}
BACK = {ours: theirs for theirs, ours in DTYPES.items()}


class NotConvertible(Exception):  # noqa: N818  (no error: the comparison does not apply)
    #:
    """There is no such thing here, or the argument is PyTorch's own business."""


def tensor_to_ours(t: torch.Tensor) -> mt.Tensor:
    """A tensor with the same elements, strides and offset, over a copy of the storage."""
    if t.layout is not torch.strided or t.is_quantized or t.dtype not in DTYPES:
        raise NotConvertible(f"a tensor of layout {t.layout} and dtype {t.dtype}")
    if t.device.type == "meta":
        return mt.empty_strided(tuple(t.shape), t.stride(), dtype=DTYPES[t.dtype], device="meta")
    t = t.detach().resolve_conj().resolve_neg()
    count = t.untyped_storage().nbytes() // t.element_size()
    flat = torch.as_strided(t, (count,), (1,), 0).clone()
    if t.dtype is torch.bfloat16:  # NumPy has no such type
        made = mt.from_numpy(flat.view(torch.int16).numpy()).clone().view(mt.bfloat16)
    else:
        made = mt.from_numpy(flat.numpy()).clone()  # memory that can be resized
    if tuple(t.shape) == (count,) and t.stride() == (1,):
        return made
    return made.as_strided(tuple(t.shape), t.stride(), t.storage_offset()).detach()


def tensor_to_theirs(t: mt.Tensor) -> torch.Tensor:
    """A contiguous tensor with the same elements."""
    t = t.detach()
    if t.device.type == "meta":
        return torch.empty(tuple(t.shape), dtype=BACK[t.dtype], device="meta")
    t = t.contiguous()
    if t.dtype is mt.bfloat16:
        return torch.from_numpy(t.view(mt.int16).numpy().copy()).view(torch.bfloat16)
    if t.dtype is mt.uint64:  # which NumPy has under two names, and PyTorch takes under one
        return torch.from_numpy(t.numpy().copy().view(np.uint64)).reshape(tuple(t.shape))
    return torch.from_numpy(t.numpy().copy()).reshape(tuple(t.shape))


def to_ours(thing: Any, seen: dict[int, Any] | None = None) -> Any:
    """The argument as it is passed here; the same tensor stays the same tensor."""
    seen = {} if seen is None else seen
    if isinstance(thing, torch.Tensor):
        if id(thing) not in seen:
            made = tensor_to_ours(thing)
            if thing.requires_grad and thing.is_leaf:
                made.requires_grad_()
            seen[id(thing)] = made
        return seen[id(thing)]
    if isinstance(thing, torch.Size):
        return mt.Size(thing)
    if isinstance(thing, tuple) and hasattr(thing, "_fields"):
        return tuple(to_ours(x, seen) for x in thing)
    if isinstance(thing, (list, tuple)):
        return type(thing)(to_ours(x, seen) for x in thing)
    if isinstance(thing, dict):
        return {k: to_ours(v, seen) for k, v in thing.items()}
    if isinstance(thing, torch.dtype):
        if thing not in DTYPES:
            raise NotConvertible(f"dtype {thing}")
        return DTYPES[thing]
    if isinstance(thing, torch.device):
        return mt.device(str(thing))
    if isinstance(thing, torch.layout):
        if thing is not torch.strided:
            raise NotConvertible(f"layout {thing}")
        return mt.strided
    if isinstance(thing, torch.memory_format):
        return getattr(mt, str(thing).removeprefix("torch."))
    if isinstance(thing, slice):
        return slice(*(to_ours(x, seen) for x in (thing.start, thing.stop, thing.step)))
    if (
        thing is None
        or thing is Ellipsis
        or isinstance(thing, (bool, int, float, complex, str, np.ndarray, np.generic))
    ):
        return thing
    if isinstance(thing, range):
        return thing
    raise NotConvertible(f"an argument of type {type(thing).__name__}")


def to_theirs(thing: Any) -> Any:
    """A result as PyTorch's."""
    if isinstance(thing, mt.Tensor):
        return tensor_to_theirs(thing)
    if isinstance(thing, mt.Size):
        return torch.Size(thing)
    if isinstance(thing, (list, tuple)):
        return tuple(to_theirs(x) for x in thing)
    if isinstance(thing, mt.dtype):
        return BACK[thing]
    return thing
