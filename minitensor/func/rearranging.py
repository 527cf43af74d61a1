"""`rearrange`: dimensions in another order, split and joined, as a pattern of their names says."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any

from minitensor._C import Tensor
from minitensor._functions.offered import stack

__all__ = ["rearrange"]

_REST = "..."


def rearrange(tensor: Any, pattern: str, **axes_lengths: int) -> Tensor:
    """Return a tensor with its dimensions as a pattern says, as einops' function of that name.

    `"b (h w) c -> b c h w"` splits the second dimension and moves the last one: names in parentheses are one dimension,
    `...` are any, and 1 is one of size 1. The sizes of split dimensions that can't be known are given by name. A list
    of tensors is stacked first. ValueError for a pattern that is none or does not fit.
    """
    if not isinstance(pattern, str):
        raise TypeError(f"rearrange: expected a pattern, got {type(pattern).__name__}")
    if isinstance(tensor, Sequence) and not isinstance(tensor, str):
        tensor = stack(list(tensor))
    if not isinstance(tensor, Tensor):
        raise TypeError(f"rearrange: expected a tensor, or a list of tensors, got {type(tensor).__name__}")
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"rearrange: expected one '->' in the pattern {pattern!r}")
    left, right = (_parsed(side, pattern) for side in sides)
    used = {name for group in left for name in group}
    if used != {name for group in right for name in group}:
        raise ValueError(f"rearrange: the two sides of {pattern!r} have different names")
    if unknown := set(axes_lengths) - used:
        raise ValueError(f"rearrange: the pattern {pattern!r} has no {sorted(unknown)}")
    left = _with_rest(left, tensor.dim(), pattern)
    rest = [name for group in left for name in group if name.startswith(_REST)]
    right = [
        [part for name in group for part in (rest if name == _REST else [name])] if group != [_REST] else group
        for group in right
    ]
    right = [one for group in right for one in ([[name] for name in rest] if group == [_REST] else [group])]
    if len(left) != tensor.dim():
        raise ValueError(f"rearrange: {pattern!r} is for {len(left)} dimensions, the tensor has {tensor.dim()}")
    sizes: dict[str, int] = {}
    for group, size in zip(left, tensor.shape, strict=True):
        sizes.update(_split(group, int(size), axes_lengths, pattern))
    names = [name for group in left for name in group]
    order = [names.index(name) for group in right for name in group]
    split = tensor.reshape([sizes[name] for name in names])
    return split.permute(order).reshape([prod(sizes[name] for name in group) for group in right])


def _parsed(side: str, pattern: str) -> list[list[str]]:
    """The dimensions of a side, each as the names that it is made of."""
    tokens = re.findall(r"\.\.\.|\(|\)|[A-Za-z_][A-Za-z0-9_]*|1(?![0-9])|\S", side)
    groups: list[list[str]] = []
    seen: set[str] = set()
    inside: list[str] | None = None
    for token in tokens:
        if token == "(" and inside is None:
            inside = []
        elif token == ")" and inside is not None:
            groups.append(inside)
            inside = None
        elif token == "1":
            if inside is None:
                groups.append([])
        elif (token == _REST or token.isidentifier()) and token not in seen:
            seen.add(token)
            if inside is None:
                groups.append([token])
            else:
                inside.append(token)
        else:
            raise ValueError(f"rearrange: unexpected {token!r} in the pattern {pattern!r}")
    if inside is not None:
        raise ValueError(f"rearrange: a parenthesis is not closed in the pattern {pattern!r}")
    return groups


def _with_rest(groups: list[list[str]], rank: int, pattern: str) -> list[list[str]]:
    """Names in the place of `...`, as many as the tensor has dimensions left."""
    if any(_REST in group and group != [_REST] for group in groups):
        raise ValueError(f"rearrange: '...' may not be in parentheses on the left of {pattern!r}")
    count = rank - len(groups) + 1
    return [
        one
        for group in groups
        for one in ([[f"{_REST}{i}"] for i in range(max(count, 0))] if group == [_REST] else [group])
    ]


def _split(group: list[str], size: int, given: dict[str, int], pattern: str) -> dict[str, int]:
    """The sizes of the names of one dimension."""
    if not group:
        if size != 1:
            raise ValueError(f"rearrange: {pattern!r} has a dimension of size 1, the tensor's is {size}")
        return {}
    known = {name: int(given[name]) for name in group if name in given}
    unknown = [name for name in group if name not in given]
    if len(unknown) > 1:
        raise ValueError(f"rearrange: the sizes of {unknown} in {pattern!r} can't be known; give all but one")
    product = prod(known.values())
    if (product == 0 or size % product) if unknown else product != size:
        raise ValueError(f"rearrange: a dimension of {size} can't be {' x '.join(group)} with {known} in {pattern!r}")
    if unknown:
        known[unknown[0]] = size // product
    return known
