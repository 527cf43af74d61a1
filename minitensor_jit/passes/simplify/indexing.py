"""Rules on gathers and scatters: what reads or writes one window only is a slice."""

from __future__ import annotations

from math import prod

from ...ir.module import Computation, Instruction
from .rewriter import Rewriter, Rule

__all__ = ["RULES"]


def _gather_one(i: Instruction, r: Rewriter) -> Instruction | None:
    """A gather of a single window is a dynamic-slice: both clamp where it starts."""
    x, indices = i.operands
    if i.attrs.get("operand_batching_dims"):
        return None
    sizes = i.attrs["slice_sizes"]
    if prod(sizes) != i.array_shape.size or 0 in sizes:
        return None
    starts = _starts(i.attrs["start_index_map"], indices, len(x.dims), r)
    return r.reshape(r.emit("dynamic-slice", (x, *starts), {"dynamic_slice_sizes": tuple(sizes)}), i.dims)


def _starts(index_map: tuple[int, ...], indices: Instruction, rank: int, r: Rewriter) -> list[Instruction]:
    """One index vector as a scalar for each dimension; zero where it says nothing."""
    flat = r.reshape(indices, (len(index_map),))
    scalar = indices.array_shape.with_dims(())
    starts = [r.constant(0, scalar)] * rank
    for k, d in enumerate(index_map):
        starts[d] = r.reshape(r.emit("slice", (flat,), {"slice": ((k, k + 1, 1),)}), ())
    return starts


def _scatter_nothing(i: Instruction, r: Rewriter) -> Instruction | None:
    """Without updates nothing is written."""
    if len(i.operands) != 3:
        return None
    x, _, updates = i.operands
    return x if updates.array_shape.size == 0 else None


def _scatter_one(i: Instruction, r: Rewriter) -> Instruction | None:
    """Writing one window at a place that is known to lie inside is a dynamic-update-slice."""
    if len(i.operands) != 3 or i.attrs.get("input_batching_dims"):
        return None
    x, indices, updates = i.operands
    combiner: Computation = i.attrs["to_apply"]
    if combiner.root.parameter_number != 1 or indices.opcode != "constant" or indices.literal is None:
        return None
    inserted = i.attrs.get("inserted_window_dims") or ()
    window = iter([updates.dims[d] for d in i.attrs.get("update_window_dims") or ()])
    sizes = [1 if d in inserted else next(window) for d in range(len(x.dims))]
    index_map = i.attrs["scatter_dims_to_operand_dims"]
    if prod(sizes) != updates.array_shape.size or indices.array_shape.size != len(index_map):
        return None
    places = dict(zip(index_map, indices.literal.reshape(-1).tolist(), strict=True))
    # A window that lies outside is not written at all; a dynamic-update-slice would move it.
    if any(not 0 <= place <= x.dims[d] - sizes[d] for d, place in places.items()):
        return None
    starts = _starts(index_map, indices, len(x.dims), r)
    return r.emit("dynamic-update-slice", (x, r.reshape(updates, sizes), *starts))


RULES: tuple[Rule, ...] = (
    Rule("gather-one", ("gather",), _gather_one, "a gather of one window is a dynamic-slice"),
    Rule("scatter-nothing", ("scatter",), _scatter_nothing, "a scatter of no elements leaves its operand"),
    Rule("scatter-one", ("scatter",), _scatter_one, "a scatter of one window, at a known place, updates a slice"),
)
