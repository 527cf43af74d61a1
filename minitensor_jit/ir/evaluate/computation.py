"""Evaluating instructions and computations by a table of rules, which `evaluator.py` fills."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from ..module import Computation, Instruction
from ..narrow import is_narrow, narrowed, wide_array, widened
from ..opcode import is_elementwise
from ..shape import Shape
from .elementwise import Rule, Value

__all__ = ["RULES", "evaluate_computation", "evaluate_instruction", "scalar_function"]

RULES: Final[dict[str, Rule]] = {}


def evaluate_computation(computation: Computation, args: Sequence[Value]) -> Value:
    """The value of the root for the given parameter values; a tuple root gives a tuple."""
    values: dict[Instruction, Value] = {}
    with np.errstate(all="ignore"):
        for instruction in computation.instructions:
            if instruction.parameter_number is not None:
                values[instruction] = args[instruction.parameter_number]
            else:
                values[instruction] = evaluate_instruction(instruction, [values[o] for o in instruction.operands])
    return values[computation.root]


def evaluate_instruction(instruction: Instruction, operands: Sequence[Value]) -> Value:
    """The value of one instruction, given the values of its operands."""
    rule = RULES.get(instruction.opcode)
    if rule is None:
        raise NotImplementedError(f"the evaluator has no rule for {instruction.opcode}")
    with np.errstate(all="ignore"):
        if is_narrow(instruction):
            result = narrowed(rule(widened(instruction), [_wide(x) for x in operands]), instruction.shape)
        else:
            result = rule(instruction, operands)
    return np.asarray(result) if isinstance(result, np.generic) else result


def _wide(value: Value) -> Value:
    return tuple(map(_wide, value)) if isinstance(value, tuple) else wide_array(value)


def scalar_function(computation: Computation) -> Callable[..., Value]:
    """A computation on scalars, as a function on arrays that works element by element."""
    inner: dict[Instruction, Callable[..., Value]] = {}
    for i in computation.instructions:
        if i.opcode == "call":
            inner[i] = scalar_function(i.attrs["to_apply"])
            continue
        if i.opcode not in ("parameter", "constant", "tuple", "get-tuple-element") and not is_elementwise(i.opcode):
            raise NotImplementedError(f"{computation.name} has the non-scalar operation {i.opcode}")
        if isinstance(i.shape, Shape) and i.dims:
            raise NotImplementedError(f"{computation.name} is not a function of scalars: {i.name} is {i.shape}")

    def call(*args: Value) -> Value:
        values: dict[Instruction, Value] = {}
        for i in computation.instructions:
            if i.parameter_number is not None:
                values[i] = args[i.parameter_number]
            elif i in inner:
                values[i] = inner[i](*(values[o] for o in i.operands))
            elif i.opcode == "bitcast-convert":  # its rule reads the declared dimensions
                values[i] = values[i.operands[0]].view(i.array_shape.numpy_dtype)
            else:
                values[i] = evaluate_instruction(i, [values[o] for o in i.operands])
        return values[computation.root]

    return call
