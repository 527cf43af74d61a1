"""backward and grad."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from minitensor import _C

Tensor = _C.Tensor


def _many(value: Any) -> tuple[Any, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, Tensor) else tuple(value)


def _seeds(tensors: Sequence[Any], gradients: Any) -> tuple[Any, ...]:
    if gradients is None:
        return (None,) * len(tensors)
    given = (gradients,) if isinstance(gradients, Tensor) else tuple(gradients)
    if len(given) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(given)} gradients")
    return given


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to the `.grad` of the leaves they were computed from.

    `grad_tensors` are the gradients to start from, of the tensors' shapes; scalars start from 1. With `inputs`, only
    theirs are accumulated.
    """
    roots = _many(tensors)
    retain = create_graph if retain_graph is None else retain_graph
    if inputs is None:
        _C.run_backward(roots, _seeds(roots, grad_tensors), None, retain, create_graph, False)
        return
    wanted = _many(inputs)
    if not wanted:
        raise RuntimeError("'inputs' argument to backward cannot be empty.")
    gradients = _C.run_backward(roots, _seeds(roots, grad_tensors), wanted, retain, create_graph, True)
    for tensor, gradient in zip(wanted, gradients, strict=True):
        if gradient is not None:
            tensor.grad = gradient if tensor.grad is None else tensor.grad + gradient


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """The gradients of `outputs` with respect to `inputs`, one for each input."""
    if allow_unused is False and materialize_grads:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True")
    roots, wanted = _many(outputs), _many(inputs)
    if not wanted:
        raise ValueError("grad requires non-empty inputs.")
    retain = create_graph if retain_graph is None else retain_graph
    unused = bool(allow_unused) or materialize_grads
    result: tuple[Any, ...] = _C.run_backward(roots, _seeds(roots, grad_outputs), wanted, retain, create_graph, unused)
    if materialize_grads:
        result = tuple(t.new_zeros(tuple(t.shape)) if g is None else g for t, g in zip(wanted, result, strict=True))
    return result
