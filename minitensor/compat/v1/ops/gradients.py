"""Gradients, by the tape: an op that goes back from values that the same run has computed."""

from __future__ import annotations

from typing import Any

from minitensor import _C, autograd
from minitensor._functions.offered import ones_like, zeros_like
from minitensor.compat.v1.framework.constants import convert_to_tensor
from minitensor.compat.v1.framework.graph import Operation, Tensor, get_default_graph

__all__ = ["gradients"]

# What is constant between its jumps, or is no function of the operands' values: gradients end there.
_ENDS = frozenset({
    "ArgMax", "ArgMin", "Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual", "LogicalAnd", "LogicalOr",
    "LogicalNot", "IsNan", "IsInf", "IsFinite", "Shape", "Size", "Rank", "StopGradient", "zeros_like", "ones_like",
    "OneHot", "InTopK", "NoOp", "Floor", "Ceil", "Round", "Sign",
})  # fmt: skip


def _reached(ys: list[Tensor], xs: list[Tensor]) -> list[bool]:
    """Which of `xs` any of `ys` is a differentiable function of."""
    seen: set[int] = set()
    found: set[int] = set()
    wanted = {id(x) for x in xs}
    waiting = list(ys)
    while waiting:
        tensor = waiting.pop()
        if id(tensor) in seen or not tensor.dtype.is_floating_point:
            continue
        seen.add(id(tensor))
        if id(tensor) in wanted:
            found.add(id(tensor))
        op: Operation = tensor.op
        if op.type not in _ENDS and op.kind in ("pure", "random", "gradients", "control"):
            waiting += op.inputs
    return [id(x) in found for x in xs]


def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str | None = None,
    colocate_gradients_with_ops: bool = False,
    gate_gradients: Any = False,
    aggregation_method: Any = None,
    stop_gradients: Any = None,
) -> list[Tensor | None]:
    """The derivatives of the sum of `ys` by each of `xs`; None for what they don't depend on.

    `grad_ys` are the gradients of something by `ys`, ones if not given. TypeError for `ys` that are no floats.
    """
    if stop_gradients is not None:
        raise ValueError("gradients: stop_gradients is not here; tf.stop_gradient makes a tensor a constant")
    tops = [convert_to_tensor(y) for y in (ys if isinstance(ys, list | tuple) else [ys])]
    bases = [convert_to_tensor(x) for x in (xs if isinstance(xs, list | tuple) else [xs])]
    given = None
    if grad_ys is not None:
        each = grad_ys if isinstance(grad_ys, list | tuple) else [grad_ys]
        if len(each) != len(tops):
            raise ValueError(f"Passed {len(each)} grad_ys for {len(tops)} ys")
        given = [convert_to_tensor(g, y.dtype) for g, y in zip(each, tops, strict=True)]
    for y in tops:
        if not y.dtype.is_floating_point:
            raise TypeError(f"Gradients of tensors must be floating point, and {y!r} is not")
    hits = _reached(tops, bases)
    wanted = [x for x, hit in zip(bases, hits, strict=True) if hit]
    if not wanted:
        return [None] * len(bases)
    count = len(tops)

    def back(*values: _C.Tensor, create_graph: bool = False, retain_graph: bool = False) -> list[_C.Tensor]:
        outs, leaves, seeds = values[:count], values[count : count + len(wanted)], values[count + len(wanted) :]
        pairs = [
            (out, seeds[place] if seeds else None if out.ndim == 0 else ones_like(out))
            for place, out in enumerate(outs)
            if out.requires_grad
        ]
        found = autograd.grad(
            [out for out, _ in pairs],
            leaves,
            [seed for _, seed in pairs],
            retain_graph=retain_graph,
            create_graph=create_graph,
            allow_unused=True,
        )
        return [zeros_like(leaf) if g is None else g for g, leaf in zip(found, leaves, strict=True)]

    op = get_default_graph().add(
        "Gradients",
        back,
        [*tops, *wanted, *(given or [])],
        name=name or "gradients",
        kind="gradients",
        found=[(x.dtype, x.shape, x.probes) for x in wanted],
    )
    op.held = (tuple(tops), tuple(wanted))
    results = iter(op.outputs)
    return [next(results) if hit else None for hit in hits]
