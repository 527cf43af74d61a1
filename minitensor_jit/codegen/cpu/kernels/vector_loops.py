"""Loop skeletons of CPU kernels: counted loops, and loops over vectors with a masked rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...emitter.elemental import Emitter
from ...emitter.loops import counted_loop, i64, is_constant
from ...indexing.indexing_map import AffineExpr, Space
from ...llvm.ir_text import Builder
from ...llvm.ir_types import I1, I32, LeadingLanes, Value, constant, vector

__all__ = ["lane_mask", "tail_mask", "vector_loop", "vector_variables"]

# Body of a vector loop: (variable of the vector's first element, number of the copy).
VectorBody = Callable[[AffineExpr, int], None]


def lane_mask(lanes: int, count: int) -> Value:
    """The first `count` lanes, known now."""
    return LeadingLanes(constant(vector(I1, lanes), [k < count for k in range(lanes)]), i64(min(max(count, 0), lanes)))


def tail_mask(b: Builder, lanes: int, count: Value) -> Value:
    """The first `count` lanes; none if `count` is negative, all if it is large."""
    if is_constant(count):
        return lane_mask(lanes, int(count.ref))  # what stores must know of, if it is one lane: see `_only_lane`
    # In 32 bits, as wide as most lanes are: masks of other widths are made of them by shuffles.
    few = b.intrinsic("llvm.smax", b.intrinsic("llvm.smin", count, i64(lanes)), i64(0))
    numbers = constant(vector(I32, lanes), list(range(lanes)))
    return LeadingLanes(b.icmp_signed("<", numbers, b.splat(b.trunc(few, I32), lanes)), few)


def vector_variables(space: Space, extent: int, lanes: int, copies: int) -> list[AffineExpr]:
    """A loop variable for each unrolled copy of a body."""
    # A variable of extent 1 is the constant 0; an unrolled copy must stay a variable to have lanes at all.
    return [space.var(f"v{k}", max(extent, 2) if lanes > 1 else extent) for k in range(copies)]


def _run(
    e: Emitter, variables: Sequence[AffineExpr], at: Value, body: VectorBody, masks: Sequence[Value | None]
) -> None:
    """The body for consecutive vectors that begin at `at`, one copy for each mask."""
    lanes = e.vector_lanes
    for k, mask in enumerate(masks):
        variable = variables[k]
        shifted = i64(int(at.ref) + k * lanes) if is_constant(at) else at
        if k and not is_constant(at):
            shifted = e.at(at).add(at, i64(k * lanes))
        e.set_variable(variable, shifted)
        with e.vectorized(variable), e.masked(mask):
            body(variable, k)


def static_masks(lanes: int, count: int) -> list[Value | None]:
    """The masks of the vectors that hold `count` elements."""
    masks: list[Value | None] = [None] * (count // lanes)
    if count % lanes:
        masks.append(lane_mask(lanes, count % lanes) if lanes > 1 else None)
    return masks


def vector_loop(e: Emitter, extent: int, copies: int, begin: Value, end: Value, body: VectorBody) -> None:
    """The body for all vectors in `begin <= v < end`: `copies` of it unrolled, then one by one, the last masked.

    With constant bounds and few vectors there is no loop: the copies stand one after the other, and what depends on
    nothing else moves out of the loops around. A variable runs over 0 to `extent`.
    """
    lanes = e.vector_lanes
    step = lanes * copies
    variables = vector_variables(e.space, extent, lanes, copies)
    if is_constant(begin) and is_constant(end):
        first, last = int(begin.ref), int(end.ref)
        main = first + (last - first) // step * step
        rest = static_masks(lanes, last - main)
        if main == first:
            _run(e, variables, begin, body, rest)
            return
        main_end = i64(main)
    else:
        b = e.at(begin, end)
        count = b.sub(end, begin)
        main_end = b.add(begin, b.and_(count, i64(-step)))  # lanes and copies are powers of two
        rest = None

    def round_(v: Value, _: list[Value]) -> list[Value]:
        _run(e, variables, v, body, [None] * copies)
        return []

    counted_loop(e, begin, main_end, step, round_)
    if rest is not None and not rest:
        return
    # Variables of its own: values known for those of the unrolled copies must not be taken for these.
    variables = vector_variables(e.space, extent, lanes, 1)
    if rest is not None and len(rest) == 1:
        _run(e, variables, main_end, body, rest)
        return

    def masked_round(v: Value, _: list[Value]) -> list[Value]:
        mask = None
        if lanes > 1:
            b = e.inner
            mask = tail_mask(b, lanes, b.sub(end, v))
        _run(e, variables, v, body, [mask])
        return []

    counted_loop(e, main_end, end, lanes, masked_round)
