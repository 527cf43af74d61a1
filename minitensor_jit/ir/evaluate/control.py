"""The evaluator's rules for tuples, calls and control flow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ..infer.structured import branches
from ..module import Instruction
from .computation import evaluate_computation, scalar_function
from .custom_calls import find_custom_call
from .elementwise import Rule, Value

__all__ = ["CONTROL_RULES", "chosen_branch", "loop_iterations"]


def _tuple(i: Instruction, x: Sequence[Value]) -> Value:
    return tuple(x)


def _get_tuple_element(i: Instruction, x: Sequence[Value]) -> Value:
    return x[0][i.attrs["index"]]


def _call(i: Instruction, x: Sequence[Value]) -> Value:
    return evaluate_computation(i.called()[0], x)


def _while(i: Instruction, x: Sequence[Value]) -> Value:
    global _iterations
    state = x[0]
    while evaluate_computation(i.attrs["condition"], [state]):
        state = evaluate_computation(i.attrs["body"], [state])
        _iterations += 1
    return state


_iterations = 0


def loop_iterations() -> int:
    """How many iterations loops have had in this process: the difference of two looks says what an evaluation did."""
    return _iterations


def chosen_branch(i: Instruction, index: Value) -> int:
    """The number of the branch that a conditional takes: of a pred the true one first, out of range the last one."""
    if i.operands[0].dtype == "pred":
        return 0 if index else 1
    count = len(branches(i.attrs))
    return int(index) if 0 <= index < count else count - 1


def _conditional(i: Instruction, x: Sequence[Value]) -> Value:
    chosen = chosen_branch(i, x[0])
    return evaluate_computation(branches(i.attrs)[chosen], [x[1 + chosen]])


def _map(i: Instruction, x: Sequence[Value]) -> Value:
    result = scalar_function(i.attrs["to_apply"])(*x)
    return np.array(np.broadcast_to(result, i.dims))


def _opt_barrier(i: Instruction, x: Sequence[Value]) -> Value:
    return x[0]


def _custom_call(i: Instruction, x: Sequence[Value]) -> Value:
    function = find_custom_call(i)
    try:
        return function(i, x)
    except (ArithmeticError, IndexError, KeyError, TypeError, ValueError) as error:
        # Nobody has checked the operands and the backend_config against the target.
        what = f"the custom-call to {i.attrs['custom_call_target']!r} can't be computed"
        raise ValueError(f"{i.name}: {what}: {type(error).__name__}: {error}") from error


CONTROL_RULES: Final[dict[str, Rule]] = {
    "tuple": _tuple,
    "get-tuple-element": _get_tuple_element,
    "call": _call,
    "fusion": _call,
    "while": _while,
    "conditional": _conditional,
    "map": _map,
    "opt-barrier": _opt_barrier,
    "custom-call": _custom_call,
}
