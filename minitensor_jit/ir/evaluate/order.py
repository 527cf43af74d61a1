"""The evaluator's rules for sort and topk."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cmp_to_key
from typing import Final

import numpy as np

from ..module import Instruction
from ..narrow import array_of, wide_array
from .computation import scalar_function
from .elementwise import Array, Rule, Value, total_order

__all__ = ["ORDER_RULES"]

# Up to this many comparisons are made at once, all pairs of a lane.
MAX_PAIRS: Final = 1 << 20


def _sort(i: Instruction, x: Sequence[Value]) -> Value:
    axis = i.attrs["dimensions"][0]
    less = scalar_function(i.attrs["to_apply"])
    moved = [np.moveaxis(a, axis, -1).copy() for a in x]
    length = moved[0].shape[-1]
    if moved[0].size * length <= MAX_PAIRS:
        # The place of an element is how many come before it; of equal ones, those that did already.
        pairs = [p for a in moved for p in np.broadcast_arrays(a[..., :, None], a[..., None, :])]
        before_other = np.broadcast_to(less(*pairs), (*moved[0].shape, length))
        earlier = np.arange(length)[:, None] < np.arange(length)
        equal = ~before_other & ~np.swapaxes(before_other, -1, -2)
        places = np.sum(before_other | (equal & earlier), axis=-2)
        # A comparator that is no order, as "less" is none of NaN, may give several elements one place.
        if np.array_equal(np.sort(places, axis=-1), np.broadcast_to(np.arange(length), places.shape)):
            order = np.empty_like(places)
            np.put_along_axis(order, places, np.broadcast_to(np.arange(length), places.shape), axis=-1)
            results = tuple(np.moveaxis(np.take_along_axis(a, order, -1), -1, axis) for a in moved)
            return results if len(results) > 1 else results[0]
    for at in np.ndindex(*moved[0].shape[:-1]):
        lanes = [a[at] for a in moved]

        def before(p: int, q: int, lanes: list[Array] = lanes) -> bool:
            return bool(less(*(np.asarray(lane[k]) for lane in lanes for k in (p, q))))

        def compare(p: int, q: int) -> int:
            return int(before(q, p)) - int(before(p, q))

        order = sorted(range(len(lanes[0])), key=cmp_to_key(compare))
        for a, lane in zip(moved, lanes, strict=True):
            a[at] = lane[order]
    results = tuple(np.moveaxis(a, -1, axis) for a in moved)
    return results if len(results) > 1 else results[0]


def _topk(i: Instruction, x: Sequence[Value]) -> Value:
    keys = wide_array(x[0])
    if keys.dtype.kind == "f":
        keys = total_order(keys)
    if i.attrs["largest"]:
        keys = np.invert(keys)  # reverses the order of integers, and keeps the first of equals first
    order = np.argsort(keys, axis=-1, kind="stable")[..., : i.attrs["k"]]
    return np.take_along_axis(x[0], order, -1), array_of(order, "s32")


ORDER_RULES: Final[dict[str, Rule]] = {"sort": _sort, "topk": _topk}
