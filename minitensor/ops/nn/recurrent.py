"""Recurrent layers: one direction of a layer for a whole sequence."""

from __future__ import annotations

from typing import Any

from minitensor import _C
from minitensor.ops.formula import differentiate
from minitensor.ops.row import ROWS, contraction

__all__ = ["LSTM", "MODES", "scan"]

MODES = ("tanh", "relu", "lstm", "gru")
LSTM = MODES.index("lstm")


def _cat(parts: list[Any]) -> Any:
    return ROWS["cat"].call(parts, 0)


def _stack(parts: Any) -> Any:
    return _cat([part.unsqueeze(0) for part in parts])


def _where(condition: Any, one: Any, other: Any) -> Any:
    return ROWS["where"].call(condition, one, other)


def _rows_before(hidden: Any, count: Any) -> Any:
    """Return which rows are among the first `count`."""
    return hidden.new_full((hidden.shape[0], 1), 1.0).cumsum(0) <= count


def _step(mode: int, given: Any, state: tuple[Any, ...], weight: Any, bias: Any) -> tuple[Any, ...]:
    """Return the state after one step, made of ops."""
    hidden = state[0]
    product = hidden.matmul(weight.t())
    product = product if bias is None else product + bias
    if MODES[mode] == "lstm":
        i, f, g, o = (given + product).chunk(4, -1)
        cell = f.sigmoid() * state[1] + i.sigmoid() * g.tanh()
        return o.sigmoid() * cell.tanh(), cell
    if MODES[mode] == "gru":
        (xr, xz, xn), (hr, hz, hn) = given.chunk(3, -1), product.chunk(3, -1)
        update = (xz + hz).sigmoid()
        new = (xn + (xr + hr).sigmoid() * hn).tanh()
        return ((hidden - new) * update + new,)
    return ((given + product).tanh() if MODES[mode] == "tanh" else (given + product).relu(),)


def scan(
    given: Any, hidden: Any, cell: Any, weight: Any, bias: Any, sizes: Any, mode: int, reverse: bool
) -> tuple[Any, Any]:
    """Return the hidden states of all steps and the last state, step by step: what the kernel does at once."""
    state = (hidden,) if cell is None else (hidden, cell)
    counts = None if sizes is None else sizes.tolist()
    outputs: list[Any] = [None] * given.shape[0]
    for t in reversed(range(len(outputs))) if reverse else range(len(outputs)):
        after = _step(mode, given[t], state, weight, bias)
        output = after[0]
        if counts is not None and counts[t] < hidden.shape[0]:
            there = _rows_before(hidden, counts[t])
            after = tuple(_where(there, new, old) for new, old in zip(after, state, strict=True))
            output = output.masked_fill(~there, 0.0)
        state, outputs[t] = after, output
    return _stack(outputs), _stack(state)


def _before(output: Any, hidden: Any, sizes: Any, reverse: bool) -> Any:
    """Return the hidden states that the steps began with."""
    first = hidden.unsqueeze(0)
    if not reverse:
        return _cat([first, output[:-1]])
    later = output[1:]
    if sizes is not None:
        # A sequence that has no later step began with the first state.
        later = _where(_rows_before(hidden, sizes[1:].to(hidden.dtype).reshape((-1, 1, 1))), later, first)
    return _cat([later, first])


def _vjp(gs: Any, outs: Any, given: Any, hidden: Any, cell: Any, weight: Any, bias: Any, sizes: Any, *how: Any) -> Any:
    mode, reverse = how
    output, last, kept = outs
    grads = [t.new_full(tuple(t.shape), 0.0) if g is None else g for g, t in zip(gs, (output, last), strict=False)]
    if _C.recording():
        operands = (given, hidden, cell, weight, bias)
        hidden_sizes = None if sizes is None else sizes.detach()
        found = differentiate(lambda x, h, c, w, b: scan(x, h, c, w, b, hidden_sizes, mode, reverse), operands, grads)
        return (*found, None)
    d_given, d_state, d_product = recurrent_backward(*grads, output, kept, hidden, cell, weight, sizes, mode, reverse)
    through = d_product if MODES[mode] == "gru" else d_given
    flat = through.reshape((-1, through.shape[-1]))
    before = _before(output, hidden, sizes, reverse).reshape((-1, hidden.shape[-1]))
    d_bias = None if bias is None else flat.sum(dim=0)
    return d_given, d_state[0], d_state[1] if cell is not None else None, flat.t().matmul(before), d_bias, None


recurrent: Any = contraction(
    "_recurrent(Tensor given, Tensor hidden, Tensor? cell, Tensor weight, Tensor? bias, Tensor? sizes, int mode, "
    "bool reverse)",
    "The hidden states [T, N, H] of a layer of a mode (tanh, relu, LSTM, GRU), given the inputs' products [T, N, gates "
    "H], the last states, and what the backward pass needs. Only the first sizes[t] rows have a step t.",
    vjp=_vjp, function=False, method=False,
)  # fmt: skip
recurrent_backward: Any = contraction(
    "_recurrent_backward(Tensor grad_output, Tensor grad_last, Tensor output, Tensor kept, Tensor hidden, "
    "Tensor? cell, Tensor weight, Tensor? sizes, int mode, bool reverse)",
    "The gradients of the inputs' products, of the first states, and of the hidden states' products where they differ.",
    function=False, method=False,
)  # fmt: skip
