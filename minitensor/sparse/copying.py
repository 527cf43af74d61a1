"""Copies of sparse tensors by Python's protocols."""

from __future__ import annotations

import copy
from typing import Any

from minitensor.sparse.tensor import Pattern, SparseTensor, raw

__all__ = ["copied", "deeply_copied", "rebuild"]


def rebuild(layout: Any, parts: tuple[Any, ...], requires_grad: bool, parameter: bool = False) -> Any:
    """A sparse tensor of its components, as pickle has them."""
    *indices, values, size, coalesced = parts
    batch = indices[0].ndim - 1
    block = tuple(values.shape[batch + 1 : batch + 3]) if layout._name in ("sparse_bsr", "sparse_bsc") else (1, 1)
    cls = SparseTensor
    if parameter:
        from minitensor.sparse.parameter import SparseParameter as cls  # noqa: N813
    return raw(Pattern(layout, size, tuple(indices), coalesced, block), values, cls).requires_grad_(requires_grad)


def copied(tensor: Any) -> Any:
    """Another leaf over the same components."""
    return raw(tensor._pattern, tensor._elements, type(tensor)).requires_grad_(tensor.requires_grad)


def deeply_copied(tensor: Any, memo: dict[Any, Any]) -> Any:
    """A leaf over copies of the components, with a copy of the gradient."""
    if id(tensor) in memo:
        return memo[id(tensor)]
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment"
        )
    own = tensor._pattern
    pattern = Pattern(own.layout, own.size, tuple(i.clone() for i in own.indices), own.coalesced, own.block)
    made = memo[id(tensor)] = raw(pattern, tensor._elements.clone(), type(tensor)).requires_grad_(tensor.requires_grad)
    memo.setdefault(id(memo), []).append(tensor)
    if tensor.grad is not None:
        made.grad = copy.deepcopy(tensor.grad, memo)
    return made
