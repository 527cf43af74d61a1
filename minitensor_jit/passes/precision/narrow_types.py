"""Computes in wider types what is stored in narrow ones, and in int32 matrix products of small integers."""

from __future__ import annotations

from ...ir.module import Computation, Instruction, Module
from ...ir.narrow import WIDER, is_narrow, widened, widened_shape
from ...ir.shape import AnyShape, Shape, TupleShape

__all__ = ["NarrowTypes"]

# Matrix products are compiled for few types; integers wrap in a narrower type as they do in a wider one.
_PRODUCTS = {"s16": "s32", "u16": "s32"}


class NarrowTypes:
    """Surrounds every operation on a narrow type by conversions.

    Contract: afterwards f16, bf16 and the types of `ir/small_types.py` are moved, chosen by `select` and converted.
    An operation rounds once: a sum is accumulated in float32. With `keep_products`, products of narrow arrays with a
    float32 result stay as they are.
    """

    name = "narrow-types"

    def __init__(self, keep_products: bool = False) -> None:
        self.keep_products = keep_products

    def run(self, module: Module) -> bool:
        """Rewrite the entry, fusions and called computations; the combiners that they use are replaced."""
        changed = False
        pending, seen = [module.entry], {module.entry}
        while pending:
            computation = pending.pop()
            changed |= _rewrite(computation, self.keep_products)
            for i in computation.instructions:
                if i.opcode in ("fusion", "call", "while", "conditional"):
                    new = [c for c in i.called() if c not in seen]
                    seen.update(new)
                    pending.extend(new)
        if changed:
            module.collect()
        return changed


def _rewrite(computation: Computation, keep_products: bool) -> bool:
    if not any(_needs(i, keep_products) for i in computation.instructions):
        return False
    made: list[Instruction] = []
    renamed: dict[Instruction, Instruction] = {}
    converted: dict[tuple[Instruction, str], Instruction] = {}

    def add(opcode: str, shape: AnyShape, *operands: Instruction, like: Instruction, **attrs: int) -> Instruction:
        name = f"{like.name}.{opcode}" if not attrs else f"{like.name}.{opcode}.{attrs['index']}"
        made.append(Instruction(name, opcode, shape, operands, dict(attrs), metadata=like.metadata))
        return made[-1]

    def convert(x: Instruction, dtype: str) -> Instruction:
        known = converted.get((x, dtype))
        if known is None:
            known = converted[x, dtype] = add("convert", x.array_shape.with_dtype(dtype), x, like=x)
        return known

    for i in computation.instructions:
        i.operands = [renamed.get(o, o) for o in i.operands]
        if not _needs(i, keep_products):
            made.append(i)
            continue
        if i.opcode == "dot" and i.dtype in _PRODUCTS:
            wide = i.clone([convert(o, _PRODUCTS[i.dtype]) for o in i.operands])
            wide.shape = i.array_shape.with_dtype(_PRODUCTS[i.dtype])
        else:
            wide = widened(i, [convert(o, WIDER[o.dtype]) if _is_narrow_array(o) else o for o in i.operands])
        wide.name = f"{i.name}.wide"
        made.append(wide)
        if isinstance(i.shape, TupleShape) and wide.shape != i.shape:
            parts = []
            for k, shape in enumerate(i.shape.elements):
                part = add("get-tuple-element", widened_shape(shape), wide, like=i, index=k)
                parts.append(convert(part, shape.dtype) if isinstance(shape, Shape) and shape != part.shape else part)
            renamed[i] = add("tuple", i.shape, *parts, like=i)
        else:
            renamed[i] = wide if wide.shape == i.shape else convert(wide, i.dtype)
    computation.instructions = made
    computation.root = renamed.get(computation.root, computation.root)
    computation.make_names_unique()
    return True


def _needs(i: Instruction, keep_products: bool) -> bool:
    if keep_products and i.opcode == "dot" and i.dtype == "f32":
        return False
    return is_narrow(i) or (i.opcode == "dot" and i.dtype in _PRODUCTS)


def _is_narrow_array(x: Instruction) -> bool:
    return isinstance(x.shape, Shape) and x.shape.dtype in WIDER
