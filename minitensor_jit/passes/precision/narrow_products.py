"""Gives products of float16 and bfloat16 to the hardware that multiplies these, instead of converting them first."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...ir.infer.dot import dot_dims
from ...ir.module import Computation, Instruction, Module
from ...ir.narrow import NARROW, array_of, wide_array
from ...ir.opcode import Trait, is_elementwise, opcodes_with
from ...ir.shape import Shape

__all__ = ["NarrowProducts"]

_MOVES: Final = opcodes_with(Trait.MOVES) | {"copy"}
# How many instructions are searched behind a product, and in front of its operands.
_MAX_BEHIND: Final = 64
_MAX_MOVES: Final = 32


class NarrowProducts:
    """`dot(convert(x), convert(y))` in float32 becomes `dot(x, y)` of narrow arrays with a float32 result.

    Contract: only where the result is rounded to a narrow type in the end, by all that read it: a program that
    converts to float32 for the sake of a product in float32 gets one. Products of vectors have an order of their own
    and stay. For targets whose matrix units add such products in float32, in an order of their own.
    """

    name = "narrow-products"

    def run(self, module: Module) -> bool:
        """Rewrite in the entry, and in what its loops and conditionals run."""
        changed = False
        for computation in module.sequences():
            changed |= _run(computation)
        return changed


def _run(computation: Computation) -> bool:
    users = computation.users()
    made: list[Instruction] = []
    changed = False
    for i in computation.instructions:
        if i.opcode == "dot" and i.dtype == "f32" and _has_tiles(i) and _is_rounded(computation, i, users):
            sources = [_narrow(o) for o in i.operands]
            if all(sources) and len({chain[-1].operands[0].dtype for chain in sources}) == 1:
                i.operands = [_moved(chain, made) for chain in sources]
                changed = True
        made.append(i)
    if changed:
        computation.instructions = made
        computation.make_names_unique()
    return changed


def _has_tiles(dot: Instruction) -> bool:
    lb, lc, rb, rc = dot_dims(dot.attrs)
    for operand, batch, contracted in zip(dot.operands, (lb, rb), (lc, rc), strict=True):
        free = 1
        for d, n in enumerate(operand.dims):
            free *= 1 if d in batch or d in contracted else n
        if free == 1:
            return False
    return True


def _is_rounded(computation: Computation, dot: Instruction, users: dict[Instruction, list[Instruction]]) -> bool:
    """Whether all that becomes of the product's elements is rounded to a narrow type."""
    seen, pending = {dot}, [dot]
    while pending:
        i = pending.pop()
        if i is computation.root or not users[i] or len(seen) > _MAX_BEHIND:
            return False
        for user in users[i]:
            if user.opcode == "convert" and user.dtype in NARROW:
                continue
            if i.is_tuple or not (is_elementwise(user.opcode) or user.opcode in _MOVES) or user.dtype != "f32":
                return False
            if user not in seen:
                seen.add(user)
                pending.append(user)
    return True


def _narrow(i: Instruction) -> list[Instruction]:
    """From an operand back to the conversion of a narrow array, through what only moves it; empty if there is none."""
    if i.dtype != "f32":  # it is narrow already, or was rounded between
        return []
    chain = [i]
    while i.opcode in _MOVES and len(chain) <= _MAX_MOVES:
        if i.opcode == "pad" and not _is_exact(i.operands[1]):
            return []
        i = i.operands[0]
        chain.append(i)
    return chain if i.opcode == "convert" and i.operands[0].dtype in NARROW else []


def _is_exact(i: Instruction) -> bool:
    """Whether a constant has the same value in both narrow types."""
    if i.literal is None:
        return False
    return all(np.array_equal(wide_array(array_of(i.literal, dtype)), i.literal) for dtype in NARROW)


def _moved(chain: list[Instruction], made: list[Instruction]) -> Instruction:
    """The narrow array, moved as its conversion was."""
    source = chain[-1].operands[0]
    for i in reversed(chain[:-1]):
        operands = [source]
        if i.opcode == "pad":
            assert i.operands[1].literal is not None
            padding = array_of(i.operands[1].literal, source.dtype)
            operands.append(Instruction(f"{i.name}.padding", "constant", Shape(source.dtype), literal=padding))
            made.append(operands[1])
        source = i.clone(operands, shape=i.array_shape.with_dtype(source.dtype))
        source.name = f"{i.name}.narrow"
        made.append(source)
    return source
