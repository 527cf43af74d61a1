"""Padding: constants, mirror images, edges, and what is at the other end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitensor._C import Tensor
from minitensor.composite.layout import in_format_of
from minitensor.composite.numbers import whole_sizes
from minitensor.composite.registry import composite, one_node
from minitensor.ops import movement
from minitensor.ops.elementwise import row_major


def _before_and_after(x: Any, d: int, low: int, high: int, part: Callable[[Any, int, int, bool], Any]) -> Any:
    """x along d with what `part` makes of it before and after; negative counts cut."""
    n = x.shape[d]
    pieces = []
    middle = x
    if low < 0 or high < 0:
        middle = movement.slice(x, d, -low if low < 0 else 0, n + high if high < 0 else n, 1)
    # What is at the other end is taken from what negative counts leave, as PyTorch does.
    source = middle if part is _other_end else x
    if low > 0:
        pieces.append(part(source, d, low, True))
    pieces.append(middle)
    if high > 0:
        pieces.append(part(source, d, high, False))
    return pieces[0] if len(pieces) == 1 else movement.cat(pieces, d)


def _mirror(x: Any, d: int, count: int, before: bool) -> Any:
    n = x.shape[d]
    start, end = (1, count + 1) if before else (n - 1 - count, n - 1)
    return movement.flip(movement.slice(x, d, start, end, 1), (d,))


def _edge(x: Any, d: int, count: int, before: bool) -> Any:
    n = x.shape[d]
    edge = movement.slice(x, d, 0, 1, 1) if before else movement.slice(x, d, n - 1, n, 1)
    return movement.expand(edge, [count if i == d else size for i, size in enumerate(x.shape)])


def _other_end(x: Any, d: int, count: int, before: bool) -> Any:
    n = x.shape[d]
    return movement.slice(x, d, n - count, n, 1) if before else movement.slice(x, d, 0, count, 1)


_PARTS = {"reflect": _mirror, "replicate": _edge, "circular": _other_end}


def _check_other_mode(input: Any, pad: Sequence[int], mode: str) -> None:
    pairs, rank = len(pad) // 2, input.ndim
    if not (1 <= pairs <= 3 and rank in (pairs + 1, pairs + 2)):
        raise NotImplementedError(
            f"Padding size {len(pad)} is not supported for {rank}D input tensor.\n"
            "Supported combinations for non-constant padding:\n"
            "  - 2D or 3D input: padding size = 2 (pads last dimension)\n"
            "  - 3D or 4D input: padding size = 4 (pads last 2 dimensions)\n"
            "  - 4D or 5D input: padding size = 6 (pads last 3 dimensions)"
        )
    for i in range(pairs):
        d = rank - 1 - i
        low, high, n = pad[2 * i], pad[2 * i + 1], input.shape[d]
        if mode == "reflect" and (low >= n or high >= n):
            raise RuntimeError(
                "Argument #4: Padding size should be less than the corresponding input dimension, but got: padding "
                f"({low}, {high}) at dimension {d} of input {list(input.shape)}"
            )
        if mode == "circular":
            if low > n or high > n:
                raise RuntimeError("Padding value causes wrapping around more than once.")
            if low + high + n < 0:
                raise RuntimeError("Negative padding value is resulting in an empty dimension.")
        elif n + low + high < 1:
            raise RuntimeError(
                f"input ({list(input.shape)}) is too small: dimension {d} of size {n} with padding {low} and {high} "
                "leaves nothing"
            )
        if mode == "replicate" and n == 0:
            raise RuntimeError(
                f"Expected {rank}D tensor with possibly 0 batch size and other non-zero dimensions for input, but got: "
                f"{list(input.shape)}"
            )


def _around(input: Any, counts: Sequence[int], mode: str) -> Tensor:
    made = movement.pad_around(input, counts, tuple(_PARTS).index(mode))
    return made if mode == "circular" else in_format_of(input, made)


_AROUND = {
    (mode, rank): _around if mode == "circular" else one_node(f"{name}Pad{rank}DBackward0")(_around)
    for mode, name in (("reflect", "Reflection"), ("replicate", "Replication"), ("circular", ""))
    for rank in (1, 2, 3)
}
"""By the mode and the number of dimensions that are padded."""


@composite(function=False, method=False, namespaces=("nn.functional",))
def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """input with more elements around it, or fewer where counts are negative.

    `pad` has pairs of counts, before and after, for the last dimension first. `mode`: "constant" (`value`, 0 if None)
    for any dimensions; "reflect" (mirrored without the edge), "replicate" (the edge) and "circular" (the other end)
    for the last one, two or three of tensors with one or two dimensions more. NotImplementedError or RuntimeError for
    other ranks and counts that don't fit.
    """
    counts = whole_sizes(pad, "pad", "pad")
    if len(counts) % 2:
        raise RuntimeError("Padding length must be divisible by 2")
    if len(counts) // 2 > input.ndim:
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got padding length "
            f"{len(counts)} and input of dimension {input.ndim}"
        )
    if mode == "constant":
        return in_format_of(input, movement.constant_pad_nd(input, counts, 0 if value is None else value))
    if value is not None and value != 0:
        raise RuntimeError(f'Padding mode "{mode}" doesn\'t take in value argument')
    if mode not in _PARTS:
        raise NotImplementedError(f"Unrecognised padding mode {mode}")
    _check_other_mode(input, counts, mode)
    if min(counts) >= 0 and not input.is_complex():
        return _AROUND[mode, min(len(counts) // 2, 3)](input, counts, mode)
    made = input
    for i in range(len(counts) // 2):
        low, high = counts[2 * i], counts[2 * i + 1]
        if low or high:
            made = _before_and_after(made, input.ndim - 1 - i, low, high, _PARTS[mode])
    made = row_major(made)  # where it was only cut it's a view
    return made if mode == "circular" else in_format_of(input, made)
