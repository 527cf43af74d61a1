"""Turns "one element of each row" into a reduction of the row, which row fusion can keep in registers."""

from __future__ import annotations

from math import prod
from typing import Final

from ..ir.decision import Decision
from ..ir.module import Computation, Instruction
from ..ir.opcode import is_elementwise
from ..ir.refusal import Refused
from ..ir.semantics.combiners import combiner, highest, lowest
from ..ir.shape import DTYPES
from .sequence_pass import SequencePass
from .simplify.rewriter import Rewriter, scalar_value

__all__ = ["RowGatherRewriter"]

# A longer row is not fused as a row, and looking at each element of it costs more than one load.
MAX_ROW: Final = 65536


class RowGatherRewriter(SequencePass):
    """Rewrites gather(x, [row, index[row]]) of a computed x to reduce(maximum) of select(iota == index, x, lowest).

    The same bits: the maximum of one value and identities is that value, -0.0 and NaN included. What indexes out of
    bounds is clamped first, as by gather. Only where x is the result of an elementwise operation: its rows need then
    not be written to memory for the sake of one element each.
    """

    name = "row-gather"

    def _run(self, computation: Computation) -> bool:
        combiners: dict[str, Computation] = {}
        replaced: dict[Instruction, Instruction] = {}
        result: list[Instruction] = []
        for i in computation.instructions:
            if replaced:
                i.operands = [replaced.get(o, o) for o in i.operands]
            if i.opcode == "gather":
                decision = picks_one_of_each_row(i)
                if decision:
                    rewriter = Rewriter()
                    rewriter.metadata = i.metadata
                    if i.dtype not in combiners:
                        combiners[i.dtype] = combiner("maximum", i.dtype)
                    replaced[i] = _rewrite(i, rewriter, combiners[i.dtype])
                    result.extend(rewriter.made)
                    continue
                self.refuse(i, None, decision)
            result.append(i)
        if not replaced:
            return False
        computation.instructions = result
        computation.root = replaced.get(computation.root, computation.root)
        computation.remove_dead()
        computation.make_names_unique()
        return True


def picks_one_of_each_row(i: Instruction) -> Decision:
    """Whether a gather reads, for every row of its operand, one element, at a position that is given for the row."""
    x, positions = i.operands
    rank, attrs = len(x.dims), i.attrs
    every = tuple(range(rank))
    if rank < 2 or attrs["offset_dims"] or attrs["collapsed_slice_dims"] != every or attrs["start_index_map"] != every:
        return Refused.OTHER_LOOP.because("it does not read single elements at full positions", 0)
    if attrs["index_vector_dim"] != rank or i.dims != (*x.dims[:-1], 1):
        return Refused.OTHER_LOOP.because("it does not read exactly one element of each row", 0)
    if positions.opcode != "concatenate" or len(positions.operands) != rank:
        return Refused.OTHER_LOOP.because("its positions are not put together from one index a dimension", 0)
    if not all(_counts(part, d) for d, part in enumerate(positions.operands[:-1])):
        return Refused.OTHER_LOOP.because("a row reads elements of another row", 0)
    if not is_elementwise(x.opcode) or DTYPES[x.dtype].kind not in "iuf":
        return Refused.LITTLE_GAINED.because("its operand is in memory anyway", 0)
    if x.dims[-1] - 1 > highest(positions.dtype):
        return Refused.NO_KERNEL.because(f"{positions.dtype} cannot count the {x.dims[-1]} elements of a row")
    return Refused.CACHE.unless(x.dims[-1] <= MAX_ROW, f"a row has {x.dims[-1]} elements")


def _counts(part: Instruction, dimension: int) -> bool:
    """Whether the elements of `part` are their own positions along a dimension."""
    dims = part.dims
    if part.opcode == "reshape":
        part = part.operands[0]
    if dims[dimension] == 1:
        return bool(scalar_value(part) == 0)
    if part.opcode != "iota":
        return False
    along = part.attrs["iota_dimension"]
    # A reshape may have added ones: compare the elements before and behind.
    return (
        part.dims[along] == dims[dimension]
        and prod(part.dims[:along]) == prod(dims[:dimension])
        and prod(part.dims[along + 1 :]) == prod(dims[dimension + 1 :])
    )


def _rewrite(i: Instruction, r: Rewriter, maximum: Computation) -> Instruction:
    x, positions = i.operands
    index = r.reshape(positions.operands[-1], x.dims[:-1])
    shape = index.array_shape
    low, high = r.constant(0, shape), r.constant(x.dims[-1] - 1, shape)
    clamped = r.emit("clamp", (low, index, high))
    full = shape.with_dims(x.dims)
    last = len(x.dims) - 1
    place = r.emit("iota", (), {"iota_dimension": last}, full)
    hit = r.emit("compare", (place, r.broadcast(clamped, x.dims, range(last))), {"direction": "EQ"})
    unit = lowest(x.dtype)
    others = r.constant(unit, x.array_shape)
    chosen = r.emit("select", (hit, x, others))
    start = r.constant(unit, x.array_shape.with_dims(()))
    reduced = r.emit("reduce", (chosen, start), {"dimensions": (last,), "to_apply": maximum})
    return r.reshape(reduced, i.dims)
