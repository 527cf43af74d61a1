"""Copies of tensors by Python's protocols: `copy` and `deepcopy`."""

from __future__ import annotations

import copy
from typing import Any

from minitensor import _C

Tensor = _C.Tensor


def _storage_copied(tensor: Any, memo: dict[Any, Any]) -> Any:
    """A copy of the storage as bytes, the same one for all tensors that show it."""
    key = ("storage of minitensor", tensor._storage_id())
    if key not in memo:
        memo[key] = _C.storage_bytes(tensor).clone()
    return memo[key]


def _state(tensor: Any) -> Any:
    """The attributes, in `__dict__` and in slots, as pickle takes them."""
    return object.__getstate__(tensor)


def _put_state(tensor: Any, state: Any) -> None:
    attributes, slots = state if isinstance(state, tuple) else (state, None)
    if attributes:
        tensor.__dict__.update(attributes)
    for name, value in (slots or {}).items():
        setattr(tensor, name, value)


def deepcopy_tensor(self: Any, memo: dict[Any, Any]) -> Any:
    """A copy with memory, gradient and attributes of its own; views that are copied together still share theirs."""
    if id(self) in memo:
        return memo[id(self)]
    if not self.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment"
        )
    data = self.detach()
    if self.device.type in ("cpu", "cuda") and not _C.vmap_level(self):
        size, stride = tuple(self.shape), self.stride()
        made = _C.over_storage(_storage_copied(data, memo), self.dtype, self.storage_offset(), size, stride)
    else:
        made = data.clone()
    # `.data`: its writes are counted apart, although copies may share memory.
    copied = memo[id(self)] = Tensor._as_subclass(type(self), made.data, self.requires_grad)
    # While objects are known by their ids, they must not die.
    memo.setdefault(id(memo), []).append(self)
    if self.grad is not None:
        copied.grad = copy.deepcopy(self.grad, memo)
    if state := _state(self):
        _put_state(copied, copy.deepcopy(state, memo))
    return copied


def deepcopy_parameter(self: Any, memo: dict[Any, Any]) -> Any:
    """A parameter over a copy of the elements, without the gradient, as in PyTorch."""
    if id(self) not in memo:
        memo[id(self)] = Tensor._as_subclass(type(self), self.detach().clone(), self.requires_grad)
        memo.setdefault(id(memo), []).append(self)
    return memo[id(self)]


def copy_tensor(self: Any) -> Any:
    """Another leaf over the same memory, without the gradient."""
    data = self.data
    if (
        self.is_inference() or _C.is_inference_mode_enabled()
    ):  # which another handle of the memory is only if it is made in that mode
        size, stride = tuple(self.shape), self.stride()
        data = _C.over_storage(_C.storage_bytes(data), self.dtype, self.storage_offset(), size, stride)
    made = Tensor._as_subclass(type(self), data, self.requires_grad)
    _put_state(made, _state(self))
    return made
