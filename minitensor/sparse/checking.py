"""Checks of gradients with sparse inputs and outputs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from minitensor import _C
from minitensor._functions.offered import ones
from minitensor.sparse.conversion import to_compressed, to_dense, to_sparse
from minitensor.sparse.masks import at_places
from minitensor.sparse.tensor import Pattern, build, is_sparse, raw

__all__ = ["as_sparse_gradcheck"]


def as_sparse_gradcheck(gradcheck: Callable[..., Any]) -> Callable[..., Any]:
    """Return a gradcheck that takes functions of sparse tensors, and of their gradients those that are there.

    With `masked=True` only the elements of a sparse input are varied, otherwise all its places.
    """

    @functools.wraps(gradcheck)
    def check(func: Callable[..., Any], inputs: Any, **more: Any) -> Any:
        masked = more.pop("masked", False)
        given = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
        dense: list[Any] = []
        patterns: list[Pattern | None] = []
        for one in given:
            if is_sparse(one) and one.requires_grad:
                pattern, values = _varied(one, masked)
                dense.append(values)
                patterns.append(pattern)
            else:
                dense.append(one)
                patterns.append(None)

        def of_values(*args: Any) -> Any:
            rebuilt = [
                arg if pattern is None else build(pattern, arg) for arg, pattern in zip(args, patterns, strict=True)
            ]
            outputs = func(*rebuilt)
            return _strided(outputs)

        return gradcheck(of_values, tuple(dense), **more)

    return check


def _strided(outputs: Any) -> Any:
    if isinstance(outputs, (tuple, list)):
        return tuple(_strided(one) for one in outputs)
    return to_dense(outputs) if is_sparse(outputs) else outputs


def _varied(tensor: Any, masked: bool) -> tuple[Pattern, Any]:
    """The pattern and the values of a sparse input, as a leaf; unmasked with all places, zeros where there was none."""
    pattern = tensor._pattern
    if masked:
        return pattern, tensor._elements.clone().requires_grad_()
    with _C.DisableTorchFunctionSubclass():
        whole = to_dense(raw(pattern, tensor._elements))
        full = ones(pattern.size, dtype=whole.dtype)
        made = (
            to_sparse(full, pattern.sparse_dim)
            if pattern.is_coo
            else to_compressed(full, pattern.layout, pattern.block if pattern.block_dims else None, pattern.dense_dim)
        )
        return made._pattern, at_places(whole, made._pattern).requires_grad_()
