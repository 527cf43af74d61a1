"""Rules that change bits: they hold for real numbers, not for floats. Only `--fast_math` asks for them."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir.module import Instruction
from .rewriter import Rewriter, Rule, scalar_value

__all__ = ["RULES"]


def _float_constant(x: Instruction) -> Any:
    """The one finite value of all elements, as a float; else None."""
    value = scalar_value(x) if x.array_shape.is_floating else None
    return value if value is not None and np.isfinite(value) else None


def _add_zero(i: Instruction, r: Rewriter) -> Instruction | None:
    """x + 0 is x: but -0.0 + 0.0 is +0.0."""
    x, y = i.operands
    return x if _float_constant(y) == 0 else y if i.opcode == "add" and _float_constant(x) == 0 else None


def _multiply_zero(i: Instruction, r: Rewriter) -> Instruction | None:
    """x * 0 is 0: but not of NaN and infinities, and it may be -0.0."""
    return r.constant(0, i.array_shape) if any(_float_constant(x) == 0 for x in i.operands) else None


def _subtract_itself(i: Instruction, r: Rewriter) -> Instruction | None:
    """x - x is 0: but not of NaN and infinities."""
    x, y = i.operands
    return r.constant(0, i.array_shape) if x is y and i.array_shape.is_floating else None


def _divide_itself(i: Instruction, r: Rewriter) -> Instruction | None:
    """x / x is 1: but not of NaN, infinities and 0."""
    x, y = i.operands
    return r.constant(1, i.array_shape) if x is y and i.array_shape.is_floating else None


def _divide_constant(i: Instruction, r: Rewriter) -> Instruction | None:
    """x / c is x * (1 / c), with two roundings."""
    divisor = _float_constant(i.operands[1])
    if divisor is None or divisor == 0:
        return None
    with np.errstate(all="ignore"):
        reciprocal = divisor.dtype.type(1) / divisor
    if not np.isfinite(reciprocal) or reciprocal == 0:
        return None
    return r.emit("multiply", (i.operands[0], r.constant(reciprocal, i.array_shape)))


def _regrouped(combine: Callable[[Any, Any], Any]) -> Callable[[Instruction, Rewriter], Instruction | None]:
    """(x op c) op d is x op (c op d) for constants c and d."""

    def apply(i: Instruction, r: Rewriter) -> Instruction | None:
        for inner, other in (tuple(i.operands), tuple(reversed(i.operands))):
            outer = _float_constant(other)
            if outer is None or inner.opcode != i.opcode:
                continue
            for x, known in (tuple(inner.operands), tuple(reversed(inner.operands))):
                constant = _float_constant(known)
                if constant is None:
                    continue
                with np.errstate(all="ignore"):
                    both = combine(constant, outer)
                if np.isfinite(both):
                    return r.emit(i.opcode, (x, r.constant(both, i.array_shape)))
        return None

    return apply


RULES: tuple[Rule, ...] = (
    Rule("fast-add-zero", ("add", "subtract"), _add_zero, "x + 0 and x - 0 are x"),
    Rule("fast-multiply-zero", ("multiply",), _multiply_zero, "x * 0 is 0"),
    Rule("fast-subtract-itself", ("subtract",), _subtract_itself, "x - x is 0"),
    Rule("fast-divide-itself", ("divide",), _divide_itself, "x / x is 1"),
    Rule("fast-divide-constant", ("divide",), _divide_constant, "x / c is x * (1 / c)"),
    Rule("fast-regroup-product", ("multiply",), _regrouped(operator.mul), "(x * c) * d is x * (c * d)"),
    Rule("fast-regroup-sum", ("add",), _regrouped(operator.add), "(x + c) + d is x + (c + d)"),
)
