"""What is known of a `while` loop: the elements of its state that never change, and its trip count."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...ir.evaluate.evaluator import evaluate_computation
from ...ir.module import Computation, Instruction
from ...ir.shape import Shape, TupleShape

__all__ = ["element", "elements", "invariant_elements", "trip_count"]

# Operations that decide on a loop's end and that are tried out, one iteration after the other, to count them.
_COUNTED: Final = frozenset({"parameter", "get-tuple-element", "constant", "add", "subtract", "multiply", "compare"})


def element(state: Instruction, k: int) -> Instruction:
    """Element `k` of a tuple: the instruction that was put in, if the tuple was just made."""
    if state.opcode == "tuple":
        return state.operands[k]
    assert isinstance(state.shape, TupleShape)
    return Instruction(f"{state.name}.{k}", "get-tuple-element", state.shape.elements[k], (state,), {"index": k})


def elements(state: Instruction) -> int:
    """How many elements a loop's state has; 0 if it is an array."""
    return len(state.shape.elements) if isinstance(state.shape, TupleShape) else 0


def invariant_elements(loop: Instruction) -> list[int]:
    """The elements that the body gives back as it got them."""
    body: Computation = loop.attrs["body"]
    (state,) = body.parameters
    if body.root.opcode != "tuple":
        return []
    return [
        k
        for k, value in enumerate(body.root.operands)
        if value.opcode == "get-tuple-element" and value.operands[0] is state and value.attrs["index"] == k
    ]


def trip_count(loop: Instruction, most: int) -> int | None:
    """How often the body runs, if that follows from constants alone and is at most `most`."""
    condition: Computation = loop.attrs["condition"]
    body: Computation = loop.attrs["body"]
    start = loop.operands[0]
    if start.opcode != "tuple" or body.root.opcode != "tuple":
        return None
    needed = _elements_read(condition, condition.root)
    if needed is None:
        return None
    # What the condition reads may depend on more elements, as it goes around.
    while True:
        more = set(needed)
        for k in needed:
            found = _elements_read(body, body.root.operands[k])
            if found is None:
                return None
            more |= found
        if more == needed:
            break
        needed = more
    state: dict[int, np.ndarray] = {}
    for k in needed:
        literal = start.operands[k].literal
        if start.operands[k].opcode != "constant" or literal is None or literal.ndim:
            return None
        state[k] = literal
    for count in range(most + 1):
        if not _value(condition.root, state):
            return count
        state = {k: _value(body.root.operands[k], state) for k in needed}
    return None


def _elements_read(computation: Computation, root: Instruction) -> set[int] | None:
    """The elements of the state that a scalar is computed from; None if it is computed from anything else."""
    (state,) = computation.parameters
    found: set[int] = set()
    stack, seen = [root], {root}
    while stack:
        i = stack.pop()
        if i.opcode == "get-tuple-element" and i.operands[0] is state:
            found.add(i.attrs["index"])
        elif i.opcode not in _COUNTED or not isinstance(i.shape, Shape) or i.dims or i is state:
            return None
        else:
            fresh = [o for o in i.operands if o not in seen]
            seen.update(fresh)
            stack += fresh
    return found


def _value(i: Instruction, state: dict[int, np.ndarray]) -> np.ndarray:
    """A scalar, for a state."""
    # As a computation of its own, so that the evaluator says what it means.
    parameters: dict[int, Instruction] = {}
    copies: dict[Instruction, Instruction] = {}
    order: list[Instruction] = []

    def copy(j: Instruction) -> Instruction:
        if j in copies:
            return copies[j]
        if j.opcode == "get-tuple-element":
            k = j.attrs["index"]
            if k not in parameters:
                parameters[k] = Instruction(f"p{k}", "parameter", j.shape, parameter_number=len(parameters))
            made = parameters[k]
        else:
            made = j.clone([copy(o) for o in j.operands])
            order.append(made)
        copies[j] = made
        return made

    root = copy(i)
    one = Computation("scalar", [*parameters.values(), *order], root)
    result = evaluate_computation(one, [state[k] for k in parameters])
    assert isinstance(result, np.ndarray | np.generic)
    return np.asarray(result)
