"""Second derivatives of rows whose gradient is a kernel: the gradient as a formula, and that differentiated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from minitensor import _C

__all__ = ["differentiate"]


def differentiate(formula: Callable[..., Any], operands: Sequence[Any], cotangents: Sequence[Any]) -> tuple[Any, ...]:
    """Return the gradients of `formula(*operands)`, weighted with `cotangents`, with respect to every operand.

    `formula` is made of ops and gives as many tensors as there are cotangents. An operand may be None. If gradients are
    on, the result has a history, so that it can be differentiated again.
    """
    before, duals = _C.recording(), _C.let_duals_be_variables(True)
    again = before != 0
    try:
        _C.set_recording(1)
        # Aliases: an operand that depends on another one must not bring that one its gradient as well.
        given = [
            None if t is None else t.alias() if again and _C.is_recorded(t) else t.detach().requires_grad_()
            for t in operands
        ]
        outputs = formula(*given)
        outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        wanted = tuple(t for t in given if t is not None)
        pairs = [(o, c) for o, c in zip(outputs, cotangents, strict=True) if o is not None and o.requires_grad]
        roots, seeds = tuple(o for o, _ in pairs), tuple(c for _, c in pairs)
        gradients = _C.run_backward(roots, seeds, wanted, again, again, True)
    finally:
        _C.set_recording(before)
        _C.let_duals_be_variables(duals)
    if before == 2:  # nothing goes backward from them
        gradients = tuple(g if g is None else g.alias() for g in gradients)
    found = iter(gradients)
    return tuple(None if t is None else next(found) for t in given)
