"""Collectives: what several devices that run one module compute together, and which devices those are.

A device is one partition of one replica; its number is `replica * partitions + partition`, as in XLA. Which devices
an instruction joins follows from its groups and from what these number (`groups_of`). A program of several processes
is one replica with a partition for each process, so that a device is a rank.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..infer.checks import Attrs, Rule, ShapeError, check_combiner, distinct, same, wrong
from ..shape import AnyShape, Shape, TupleShape

if TYPE_CHECKING:
    from ..module import Instruction

__all__ = ["COLLECTIVE_RULES", "Devices", "Groups", "groups_of", "parse_groups", "print_groups"]

Groups = tuple[tuple[int, ...], ...]

_IOTA: Final = re.compile(r"\[([\d,]+)\]<=\[([\d,]+)\](?:T\(([\d,]+)\))?")
_LISTS: Final = re.compile(r"\{(?:\{(?:\d+(?:,\d+)*)?\}(?:,\{(?:\d+(?:,\d+)*)?\})*)?\}")


def parse_groups(text: str) -> Groups:
    """The groups of `{{0,1},{2,3}}`, or of XLA's short form `[2,2]<=[4]`, `[2,2]<=[2,2]T(1,0)`.

    Raises ValueError for any other text.
    """
    text = text.replace(" ", "")
    if text == "{}":
        return ()
    if match := _IOTA.fullmatch(text):
        sizes, source = ([int(n) for n in match[k].split(",")] for k in (1, 2))
        order = [int(n) for n in match[3].split(",")] if match[3] else list(range(len(source)))
        if math.prod(sizes) != math.prod(source) or sorted(order) != list(range(len(source))):
            raise ValueError(f"{text} does not number as many devices as it has places for")
        if len(sizes) != 2:
            raise ValueError(f"groups are numbered in two dimensions, {text} has {len(sizes)}")
        strides = [math.prod(source[k + 1 :]) for k in range(len(source))]
        numbers = [0]
        for d in order:
            numbers = [n + k * strides[d] for n in numbers for k in range(source[d])]
        return tuple(tuple(numbers[k * sizes[1] : (k + 1) * sizes[1]]) for k in range(sizes[0]))
    if not _LISTS.fullmatch(text):
        raise ValueError(f"expected groups like {{{{0,1}},{{2,3}}}} or [2,2]<=[4], found {text!r}")
    return tuple(tuple(int(n) for n in inner.split(",")) if inner else () for inner in text[2:-2].split("},{"))


def print_groups(groups: Groups) -> str:
    """The text of groups, or of pairs of source and target."""
    return "{" + ",".join("{" + ",".join(map(str, group)) + "}" for group in groups) + "}"


@dataclass(frozen=True, slots=True)
class Devices:
    """How many devices run a module."""

    partitions: int = 1
    replicas: int = 1

    @property
    def count(self) -> int:
        """How many there are in all."""
        return self.partitions * self.replicas


def groups_of(i: Instruction, devices: Devices) -> Groups:
    """The devices that exchange values, group by group, each in the order of its results.

    Without `channel_id` a group numbers replicas, and each partition has its own exchange; with it, replicas of which
    all partitions take part, or, with `use_global_device_ids`, devices. An `all-to-all`, a permutation and a broadcast
    with a channel number partitions instead. No group at all means that everyone takes part. Raises ValueError for a
    number that no device has.
    """
    flat = i.attrs.get("use_global_device_ids", False)
    channel = i.attrs.get("channel_id", 0) > 0
    by_partition = channel and i.opcode in ("all-to-all", "collective-broadcast", "collective-permute")
    limit = devices.count if flat else devices.partitions if by_partition else devices.replicas
    if i.opcode == "collective-permute":
        named: Groups = i.attrs["source_target_pairs"]
    else:
        named = i.attrs.get("replica_groups") or (tuple(range(limit)),)
    for number in (n for group in named for n in group):
        if number >= limit:
            raise ValueError(f"{i.name} names device {number} of {limit}")
    wide, high = devices.partitions, devices.replicas
    if flat:
        return named
    if by_partition:
        return tuple(tuple(r * wide + p for p in group) for r in range(high) for group in named)
    if channel:
        return tuple(tuple(r * wide + p for r in group for p in range(wide)) for group in named)
    return tuple(tuple(r * wide + p for r in group) for group in named for p in range(wide))


# ---- shapes


def _size(opcode: str, attrs: Attrs) -> int | None:
    """How many devices a group has; None where the text leaves it to whoever runs the module."""
    groups: Groups = attrs.get("replica_groups", ())
    members = [n for group in groups for n in group]
    if len(set(members)) != len(members):
        wrong(f"{opcode}: a device is named twice in the replica_groups {print_groups(groups)}")
    if len({len(group) for group in groups}) > 1 and opcode not in ("all-reduce", "collective-broadcast"):
        raise ShapeError(f"{opcode}: the replica_groups {print_groups(groups)} are not of equal size")
    if any(not group for group in groups):
        raise ShapeError(f"{opcode}: a group of the replica_groups {print_groups(groups)} is empty")
    if attrs.get("use_global_device_ids") and attrs.get("channel_id", 0) <= 0:
        wrong(f"{opcode}: use_global_device_ids needs a channel_id")
    # Of replicas, each stands for as many devices as it has partitions.
    whole = attrs.get("channel_id", 0) <= 0 or attrs.get("use_global_device_ids") or opcode == "all-to-all"
    return len(groups[0]) if groups and whole else None


def _results(shapes: Sequence[Shape]) -> AnyShape:
    return shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes))


def _some(opcode: str, shapes: Sequence[Shape]) -> None:
    if not shapes:
        raise ShapeError(f"{opcode} needs an operand")


def _dimension(opcode: str, attrs: Attrs, shapes: Sequence[Shape]) -> int:
    dimensions = tuple(attrs["dimensions"])
    if len(dimensions) != 1:
        raise ShapeError(f"{opcode} is along one dimension, not {list(dimensions)}")
    for shape in shapes:
        distinct(opcode, dimensions, shape.rank)
    return int(dimensions[0])


def _combined(opcode: str, shapes: Sequence[Shape], attrs: Attrs) -> None:
    for shape in shapes:
        element = Shape(shape.dtype)
        check_combiner(opcode, attrs["to_apply"], [element, element], [element])


def _all_reduce(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    _some("all-reduce", shapes)
    _size("all-reduce", attrs)
    _combined("all-reduce", shapes, attrs)
    return _results(shapes)


def _all_reduce_start(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if len(shapes) != 1:
        raise ShapeError(f"all-reduce-start takes one operand, got {len(shapes)}; let each have one of its own")
    return _all_reduce(shapes, attrs, declared)


def _all_reduce_done(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    if len(shapes) != 1:
        raise ShapeError(f"all-reduce-done takes the result of one all-reduce-start, got {len(shapes)} operands")
    return shapes[0]


def _factor(opcode: str, attrs: Attrs, short: int, long: int | None) -> int:
    """How many times `short` is the size `long`: the size of a group, or what the declared shape says."""
    size = _size(opcode, attrs)
    if size is not None:
        return size
    if long is None or not short or long % short:
        raise ShapeError(f"{opcode} without replica_groups needs the shape of its result")
    return long // short


def _declared(declared: AnyShape | None, k: int, dimension: int) -> int | None:
    elements = declared.elements if isinstance(declared, TupleShape) else (declared,)
    shape = elements[k] if k < len(elements) else None
    return shape.dims[dimension] if isinstance(shape, Shape) and dimension < shape.rank else None


def _resized(shape: Shape, dimension: int, size: int) -> Shape:
    return shape.with_dims(tuple(size if d == dimension else n for d, n in enumerate(shape.dims)))


def _all_gather(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    _some("all-gather", shapes)
    d = _dimension("all-gather", attrs, shapes)
    found = []
    for k, shape in enumerate(shapes):
        n = _factor("all-gather", attrs, shape.dims[d], _declared(declared, k, d))
        found.append(_resized(shape, d, shape.dims[d] * n))
    return _results(found)


def _reduce_scatter(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    _some("reduce-scatter", shapes)
    d = _dimension("reduce-scatter", attrs, shapes)
    _combined("reduce-scatter", shapes, attrs)
    found = []
    for k, shape in enumerate(shapes):
        n = _factor("reduce-scatter", attrs, _declared(declared, k, d) or 0, shape.dims[d])
        if shape.dims[d] % n:
            raise ShapeError(f"reduce-scatter of {shape} among {n} devices: dimension {d} is no multiple of {n}")
        found.append(_resized(shape, d, shape.dims[d] // n))
    return _results(found)


def _all_to_all(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    _some("all-to-all", shapes)
    size = _size("all-to-all", attrs)
    if "dimensions" in attrs:
        d = _dimension("all-to-all", attrs, shapes)
        if len(shapes) != 1:
            raise ShapeError(f"all-to-all along a dimension takes one operand, got {len(shapes)}")
        if size is not None and shapes[0].dims[d] % size:
            wrong(f"all-to-all of {shapes[0]} among {size} devices: dimension {d} is no multiple of {size}")
        return shapes[0]
    same("all-to-all", shapes)
    if size is not None and len(shapes) != size:
        wrong(f"all-to-all among {size} devices takes as many operands, got {len(shapes)}")
    return TupleShape(tuple(shapes))


def _collective_permute(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    _some("collective-permute", shapes)
    pairs: Groups = attrs["source_target_pairs"]
    if any(len(pair) != 2 for pair in pairs):
        raise ShapeError(f"collective-permute: {print_groups(pairs)} are not pairs of a source and a target")
    for what, numbers in zip(("source", "target"), zip(*pairs, strict=True), strict=False):
        if len(set(numbers)) != len(numbers):
            wrong(f"collective-permute: a device is {what} twice in {print_groups(pairs)}")
    return _results(shapes)


def _collective_broadcast(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    _some("collective-broadcast", shapes)
    _size("collective-broadcast", attrs)
    return _results(shapes)


def _number(shapes: Sequence[Shape], attrs: Attrs, declared: AnyShape | None) -> AnyShape:
    return Shape("u32")


COLLECTIVE_RULES: Final[dict[str, Rule]] = {
    "all-gather": _all_gather,
    "all-reduce": _all_reduce,
    "all-reduce-done": _all_reduce_done,
    "all-reduce-start": _all_reduce_start,
    "all-to-all": _all_to_all,
    "collective-broadcast": _collective_broadcast,
    "collective-permute": _collective_permute,
    "partition-id": _number,
    "reduce-scatter": _reduce_scatter,
    "replica-id": _number,
}
