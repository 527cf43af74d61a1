"""Rules on predicates, bits and choices."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...ir.module import Instruction
from .rewriter import Rewriter, Rule, scalar_value

__all__ = ["RULES"]

_INVERSE: Final = {"EQ": "NE", "NE": "EQ", "LT": "GE", "GE": "LT", "GT": "LE", "LE": "GT"}


def _zeros(x: Instruction) -> bool:
    value = scalar_value(x)
    return value is not None and not value


def _ones(x: Instruction) -> bool:
    """Whether all bits of every element are set (True for pred)."""
    value = scalar_value(x)
    return value is not None and bool(value if value.dtype.kind == "b" else np.invert(value) == 0)


def _and(i: Instruction, r: Rewriter) -> Instruction | None:
    x, y = i.operands
    if x is y or _ones(y) or _zeros(x):
        return x
    return y if _ones(x) or _zeros(y) else None


def _or(i: Instruction, r: Rewriter) -> Instruction | None:
    x, y = i.operands
    if x is y or _zeros(y) or _ones(x):
        return x
    return y if _zeros(x) or _ones(y) else None


def _xor(i: Instruction, r: Rewriter) -> Instruction | None:
    x, y = i.operands
    if _zeros(y):
        return x
    if _zeros(x):
        return y
    return r.constant(0, i.array_shape) if x is y else None


def _select_constant(i: Instruction, r: Rewriter) -> Instruction | None:
    chosen = scalar_value(i.operands[0])
    return None if chosen is None else i.operands[1] if chosen else i.operands[2]


def _select_same(i: Instruction, r: Rewriter) -> Instruction | None:
    return i.operands[1] if i.operands[1] is i.operands[2] else None


def _select_not(i: Instruction, r: Rewriter) -> Instruction | None:
    pred, x, y = i.operands
    return r.emit("select", (pred.operands[0], y, x)) if pred.opcode == "not" else None


def _select_of_truths(i: Instruction, r: Rewriter) -> Instruction | None:
    if i.dtype != "pred":
        return None
    pred, x, y = i.operands
    if _ones(x) and _zeros(y):
        return pred
    return r.emit("not", (pred,)) if _zeros(x) and _ones(y) else None


def _select_select(i: Instruction, r: Rewriter) -> Instruction | None:
    """Where the same pred chooses again, its choice is known."""
    pred, x, y = i.operands
    if x.opcode == "select" and x.operands[0] is pred:
        return r.emit("select", (pred, x.operands[1], y))
    if y.opcode == "select" and y.operands[0] is pred:
        return r.emit("select", (pred, x, y.operands[2]))
    return None


def _not_compare(i: Instruction, r: Rewriter) -> Instruction | None:
    compare = i.operands[0]
    if compare.opcode != "compare":
        return None
    direction = compare.attrs["direction"]
    # A NaN is neither less than nor at least anything: only EQ and NE are opposites for floats.
    if compare.operands[0].array_shape.is_floating and direction not in ("EQ", "NE"):
        return None
    return r.emit("compare", compare.operands, {**compare.attrs, "direction": _INVERSE[direction]})


def _compare_itself(i: Instruction, r: Rewriter) -> Instruction | None:
    x, y = i.operands
    if x is not y or x.array_shape.kind in "fc":
        return None
    return r.constant(i.attrs["direction"] in ("EQ", "LE", "GE"), i.array_shape)


def _compare_pred(i: Instruction, r: Rewriter) -> Instruction | None:
    """convert(p) compared with 0 or 1 is p or not(p)."""
    x, y = i.operands
    bound = scalar_value(y)
    if x.opcode == "convert" and x.operands[0].dtype == "pred":
        pred = x.operands[0]
    elif x.dtype == "pred":
        pred = x
    else:
        return None
    if bound is None or bound not in (0, 1):
        return None
    compare = {"EQ": "__eq__", "NE": "__ne__", "LT": "__lt__", "LE": "__le__", "GT": "__gt__", "GE": "__ge__"}
    how = compare[i.attrs["direction"]]
    on_false, on_true = (bool(getattr(k, how)(int(bound))) for k in (0, 1))
    if on_true == on_false:
        return r.constant(on_true, i.array_shape)
    return pred if on_true else r.emit("not", (pred,))


RULES: tuple[Rule, ...] = (
    Rule("and", ("and",), _and, "p & p, p & true and p & false"),
    Rule("or", ("or",), _or, "p | p, p | true and p | false"),
    Rule("xor", ("xor",), _xor, "p ^ false is p, p ^ p is false"),
    Rule("select-constant", ("select",), _select_constant, "select(true, x, y) is x"),
    Rule("select-same", ("select",), _select_same, "select(p, x, x) is x"),
    Rule("select-not", ("select",), _select_not, "select(not(p), x, y) is select(p, y, x)"),
    Rule("select-of-truths", ("select",), _select_of_truths, "select(p, true, false) is p"),
    Rule("select-select", ("select",), _select_select, "select(p, select(p, x, y), z) is select(p, x, z)"),
    Rule("not-compare", ("not",), _not_compare, "not(x == y) is x != y; the orders for integers"),
    Rule("compare-itself", ("compare",), _compare_itself, "x == x is true for integers"),
    Rule("compare-pred", ("compare",), _compare_pred, "convert(p) != 0 is p"),
)
