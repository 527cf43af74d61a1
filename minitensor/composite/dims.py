"""Dimensions and sizes as PyTorch's functions take them."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from minitensor import _C

__all__ = ["ints_of", "is_int", "normal_dim", "normal_dims", "product", "sizes_of", "type_name"]


def type_name(tensor: Any) -> str:
    """PyTorch's name of a tensor's dtype in messages."""
    if not isinstance(tensor, _C.Tensor):  # an array, which has a dtype too; the caller is told which argument it is
        raise AttributeError(f"{type(tensor).__name__} is no Tensor", name="dtype", obj=tensor)
    return _C.type_name(tensor.dtype)


def is_int(value: Any) -> bool:
    """Whether it's an int, or a tensor that stands for one: of integers, without dimensions and gradients."""
    if isinstance(value, _C.Tensor):
        whole = not (value.is_floating_point() or value.is_complex() or value.dtype is _C.bool)
        return value.ndim == 0 and whole and not value.requires_grad
    return hasattr(value, "__index__") and not isinstance(value, bool) and getattr(value, "shape", ()) == ()


def ints_of(given: Any) -> list[int]:
    """One int or several as a list."""
    return [operator.index(given)] if is_int(given) else list(given)


def normal_dim(dim: Any, rank: int) -> int:
    """`dim` in [0, rank); one of -1 and 0 for a tensor without dimensions. IndexError otherwise."""
    dim = operator.index(dim)
    bound = rank if rank > 1 else 1
    if not -bound <= dim < bound:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-bound}, {bound - 1}], but got {dim})")
    return dim % bound


def normal_dims(dims: int | Sequence[int], rank: int) -> tuple[int, ...]:
    """One or several dimensions in [0, rank), all different."""
    given = (dims,) if hasattr(dims, "__index__") else tuple(dims)
    normal = tuple(normal_dim(d, rank) for d in given)
    for d in normal:
        if normal.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return normal


def sizes_of(given: Sequence[Any], named: Any = None, of: str = "", name: str = "size") -> tuple[int, ...]:
    """Sizes that are given one by one, as one sequence, or by name. TypeError if in two ways.

    TypeError if in none, too, for the function `of`, whose argument `name` they are.
    """
    if named is not None:
        if given:
            raise TypeError("the sizes are given both by position and by name")
        return tuple(iter(named))  # not of a list itself: see autograd/gradients.py
    if len(given) == 1 and isinstance(given[0], (tuple, list, _C.Size)):
        return (*given[0],)
    if of and not given:
        raise TypeError(f'{of}() missing 1 required positional arguments: "{name}"')
    return tuple(given)


def product(sizes: Sequence[int]) -> int:
    """The product of the sizes."""
    count = 1
    for n in sizes:
        count *= n
    return count
